// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"math"
	"time"

	"boxdyno/result"
	"boxdyno/unit"
)

// Tallies are what samples add up to since a trial began, one tally a series: the growth of
// counters over the trial, and least, mean and greatest while its traffic ran. At each end of
// both a sample is taken, so that a trial shorter than an interval is told exactly, too.
// Collectors that are read less often than others are read at the end, and at the beginning
// unless they just were: of their series the whole trial is the window. A trial that does not
// say when its traffic ran is all traffic.
type tallies struct {
	series []result.Series
	least  unit.Instant // over which a counter's rate is told
	all    []tally
	on     bool         // a trial is under way
	busy   bool         // its traffic is about to begin, or runs
	shut   bool         // its traffic is over
	late   unit.Instant // the sampler's most in the trial
}

// A tally is of one series.
type tally struct {
	last   float64 // NaN: there was none; of a counter the last that was there
	at     unit.Instant
	gone   bool    // a counter was absent when it was last read
	growth float64 // of a counter, since the trial began

	n        int
	from     unit.Instant // the window's first value; of a counter the last that a rate was told up to
	begun    unit.Instant
	sum      float64 // of a gauge, value x time; of a counter, its growth in the window
	span     unit.Instant
	told     float64 // sum at from
	min, max float64
}

func (t *tallies) init(series []result.Series, least unit.Instant) {
	t.series, t.least = series, least
	t.all = make([]tally, len(series))
	for i := range t.all {
		t.all[i].last = math.NaN()
	}
}

// add counts values, read at one instant, of series first and following; slow: of a
// collector that is read less often than others.
func (t *tallies) add(first int, values []float64, at unit.Instant, slow bool) {
	window := t.on && (slow || !t.shut)
	for i, v := range values {
		a := &t.all[first+i]
		if t.series[first+i].Counter {
			a.count(v, at, window, t.least)
		} else {
			a.gauge(v, at, window)
		}
	}
}

func (a *tally) count(v float64, at unit.Instant, window bool, least unit.Instant) {
	if a.gone = math.IsNaN(v); a.gone {
		return // when it is back, what it grew by meanwhile counts
	}
	var d float64
	if !math.IsNaN(a.last) {
		d = result.Grown(a.last, v)
	}
	a.last, a.at = v, at
	a.growth += d
	if !window {
		return
	}
	if a.n++; a.n == 1 { // it was absent before
		a.from, a.begun = at, at
		return
	}
	a.sum += d
	a.span = at - a.begun
	if dt := at - a.from; dt >= least {
		a.bound((a.sum - a.told) * 1e9 / float64(dt))
		a.from, a.told = at, a.sum
	}
}

func (a *tally) gauge(v float64, at unit.Instant, window bool) {
	if window && !math.IsNaN(v) {
		a.n++
		a.bound(v)
		if !math.IsNaN(a.last) && a.n > 1 {
			a.sum += (a.last + v) / 2 * float64(at-a.at)
			a.span += at - a.at
		}
	}
	a.last, a.at = v, at
}

func (a *tally) bound(v float64) {
	if math.IsNaN(a.min) || v < a.min {
		a.min = v
	}
	if math.IsNaN(a.max) || v > a.max {
		a.max = v
	}
}

// open begins the window at the last sample; anew: and the trial.
func (t *tallies) open(anew bool) {
	if anew {
		t.on, t.late = true, 0
	}
	t.shut = false
	for i := range t.all {
		a := &t.all[i]
		b := tally{last: a.last, at: a.at, growth: a.growth, from: a.at, begun: a.at, min: math.NaN(), max: math.NaN()}
		if anew {
			b.growth = 0
			if a.gone {
				b.last = math.NaN() // what it grew by before is not of this trial
			}
		}
		if !math.IsNaN(b.last) && !a.gone {
			b.n = 1
			if !t.series[i].Counter {
				b.min, b.max = b.last, b.last
			}
		}
		*a = b
	}
}

// digests is what there is to say of the trial.
func (t *tallies) digests() (out []result.Digest) {
	t.on, t.busy = false, false
	for i := range t.all {
		a := &t.all[i]
		d := result.Digest{Series: i, N: a.n, Min: a.min, Max: a.max}
		if t.series[i].Counter {
			if a.growth == 0 || a.span == 0 {
				continue
			}
			d.Mean = a.sum * 1e9 / float64(a.span)
			d.Growth = rounded(a.growth, 12)
			if math.IsNaN(d.Min) { // shorter than half an interval
				d.Min, d.Max = d.Mean, d.Mean
			}
		} else {
			if a.n == 0 {
				continue
			}
			switch d.Mean = a.last; {
			case a.span > 0:
				d.Mean = a.sum / float64(a.span)
			case math.IsNaN(a.last): // it was there, and is not any more
				d.Mean = (d.Min + d.Max) / 2
			}
			d.Mean = min(max(d.Mean, d.Min), d.Max)
		}
		d.Min, d.Mean, d.Max = rounded(d.Min, 5), rounded(d.Mean, 5), rounded(d.Max, 5)
		out = append(out, d)
	}
	return out
}

// rounded is v with so many digits, the number nearest to them; v itself where its
// last digit is below 1e-22 or above 1e22, beyond which powers of ten are not exact.
func rounded(v float64, digits int) float64 {
	if v == 0 {
		return v
	}
	e := digits - 1 - int(math.Floor(math.Log10(math.Abs(v))))
	switch p := math.Pow10(max(e, -e)); {
	case p > 1e22 || math.IsNaN(v) || math.IsInf(v, 0):
		return v
	case e < 0:
		return math.Round(v/p) * p
	default:
		return math.Round(v*p) / p
	}
}

// Begin begins a trial.
func (s *Sampler) Begin() {
	s.onDemand(s.interval/2, func() {
		s.tallies.open(true)
		for _, m := range s.meters {
			m.forget()
		}
	})
}

// onDemand takes a sample and has the sampler's thread carry out f after it. The next
// tick, unless it is late already, is an interval later.
func (s *Sampler) onDemand(older unit.Instant, f func()) {
	s.do(func() {
		if now := unit.Now(); now < s.due {
			s.due = now + s.interval
		}
		s.sample(older)
		f()
	})
}

// Traffic says that a trial's traffic is about to begin, or is over.
func (s *Sampler) Traffic(begins bool) {
	s.do(func() { s.tallies.busy = begins }) // first: what is due is not handed over now
	s.onDemand(whatIsDue, func() {
		if begins {
			s.tallies.open(false)
		}
		s.tallies.shut = !begins
	})
}

// End ends a trial, and tells of it: its digests, and by how much the sampler was
// late in it at most, if it was a gap: 0: there was none.
func (s *Sampler) End() (digests []result.Digest, gap time.Duration) {
	s.do(func() { s.late(unit.Now()) })
	s.onDemand(everything, func() {
		digests = s.tallies.digests()
		if s.tallies.late > gapAfter*s.interval {
			gap = time.Duration(s.tallies.late)
		}
	})
	return digests, gap
}
