// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// CourseLevel is the chance that a series without any course is said to drift,
// and the chance that it is said to have changed. It is lower than Level because
// a report looks at many series.
const CourseLevel = 0.01

// A Course is what samples in the order of time say besides their median.
type Course struct {
	// Drift is the Theil-Sen estimate of how far the level went from the first
	// sample to the last, as a share of the median; 0 where there is no drift.
	Drift float64
	// Changes are the indexes of samples from which on the level is another one.
	Changes  []int
	Outliers []int // indexes of samples far from all others; they are kept
}

// Along looks at finite samples in the order of time, which have a positive
// median. The same samples always give the same answer.
func Along(samples []float64) Course {
	c := Course{Outliers: Outliers(samples)}
	if len(samples) < 3 {
		return c
	}
	slope, p := drift(samples)
	if p <= CourseLevel {
		c.Drift = slope * float64(len(samples)-1) / median(slices.Sorted(slices.Values(samples)))
	}
	c.Changes = changes(samples)
	return c
}

// Words say what the course does to the trust in a median, in sentences; what
// names the samples: "repeats".
func (c Course) Words(samples []float64, what string) (out []string) {
	for i, at := range c.Changes {
		from, to := 0, len(samples)
		if i > 0 {
			from = c.Changes[i-1]
		}
		if i+1 < len(c.Changes) {
			to = c.Changes[i+1]
		}
		by := middle(samples[at:to])/middle(samples[from:at]) - 1
		out = append(out, fmt.Sprintf("not stationary: from number %d of %d %s on, the level is another one, %s %s", at+1, len(samples), what, share(by), word(by, "higher", "lower")))
	}
	if len(c.Changes) > 0 {
		return out // far from the median is then no outlier, and no drift either
	}
	if c.Drift != 0 {
		out = append(out, fmt.Sprintf("not stationary: from the first to the last of %d %s the level drifts by %s %s", len(samples), what, share(c.Drift), word(c.Drift, "upwards", "downwards")))
	}
	if n := len(c.Outliers); n > 0 {
		m, most := middle(samples), c.Outliers[0]
		for _, i := range c.Outliers {
			if math.Abs(samples[i]-m) > math.Abs(samples[most]-m) {
				most = i
			}
		}
		by := samples[most]/m - 1
		far := fmt.Sprintf("number %d, %s %s their median", most+1, share(by), word(by, "above", "below"))
		if n == 1 {
			out = append(out, fmt.Sprintf("1 of %d %s lies far from the others, %s; it is kept", len(samples), what, far))
		} else {
			out = append(out, fmt.Sprintf("%d of %d %s lie far from the others, the farthest %s; they are kept", n, len(samples), what, far))
		}
	}
	return out
}

func middle(vs []float64) float64 { return median(slices.Sorted(slices.Values(vs))) }

// share has no sign: whoever gathers such sentences sees numbers alone.
func share(v float64) string {
	if v = math.Abs(v); v < 0.1 {
		return fmt.Sprintf("%.1f %%", v*100)
	}
	return fmt.Sprintf("%.0f %%", v*100)
}

func word(v float64, more, less string) string {
	if v > 0 {
		return more
	}
	return less
}

// mostPaired is more samples than a run has repeats: their pairs take 16 MB.
const mostPaired = 2000

