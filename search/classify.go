// SPDX-License-Identifier: Apache-2.0

package search

import (
	"time"
)

// A class is what the trials at a load make of it.
type class int

const (
	undecided class = iota
	lowerBound
	upperBound
)

// classify judges a load by its own trials, all of them valid (RFC 9971 section
// 6.1). Those of length full and longer count in full. Of the shorter ones, those
// that lost count as far as they outweigh the clean ones, for what a short trial
// loses, a long one is likely to lose too. What is missing to sum is taken to be
// clean and to be lossy: the load is decided where both come to the same.
func (g Goal) classify(at []Seen, full, sum time.Duration) class {
	var clean, lossy, shortClean, shortLossy float64
	for _, t := range at {
		d := t.Duration.Seconds()
		switch long := t.Duration >= full; {
		case long && g.lost(t):
			lossy += d
		case long:
			clean += d
		case g.lost(t):
			shortLossy += d
		default:
			shortClean += d
		}
	}
	lossy += max(0, shortLossy-shortClean*g.Exceed/(1-g.Exceed))
	whole := max(clean+lossy, sum.Seconds())
	// Sums of durations are exact to far less than a trial.
	allowed := g.Exceed*whole + 1e-9
	switch {
	case lossy > allowed:
		return upperBound
	case whole-clean <= allowed:
		return lowerBound
	}
	return undecided
}
