// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"sync"
	"time"
)

// An Outbox has what one end of a session says, until the other has heard it: a NATS server
// that ends, or a connection that is made anew, loses messages on their way. They are
// numbered from 1; the other end takes them in this order, and each once.
type Outbox[T any] struct {
	mu   sync.Mutex
	last uint64
	kept []kept[T]
}

type kept[T any] struct {
	index uint64
	what  T
	said  time.Time
}

// again is how long a message may be on its way before it is said once more.
const again = 2 * time.Second

// Say numbers a message, and has say send it. Messages are sent in their order.
func (o *Outbox[T]) Say(what T, say func(index uint64, what T) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	o.kept = append(o.kept, kept[T]{o.last, what, time.Now()})
	return say(o.last, what)
}

// Heard forgets messages that the other end has heard: those up to index.
func (o *Outbox[T]) Heard(index uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for n < len(o.kept) && o.kept[n].index <= index {
		n++
	}
	o.kept = o.kept[n:]
	if len(o.kept) == 0 {
		o.kept = nil
	}
}

// Again has say send what was not heard for long, and all that followed.
func (o *Outbox[T]) Again(say func(index uint64, what T) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.kept) == 0 || time.Since(o.kept[0].said) < again {
		return
	}
	for i := range o.kept {
		o.kept[i].said = time.Now()
		if say(o.kept[i].index, o.kept[i].what) != nil {
			return // the next time says it
		}
	}
}
