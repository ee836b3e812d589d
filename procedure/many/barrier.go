// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"fmt"
	"sync"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/unit"
)

// The instant at which all begin is so far ahead that every board has heard it. Where one
// heard it too late, it is twice as far ahead in the trials that follow.
const (
	leadLeast = 100 * time.Millisecond
	leadEach  = 3 * time.Millisecond // of a board
	mostLead  = 30 * time.Second
	heardLead = 5 * time.Millisecond

	// laggard is how long the last board may take to be ready after the first.
	laggard = 20 * time.Second
)

// A barrier lets the boards of a trial begin at one instant.
type barrier struct {
	mu      sync.Mutex
	boards  int           // that are not known to stay away
	here    int           // that are ready
	opened  chan struct{} // closed once at is decided; nil: no trial is under way
	at      unit.Instant
	timeout *time.Timer
	lead    time.Duration
}

// set begins a trial of so many boards.
func (b *barrier) set(boards int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.boards, b.here, b.at, b.opened = boards, 0, 0, make(chan struct{})
	b.timeout = nil
}

// open lets all begin who are ready. b.mu is held.
func (b *barrier) open() {
	if b.at != 0 {
		return
	}
	b.lead = max(b.lead, min(mostLead, leadLeast+time.Duration(b.here)*leadEach))
	b.at = unit.Now() + unit.Instant(b.lead)
	close(b.opened)
	if b.timeout != nil {
		b.timeout.Stop()
	}
}

// arrive is a board's: it is ready, and waits for the instant.
func (b *barrier) arrive(ctx context.Context) (unit.Instant, error) {
	b.mu.Lock()
	if b.at != 0 {
		defer b.mu.Unlock()
		return 0, fmt.Errorf("it was ready %v after the others had begun", time.Duration(unit.Now()-b.at).Round(time.Millisecond))
	}
	if b.here++; b.here == 1 {
		b.timeout = guard.After(laggard, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.open()
		})
	}
	if b.here == b.boards {
		b.open()
	}
	opened := b.opened
	b.mu.Unlock()
	select {
	case <-opened:
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.at, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// heard takes how long before the instant the last board heard it.
func (b *barrier) heard(before time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before < heardLead {
		b.lead = min(mostLead, 2*b.lead)
	}
}

// ahead is how far ahead the latest instant was.
func (b *barrier) ahead() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lead
}

// stay is a board's whose trial ended before it was ready.
func (b *barrier) stay() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.boards--; b.at == 0 && b.here > 0 && b.here == b.boards {
		b.open()
	}
}

// began is the instant of the trial, 0 where none waited; no board is under way any more.
func (b *barrier) began() unit.Instant {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timeout != nil {
		b.timeout.Stop()
	}
	return b.at
}
