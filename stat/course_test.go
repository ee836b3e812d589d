// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"boxdyno/internal/testutil"
)

// One-sided probabilities of Kendall's S: Kendall, Rank Correlation Methods,
// appendix table 1; Gilbert, Statistical Methods for Environmental Pollution
// Monitoring (1987), table A18.
func TestMannKendallPublished(t *testing.T) {
	for _, c := range []struct {
		n, s int
		p    float64
	}{{4, 6, 0.042}, {5, 8, 0.042}, {5, 10, 0.0083}, {6, 11, 0.028}, {7, 15, 0.015}, {8, 18, 0.016}, {9, 20, 0.022}, {10, 23, 0.023}, {10, 27, 0.0083}} {
		counts := inversions(c.n)
		p := 0.0
		for k, share := range counts {
			if c.n*(c.n-1)/2-2*k >= c.s {
				p += share
			}
		}
		if !near(p, c.p, 0.0006) {
			t.Errorf("n = %d, S = %d: p = %v, want %v", c.n, c.s, p, c.p)
		}
	}
	slope, p := drift([]float64{1, 2, 3, 4, 5})
	if slope != 1 || !near(p, 2.0/120, 1e-12) {
		t.Errorf("1 2 3 4 5: slope %v, p %v", slope, p)
	}
}

// The approximation for many or tied samples is near the count.
func TestMannKendallApproximation(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 50 {
		vs := make([]float64, 40)
		for i := range vs {
			vs[i] = r.NormFloat64() + 0.03*float64(i)
		}
		vs[7] = vs[23]
		_, tied := drift(vs)
		vs[7] = math.Nextafter(vs[23], 0)
		_, fell := drift(vs)
		vs[7] = math.Nextafter(vs[23], 1e9)
		if _, rose := drift(vs); tied < min(fell, rose)-0.02 || tied > max(fell, rose)+0.02 {
			t.Fatalf("p = %v with one tie, %v and %v exactly without", tied, fell, rose)
		}
	}
	if slope, p := drift([]float64{3, 3, 3, 3}); slope != 0 || p != 1 {
		t.Errorf("equal samples: %v, %v", slope, p)
	}
}

// Of very many samples some are looked at, and the drift is that of a sample all the same.
func TestDriftOfMany(t *testing.T) {
	vs := make([]float64, 3*mostPaired+7)
	for i := range vs {
		vs[i] = 100 + 0.5*float64(i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	slope, p := drift(vs)
	runtime.ReadMemStats(&after)
	if !near(slope, 0.5, 1e-12) || p > 1e-9 {
		t.Errorf("slope %v, p %v", slope, p)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%d octets for %d samples", n, len(vs))
	}
}

func TestDriftIsSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vs := samples(t, "samples", 2, 30, rapid.Bool().Draw(t, "tied"))
		slope, p := drift(vs)
		back := slices.Clone(vs)
		slices.Reverse(back)
		s, q := drift(back)
		if !near(s, -slope, 1e-12) || !near(p, q, 1e-12) || p < 0 || p > 1 {
			t.Fatalf("slope %v, p %v, and backwards %v, %v", slope, p, s, q)
		}
	})
}

// Of a level that stays, neither drift nor change is said more often than
// CourseLevel.
func TestNoCourseOfNoise(t *testing.T) {
	rounds := testutil.Cases(2000)
	due := float64(rounds) * CourseLevel
	most := due + 3.1*math.Sqrt(due)
	for _, noise := range noises {
		for _, n := range []int{5, 10, 25} {
			r := rand.New(rand.NewPCG(9, uint64(n)))
			drifts, changed := 0, 0
			for range rounds {
				c := Along(repeats(r, noise.draw, n, 1e6, 0.05))
				if c.Drift != 0 {
					drifts++
				}
				if len(c.Changes) > 0 {
					changed++
				}
			}
			if float64(drifts) > most || float64(changed) > most {
				t.Errorf("%s, %d samples: drift in %d and a change in %d of %d, at most %.0f are due", noise.name, n, drifts, changed, rounds, most)
			}
		}
	}
}

func TestCourseIsFound(t *testing.T) {
	for _, noise := range noises {
		r := rand.New(rand.NewPCG(13, 1))
		const rounds = 200
		drifts, one, two := 0, 0, 0
		for range rounds {
			heat := repeats(r, noise.draw, 20, 1e6, 0.02)
			for i := range heat {
				heat[i] *= 1 - 0.10*float64(i)/19
			}
			if c := Along(heat); c.Drift < 0 && near(c.Drift, -0.10, 0.06) {
				drifts++
			}
			throttled := slices.Concat(repeats(r, noise.draw, 12, 1e6, 0.02), repeats(r, noise.draw, 8, 0.9e6, 0.02))
			if c := Along(throttled); len(c.Changes) == 1 && c.Changes[0] >= 10 && c.Changes[0] <= 14 {
				one++
			}
			both := slices.Concat(repeats(r, noise.draw, 15, 1e6, 0.02), repeats(r, noise.draw, 15, 0.85e6, 0.02), repeats(r, noise.draw, 15, 1.1e6, 0.02))
			if c := Along(both); len(c.Changes) == 2 && near(float64(c.Changes[0]), 15, 2) && near(float64(c.Changes[1]), 30, 2) {
				two++
			}
		}
		t.Logf("%s: drift %d, one change %d, two %d of %d", noise.name, drifts, one, two, rounds)
		if drifts < rounds*3/4 || one < rounds*3/4 || two < rounds*3/4 {
			t.Errorf("%s: drift of -10 %% found in %d, a change of -10 %% in %d, two changes in %d of %d", noise.name, drifts, one, two, rounds)
		}
	}
}

func TestCourseWords(t *testing.T) {
	steps := []float64{100, 101, 99, 100.5, 99.5, 100.2, 80, 81, 79.5, 80.5, 79, 80.2}
	before := slices.Clone(steps)
	for _, c := range []struct {
		name    string
		samples []float64
		want    string
	}{
		{"a level", []float64{100, 101, 99, 100.5, 99.5}, ""},
		{"a step", steps, "from number 7 of 12 trials on, the level is another one, 20 % lower"},
		{"heat", []float64{100, 99.1, 98, 97.2, 96, 95}, "from the first to the last of 6 trials the level drifts by 5.1 % downwards"},
		{"one stall", []float64{100, 101, 40, 100.5, 99.5, 100.2}, "1 of 6 trials lies far from the others, number 3, 60 % below their median; it is kept"},
		{"two stalls", []float64{100, 101, 40, 100.5, 99.5, 100.2, 60, 100.1}, "2 of 8 trials lie far from the others, the farthest number 3, 60 % below their median; they are kept"},
		{"once", []float64{100}, ""},
		{"none", nil, ""},
	} {
		got := strings.Join(Along(c.samples).Words(c.samples, "trials"), "; ")
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if !slices.Equal(steps, before) {
		t.Errorf("the samples' order is signal and was changed: %v", steps)
	}
}

func TestOutliers(t *testing.T) {
	if got := Outliers([]float64{10, 11, 9, 10, 10.5, 9.5, 90}); !slices.Equal(got, []int{6}) {
		t.Errorf("outliers %v, want the last", got)
	}
	if got := Outliers([]float64{1, 1, 1, 1, 90}); got != nil {
		t.Errorf("where most are equal: %v", got)
	}
	if got := Outliers([]float64{1, 2, 3, 100}); got != nil {
		t.Errorf("four samples have no outliers: %v", got)
	}
}
