// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchmath"
	"pgregory.net/rapid"

	"boxdyno/internal/testutil"
)

// Hollander, Wolfe, Nonparametric Statistical Methods (1973), page 69:
// permeability of human chorioamnion at term and at 12 to 26 weeks. It is the
// example of R's wilcox.test, which prints W = 35 and one-sided p = 0.1272.
var (
	atTerm = []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	early  = []float64{1.15, 0.88, 0.90, 0.74, 1.21}
)

func near(a, b, by float64) bool { return math.Abs(a-b) <= by }

func TestPublished(t *testing.T) {
	if p := mannWhitney(atTerm, early); !near(p, 2*0.1272, 1e-4) {
		t.Errorf("Mann-Whitney of the example in Hollander and Wolfe: p = %v, want 2 x 0.1272", p)
	}
	if shift, _, _, _ := hodgesLehmann(early, atTerm); !near(shift, 0.305, 1e-9) {
		t.Errorf("Hodges-Lehmann of it: %v, want 0.305", shift)
	}
	// Critical values of U, two-sided 5 % (Mann and Whitney's table as in Siegel,
	// Nonparametric Statistics, table K): the greatest U that is significant.
	for _, c := range []struct{ n, u int }{{4, 0}, {5, 2}, {6, 5}, {7, 8}, {8, 13}, {10, 23}, {15, 64}, {20, 127}} {
		if got := leastDiff(c.n, c.n) - 1; got != c.u {
			t.Errorf("critical U of %d and %d is %d, want %d", c.n, c.n, got, c.u)
		}
	}
	for _, c := range []struct{ comparisons, want int }{{1, 4}, {2, 5}, {6, 5}, {7, 6}, {23, 6}, {24, 7}} { // 2 / C(2n, n)
		if got := LeastRepeats(c.comparisons); got != c.want {
			t.Errorf("%d comparisons take %d repeats, want %d", c.comparisons, got, c.want)
		}
	}
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005}) // Wikipedia's example: H4 and H1 alone stand
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		if !near(got[i], want, 1e-12) {
			t.Errorf("Holm: %v", got)
			break
		}
	}
}

// byCounting is the slow twin of mannWhitney: every way to part the samples.
func byCounting(x, y []float64) float64 {
	ranks, _ := midranks(x, y)
	m, total := len(x), len(x)+len(y)
	mean := m * (total + 1)
	seen := 0
	for _, r := range ranks[:m] {
		seen += r
	}
	all, far := 0, 0
	for mask := range uint(1) << total {
		if bits.OnesCount(mask) != m {
			continue
		}
		sum := 0
		for i, r := range ranks {
			if mask>>i&1 == 1 {
				sum += r
			}
		}
		all++
		if abs(sum-mean) >= abs(seen-mean) {
			far++
		}
	}
	return float64(far) / float64(all)
}

func samples(t *rapid.T, name string, least, most int, tied bool) []float64 {
	g := rapid.Float64Range(0.5, 2)
	if tied {
		g = rapid.Map(rapid.IntRange(1, 4), func(n int) float64 { return float64(n) })
	}
	return rapid.SliceOfN(g, least, most).Draw(t, name)
}

func TestMannWhitneyIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tied := rapid.Bool().Draw(t, "tied")
		x, y := samples(t, "x", 1, 6, tied), samples(t, "y", 1, 6, tied)
		p := mannWhitney(x, y)
		if want := byCounting(x, y); !near(p, want, 1e-12) {
			t.Fatalf("p = %v, and by counting %v", p, want)
		}
		if q := mannWhitney(y, x); !near(p, q, 1e-12) {
			t.Fatalf("p = %v, and with the sides exchanged %v", p, q)
		}
	})
}

