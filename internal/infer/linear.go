// SPDX-License-Identifier: Apache-2.0

package infer

import (
	"math"
	"math/rand/v2"
)

// linear is logistic regression: class 1 where the weighted sum is above 0, which is
// where the logistic function of it is above one half.
type linear struct {
	weights [Features]float64
	bias    float64
}

// scale is where a feature's values lie.
type scale struct{ mean, sd float64 }

// scales are those of pool; a feature that does not vary has a deviation of 1.
func scales(pool []Vector) (s [Features]scale) {
	for f := range s {
		var m moments
		for i := range pool {
			m.add(float64(pool[i][f]))
		}
		s[f] = scale{m.mean, m.sd()}
		if s[f].sd == 0 {
			s[f].sd = 1
		}
	}
	return s
}

// single rounds to single precision, in which every runtime can have it.
func single(v float64) float64 { return float64(float32(v)) }

// newLinear has weights of standardized features folded into those of the features.
func newLinear(r *rand.Rand, pool []Vector) *linear {
	m := &linear{}
	for f, s := range scales(pool) {
		w := single(r.NormFloat64() / s.sd)
		m.weights[f] = w
		m.bias -= w * s.mean
	}
	m.bias = single(m.bias)
	return m
}

func (m *linear) sum(x *Vector) float64 {
	s := m.bias
	for f, w := range m.weights {
		s += w * float64(x[f])
	}
	return s
}

// Predict implements Model. The logistic function is part of the work.
func (m *linear) Predict(x *Vector) byte {
	if 1/(1+math.Exp(-m.sum(x))) > 0.5 {
		return 1
	}
	return 0
}
