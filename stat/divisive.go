// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/mathx"
)

// What Levels is set to, as Apache Otava is by default.
const (
	divisiveWindow = 50           // samples that are looked at together
	divisiveFirst  = ChangeP * 10 // p-value of a change that is looked at more closely
)

// ChangeP is the p-value below which Levels calls a difference of two neighbouring
// levels a change.
const ChangeP = 0.001

// A Change is where the level of a series becomes another one.
type Change struct {
	At            int     // index of the first sample of the new level
	Before, After float64 // means of the levels before and after it
	P             float64 // of Student's t-test of the two levels
}

// Levels finds the samples, in the order of time, from which on the level is another one:
// E-Divisive with means, as Apache Otava has it. It looks at windows of 50 samples that
// overlap. In each it parts the samples where the energy distance of the two sides is
// largest, as long as Student's t-test of the sides has a p-value of at most 0.01. Then it
// drops the least significant change until all have one below ChangeP. Samples are finite.
// The same samples always give the same answer.
//
// Unlike Along, which looks at the repeats of one run, it finds a level of one or two
// samples if they lie far away.
//
// Matteson, James, Journal of the American Statistical Association 109 (2014) 334-345;
// Fleming et al., Hunter: Using Change Point Detection to Hunt for Performance
// Regressions, ICPE 2023.
func Levels(samples []float64) []Change {
	var at []int
	d := new(distances)
	for start := 0; start < len(samples); {
		window := samples[start:min(start+divisiveWindow, len(samples))]
		found := d.divide(window)
		last := 0
		for _, i := range found {
			at = append(at, start+i)
			last = start + i
		}
		start = max(last, start+divisiveWindow/2)
	}
	slices.Sort(at)
	return weigh(samples, slices.Compact(at))
}

// divide returns the indexes at which one window changes, ascending.
func (d *distances) divide(window []float64) (at []int) {
	d.of(window)
	for {
		best, most := 0, math.Inf(-1)
		for i := 0; i <= len(at); i++ {
			from, to := ends(at, i, len(window))
			if to-from < 2 {
				continue
			}
			if tau, q := d.part(from, to); q > most {
				best, most = tau, q
			}
		}
		if math.IsInf(most, -1) {
			return at
		}
		i, _ := slices.BinarySearch(at, best)
		from, to := ends(at, i, len(window))
		if p := student(window[from:best], window[best:to]); !(p <= divisiveFirst) {
			return at
		}
		at = slices.Insert(at, i, best)
	}
}

// ends are those of the ith of the levels that changes at at part.
func ends(at []int, i, n int) (from, to int) {
	to = n
	if i > 0 {
		from = at[i-1]
	}
	if i < len(at) {
		to = at[i]
	}
	return from, to
}

// distances holds sums of the distances of all pairs of samples in a window: of samples
// before i to samples before j.
type distances struct {
	sum [divisiveWindow + 1][divisiveWindow + 1]float64 // the first row and column are 0
}

// of takes the samples of a window.
func (d *distances) of(vs []float64) {
	for i, v := range vs {
		row := 0.0
		for j, w := range vs {
			row += math.Abs(v - w)
			d.sum[i+1][j+1] = d.sum[i][j+1] + row
		}
	}
}

// between is the sum of the distances of samples a ... b-1 to samples c ... d-1.
func (d *distances) between(a, b, c, e int) float64 {
	return d.sum[b][e] - d.sum[a][e] - d.sum[b][c] + d.sum[a][c]
}

// part is the tau of the pair tau, kappa for which samples from ... tau-1 and
// tau ... kappa-1 lie farthest from each other, and how far: their scaled energy distance
// (equation 7 of Matteson and James).
func (d *distances) part(from, to int) (best int, most float64) {
	most = math.Inf(-1)
	for tau := from + 1; tau < to; tau++ {
		n := float64(tau - from)
		left := 0.0
		if tau-from > 1 {
			left = d.between(from, tau, from, tau) / 2 / (n - 1)
		}
		for kappa := tau + 1; kappa <= to; kappa++ {
			m := float64(kappa - tau)
			right := 0.0
			if kappa-tau > 1 {
				right = d.between(tau, kappa, tau, kappa) / 2 / (m - 1)
			}
			if q := 2 / (m + n) * (d.between(from, tau, tau, kappa) - m*left - n*right); q > most {
				best, most = tau, q
			}
		}
	}
	return best, most
}

// weigh drops changes until all that are left are significant. As in Otava, what is
// dropped changes the weight of the two changes after it, and not of the one before it.
func weigh(samples []float64, at []int) []Change {
	all := make([]Change, len(at))
	state := func(i int) {
		if i >= len(at) {
			return
		}
		from, _ := ends(at, i, len(samples))
		_, to := ends(at, i+1, len(samples))
		left, right := samples[from:at[i]], samples[at[i]:to]
		all[i] = Change{at[i], mean(left), mean(right), student(left, right)}
	}
	for i := range at {
		state(i)
	}
	for len(all) > 0 {
		weakest := 0
		for i, c := range all {
			if c.P > all[weakest].P {
				weakest = i
			}
		}
		if all[weakest].P < ChangeP {
			for i, c := range all {
				if c.magnitude() < all[weakest].magnitude() {
					weakest = i
				}
			}
			if all[weakest].magnitude() > 0 {
				break
			}
		}
		all, at = slices.Delete(all, weakest, weakest+1), slices.Delete(at, weakest, weakest+1)
		state(weakest)
		state(weakest + 1)
	}
	for i := range all { // what is told is that of the levels that are left
		state(i)
	}
	return all
}

// magnitude is the larger share of the two levels by which they differ.
func (c Change) magnitude() float64 {
	share := func(a, b float64) float64 {
		if a == 0 {
			return 0
		}
		return math.Abs(b/a - 1)
	}
	return max(share(c.Before, c.After), share(c.After, c.Before))
}

// mean of equal samples is exactly theirs: rounding must not look like a difference.
func mean(vs []float64) float64 {
	sum := 0.0
	for _, v := range vs {
		sum += v - vs[0]
	}
	return vs[0] + sum/float64(len(vs))
}

// student is the two-sided p-value of Student's t-test that x and y, neither empty, have
// one mean. As in Otava the deviations are those of whole populations, which makes p a
// little smaller; 1 where all samples are equal, or there are two.
func student(x, y []float64) float64 {
	m, n := float64(len(x)), float64(len(y))
	if m+n <= 2 {
		return 1
	}
	pooled := ((m-1)*variance(x) + (n-1)*variance(y)) / (m + n - 2)
	away := math.Abs(mean(x) - mean(y))
	if away == 0 {
		return 1
	}
	t := away / math.Sqrt(pooled*(1/m+1/n))
	if math.IsInf(t, 0) {
		return 0
	}
	return mathx.BetaInc((m+n-2)/(m+n-2+t*t), (m+n-2)/2, 0.5)
}

// variance is that of vs as a whole population.
func variance(vs []float64) float64 {
	m, sum := mean(vs), 0.0
	for _, v := range vs {
		sum += (v - m) * (v - m)
	}
	return sum / float64(len(vs))
}