// Without ties the library that benchstat uses says the same; with many samples
// the approximation is near the count.
func TestMannWhitneyAgainstBenchmath(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		x, y := repeats(r, (*rand.Rand).NormFloat64, 1+r.IntN(30), 1, 0.1), repeats(r, (*rand.Rand).NormFloat64, 1+r.IntN(30), 1.05, 0.1)
		want := benchmath.AssumeNothing.Compare(benchmath.NewSample(slices.Clone(x), &benchmath.DefaultThresholds), benchmath.NewSample(slices.Clone(y), &benchmath.DefaultThresholds)).P
		if got := mannWhitney(x, y); !near(got, want, 1e-9) && len(x)+len(y) <= mostExact {
			t.Fatalf("%d and %d samples: p = %v, and benchmath %v", len(x), len(y), got, want)
		}
	}
	for range 20 {
		x, y := repeats(r, (*rand.Rand).NormFloat64, 45, 1, 0.1), repeats(r, (*rand.Rand).NormFloat64, 40, 1.02, 0.1)
		want := benchmath.AssumeNothing.Compare(benchmath.NewSample(slices.Clone(x), &benchmath.DefaultThresholds), benchmath.NewSample(slices.Clone(y), &benchmath.DefaultThresholds)).P
		if got := mannWhitney(x, y); !near(got, want, 0.01) {
			t.Fatalf("45 and 40 samples: p = %v, and exactly %v", got, want)
		}
	}
}

// The interval is those shifts that the test does not reject.
func TestIntervalIsTheTest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(4, 12).Draw(t, "n"), rapid.IntRange(4, 12).Draw(t, "m")
		pool := rapid.SliceOfNDistinct(rapid.Float64Range(0.5, 2), n+m, n+m, rapid.ID).Draw(t, "without ties")
		x, y := pool[:n], pool[n:]
		d, ok := Compare(x, y)
		if !ok || !d.Relative || !d.Sure {
			t.Fatalf("%+v", d)
		}
		if !(d.Lo <= d.Effect && d.Effect <= d.Hi) {
			t.Fatalf("effect %v outside of its interval %v to %v", d.Effect, d.Lo, d.Hi)
		}
		if outside := d.Lo > 0 || d.Hi < 0; outside != (d.P <= Level) {
			t.Fatalf("p = %v, and the interval of the effect is %v to %v", d.P, d.Lo, d.Hi)
		}
		back, _ := Compare(y, x)
		if !near((1+back.Effect)*(1+d.Effect), 1, 1e-9) {
			t.Fatalf("effect %v, and the other way %v", d.Effect, back.Effect)
		}
		k := rapid.Float64Range(1e-6, 1e6).Draw(t, "unit")
		scaled, _ := Compare(times(x, k), times(y, k))
		if !near(scaled.Effect, d.Effect, 1e-9) {
			t.Fatalf("effect %v, and in another unit %v", d.Effect, scaled.Effect)
		}
	})
}

func times(vs []float64, k float64) []float64 {
	out := make([]float64, len(vs))
	for i, v := range vs {
		out[i] = v * k
	}
	return out
}

func TestHolm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ps := rapid.SliceOfN(rapid.Float64Range(0, 1), 0, 12).Draw(t, "ps")
		got := Holm(ps)
		for i := range ps {
			if got[i] < ps[i] || got[i] > 1 || got[i] > ps[i]*float64(len(ps))+1e-12 {
				t.Fatalf("%v of %v", got, ps)
			}
			for j := range ps {
				if ps[i] < ps[j] && got[i] > got[j] {
					t.Fatalf("%v changes the order of %v", got, ps)
				}
			}
		}
	})
}

func TestCompareEdges(t *testing.T) {
	if _, ok := Compare(nil, []float64{1}); ok {
		t.Error("a side without samples was compared")
	}
	if _, ok := Compare([]float64{math.NaN()}, []float64{1}); ok {
		t.Error("a side without numbers was compared")
	}
	d, ok := Compare([]float64{7, 7, 7, 7}, []float64{7, 7, 7, 7})
	if !ok || d.P != 1 || d.Effect != 0 || d.Lo != 0 || d.Hi != 0 {
		t.Errorf("of equal samples: %+v", d)
	}
	d, _ = Compare([]float64{0, 1, 2, 3}, []float64{10, 11, 12, 13})
	if d.Relative || d.Effect != 10 || d.P > 0.03 {
		t.Errorf("with a zero: %+v", d)
	}
	d, _ = Compare([]float64{100}, []float64{90})
	if d.Sure || d.P != 1 || !near(d.Effect, -0.1, 1e-9) {
		t.Errorf("measured once: %+v", d)
	}
	many := make([]float64, 40)
	if p := mannWhitney(many, many); p != 1 {
		t.Errorf("80 equal samples: p = %v", p)
	}
}

