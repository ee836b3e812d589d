// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		name    string
		samples []float64
		want    Summary
		warn    string
	}{
		{"none", nil, Summary{}, ""},
		{"one", []float64{7}, Summary{Center: 7, Lo: 7, Hi: 7, N: 1}, "measured once"},
		{"three", []float64{3, 1, 2}, Summary{Center: 2, Lo: 1, Hi: 3, N: 3}, "3 repeats are too few for a 95 % interval (it takes 6)"},
		{"five", []float64{5, 1, 4, 2, 3}, Summary{Center: 3, Lo: 1, Hi: 5, N: 5}, "5 repeats are too few"},
		{"six", []float64{6, 1, 5, 2, 4, 3}, Summary{Center: 3.5, Lo: 1, Hi: 6, N: 6, Sure: true}, ""},
		{"an outlier stays out of the median", []float64{10, 10, 10, 10, 10, 10, 10, 10, 900}, Summary{Center: 10, Lo: 10, Hi: 10, N: 9, Sure: true}, ""},
		{"not numbers", []float64{math.NaN(), 2, math.Inf(1)}, Summary{Center: 2, Lo: 2, Hi: 2, N: 1}, "2 of 3 repeats are not numbers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := slices.Clone(c.samples)
			got := Summarize(c.samples)
			if got.Center != c.want.Center || got.Lo != c.want.Lo || got.Hi != c.want.Hi || got.N != c.want.N || got.Sure != c.want.Sure {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if all := strings.Join(got.Warnings, "; "); !strings.Contains(all, c.warn) || c.warn == "" && all != "" {
				t.Errorf("warnings %q, want one with %q", all, c.warn)
			}
			if !slices.EqualFunc(before, c.samples, func(a, b float64) bool { return a == b || a != a && b != b }) {
				t.Errorf("the samples' order is signal and was changed: %v", c.samples)
			}
		})
	}
}
