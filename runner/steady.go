// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"time"

	"boxdyno/host"
	"boxdyno/verdict"
)

const (
	steadyPause = 20 * time.Millisecond // between two looks at a slow CPU
	steadyFirst = time.Second           // may be waited, and a twenty-fourth of the run so far
	busyPause   = time.Millisecond      // between two looks at what else runs
	busyLooks   = 3
)

// A steady knows how fast the CPUs that tester and DUT work on have been, and on
// a virtual machine holds trials back while they are slower: another guest of the
// hypervisor works on the same core then, for seconds, and no steal time tells.
// What decides is seen before a trial, never its result. On a real machine slow
// CPUs are the box's own (heat, power): nothing waits for them. On all machines
// trials are held back while other programs want the CPUs.
type steady struct {
	speed   func() ([]float64, error) // nil: not known
	running func() (int, error)       // how many threads do, this one included; nil: not known
	virtual bool
	best    []float64
	began   time.Time
	waited  time.Duration
}

// learn looks often enough to see the CPUs at their fastest.
func (s *steady) learn(ctx context.Context) {
	s.began = time.Now()
	for range 10 {
		s.look()
		if host.Pause(ctx, steadyPause) != nil {
			return
		}
	}
}

// look is the speed of the slowest CPU as a share of its fastest so far; 0: not
// known.
func (s *steady) look() float64 {
	if s.speed == nil {
		return 0
	}
	now, err := s.speed()
	if err != nil {
		return 0
	}
	if s.best == nil {
		s.best = make([]float64, len(now))
	}
	share := 1.0
	for i, v := range now {
		s.best[i] = max(s.best[i], v)
		share = min(share, v/s.best[i])
	}
	return share
}

// others says whether other programs run.
func (s *steady) others(ctx context.Context) bool {
	if s.running == nil {
		return false
	}
	for range busyLooks {
		if n, err := s.running(); err != nil || n <= 1 || host.Pause(ctx, busyPause) != nil {
			return false
		}
	}
	return true
}

// wait returns the share once it is no slow one and nothing else runs, or when the
// time for waiting is used up.
func (s *steady) wait(ctx context.Context) (share float64) {
	for {
		share = s.look()
		slow := s.virtual && share > 0 && share < verdict.SlowCPU
		if !slow && !s.others(ctx) || s.waited > steadyFirst+time.Since(s.began)/24 {
			return share
		}
		begin := time.Now()
		if host.Pause(ctx, steadyPause) != nil {
			return share
		}
		s.waited += time.Since(begin)
	}
}