// drift is the Theil-Sen slope a sample, the median of the slopes between all
// pairs, and the two-sided p-value of the Mann-Kendall test that there is none:
// exact without ties up to mostExact samples, else by the normal approximation
// with correction for ties and continuity. There are at least 2 samples; of more than
// mostPaired every second, third and so on is taken.
//
// Mann, Econometrica 13 (1945) 245-259; Kendall, Rank Correlation Methods;
// Sen, Journal of the American Statistical Association 63 (1968) 1379-1389.
func drift(samples []float64) (slope, p float64) {
	if step := (len(samples)-1)/mostPaired + 1; step > 1 {
		var some []float64
		for i := 0; i < len(samples); i += step {
			some = append(some, samples[i])
		}
		slope, p = drift(some)
		return slope / float64(step), p
	}
	n := len(samples)
	slopes := make([]float64, 0, n*(n-1)/2)
	s := 0 // pairs that rise less those that fall
	tied := false
	for i := range samples {
		for j := i + 1; j < n; j++ {
			slopes = append(slopes, (samples[j]-samples[i])/float64(j-i))
			switch {
			case samples[j] > samples[i]:
				s++
			case samples[j] < samples[i]:
				s--
			default:
				tied = true
			}
		}
	}
	slices.Sort(slopes)
	slope = median(slopes)
	if !tied && n <= mostExact {
		counts := inversions(n)
		all, far := 0.0, 0.0
		for k, c := range counts {
			all += c
			if abs(n*(n-1)/2-2*k) >= abs(s) {
				far += c
			}
		}
		return slope, far / all
	}
	_, ties := midranks(samples, nil)
	variance := float64(n * (n - 1) * (2*n + 5))
	for _, t := range ties {
		variance -= float64(t * (t - 1) * (2*t + 5))
	}
	if variance <= 0 || s == 0 {
		return slope, 1
	}
	return slope, min(1, 2*upperTail(float64(abs(s)-1)/math.Sqrt(variance/18)))
}

// inversions counts the orders of n samples by how many of their pairs fall.
func inversions(n int) []float64 {
	counts := []float64{1}
	for k := 2; k <= n; k++ { // the kth sample may stand before 0 ... k-1 others
		next := make([]float64, len(counts)+k-1)
		for i, c := range counts {
			for j := range k {
				next[i+j] += c / float64(k) // shares, for n! is too large
			}
		}
		counts = next
	}
	return counts
}

// leastSegment is how many samples stand between two changes at least: one or
// two samples are outliers, not a level.
const leastSegment = 3

// changes are the indexes at which the level changes, ascending: binary
// segmentation, each part tested by Pettitt's statistic against its own
// permutations.
//
// Pettitt, Applied Statistics 28 (1979) 126-135; Scott, Knott, Biometrics 30
// (1974) 507-512.
func changes(samples []float64) []int {
	if len(samples) < 2*leastSegment {
		return nil
	}
	ranks, _ := midranks(samples, nil)
	at, seen := pettitt(ranks)
	// The seed is fixed: a report of the same records says the same.
	random := rand.New(rand.NewPCG(1, uint64(len(samples))))
	const permutations = 1999
	far := 1 // the order seen is one of all
	for range permutations {
		random.Shuffle(len(ranks), func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
		if _, k := pettitt(ranks); k >= seen {
			far++
		}
		if float64(far)/(permutations+1) > CourseLevel {
			return nil
		}
	}
	out := append(changes(samples[:at]), at)
	for _, i := range changes(samples[at:]) {
		out = append(out, at+i)
	}
	return out
}

// pettitt is where ranks in the order of time are best parted in two, and how
// far the rank sum before it lies from its mean, in units of its own deviation.
// Without that unit the ends would hardly ever be found.
func pettitt(ranks []int) (at int, most float64) {
	n, sum := len(ranks), 0
	for i, r := range ranks {
		sum += r
		k := i + 1
		if k < leastSegment || n-k < leastSegment {
			continue
		}
		if u := math.Abs(float64(sum-k*(n+1))) / math.Sqrt(float64(k)*float64(n-k)); u > most {
			at, most = k, u
		}
	}
	return at, most
}

// Outliers are the indexes of samples whose distance from the median is more
// than 3.5 times the standard deviation that the median absolute deviation
// speaks for (Iglewicz, Hoaglin, How to Detect and Handle Outliers, 1993);
// none of fewer than 5 samples, nor where half of them are equal.
func Outliers(samples []float64) (at []int) {
	if len(samples) < 5 {
		return nil
	}
	m := middle(samples)
	away := make([]float64, len(samples))
	for i, v := range samples {
		away[i] = math.Abs(v - m)
	}
	scale := normalMAD * middle(away)
	if scale == 0 {
		return nil
	}
	for i := range samples {
		if away[i] > 3.5*scale {
			at = append(at, i)
		}
	}
	return at
}
