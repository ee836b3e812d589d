// SPDX-License-Identifier: Apache-2.0

package infer

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

func pool(t testing.TB, kind string, seed uint64) []Vector {
	t.Helper()
	frames, per := Synthetic(kind, seed)
	xs, err := Vectors(kind, frames)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(frames) / per; len(xs) < want-1 || len(xs) > want {
		t.Fatalf("%d windows of %d frames with %d each", len(xs), len(frames), per)
	}
	for i := range xs {
		if int(xs[i][0]) != per {
			t.Fatalf("window %d has %v frames, not %d", i, xs[i][0], per)
		}
	}
	return xs
}

// plain evaluates a model's numbers as their comments say.
func plain(p Params, x *Vector) byte {
	sum := 0.0
	switch {
	case p.Linear != nil:
		sum = p.Linear.Bias
		for f, w := range p.Linear.Weights {
			sum += w * float64(x[f])
		}
	case p.Trees != nil:
		for _, t := range p.Trees {
			at := 0
			for at < len(t.Feature) {
				if float64(x[t.Feature[at]]) <= t.Threshold[at] {
					at = 2*at + 1
				} else {
					at = 2*at + 2
				}
			}
			sum += t.Leaves[at-len(t.Feature)] - 0.5
		}
	default:
		in := make([]float64, Features)
		for f, v := range x {
			in[f] = float64(v)
		}
		for n, l := range p.Layers {
			out := make([]float64, len(l.Bias))
			for i, row := range l.Weights {
				out[i] = l.Bias[i]
				for j, w := range row {
					out[i] += w * in[j]
				}
				if n < len(p.Layers)-1 {
					out[i] = math.Max(out[i], 0)
				}
			}
			in = out
		}
		sum = in[0]
	}
	if sum > 0 {
		return 1
	}
	return 0
}

// A model is what its numbers say, has the shape that is promised, is the same for the
// same seed alone, and does not always say the same.
func TestModels(t *testing.T) {
	for _, kind := range Kinds {
		xs := pool(t, kind, 3)
		for _, name := range Models {
			d, err := New(name, 3, xs)
			if err != nil {
				t.Fatal(err)
			}
			again, _ := New(name, 3, xs)
			other, _ := New(name, 4, xs)
			p := d.Params()
			if !reflect.DeepEqual(p, again.Params()) || name != Hoeffding && reflect.DeepEqual(p, other.Params()) {
				t.Errorf("%s is not the seed's", name)
			}
			ones := 0
			for i := range xs {
				if d.Learns() {
					ones += int(d.Class(&xs[i]))
					continue
				}
				y := d.Step(&xs[i])
				ones += int(y)
				if want := plain(p, &xs[i]); y != want {
					t.Fatalf("%s, window %d: %d, want %d", name, i, y, want)
				}
			}
			if ones < len(xs)/100 || ones > len(xs)*99/100 {
				t.Errorf("%s, windows of %s: %d of %d are of class 1", name, kind, ones, len(xs))
			}
		}
	}
	xs := pool(t, PerTen, 1)
	for name, want := range map[string][3]int{Tree: {1, 63, 64}, Forest: {50, 255, 256}} {
		d, _ := New(name, 1, xs)
		trees := d.Params().Trees
		if got := [3]int{len(trees), len(trees[0].Feature), len(trees[0].Leaves)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if _, err := New("oracle", 1, xs); err == nil {
		t.Error("there is no oracle")
	}
	if _, err := New(Tree, 1, nil); err == nil {
		t.Error("no windows")
	}
}

// No vote of the forest is undecided: libraries would decide it differently.
func TestForestIsDecided(t *testing.T) {
	f := newForest(rand.New(rand.NewPCG(1, 1)), pool(t, PerTen, 1))
	odd := 0
	for i, tr := range f {
		parts := int(tr.leaves[0] * leafParts)
		if odd += parts % 2; (parts%2 == 1) != (i > 0) {
			t.Fatalf("tree %d has a leaf of %d parts", i, parts)
		}
	}
	if odd%2 == 0 {
		t.Error("an even number of odd leaves may add up to one half")
	}
}

// The bound of Hoeffding's inequality, computed by hand: ln(1e7) = 16.1181.
func TestBound(t *testing.T) {
	for n, want := range map[float64]float64{200: 0.200738, 800: 0.100369, 3224: 0.0499967} {
		if got := Bound(1, 1e-7, n); math.Abs(got-want) > 1e-5 {
			t.Errorf("of %v: %v, want %v", n, got, want)
		}
	}
	if Bound(2, 1e-7, 800) != Bound(1, 1e-7, 200) {
		t.Error("it grows with the width")
	}
}

// A class that one feature tells is learned at the first attempt, by that feature.
func TestHoeffdingLearns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := newHoeffding()
	example := func() (x Vector, y byte) {
		for f := range x {
			x[f] = r.Float32()
		}
		if y = byte(r.IntN(2)); y == 1 {
			x[7] += 5
		}
		return x, y
	}
	for n := range 200 {
		if h.leaves != 1 {
			t.Fatalf("it split after %d windows", n)
		}
		x, y := example()
		h.Learn(&x, y)
	}
	if h.leaves != 2 || h.root.feature != 7 || h.root.threshold < 1 || h.root.threshold > 5 {
		t.Fatalf("%d leaves, feature %d at %v", h.leaves, h.root.feature, h.root.threshold)
	}
	for range 100 {
		if x, y := example(); h.Predict(&x) != y {
			t.Errorf("it says %d of class %d", h.Predict(&x), y)
		}
	}
}

// Where nothing tells the classes apart, no split is good enough until the bound is
// that of a tie: at 3400 windows, the first attempt after 3224. It never gets deeper
// than it may.
func TestHoeffdingWaits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	h := newHoeffding()
	learn := func() {
		var x Vector
		for f := range x {
			x[f] = r.Float32()
		}
		h.Learn(&x, byte(r.IntN(2)))
	}
	for range 3399 {
		learn()
	}
	if h.leaves != 1 {
		t.Fatalf("%d leaves", h.leaves)
	}
	learn()
	if h.leaves != 2 {
		t.Errorf("%d leaves after a tie", h.leaves)
	}
	h.root.depth = mostDepth - 1
	h.root.low.depth, h.root.high.depth = mostDepth, mostDepth
	for range 20_000 {
		learn()
	}
	if h.leaves != 2 {
		t.Errorf("%d leaves beyond the depth", h.leaves)
	}
}

func BenchmarkModels(b *testing.B) {
	xs := pool(b, PerTen, 1)
	for _, name := range Models {
		d, err := New(name, 1, xs)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for i := range b.N {
				d.Step(&xs[i%len(xs)])
			}
		})
	}
}
