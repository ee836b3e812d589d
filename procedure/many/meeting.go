// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"errors"
	"sync"
)

// A meeting has pairs wait for each other whose searches take different times, for as long as any
// of them may still come. It ends where a barrier begins: clocks are compared after it. Once over is
// closed none waits, and none goes on: a pair that never comes keeps nobody for long.
type meeting struct {
	mu     sync.Mutex
	pairs  int           // that have come or may come
	here   int           // that wait
	opened chan struct{} // closed once all are here
	over   <-chan struct{}
	begin  func(pairs int)
}

// newMeeting is one of so many pairs, which wait until over is closed at most; begin is called with
// how many have come, before they go on.
func newMeeting(pairs int, over <-chan struct{}, begin func(pairs int)) *meeting {
	return &meeting{pairs: pairs, opened: make(chan struct{}), over: over, begin: begin}
}

// errNotAll is that a pair has not come in time.
var errNotAll = errors.New("not all pairs had ended their searches")

// come waits for all. It fails if ctx is done or the pair's board has gone, and with errNotAll once
// the meeting is over. Then it counts as leave.
func (m *meeting) come(ctx context.Context, gone <-chan struct{}) error {
	m.mu.Lock()
	m.here++
	m.open()
	m.mu.Unlock()
	select {
	case <-m.opened:
		return nil
	case <-m.over:
	case <-ctx.Done():
	case <-gone:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.opened:
		return nil
	default:
	}
	m.here--
	m.pairs--
	m.open()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-gone:
		return context.Canceled
	default:
		return errNotAll
	}
}

// leave is a pair's that will not come.
func (m *meeting) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pairs--
	m.open()
}

// open lets all go on, if all are here. m.mu is held.
func (m *meeting) open() {
	if m.here == 0 || m.here < m.pairs {
		return
	}
	select {
	case <-m.opened: // it was before
	case <-m.over:
	default:
		m.begin(m.here)
		close(m.opened)
	}
}
