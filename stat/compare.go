// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"fmt"
	"math"
	"slices"
)

// Level is the chance, of all comparisons made at once, to find a difference
// where there is none.
const Level = 1 - Confidence

// A Difference is what two groups of repeats say of each other, without an
// assumption about their distribution.
type Difference struct {
	Base, Other Summary
	// Relative says that effects are shares of the base: 0.05 is 5 % more. They
	// are differences in the metric's unit where a sample is not positive.
	Relative bool
	// Effect is the Hodges-Lehmann estimate: the median of every sample of other
	// against every one of base.
	Effect float64
	Lo, Hi float64 // interval of Effect at Confidence, of this comparison alone; the range where Sure is false
	Sure   bool    // there are enough repeats for the interval
	P      float64 // Mann-Whitney, two-sided, exact up to 50 samples, ties too; of this comparison alone
}

// Compare compares the repeats of one figure. NaN and infinite samples are left
// out. ok is false where a group has none left.
func Compare(base, other []float64) (d Difference, ok bool) {
	d.Base, d.Other = Summarize(base), Summarize(other)
	x, y := finite(base), finite(other)
	if len(x) == 0 || len(y) == 0 {
		return d, false
	}
	d.P = mannWhitney(x, y)
	d.Relative = slices.Min(x) > 0 && slices.Min(y) > 0
	if d.Relative { // a ratio is a difference of logarithms
		x, y = logs(x), logs(y)
	}
	d.Effect, d.Lo, d.Hi, d.Sure = hodgesLehmann(x, y)
	if d.Relative {
		d.Effect, d.Lo, d.Hi = math.Expm1(d.Effect), math.Expm1(d.Lo), math.Expm1(d.Hi)
	}
	return d, true
}

func finite(vs []float64) (out []float64) {
	for _, v := range vs {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, v)
		}
	}
	return out
}

func logs(vs []float64) []float64 {
	out := make([]float64, len(vs))
	for i, v := range vs {
		out[i] = math.Log(v)
	}
	return out
}

// Holm is ps, each corrected for all of them having been looked at: those at or
// below Level are differences, and the chance that any is false is Level.
//
// Holm, Scandinavian Journal of Statistics 6 (1979) 65-70.
func Holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if ps[a] < ps[b] {
			return -1
		} else if ps[a] > ps[b] {
			return 1
		}
		return 0
	})
	out := make([]float64, len(ps))
	worst := 0.0
	for rank, i := range order {
		worst = max(worst, min(1, ps[i]*float64(len(ps)-rank)))
		out[i] = worst
	}
	return out
}

// LeastRepeats is the least number of repeats of each of two sides with which a
// difference can be found at all, where comparisons (at least 1) are made at
// once: even if all of one side lie above all of the other.
func LeastRepeats(comparisons int) int {
	for n := 1; ; n++ {
		if leastP(n, n) <= Level/float64(comparisons) {
			return n
		}
	}
}

// leastP is the smallest p-value that m and n samples can have: two of all the
// ways to part them, one with each side on top.
func leastP(m, n int) float64 {
	a, _ := math.Lgamma(float64(m + n + 1))
	b, _ := math.Lgamma(float64(m + 1))
	c, _ := math.Lgamma(float64(n + 1))
	return min(1, 2*math.Exp(b+c-a))
}

// TooFew says in a sentence that m and n repeats cannot show a difference, and
// how many can; "" where they can.
func TooFew(m, n, comparisons int) string {
	if leastP(m, n) <= Level/float64(comparisons) {
		return ""
	}
	s := fmt.Sprintf("%d and %d repeats are too few to find any difference", m, n)
	least := LeastRepeats(comparisons)
	if comparisons > 1 {
		return fmt.Sprintf("%s at p <= %.2g among %d comparisons at once: it takes %d + %d", s, Level, comparisons, least, least)
	}
	return fmt.Sprintf("%s at p <= %.2g: it takes %d + %d", s, Level, least, least)
}

// Power is the chance with which the number of repeats that RepeatsFor states
// finds the difference.
const Power = 0.9

// RepeatsFor is how many repeats of each side find a relative difference of
// effect (0.05: one side is 5 % above the other) in Power of all attempts, where
// repeats scatter by spread (a relative standard deviation, above 0) and
// comparisons (at least 1) are made at once. The scatter may be normal but for a
// tenth of all repeats, in which the machine stalls.
//
// Noether, Journal of the American Statistical Association 82 (1987) 645-647.
func RepeatsFor(effect, spread float64, comparisons int) int {
	above := 1 - upperTail(math.Abs(math.Log1p(effect))/(spread*math.Sqrt2)) // chance that a repeat of one side exceeds one of the other
	z := normalQuantile(1-Level/float64(comparisons)/2) + normalQuantile(Power)
	const calm = 0.9 * 0.9 // pairs of repeats, one of each side, of which neither stalls
	n := z * z / (6 * calm * calm * (above - 0.5) * (above - 0.5))
	return max(LeastRepeats(comparisons), int(math.Ceil(min(n, 1e6))))
}

// Spread is how far repeats scatter about the median of their own group, as a
// relative standard deviation: that of a normal distribution with their median
// absolute deviation, so that a few outliers do not make it. ok is false where
// no group has two samples, or where one is not positive. 0: they are all equal.
func Spread(groups ...[]float64) (spread float64, ok bool) {
	var away []float64
	for _, g := range groups {
		g = finite(g)
		if len(g) < 2 {
			continue
		}
		if slices.Min(g) <= 0 {
			return 0, false
		}
		ls := logs(g)
		slices.Sort(ls)
		m := median(ls)
		// The median lies nearer to the group's own samples than the truth does
		// (Croux, Rousseeuw, Computational Statistics 1 (1992) 411-428).
		few := float64(len(g)) / (float64(len(g)) - 0.8)
		for _, l := range ls {
			away = append(away, few*math.Abs(l-m))
		}
	}
	if len(away) == 0 {
		return 0, false
	}
	slices.Sort(away)
	return normalMAD * median(away), true
}

// normalMAD makes a standard deviation of a median absolute deviation.
const normalMAD = 1.482602218505602
