// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"slices"
)

const (
	steadyBins  = 48    // at most, that a course is judged by
	steadyLeast = 4     // bins at least
	binLeast    = 16    // events of a bin
	tailBins    = 2     // too few for a level of their own
	levelSigmas = 5     // standard errors between two levels
	levelShare  = 0.004 // of a level, below which no other is told from it
	tailShare   = 0.05
)

// A Plateau is the stationary last part of a course of events.
type Plateau struct {
	From int     // the point it begins with
	Rate float64 // events a second in it
	Time float64 // s, how long it is
	// Falling: the very last of it, too short to be judged, is slower than the
	// rest. The course may have left the plateau.
	Falling bool
}

// Steady finds the longest last part of a course that is stationary: no split of
// it leaves two levels of rate that the noise cannot explain. at holds ascending
// instants in seconds, and n how many events came before each. Stalls are noise as
// long as fewer than half of a level's bins have one. Ok is false if there are too
// few points or events to tell, or if only the end of the course is left.
func Steady(at, n []float64) (p Plateau, ok bool) {
	edges := bins(at, n)
	rates := make([]float64, 0, len(edges))
	grain := 0.0 // counts are whole: two levels of one rate may be one event of a bin apart
	for i := 1; i < len(edges); i++ {
		a, b := edges[i-1], edges[i]
		rates = append(rates, (n[b]-n[a])/(at[b]-at[a]))
		grain = max(grain, 1/(at[b]-at[a]))
	}
	for k := 0; k+steadyLeast <= len(rates); k++ {
		if stepped(rates[k:], grain) {
			continue
		}
		from, to := edges[k], len(at)-1
		p = Plateau{From: from, Time: at[to] - at[from]}
		p.Rate = slope(at[from:], n[from:])
		p.Falling = falling(rates[k:])
		return p, true
	}
	return p, false
}

// bins returns the points between which the bins lie, as equal in time as the
// points allow.
func bins(at, n []float64) (edges []int) {
	last := len(at) - 1
	if last < steadyLeast || len(n) != len(at) || !(at[last] > at[0]) {
		return nil
	}
	want := min(steadyBins, last, int((n[last]-n[0])/binLeast))
	if want < steadyLeast {
		return nil
	}
	edges = append(edges, 0)
	for i := 1; i <= last; i++ {
		if due := at[0] + (at[last]-at[0])*float64(len(edges))/float64(want); at[i] >= due-1e-9 || i == last {
			if at[i] > at[edges[len(edges)-1]] {
				edges = append(edges, i)
			}
		}
	}
	return edges
}

// stepped says whether some split of rates leaves two levels more than a grain apart.
func stepped(rates []float64, grain float64) bool {
	for j := 1; j+tailBins < len(rates); j++ {
		left, right := middle(rates[:j]), middle(rates[j:])
		off := make([]float64, len(rates))
		for i, r := range rates {
			if off[i] = math.Abs(r - left); i >= j {
				off[i] = math.Abs(r - right)
			}
		}
		// 1.4826: of a normal distribution, sigma by the median deviation; 1.2533: the
		// standard error of a median.
		se := 1.2533 * 1.4826 * middle(off) * math.Sqrt(1/float64(j)+1/float64(len(rates)-j))
		if math.Abs(left-right) > max(levelSigmas*se, levelShare*right, 1.1*grain) {
			return true
		}
	}
	return false
}

// slope returns the median rate over all stretches of half the course. After a stall
// a bucket lets pass at once what it gained meanwhile: the few stretches that begin or
// end in between are wrong, and do not count.
func slope(at, n []float64) float64 {
	last := len(at) - 1
	half := (at[last] - at[0]) / 2
	var rates []float64
	for i, j := 0, 0; i < last; i++ {
		for j < last && at[j]-at[i] < half {
			j++
		}
		if at[j]-at[i] >= half {
			rates = append(rates, (n[j]-n[i])/(at[j]-at[i]))
		}
	}
	return middle(rates)
}

// falling says whether the last bins are slower than the rest.
func falling(rates []float64) bool {
	j := len(rates) - tailBins
	level := middle(rates[:j])
	return slices.Min(rates[j:]) < level*(1-tailShare) && slices.Min(rates[j:]) < slices.Min(rates[:j])
}
