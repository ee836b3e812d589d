// SPDX-License-Identifier: Apache-2.0

package infer

import (
	"math"
	"math/rand/v2"
)

// Units of the perceptron's hidden layers.
const (
	hidden1 = 32
	hidden2 = 16
)

// mlp is a perceptron with rectified hidden units and a logistic one at its end. A
// row of weights is a unit's.
type mlp struct {
	w1 [hidden1][Features]float64
	b1 [hidden1]float64
	w2 [hidden2][hidden1]float64
	b2 [hidden2]float64
	w3 [hidden2]float64
	b3 float64
}

// newMLP has weights of He's size, those of the first layer with the features' scales
// folded in, and its last bias so that both classes are among pool.
func newMLP(r *rand.Rand, pool []Vector) *mlp {
	m := &mlp{}
	s := scales(pool)
	he := func(inputs int) float64 { return r.NormFloat64() * math.Sqrt(2/float64(inputs)) }
	for i := range m.w1 {
		for f := range m.w1[i] {
			w := single(he(Features) / s[f].sd)
			m.w1[i][f] = w
			m.b1[i] -= w * s[f].mean
		}
		m.b1[i] = single(m.b1[i])
	}
	for i := range m.w2 {
		for j := range m.w2[i] {
			m.w2[i][j] = single(he(hidden1))
		}
		m.b2[i] = single(r.NormFloat64() / 10)
	}
	for i := range m.w3 {
		m.w3[i] = single(he(hidden2))
	}
	var sums moments
	for i := range pool {
		sums.add(m.sum(&pool[i]))
	}
	m.b3 = single(-sums.mean)
	return m
}

func (m *mlp) sum(x *Vector) float64 {
	var h1 [hidden1]float64
	for i := range m.w1 {
		s := m.b1[i]
		for f, w := range m.w1[i] {
			s += w * float64(x[f])
		}
		h1[i] = max(s, 0)
	}
	out := m.b3
	for i := range m.w2 {
		s := m.b2[i]
		for j, w := range m.w2[i] {
			s += w * h1[j]
		}
		out += m.w3[i] * max(s, 0)
	}
	return out
}

func (m *mlp) Predict(x *Vector) byte {
	if 1/(1+math.Exp(-m.sum(x))) > 0.5 {
		return 1
	}
	return 0
}
