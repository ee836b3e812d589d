// SPDX-License-Identifier: Apache-2.0

// Package stat summarizes figures that were measured more than once. Pure. Medians and
// their intervals are benchmath's; ranks are compared here, for with ties benchmath is exact
// up to 25 samples only, and it has no interval of an effect.
package stat

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Confidence is the level of every interval that boxdyno prints.
const Confidence = 0.95

// A Summary is the median of repeats with an interval.
type Summary struct {
	Center float64 // median
	Lo, Hi float64 // order-statistic interval at Confidence; the range of the samples where Sure is false
	N      int
	Sure   bool // there are enough repeats for the interval
	// Warnings say in whole sentences what the summary does not know.
	Warnings []string
}

// Summarize makes no assumption about the distribution of samples and leaves
// their order alone. NaN and infinite samples are left out, with a warning; of
// none at all the summary is zero, with N = 0.
func Summarize(samples []float64) Summary {
	var s Summary
	var finite []float64
	for _, v := range samples {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			finite = append(finite, v)
		}
	}
	if n := len(samples) - len(finite); n > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%d of %d repeats are not numbers and were left out", n, len(samples)))
	}
	s.N = len(finite)
	if s.N == 0 {
		return s
	}
	sum := benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(finite), &benchmath.DefaultThresholds), Confidence)
	s.Center, s.Lo, s.Hi = sum.Center, sum.Lo, sum.Hi
	s.Sure = !math.IsInf(s.Lo, 0) && !math.IsInf(s.Hi, 0)
	if s.Sure {
		return s
	}
	s.Lo, s.Hi = slices.Min(finite), slices.Max(finite)
	if s.N == 1 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("measured once: nothing is known of how far a repeat would differ; %d repeats give a %g %% interval", leastN(), Confidence*100))
	} else {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%d repeats are too few for a %g %% interval (it takes %d): the range of the repeats is shown", s.N, Confidence*100, leastN()))
	}
	return s
}

// leastN is the least number of samples whose smallest and largest enclose the
// median at Confidence: 1 - 2 x 0.5^n.
func leastN() int { return int(math.Ceil(1 - math.Log2(1-Confidence))) }
