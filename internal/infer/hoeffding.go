// SPDX-License-Identifier: Apache-2.0

package infer

import "math"

// hoeffding is a Hoeffding tree (Domingos and Hulten, "Mining High-Speed Data Streams",
// 2000) with normal distributions as observers of numbers, which says the class that
// is more frequent in a leaf.
type hoeffding struct {
	root   *branch
	leaves int
}

// Parameters, which River's tree is given as well.
const (
	grace      = 200  // windows that a leaf sees between two attempts to split it
	delta      = 1e-7 // chance that a split is not the best
	tie        = 0.05 // a bound below which splits are equally good
	mostDepth  = 8
	candidates = 10 // thresholds that are tried of a feature
)

// A branch is a node with two below it, or a leaf.
type branch struct {
	feature    int
	threshold  float32
	low, high  *branch // nil: a leaf
	depth      int
	classes    [2]float64
	seen       float64 // windows
	attempted  float64 // seen at the last attempt
	least, top Vector
	by         [Features][2]moments
}

func newHoeffding() *hoeffding { return &hoeffding{root: &branch{}, leaves: 1} }

// Bound is Hoeffding's: with probability 1-delta the mean of n observations of a
// quantity that lies within a range of the given width is no farther than that from
// what it is a mean of.
func Bound(width, delta, n float64) float64 {
	return math.Sqrt(width * width * math.Log(1/delta) / (2 * n))
}

func (t *hoeffding) leaf(x *Vector) *branch {
	b := t.root
	for b.low != nil {
		if x[b.feature] > b.threshold {
			b = b.high
		} else {
			b = b.low
		}
	}
	return b
}

func (t *hoeffding) Predict(x *Vector) byte {
	b := t.leaf(x)
	if b.classes[1] > b.classes[0] {
		return 1
	}
	return 0
}

func (t *hoeffding) Learn(x *Vector, y byte) {
	b := t.leaf(x)
	b.take(x, y)
	if b.depth >= mostDepth || b.classes[0] == 0 || b.classes[1] == 0 || b.seen-b.attempted < grace {
		return
	}
	b.attempted = b.seen
	if b.attempt() {
		t.leaves++
	}
}

func (b *branch) take(x *Vector, y byte) {
	for f, v := range x {
		if b.seen == 0 || v < b.least[f] {
			b.least[f] = v
		}
		if b.seen == 0 || v > b.top[f] {
			b.top[f] = v
		}
		b.by[f][y].add(float64(v))
	}
	b.classes[y]++
	b.seen++
}

// attempt splits the leaf where its best feature is better than the second, and than
// no split, by more than the bound.
func (b *branch) attempt() bool {
	var best, second split
	for f := range Features {
		switch s := b.best(f); {
		case s.gain > best.gain:
			best, second = s, best
		case s.gain > second.gain:
			second = s
		}
	}
	bound := Bound(1 /* bit: there are two classes */, delta, b.seen)
	if best.gain <= 0 || best.gain-second.gain <= bound && bound >= tie {
		return false
	}
	b.feature, b.threshold = best.feature, best.threshold
	b.low, b.high = &branch{depth: b.depth + 1, classes: best.low}, &branch{depth: b.depth + 1, classes: best.high}
	b.by = [Features][2]moments{}
	return true
}

// A split is what a threshold of a feature would gain, in bits.
type split struct {
	feature   int
	threshold float32
	gain      float64
	low, high [2]float64 // windows of the classes, as the distributions have it
}

func (b *branch) best(f int) (best split) {
	before := information(b.classes)
	all := b.classes[0] + b.classes[1]
	width := float64(b.top[f] - b.least[f])
	for i := 1; i <= candidates && width > 0; i++ {
		at := float32(float64(b.least[f]) + width*float64(i)/(candidates+1))
		s := split{feature: f, threshold: at}
		for c := range s.low {
			s.low[c] = b.classes[c] * below(&b.by[f][c], float64(at))
			s.high[c] = b.classes[c] - s.low[c]
		}
		low, high := s.low[0]+s.low[1], s.high[0]+s.high[1]
		s.gain = before - low/all*information(s.low) - high/all*information(s.high)
		if s.gain > best.gain {
			best = s
		}
	}
	return best
}

// below is the share of a normal distribution that is at most v.
func below(m *moments, v float64) float64 {
	sd := m.sd()
	switch {
	case m.n == 0 || sd == 0 && v < m.mean:
		return 0
	case sd == 0:
		return 1
	}
	return 0.5 * math.Erfc((m.mean-v)/(sd*math.Sqrt2))
}

// information is the entropy of two classes, in bits.
func information(c [2]float64) (h float64) {
	all := c[0] + c[1]
	for _, n := range c {
		if n > 0 {
			h -= n / all * math.Log2(n/all)
		}
	}
	return h
}
