// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"time"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/lab"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// A floodSampler reads the meter, and the time that the DUT's receive threads ran, while
// a trial lasts.
type floodSampler struct {
	bed   *lab.Testbed
	meter engine.Meter
	every time.Duration

	end func()

	readings []floodReading // the sampler's goroutine's until stop
	err      error
}

// A floodReading is what had come by an instant.
type floodReading struct {
	at      unit.Instant
	span    int64 // benign frames sent, by the sequence numbers of those that came
	arrived int64 // of them, each once
	flood   int64 // frames of the flood that came through
	delays  *result.Histogram
	ran     time.Duration // of the DUT's threads; known says whether it is
	known   bool
}

const (
	floodSamples   = 60 // of a trial
	leastSampled   = 50 * time.Millisecond
	virtualSampled = time.Millisecond
)

// sampleFlood begins; the trial lasts so long.
func sampleFlood(ctx context.Context, bed *lab.Testbed, m engine.Meter, lasts time.Duration) *floodSampler {
	s := &floodSampler{bed: bed, meter: m, every: max(lasts/floodSamples, leastSampled)}
	tick := s.every
	if bed.Kind == result.KindMemory { // virtual time passes faster
		tick = virtualSampled
	}
	s.read(ctx)
	s.end = guard.Beside(ctx, tick, func() { s.read(ctx) })
	return s
}

// stop says what went wrong.
func (s *floodSampler) stop(ctx context.Context) error {
	s.end()
	s.read(ctx)
	return s.err
}

// read takes a reading, once the last one is old enough. It asks again where frames
// seem to be missing: while some arrive, counters may be a frame apart.
func (s *floodSampler) read(ctx context.Context) {
	if s.err != nil {
		return
	}
	var r floodReading
	for range 2 {
		rep, err := s.meter.Read(ctx)
		if err != nil {
			s.err = err
			return
		}
		r = floodReading{at: max(unit.Now(), rep.Last), flood: int64(rep.Foreign)}
		for _, st := range rep.Streams {
			r.span += int64(st.Span)
			r.arrived += arrivedAll(st)
			r.delays = result.Merge(r.delays, st.Latency)
		}
		if n := len(s.readings); n == 0 || r.span-r.arrived == s.readings[n-1].span-s.readings[n-1].arrived {
			break
		}
	}
	if n := len(s.readings); n > 0 && time.Duration(r.at-s.readings[n-1].at) < s.every*9/10 {
		return
	}
	if len(s.bed.Threads) > 0 {
		if c, err := host.CPUsHere(s.bed.Threads...); err == nil {
			r.ran, _ = c.Threads(host.CPUs{})
			r.known = true
		}
	}
	s.readings = append(s.readings, r)
}

// phased are the samples; each is of the phase in which its middle lies.
func (s *floodSampler) phased(begins [len(floodPhases) + 1]unit.Instant) (all []result.KPI) {
	for i := 1; i < len(s.readings); i++ {
		a, b := s.readings[i-1], s.readings[i]
		middle := a.at + (b.at-a.at)/2
		if middle < begins[0] || middle >= begins[len(floodPhases)] {
			continue
		}
		k := result.KPI{
			Begin: a.at, End: b.at, Sent: b.span - a.span, BadArrived: b.flood - a.flood, Delay: trial.Delay(trial.Grown(b.delays, a.delays)),
		}
		k.Lost = k.Sent - (b.arrived - a.arrived)
		for c, name := range floodPhases {
			if middle >= begins[c] {
				k.Phase = name
			}
		}
		if took := time.Duration(k.End - k.Begin).Seconds(); took > 0 {
			k.Offered, k.Forwarded = unit.FrameRate(float64(k.Sent)/took), unit.FrameRate(float64(k.Sent-k.Lost)/took)
		}
		all = append(all, k)
	}
	return all
}

// busy is the share of a CPU that the DUT's threads ran between two instants, as far as
// readings lie within; false where it is not known.
func (s *floodSampler) busy(from, to unit.Instant) (share float64, ok bool) {
	var first, last *floodReading
	for i := range s.readings {
		if r := &s.readings[i]; r.known && r.at >= from && r.at <= to {
			if first == nil {
				first = r
			}
			last = r
		}
	}
	if first == nil || last.at == first.at {
		return 0, false
	}
	return (last.ran - first.ran).Seconds() / time.Duration(last.at-first.at).Seconds(), true
}
