// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"slices"
	"time"

	"boxdyno/unit"
)

// A Limit is what a history says of a goal. Its rates are offered (measured)
// ones; but where the tester stood still amid a lossy trial of a strict goal, that which
// was asked for. A trial is lossy here when it lost more than the goal allows, else clean.
type Limit struct {
	Goal Goal
	// Lower is the relevant lower bound; 0: none. Of a strict goal: the highest
	// load at or above which full-length trials of the goal's Sum were clean, and two
	// more where one, but no more, was lossy at or below it. Else the highest load below Upper that RFC 9971
	// classifies as a lower bound.
	Lower unit.FrameRate
	// Upper is the relevant upper bound; 0: none is known, and the limit may lie
	// anywhere above Lower. Of a strict goal: the lowest load above every clean
	// full-length trial up to which, from the highest clean load on, as many trials
	// were lossy as the goal asks for. Else the lowest load that RFC 9971
	// classifies as an upper bound.
	Upper unit.FrameRate
	// AtCeiling: no trial that counts was lossy, up to the highest load worth offering or
	// to one that the tester could not offer.
	AtCeiling bool
	// Sharp: both bounds are known, nothing contradicted them, and they are not
	// further apart than the goal's Width.
	Sharp bool
	// Inversions counts lossy trials at or below the load of a clean one that was
	// as long or longer.
	Inversions int
	// Interim: the search was not over, and one trial of full length is enough for a
	// bound: Lower is the highest clean load below which nothing was lossy, Upper the
	// lowest lossy one above every clean one. Where lossy trials and clean ones contradict
	// each other, Upper takes as many lossy ones as the goal asks for.
	Interim               bool
	Clean, Lossy, Invalid int // trials
}

// Limits is what history says of each goal, in the preset's order.
func (s Search) Limits(history []Seen) (out []Limit) {
	for _, g := range s.Goals {
		l := s.limit(g, history)
		// What one goal allows a looser one does, and what the looser one does not
		// allow neither does the other.
		if n := len(out); n > 0 && g.Loss >= out[n-1].Goal.Loss {
			l.Lower = max(l.Lower, out[n-1].Lower)
		}
		if n := len(out); n > 0 && l.Upper > 0 && g.Loss >= out[n-1].Goal.Loss {
			l.Upper = max(l.Upper, out[n-1].Upper)
			l.Sharp = l.Sharp && l.near()
		}
		out = append(out, l)
	}
	return out
}

// Interim is Limit of a search that is not over.
func (s Search) Interim(history []Seen) Limit {
	l := s.Limit(history)
	if l.Lower > 0 && l.Upper > 0 {
		return l
	}
	g := s.Goals[0]
	told := byOffered(valid(g.told(history)))
	bottom, low, top, asked := inf, unit.FrameRate(0), unit.FrameRate(0), unit.FrameRate(0)
	for _, t := range told {
		if g.lost(t) {
			bottom = min(bottom, t.Offered)
		}
	}
	for _, t := range told {
		if g.lost(t) || t.Duration < g.Final {
			continue
		}
		if top, asked = max(top, t.Offered), max(asked, t.Rate); t.Offered < bottom {
			low = max(low, t.Offered)
		}
	}
	above := func(t Seen) bool { return t.Rate > asked && t.Offered > top }
	upper, need := inf, 1
	if slices.ContainsFunc(told, func(t Seen) bool { return g.lost(t) && !above(t) }) {
		need = max(need, g.Lossy)
	}
	for _, t := range told {
		if !g.lost(t) || !above(t) {
			continue
		}
		if need--; need == 0 {
			upper = t.Offered
		}
	}
	if l.Lower == 0 {
		l.Lower, l.Interim = low, low > 0
	}
	if l.Upper == 0 && upper < inf {
		l.Upper, l.Interim = upper, true
	}
	return l
}

// Limit is what history says of the first goal, the throughput or NDR.
func (s Search) Limit(history []Seen) Limit { return s.limit(s.Goals[0], history) }

func (s Search) limit(g Goal, history []Seen) Limit {
	ladder := g.ladder()
	v := g.see(history, ladder[len(ladder)-1])
	l := Limit{Goal: g, Inversions: v.inversions}
	for _, t := range g.told(history) {
		switch {
		case !t.Valid:
			l.Invalid++
		case g.lost(t):
			l.Lossy++
		default:
			l.Clean++
		}
	}
	if g.Lossy > 0 {
		l.Lower, l.Upper = g.offered(v)
	} else {
		l.Lower = g.median(v.clean, v.lo)
		l.Upper = g.median(v.lossy, v.hi)
		if l.Upper > 0 && l.Upper < l.Lower { // loads asked for in one order were offered in the other
			l.Lower, l.Upper = l.Upper, l.Lower
			l.Inversions++
		}
	}
	atWall := v.wall < inf && float64(v.wall-v.lo) <= max(blur, g.Width)*float64(v.wall)
	l.AtCeiling = l.Lower > 0 && len(v.lossy) == 0 && (v.lo >= s.Max || atWall)
	l.Sharp = l.Lower > 0 && l.Upper > 0 && l.Inversions == 0 && l.near()
	return l
}

func (l Limit) near() bool { return float64(l.Upper-l.Lower) <= l.Goal.Width*float64(l.Upper) }

// offered are a strict goal's bounds as offered loads. They hold by what was
// asked and by what was offered.
func (g Goal) offered(v view) (lower, upper unit.FrameRate) {
	sum := time.Duration(0)
	for _, t := range slices.Backward(byOffered(v.clean)) {
		against := 0
		for _, l := range v.lossy {
			if l.Rate <= t.Rate || l.Offered <= t.Offered {
				against++
			}
		}
		if sum += t.Duration; against <= outvoted && sum >= g.Sum+time.Duration(outvotes*against)*g.Final {
			lower = t.Offered
			break
		}
	}
	n := g.need(v)
	for _, t := range byOffered(v.lossy) {
		if t.Rate <= v.top || t.Offered <= v.high {
			continue
		}
		if n--; n == 0 {
			upper = t.Offered
			break
		}
	}
	return lower, upper
}

func byOffered(trials []Seen) []Seen {
	return slices.SortedFunc(slices.Values(trials), func(a, b Seen) int { return cmp.Compare(a.Offered, b.Offered) })
}

// median is the median offered load of the trials that were asked for load; 0:
// there is none.
func (g Goal) median(trials []Seen, load unit.FrameRate) unit.FrameRate {
	var at []unit.FrameRate
	for _, t := range trials {
		if t.Rate == load {
			at = append(at, t.Offered)
		}
	}
	if len(at) == 0 {
		return 0
	}
	slices.Sort(at)
	return at[(len(at)-1)/2]
}
