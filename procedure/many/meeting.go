// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"sync"
)

// A meeting has pairs wait for each other whose searches take different times, for as long as any
// of them may still come. It ends where a barrier begins: clocks are compared after it.
type meeting struct {
	mu     sync.Mutex
	pairs  int           // that have come or may come
	here   int           // that wait
	opened chan struct{} // closed once all are here
	begin  func(pairs int)
}

// newMeeting is one of so many pairs; begin is called with how many have come, before they go on.
func newMeeting(pairs int, begin func(pairs int)) *meeting {
	return &meeting{pairs: pairs, opened: make(chan struct{}), begin: begin}
}

// come waits for all. It fails if ctx is done or the pair's board has gone, and then counts as
// leave.
func (m *meeting) come(ctx context.Context, gone <-chan struct{}) error {
	m.mu.Lock()
	m.here++
	m.open()
	m.mu.Unlock()
	select {
	case <-m.opened:
		return nil
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
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Canceled
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
	default:
		m.begin(m.here)
		close(m.opened)
	}
}
