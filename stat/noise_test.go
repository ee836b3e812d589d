// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"math/rand/v2"
)

// noises scatter about 1 as figures of small boxes do, each scaled to a normal
// deviation of 1 in its middle: light and heavy tails, and a machine that stalls
// in one of ten repeats.
var noises = []struct {
	name string
	draw func(*rand.Rand) float64
}{
	{"normal", (*rand.Rand).NormFloat64},
	{"Laplace", func(r *rand.Rand) float64 {
		return math.Copysign(r.ExpFloat64(), r.Float64()-0.5) * 0.6745 / math.Ln2
	}},
	{"Student, 3 degrees of freedom", func(r *rand.Rand) float64 {
		a, b, c := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
		return r.NormFloat64() / math.Sqrt((a*a+b*b+c*c)/3) * 0.6745 / 0.7649
	}},
	{"stalls", func(r *rand.Rand) float64 {
		if r.IntN(10) == 0 {
			return -3 - 5*r.ExpFloat64()
		}
		return r.NormFloat64()
	}},
}

// repeats are n figures about center that scatter by spread.
func repeats(r *rand.Rand, draw func(*rand.Rand) float64, n int, center, spread float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = center * math.Exp(spread*draw(r))
	}
	return out
}
