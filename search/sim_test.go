// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"math/rand/v2"
	"time"

	"boxdyno/unit"
)

// A dut is a simulated box: the loss ratio of one trial at an offered load.
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

// slope loses share of what is offered above limit, and no more.
func slope(limit, share float64) dut {
	return func(r float64, _ time.Duration) float64 { return max(0, share*(1-limit/r)) }
}

// collapse forwards less the more is offered above limit.
func collapse(limit float64) dut {
	return func(r float64, _ time.Duration) float64 {
		if r <= limit {
			return 0
		}
		return 1 - limit/r*limit/r
	}
}

// stack has a cost for each frame, for each of its octets and for each flow that
// falls out of a cache: its limit in frame/s.
func stack(size float64, flows int) float64 {
	return 1 / (800e-9 + size*0.4e-9 + 600e-9*float64(flows)/float64(flows+4000))
}

// curve loses in a trial with a chance that rises with the load: one half at
// mid in a trial of 0.2 s; spread is in natural logarithms.
func curve(rng *rand.Rand, mid, spread float64) dut {
	return func(r float64, d time.Duration) float64 {
		if rng.Float64() < math.Pow(1/(1+math.Pow(r/mid, 1/spread)), d.Seconds()/0.2) {
			return 0
		}
		return 1e-4
	}
}

// curveAt is the load at which a trial of curve loses with chance p.
func curveAt(mid, spread, p float64, d time.Duration) float64 {
	clean := math.Pow(1-p, 0.2/d.Seconds())
	return mid * math.Pow(1/clean-1, spread)
}

// ring is how many frames a box with stalls can keep.
const ring = 256

// stalls stands still perSecond times a second, for a mean of mean seconds, and
// drops what exceeds its ring; beyond limit it always loses.
func stalls(rng *rand.Rand, limit, perSecond, mean float64) dut {
	return func(r float64, d time.Duration) float64 {
		lost := max(0, r-limit) * d.Seconds()
		for t := rng.ExpFloat64() / perSecond; t < d.Seconds(); t += rng.ExpFloat64() / perSecond {
			lost += math.Floor(max(0, min(r, limit)*rng.ExpFloat64()*mean-ring))
		}
		return min(1, lost/(r*d.Seconds()))
	}
}

// stallsAt is the load at which a trial of stalls loses with chance p, at most
// limit.
func stallsAt(limit, perSecond, mean, p float64, d time.Duration) float64 {
	lossy := -math.Log(1-p) / (perSecond * d.Seconds()) // share of the stalls that overflow the ring
	if lossy >= 1 {
		return limit
	}
	return min(limit, (ring+1)/(-math.Log(lossy)*mean))
}

// heat has a limit that falls by share while it works, with time constant tau.
func heat(limit, share float64, tau time.Duration) dut {
	worked := time.Duration(0)
	return func(r float64, d time.Duration) float64 {
		now := limit * (1 - share*(1-math.Exp(-worked.Seconds()/tau.Seconds())))
		worked += d
		return max(0, 1-now/r)
	}
}

// A tester offers a little less than asked, nothing above its ceiling, and
// fails now and then.
type tester struct {
	ceiling, short float64 // short: offered is below asked by up to this share
	fails          float64 // chance of an invalid trial
	rng            *rand.Rand
}

var exact = tester{ceiling: math.Inf(1)}

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

func traffic(h []Seen) (d time.Duration) {
	for _, t := range h {
		d += t.Duration
	}
	return d
}
