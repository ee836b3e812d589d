// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"slices"
)

// mostExact is how many samples two groups may have together for their rank sum
// to be tested by counting every way to part them; above it stands the normal
// approximation.
const mostExact = 50

// mannWhitney is the two-sided p-value of the Mann-Whitney U test (Wilcoxon's
// rank sum test) of x against y, neither empty: the share of all ways to part
// the pooled samples into groups of these sizes whose rank sum lies as far from
// its mean as the one seen. Ties have the mean of their ranks, and the share is
// exact with them too. 1 where all samples are equal.
//
// Mann, Whitney, Annals of Mathematical Statistics 18 (1947) 50-60; the count
// with ties after Streitberg, Röhmel, EDV in Medizin und Biologie 18 (1987) 12-19.
func mannWhitney(x, y []float64) float64 {
	m, n := len(x), len(y)
	total := m + n
	ranks, ties := midranks(x, y)
	sum := 0 // twice the rank sum of x, so that it is whole
	for _, r := range ranks[:m] {
		sum += r
	}
	away := abs(sum - m*(total+1)) // twice the distance from the mean
	if total <= mostExact {
		unit := 1
		if len(ties) == total { // ranks are whole
			unit = 2
			for i := range ranks {
				ranks[i] /= unit
			}
		}
		all, far := 0.0, 0.0
		for s, c := range rankSums(ranks, m) {
			all += c
			if abs(unit*s-m*(total+1)) >= away {
				far += c
			}
		}
		return far / all
	}
	t := 0.0
	for _, k := range ties {
		t += float64(k) * float64(k) * float64(k)
		t -= float64(k)
	}
	N := float64(total)
	sigma := math.Sqrt(float64(m) * float64(n) / 12 * (N + 1 - t/(N*(N-1))))
	if sigma == 0 {
		return 1
	}
	return min(1, 2*upperTail(max(float64(away)/2-0.5, 0)/sigma))
}

// midranks are twice the ranks of x, then of y, among all of them, and how often
// each value occurs.
func midranks(x, y []float64) (ranks, ties []int) {
	all := slices.Concat(x, y)
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case all[a] < all[b]:
			return -1
		case all[a] > all[b]:
			return 1
		}
		return 0
	})
	ranks = make([]int, len(all))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && all[order[j]] == all[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = i + 1 + j // twice the mean of i+1 ... j
		}
		ties = append(ties, j-i)
		i = j
	}
	return ranks, ties
}

// rankSums counts, for each sum, the ways to take m of ranks with that sum.
func rankSums(ranks []int, m int) []float64 {
	most := 0
	for _, r := range ranks {
		most += r
	}
	// ways[k][s]: k taken, sum s.
	ways := make([][]float64, m+1)
	for k := range ways {
		ways[k] = make([]float64, most+1)
	}
	ways[0][0] = 1
	reach := 0
	for i, r := range ranks {
		reach += r
		for k := min(i+1, m); k > 0; k-- {
			for s := reach; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	return ways[m]
}

// hodgesLehmann is the median of all differences y - x, and those two of them
// that enclose the shift from x to y at Confidence: the test by rank sums does
// not reject what lies between them. sure is false where too few samples have
// no such interval; lo and hi are then the least and greatest difference.
//
// Hodges, Lehmann, Annals of Mathematical Statistics 34 (1963) 598-611.
func hodgesLehmann(x, y []float64) (shift, lo, hi float64, sure bool) {
	m, n := len(x), len(y)
	diffs := make([]float64, 0, m*n)
	for _, a := range x {
		for _, b := range y {
			diffs = append(diffs, b-a)
		}
	}
	slices.Sort(diffs)
	k := leastDiff(m, n)
	sure = k >= 1
	k = max(k, 1)
	return median(diffs), diffs[k-1], diffs[len(diffs)-k], sure
}

// leastDiff is the rank, from either end, of the differences that end the
// interval of hodgesLehmann; 0 where there are too few.
func leastDiff(m, n int) int {
	half := (1 - Confidence) / 2
	if m+n > mostExact {
		mean, sigma := float64(m)*float64(n)/2, math.Sqrt(float64(m)*float64(n)*float64(m+n+1)/12)
		return int(max(0, math.Floor(mean-normalQuantile(1-half)*sigma)))
	}
	ranks := make([]int, m+n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	counts := rankSums(ranks, m)
	all, below := 0.0, 0.0
	for _, c := range counts {
		all += c
	}
	for k := 0; ; k++ { // U = k
		if below += counts[m*(m+1)/2+k]; below/all > half {
			return k
		}
	}
}

// median of sorted, which is not empty.
func median(sorted []float64) float64 {
	n := len(sorted)
	return sorted[(n-1)/2]/2 + sorted[n/2]/2
}

// upperTail is the chance that a standard normal variable exceeds z.
func upperTail(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// normalQuantile is the inverse of 1 - upperTail.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

func abs(n int) int { return max(n, -n) }
