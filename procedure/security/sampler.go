// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"sync"
	"time"

	"boxdyno/engine"
	"boxdyno/internal/guard"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// A sampler reads a meter again and again while a load with phases lasts. Its
// first stream are frames to forward, its second known-bad ones.
//
//	begin(phase) ... ticks ... begin(next phase) ... stop
//
// A sample lies in one phase. Sequence numbers say how many frames were sent, so
// that what is under way counts for neither side; each stage numbers anew, which
// the meter tells apart.
type sampler struct {
	meter engine.Meter
	every time.Duration

	end func()

	mu      sync.Mutex // guards what follows
	phase   string
	last    reading // where the next sample begins
	before  reading // where the one before began
	phased  reading // where the phase began
	samples []result.KPI
	delays  map[string]*result.Histogram // of the phases' frames to forward
	err     error
}

// A reading is the meter's at an instant.
type reading struct {
	at   unit.Instant
	good engine.RxReport
	bad  uint64 // frames, each once
}

// startSampler samples every so often; in memory time is virtual and passes
// faster, and the meter is asked for it.
func startSampler(ctx context.Context, m engine.Meter, every time.Duration, virtual bool) *sampler {
	s := &sampler{meter: m, every: every, delays: map[string]*result.Histogram{}}
	s.last, s.err = s.read(ctx)
	s.phased = s.last
	tick := every
	if virtual {
		tick = time.Millisecond
	}
	s.end = guard.Beside(ctx, tick, func() { s.take(ctx, false) })
	return s
}

// begin ends the phase under way, if there is another one, and begins phase.
func (s *sampler) begin(ctx context.Context, phase string) {
	if phase == s.phase { // only this goroutine writes it
		return
	}
	s.take(ctx, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delays[s.phase] = trial.Grown(s.last.good.Latency, s.phased.good.Latency)
	s.phase, s.phased = phase, s.last
}

// stop ends the last phase, and says what went wrong.
func (s *sampler) stop(ctx context.Context) error {
	s.end()
	s.begin(ctx, "")
	return s.err
}

// take ends the sample under way, if it is long enough; with cut, in any case: a
// short one is then added to the one before.
func (s *sampler) take(ctx context.Context, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.read(ctx)
	if err != nil || s.err != nil {
		if s.err == nil {
			s.err = err
		}
		return
	}
	took := time.Duration(now.at - s.last.at)
	switch n := len(s.samples); {
	case s.phase == "":
		s.last = now
		return
	case cut && took < s.every/2 && n > 0 && s.samples[n-1].Phase == s.phase:
		s.samples[n-1] = sample(s.phase, s.before, now)
	case cut || took > s.every*9/10:
		s.samples = append(s.samples, sample(s.phase, s.last, now))
		s.before = s.last
	default:
		return
	}
	s.last = now
}

// read asks again where frames seem to be missing: while some arrive, counters
// may be a frame apart.
func (s *sampler) read(ctx context.Context) (r reading, err error) {
	for range 2 {
		rep, err := s.meter.Read(ctx)
		if err != nil {
			return r, err
		}
		r = reading{max(unit.Now(), rep.Last), rep.Streams[0], rep.Streams[1].Frames - rep.Streams[1].Duplicate}
		if missing(r.good) == missing(s.last.good) {
			break
		}
	}
	return r, nil
}

func missing(r engine.RxReport) int64 { return int64(r.Span) - int64(r.Frames-r.Duplicate) }

func sample(phase string, from, to reading) result.KPI {
	k := result.KPI{
		Phase: phase, Begin: from.at, End: to.at,
		Sent: int64(to.good.Span - from.good.Span), Lost: missing(to.good) - missing(from.good),
		BadArrived: int64(to.bad - from.bad), Delay: trial.Delay(trial.Grown(to.good.Latency, from.good.Latency)),
	}
	if took := time.Duration(k.End - k.Begin).Seconds(); took > 0 {
		k.Offered, k.Forwarded = unit.FrameRate(float64(k.Sent)/took), unit.FrameRate(float64(k.Sent-k.Lost)/took)
	}
	return k
}
