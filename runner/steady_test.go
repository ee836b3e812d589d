// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSteady(t *testing.T) {
	for name, c := range map[string]struct {
		virtual  bool
		slow     time.Duration // from the first trial on, its CPU is
		is       float64       // then
		share    float64
		min, max time.Duration
	}{
		"fast":              {true, 0, 1, 1, 0, 0},
		"a little slower":   {true, time.Hour, 0.95, 0.95, 0, 0},
		"slow for a while":  {true, 500 * time.Millisecond, 0.6, 1, 500 * time.Millisecond, 520 * time.Millisecond},
		"slow for good":     {true, time.Hour, 0.6, 0.6, time.Second, 1300 * time.Millisecond},
		"slow and no guest": {false, time.Hour, 0.6, 0.6, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slow time.Time
				s := &steady{virtual: c.virtual, speed: func() ([]float64, error) {
					if time.Now().Before(slow) {
						return []float64{1e9, 4e8 * c.is}, nil
					}
					return []float64{1e9, 4e8}, nil
				}}
				s.learn(t.Context())
				slow = time.Now().Add(c.slow)
				begin := time.Now()
				share := s.wait(t.Context())
				if took := time.Since(begin); share != c.share || took < c.min || took > c.max {
					t.Errorf("share %v after %v, want %v after %v to %v", share, took, c.share, c.min, c.max)
				}
			})
		})
	}
}

// Waiting for good never takes more than a share of the run.
func TestSteadyGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast := true
		s := &steady{virtual: true, speed: func() ([]float64, error) {
			if fast {
				return []float64{2}, nil
			}
			return []float64{1}, nil
		}}
		s.learn(t.Context())
		fast = false
		for range 1000 {
			s.wait(t.Context())
			time.Sleep(100 * time.Millisecond) // the trial
		}
		if all := time.Since(s.began); s.waited < all/26 || s.waited > all/22+steadyFirst {
			t.Errorf("%v of %v was waited, want about a twenty-fourth", s.waited, all)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.waited = 0
		s.wait(ctx) // returns
	})
}

// Other programs that want CPUs hold a trial back, one that looks in does not.
func TestSteadyWhileOthersRun(t *testing.T) {
	for name, c := range map[string]struct {
		busy     time.Duration // from the first trial on
		every    int           // each so many looks, nothing else runs
		min, max time.Duration
	}{
		"alone":             {0, 1, 0, 0},
		"looks in":          {time.Hour, 2, 0, 5 * time.Millisecond},
		"works for a while": {500 * time.Millisecond, 1 << 30, 500 * time.Millisecond, 530 * time.Millisecond},
		"works for good":    {time.Hour, 1 << 30, time.Second, 1300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, looks := time.Now(), 0
				s := &steady{began: begin, running: func() (int, error) {
					if looks++; looks%c.every == 0 || time.Since(begin) >= c.busy {
						return 1, nil
					}
					return 3, nil
				}}
				s.wait(t.Context())
				if took := time.Since(begin); took < c.min || took > c.max {
					t.Errorf("it took %v, want %v to %v", took, c.min, c.max)
				}
			})
		})
	}
}

func TestSteadyUnknown(t *testing.T) {
	for _, s := range []*steady{{virtual: true}, {virtual: true, speed: func() ([]float64, error) { return nil, errors.New("no") }}} {
		if share := s.wait(t.Context()); share != 0 {
			t.Errorf("a speed that is not known is %v", share)
		}
	}
}
