// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestBucketEdges(t *testing.T) {
	for v, want := range map[uint64]int{0: 0, 15: 15, 16: 16, 17: 17, 31: 31, 32: 32, 33: 32, 34: 33, 1000: 111, math.MaxUint64: Count - 1} {
		if got := Of(v); got != want {
			t.Errorf("bucket(%d) = %d, want %d", v, got, want)
		}
	}
	next := uint64(0)
	for i := range Count {
		upper := upper(i)
		if Of(next) != i || Of(upper) != i {
			t.Fatalf("bucket %d is %d to %d, which fall into %d and %d", i, next, upper, Of(next), Of(upper))
		}
		next = upper + 1
	}
	if next != 0 {
		t.Errorf("the last bucket ends at %d", next-1)
	}
}

func TestBucketError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "v")
		upper := upper(Of(v))
		if upper < v || upper-v > v/16 {
			t.Fatalf("%d is counted as %d", v, upper)
		}
	})
}

func TestHistogram(t *testing.T) {
	var counts [Count]uint64
	for _, v := range []uint64{3, 3, 1000, 1_000_000} {
		counts[Of(v)]++
	}
	h := Histogram(counts[:])
	if !slices.Equal(h.Count, []uint64{2, 1, 1}) || h.Total() != 4 {
		t.Errorf("counts %v", h.Count)
	}
	if want := []float64{3e-9, 1023e-9, 1015807e-9}; !slices.Equal(h.Upper, want) {
		t.Errorf("upper edges %v, want %v", h.Upper, want)
	}
	if h := Histogram(make([]uint64, Count)); len(h.Upper) != 0 || h.Quantile(0.5) != 0 {
		t.Errorf("no samples: %v", h)
	}
}
