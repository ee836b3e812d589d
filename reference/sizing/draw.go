// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Method names how intervals are carried through.
const Method = "Monte Carlo: each figure is drawn from a split normal distribution whose 2.5 and 97.5 % quantiles are its interval; a figure without an interval is taken as it is"

const (
	defaultDraws = 4000
	quantile     = 1.959964 // of the normal distribution at 97.5 %
)

// draw is one value of an estimate: never below a hundredth of it.
func (e Estimate) draw(r *rand.Rand) float64 {
	if e.Lo == e.Hi {
		return e.Value
	}
	x := r.NormFloat64()
	side := e.Hi - e.Value
	if x < 0 {
		side = e.Value - e.Lo
	}
	return max(e.Value+x*side/quantile, e.Value/100)
}

// interval is the middle 95 % of draws. Draws that are infinite count.
func interval(draws []float64) (lo, hi float64) {
	slices.Sort(draws)
	n := float64(len(draws) - 1)
	return draws[int(math.Floor(0.025*n))], draws[int(math.Ceil(0.975*n))]
}

// estimated is a figure with the interval of its draws, which encloses it.
func estimated(value float64, draws []float64) Estimate {
	lo, hi := interval(draws)
	return Estimate{Value: value, Lo: min(lo, value), Hi: max(hi, value)}
}
