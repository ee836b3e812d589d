// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"bufio"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

func changesAt(samples []float64) []int {
	at := []int{}
	for _, c := range Levels(samples) {
		at = append(at, c.At)
	}
	return at
}

// The same series give the changes that Apache Otava 0.8.0 gives.
func TestLevelsAsOtava(t *testing.T) {
	f, err := os.Open("testdata/otava-0.8.0.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, changed := 0, 0
	for lines := bufio.NewScanner(f); lines.Scan(); n++ {
		var c struct {
			Samples []float64
			Changes []int
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if got := changesAt(c.Samples); !slices.Equal(got, c.Changes) {
			t.Errorf("series %d of %d samples: changes at %v, Otava has %v", n, len(c.Samples), got, c.Changes)
		}
		changed += len(c.Changes)
	}
	if n != 40 || changed < 40 {
		t.Errorf("%d series with %d changes", n, changed)
	}
}

// drawn is a series of n samples with a relative noise, whose level is 1e6 before at and
// by a share of drop lower from there on.
func drawn(r *rand.Rand, n, at int, noise, drop float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1e6 * (1 + noise*r.NormFloat64())
		if i >= at {
			out[i] *= 1 - drop
		}
	}
	return out
}

// A drop of 5 % in 30 samples with a noise of 2 % is found in 95 of 100 series or more;
// in series without one, a change is found in 5 of 100 or fewer.
func TestLevelsRates(t *testing.T) {
	const seed, series = 24, 400
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	found, alarms := 0, 0
	for range series {
		at := 8 + r.IntN(15) // 8 samples or more before it, and after it
		if c := Levels(drawn(r, 30, at, 0.02, 0.05)); len(c) > 0 && c[len(c)-1].After < c[len(c)-1].Before {
			found++
		}
		if len(Levels(drawn(r, 30, 30, 0.02, 0))) > 0 {
			alarms++
		}
	}
	t.Logf("found in %d of %d, false in %d of %d", found, series, alarms, series)
	if found < series*95/100 || alarms > series*5/100 {
		t.Errorf("found in %d of %d series with a drop; in %d of %d without", found, series, alarms, series)
	}
}

func TestLevelsKnown(t *testing.T) {
	flat := slices.Repeat([]float64{7.1}, 200)
	step := slices.Concat(slices.Repeat([]float64{0.1}, 70), slices.Repeat([]float64{0.3}, 70))
	for _, c := range []struct {
		name    string
		samples []float64
		want    []int
	}{
		{"none", nil, nil}, {"one", []float64{1}, nil}, {"two", []float64{1, 2}, nil}, {"flat", flat, nil}, {"step", step, []int{70}},
		{"zeros", make([]float64, 30), nil}, {"from zero", slices.Concat(make([]float64, 20), []float64{1, 1, 1, 1, 1}), []int{20}},
		{"below zero", slices.Concat(slices.Repeat([]float64{-5}, 20), slices.Repeat([]float64{-6}, 20)), []int{20}},
	} {
		if got := changesAt(c.samples); !slices.Equal(got, c.want) && len(got)+len(c.want) > 0 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if c := Levels(step); len(c) != 1 || c[0].Before != 0.1 || c[0].After != 0.3 || c[0].P != 0 {
		t.Errorf("%+v", c)
	}
}

// Student's t: two-sided critical values at 5 % and 0.1 %, from printed tables.
func TestStudent(t *testing.T) {
	for _, c := range []struct {
		n    int // degrees of freedom, even
		t, p float64
	}{{4, 2.776, 0.05}, {10, 2.228, 0.05}, {28, 2.048, 0.05}, {10, 4.587, 0.001}, {28, 3.674, 0.001}} {
		// Two groups of ±1 whose means are apart by what makes that t.
		half := c.n/2 + 1
		x, y := make([]float64, half), make([]float64, half)
		for i := range x {
			x[i] = math.Sqrt2 * math.Sin(2*math.Pi*(float64(i)+0.5)/float64(half))
		}
		by := c.t * math.Sqrt(variance(x)*2/float64(half))
		for i := range y {
			y[i] = x[i] + by
		}
		if p := student(x, y); !near(p, c.p, c.p*0.01) {
			t.Errorf("t = %v of %d: p = %v, want %v", c.t, c.n, p, c.p)
		}
	}
}
