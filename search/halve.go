// SPDX-License-Identifier: Apache-2.0

package search

import (
	"slices"

	"boxdyno/unit"
)

// halve is the slow twin of climb: for each goal plain bisection from the highest
// load, each load tried at full length until it is decided.
func (s Search) halve(history []Seen) (Step, bool) {
	for _, g := range s.Goals {
		told := g.told(history)
		dead, _ := beyond(history, told)
		lo, hi := unit.FrameRate(0), inf
		for try := s.Max; ; try = s.at((lo + hi) / 2) {
			if try <= lo || try >= hi {
				break
			}
			at := told[:0:0]
			for _, t := range told {
				if t.Valid && t.Rate == try {
					at = append(at, t)
				}
			}
			c := g.decide(at)
			if slices.Contains(dead, try) {
				c = upperBound
			}
			switch c {
			case undecided:
				return Step{try, g.Final}, true
			case lowerBound:
				lo = try
			case upperBound:
				hi = try
			}
			if lo >= s.Max || hi <= s.floor() || float64(hi-lo) <= g.Width*float64(hi) {
				break
			}
		}
	}
	return Step{}, false
}

// decide classifies a load by its own trials. A strict goal's load is decided by
// as many as its bounds ask for; one that did both is no lower bound.
func (g Goal) decide(at []Seen) class {
	if g.Lossy == 0 {
		return g.classify(at, g.Final, g.Sum)
	}
	lossy := 0
	for _, t := range at {
		if g.lost(t) {
			lossy++
		}
	}
	switch {
	case lossy >= g.Lossy || lossy > 0 && len(at) >= 2*g.Lossy:
		return upperBound
	case lossy == 0:
		return g.classify(at, g.Final, g.Sum)
	}
	return undecided
}
