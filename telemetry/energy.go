// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"math"
	"time"

	"boxdyno/result"
	"boxdyno/unit"
)

// An Energy is a power integrated over a time, where it was known.
type Energy struct {
	Joules  float64
	Watts   float64       // mean over Known; NaN where that is 0
	Known   time.Duration // of the time asked for
	Gaps    int           // stretches in which it was not known
	Longest time.Duration // the longest of them
	Samples int           // inside of the time asked for
}

// Integrate is the energy from one instant to another by the trapezoid rule, from
// samples of a power in watts in the order of their time. The line is cut at from
// and to. Between two samples further apart than gap, beside a NaN, and before the
// first and after the last sample the power is not known: that time is left out of
// Known, never bridged.
func Integrate(samples []result.Batch, series int, from, to unit.Instant, gap time.Duration) Energy {
	e := Energy{Watts: math.NaN()}
	at, w := from, math.NaN() // the sample before
	known := from             // up to where the time is either known or a gap already
	for _, b := range samples {
		i := series - b.First
		if i < 0 || i >= len(b.Values) || math.IsNaN(b.Values[i]) {
			if i >= 0 && i < len(b.Values) {
				w = math.NaN()
			}
			continue
		}
		v := b.Values[i]
		if b.At >= from && b.At <= to {
			e.Samples++
		}
		if begin, end := max(at, from), min(b.At, to); !math.IsNaN(w) && begin < end && time.Duration(b.At-at) <= gap {
			slope := (v - w) / float64(b.At-at)
			mean := w + slope*(float64(begin-at)+float64(end-at))/2
			e.missing(known, begin)
			e.Joules += mean * time.Duration(end-begin).Seconds()
			e.Known += time.Duration(end - begin)
			known = end
		}
		at, w = b.At, v
	}
	e.missing(known, to)
	if e.Known > 0 {
		e.Watts = e.Joules / e.Known.Seconds()
	}
	return e
}

func (e *Energy) missing(from, to unit.Instant) {
	if from < to {
		e.Gaps++
		e.Longest = max(e.Longest, time.Duration(to-from))
	}
}