func TestTooFew(t *testing.T) {
	for _, c := range []struct {
		m, n, comparisons int
		want              string
	}{
		{4, 4, 1, ""}, {3, 6, 1, ""}, {3, 5, 1, ""}, {6, 6, 20, ""},
		{3, 3, 1, "3 and 3 repeats are too few to find any difference at p <= 0.05: it takes 4 + 4"},
		{5, 5, 12, "at p <= 0.05 among 12 comparisons at once: it takes 6 + 6"},
	} {
		got := TooFew(c.m, c.n, c.comparisons)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%d and %d of %d: %q, want %q", c.m, c.n, c.comparisons, got, c.want)
		}
	}
}

// Of two equal boxes a difference is found in Level of all comparisons at most,
// whatever the noise and however many figures are looked at.
func TestFalsePositives(t *testing.T) {
	rounds := testutil.Cases(1000)
	due := float64(rounds) * Level
	for _, noise := range noises {
		for _, c := range []struct{ m, n, figures int }{{4, 4, 1}, {5, 5, 3}, {6, 9, 1}, {12, 12, 4}} {
			r := rand.New(rand.NewPCG(7, uint64(c.m)))
			found := 0
			for range rounds {
				var ps []float64
				for range c.figures {
					d, _ := Compare(repeats(r, noise.draw, c.m, 1e6, 0.05), repeats(r, noise.draw, c.n, 1e6, 0.05))
					ps = append(ps, d.P)
				}
				if slices.Min(Holm(ps)) <= Level {
					found++
				}
			}
			// 3.1 standard deviations of the count above its mean.
			if most := due + 3.1*math.Sqrt(due*(1-Level)); float64(found) > most || found == 0 {
				t.Errorf("%s, %d and %d repeats of %d figures: a difference in %d of %d rounds, at most %.0f are due", noise.name, c.m, c.n, c.figures, found, rounds, most)
			}
		}
	}
}

// As many repeats as are stated find the difference as often as is stated.
func TestRepeatsForSuffice(t *testing.T) {
	const rounds, effect = 250, 0.05
	for _, noise := range noises {
		for _, spread := range []float64{0.01, 0.03, 0.07} {
			n := RepeatsFor(effect, spread, 1)
			r := rand.New(rand.NewPCG(11, uint64(n)))
			found := 0
			for range rounds {
				d, _ := Compare(repeats(r, noise.draw, n, 1e6, spread), repeats(r, noise.draw, n, 1e6*(1-effect), spread))
				if d.P <= Level && d.Effect < 0 {
					found++
				}
			}
			t.Logf("%s, spread %g: %d repeats find it in %d of %d", noise.name, spread, n, found, rounds)
			if found < rounds*88/100 {
				t.Errorf("%s, spread %g: the %d repeats stated find 5 %% less in %d of %d", noise.name, spread, n, found, rounds)
			}
		}
	}
	if RepeatsFor(0.05, 0.05, 10) <= RepeatsFor(0.05, 0.05, 1) || RepeatsFor(0.01, 0.05, 1) <= RepeatsFor(0.05, 0.05, 1) {
		t.Error("more comparisons, and smaller effects, take more repeats")
	}
}

func TestSpread(t *testing.T) {
	for _, noise := range noises {
		r := rand.New(rand.NewPCG(3, 4))
		for _, n := range []int{4, 8, 20} {
			var got []float64
			for range 400 {
				s, ok := Spread(repeats(r, noise.draw, n, 5, 0.03), repeats(r, noise.draw, n, 9, 0.03))
				if !ok {
					t.Fatal("no spread")
				}
				got = append(got, s)
			}
			// Those of a normal distribution; stalls widen it.
			if m := middle(got); m < 0.025 || m > 0.042 {
				t.Errorf("%s, %d repeats: spread %v, want 0.03", noise.name, n, m)
			}
		}
	}
	for _, g := range [][][]float64{nil, {{1}, {2}}, {{0, 1, 2}}} {
		if s, ok := Spread(g...); ok {
			t.Errorf("%v has spread %v", g, s)
		}
	}
}
