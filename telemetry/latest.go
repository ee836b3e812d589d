// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/unit"
)

// latest is what a slow sensor answered last, between the goroutine that asks and
// the tick that reads. Older than stale, it is NaN.
type latest struct {
	who   string // begins the error
	stale time.Duration

	mu     sync.Mutex
	values []float64
	at     time.Time // of the answer; of the start before there is one
	came   unit.Instant
	given  unit.Instant // came of what read copied last
	err    error        // why there is none since
	told   bool
}

func newLatest(who string, n int, stale time.Duration) *latest {
	l := &latest{who: who, stale: stale, values: make([]float64, n), at: time.Now()}
	fill(l.values, math.NaN())
	return l
}

func (l *latest) set(values []float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	copy(l.values, values)
	l.at, l.came, l.err, l.told = time.Now(), unit.Now(), nil, false
}

func (l *latest) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// read copies the answer and returns its age in seconds. The first read after it
// became too old returns an error; dst is NaN from then on until the next answer.
func (l *latest) read(dst []float64) (age float64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := time.Since(l.at)
	if since <= l.stale {
		copy(dst, l.values)
		l.given = l.came
		return since.Seconds(), nil
	}
	fill(dst, math.NaN())
	if l.told {
		return math.NaN(), nil
	}
	l.told = true
	err = l.err
	if err == nil {
		err = errors.New("it does not return")
	}
	return math.NaN(), fmt.Errorf("%s: no answer for %v: %w", l.who, since.Round(100*time.Millisecond), err)
}

// measured is when the answer came that read copied last.
func (l *latest) measured() unit.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.given
}

// A poll asks a slow sensor again and again in a goroutine of its own, so that no
// tick waits for a bus or a network.
type poll struct {
	*latest
	stop context.CancelFunc
	done chan struct{}
}

const firstAnswer = 50 * time.Millisecond // a series better begins with a value

// startPoll calls ask every so often until the poll is closed or ctx ends. ask
// fills in all of dst, NaN for what is absent, or returns an error. It waits a
// moment for the first answer.
func startPoll(ctx context.Context, who string, n int, every, stale time.Duration, ask func(ctx context.Context, dst []float64) error) *poll {
	ctx, stop := context.WithCancel(ctx)
	p := &poll{latest: newLatest(who, n, stale), stop: stop, done: make(chan struct{})}
	first := make(chan struct{})
	guard.Go(func() {
		defer close(p.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		values := make([]float64, n)
		for answered := false; ; {
			if err := ask(ctx, values); err != nil {
				p.fail(err)
			} else {
				p.set(values)
			}
			if !answered {
				answered = true
				close(first)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	wait := time.NewTimer(firstAnswer)
	defer wait.Stop()
	select {
	case <-first:
	case <-wait.C:
	}
	return p
}

// Close ends the goroutine; one that hangs in a driver is left to it.
func (p *poll) Close() error {
	p.stop()
	hung := time.NewTimer(time.Second)
	defer hung.Stop()
	select {
	case <-p.done:
	case <-hung.C:
	}
	return nil
}

func fill(dst []float64, v float64) {
	for i := range dst {
		dst[i] = v
	}
}
