// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"
	"time"

	"boxdyno/unit"
)

// A Start has the senders of one load begin at one instant, once all of them are ready.
type Start struct {
	mu   sync.Mutex
	left int
	at   unit.Instant
	all  chan struct{}
}

// startAfter is how long after the last sender is ready they begin: its thread must be in
// the kernel by then.
const startAfter = 2 * time.Millisecond

// NewStart returns the start of n senders.
func NewStart(n int) *Start { return &Start{left: n, all: make(chan struct{})} }

// Ready waits for the other senders, and returns when the load begins. Where done is closed
// before they are ready, and of no start at all, it returns 0: at once.
func (s *Start) Ready(done <-chan struct{}) unit.Instant {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	if s.left--; s.left == 0 {
		s.at = unit.Now() + unit.Instant(startAfter)
		close(s.all)
	}
	s.mu.Unlock()
	select {
	case <-s.all:
		return s.at
	case <-done:
		return 0
	}
}
