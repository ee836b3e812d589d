// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"math/rand/v2"
	"time"

	"boxdyno/unit"
)

// A dut is a simulated box: the loss of one trial at an offered load.
type dut func(offered float64, d time.Duration) (loss float64)

// sharp forwards up to limit and not a frame more.
func sharp(limit float64) dut {
	return func(r float64, _ time.Duration) float64 { return max(0, 1-limit/r) }
}

// policer is a token bucket of rate limit that starts full with burst frames.
func policer(limit, burst float64) dut {
	return func(r float64, d time.Duration) float64 {
		return max(0, 1-(limit*d.Seconds()+burst)/(r*d.Seconds()))
	}
}

// curve loses in a trial with a chance that rises with the load: one half at
// mid in a trial of 0.2 s; spread is in natural logarithms.
func curve(rng *rand.Rand, mid, spread float64) dut {
	return func(r float64, d time.Duration) float64 {
		clean := 1 / (1 + math.Exp((math.Log(r)-math.Log(mid))/spread))
		if rng.Float64() < math.Pow(clean, d.Seconds()/0.2) {
			return 0
		}
		return 1e-4
	}
}

// stalls stands still perSecond times a second, for a mean of mean seconds,
// before a ring of 256 frames; beyond limit it always loses.
func stalls(rng *rand.Rand, limit, perSecond, mean float64) dut {
	return func(r float64, d time.Duration) float64 {
		if r > limit {
			return 1 - limit/r
		}
		lost := 0.0
		for t := rng.ExpFloat64() / perSecond; t < d.Seconds(); t += rng.ExpFloat64() / perSecond {
			lost += max(0, r*rng.ExpFloat64()*mean-256)
		}
		return math.Min(1, math.Floor(lost)/(r*d.Seconds()))
	}
}

// A tester offers a little less than asked, nothing above its ceiling, and
// fails now and then.
type tester struct {
	ceiling, short float64 // short: offered is below asked by up to this share
	fails          float64 // chance of an invalid trial
	rng            *rand.Rand
}

func (t tester) trial(s Step, box dut) Seen {
	offered := min(float64(s.Rate), t.ceiling)
	if t.short > 0 {
		offered *= 1 - t.short*t.rng.Float64()
	}
	valid := offered >= 0.99*float64(s.Rate) && !(t.fails > 0 && t.rng.Float64() < t.fails)
	return Seen{Step: s, Offered: unit.FrameRate(offered), Loss: unit.LossRatio(box(offered, s.Duration)), Valid: valid}
}

// run carries out a whole search.
func run(s Search, t tester, box dut) (h []Seen) {
	for {
		step, more := s.Next(h)
		if !more {
			return h
		}
		h = append(h, t.trial(step, box))
	}
}
