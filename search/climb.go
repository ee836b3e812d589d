// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"slices"
	"time"

	"boxdyno/unit"
)

// climb takes all goals up their ladders, short trials before long ones; of full
// length, one goal after the other, the throughput first.
func (s Search) climb(history []Seen) (Step, bool) {
	longest := time.Duration(0)
	for _, g := range s.Goals {
		longest = max(longest, g.Final)
	}
	for d := time.Duration(0); d < longest; {
		next := longest
		for _, g := range s.Goals {
			for k, r := range g.ladder() {
				if r.trial >= g.Final || r.trial < d {
					continue
				}
				if r.trial > d {
					next = min(next, r.trial)
					continue
				}
				if step, more := s.rung(g, k, history); more {
					return step, true
				}
			}
		}
		d = next
	}
	for _, g := range s.Goals {
		for k, r := range g.ladder() {
			if r.trial < g.Final {
				continue
			}
			if step, more := s.rung(g, k, history); more {
				return step, true
			}
		}
	}
	return Step{}, false
}

// rung is the trial that brings goal g nearer to the end of rung k; false: it is
// there.
func (s Search) rung(g Goal, k int, history []Seen) (Step, bool) {
	r := g.ladder()[k]
	v := g.see(history, r)
	if step, more := s.nearer(g, k, history, r, v); more || !r.last || g.Lossy == 0 {
		return step, more
	}
	return g.again(v)
}

// spare is how many trials more the lower bound gets where it was offered less
// than was asked for.
const spare = 2

// again tries the lower bound once more where the tester, which was held up, has
// offered so much less there that the bound as offered is that of another load.
func (g Goal) again(v view) (Step, bool) {
	n := 0
	for _, t := range v.clean {
		if t.Rate >= v.lo {
			n++
		}
	}
	lower, upper := g.offered(v)
	short := v.inversions == 0 && lower > 0 && upper > 0 && float64(upper-lower) > g.Width*float64(upper) && float64(lower) < float64(v.lo)*(1-g.Width/4)
	return Step{v.lo, g.Final}, short && n < int(g.Sum/g.Final)+spare && !slices.Contains(v.dead, v.lo)
}

func (s Search) nearer(g Goal, k int, history []Seen, r rung, v view) (Step, bool) {
	undecided := r.last && v.lo > 0 && v.wall < v.hi && v.bottom < inf // between the bounds, not below the tester's end
	if g.Lossy > 0 && (v.inversions > 0 || undecided) {                // no threshold
		if !r.last {
			return Step{}, false
		}
		return s.walk(g, v)
	}
	if load, again := g.doubted(v); again {
		return Step{load, r.trial}, true
	}
	var before view
	before.hi = inf
	if k > 0 {
		before = g.see(history, g.ladder()[k-1])
	}
	hi := min(v.hi, v.wall)
	if v.lo == 0 { // the lower bound is to be sought below every load that lost
		hi = min(hi, v.bottom)
	}
	load, more := s.between(g, r, v, before, v.lo, hi)
	if !more {
		return Step{}, false
	}
	if load = s.at(load); load == v.shunned && g.Lossy > 0 {
		load = s.at(load * unit.FrameRate(1+g.Width/3))
	}
	if load <= v.lo || load >= hi {
		return Step{}, false
	}
	return Step{load, g.length(r, v, load)}, true
}

// doubted is the first load at which a strict goal's search lost against a
// forecast; it is tried once or twice more before it is believed.
func (g Goal) doubted(v view) (unit.FrameRate, bool) {
	if g.Lossy == 0 {
		return 0, false
	}
	for i, t := range v.lossy {
		if !g.unforeseen(v.lossy[:i], t) {
			continue
		}
		clean, lossy := 0, 0
		for _, o := range v.all {
			switch {
			case o.Rate != t.Rate:
			case g.lost(o):
				lossy++
			default:
				clean++
			}
		}
		return t.Rate, lossy == 1 && clean < 2 && !slices.Contains(v.dead, t.Rate)
	}
	return 0, false
}

// unforeseen says whether t lost at a load below the forecast of a trial before.
func (g Goal) unforeseen(before []Seen, t Seen) bool {
	return slices.ContainsFunc(before, func(o Seen) bool {
		return o.Duration >= t.Duration && g.implies(o) > float64(t.Rate)*(1+g.Width/8)
	})
}

// implies is the limit if the box forwards as much at every load above it as in t.
func (g Goal) implies(t Seen) float64 { return t.forwarded() / (1 - float64(g.Loss)) }

// length is how long a trial at load is to be: as long as the rung asks for, but
// where no frame may ever be lost, and the forecast of shorter trials lies below a
// load above the lower bound, it is as short.
func (g Goal) length(r rung, v view, load unit.FrameRate) time.Duration {
	if g.Loss > 0 || g.Exceed > 0 || v.lo == 0 || load <= v.lo {
		return r.trial
	}
	for d := g.Initial; d < r.trial; d *= 4 {
		best, tried := inf, false
		for _, t := range v.all {
			if t.Duration != d {
				continue
			}
			if t.Loss > 0 {
				best = min(best, unit.FrameRate(t.forwarded()))
			} else if t.Rate >= load {
				tried = true
			}
		}
		if !tried && load > best*unit.FrameRate(1+0.1*g.Width) {
			return d
		}
	}
	return r.trial
}

// between is the load to try between lo and hi; false: they are near enough.
func (s Search) between(g Goal, r rung, v, before view, lo, hi unit.FrameRate) (unit.FrameRate, bool) {
	forecast, misses, length := g.forecast(v)
	if length > r.trial && misses == 0 { // a longer trial says more than any of this rung
		return 0, false
	}
	width := r.width
	if !r.last {
		width = min(coarse, width*math.Pow(stride, float64(misses)))
	}
	if v.wall < v.hi {
		width = max(width, blur)
		if !r.last {
			width = coarse
		}
	}
	step := 1 + min(2, near*r.width*math.Pow(stride, float64(misses+len(v.dead))))
	below := forecast / step
	above := forecast * (1 + near*r.width)
	if lo > 0 { // as near as the width asks
		above = min(above, max(float64(lo)/(1-0.85*r.width), forecast*(1+0.15*r.width)))
	}
	none := math.IsInf(float64(hi), 1)
	inside := func(x unit.FrameRate) bool { return x > lo && x < hi }
	switch {
	case none && lo == 0:
		if inside(before.lo) {
			return before.lo, true
		}
		if inside(before.hi) {
			return before.hi, true
		}
		return s.Guess, true
	case lo == 0 && hi <= s.floor():
		return 0, false
	case lo == 0:
		if (misses > 0 || forecast == 0) && inside(before.lo) {
			return before.lo, true
		}
		if forecast == 0 {
			return hi / 2, true
		}
		return max(min(unit.FrameRate(below), hi/unit.FrameRate(step)), s.floor()), true
	case none && lo >= s.Max:
		return 0, false
	case !none && float64(hi-lo) <= width*float64(hi):
		return 0, false
	}
	if misses == 0 && float64(lo) < forecast*(1+0.1*r.width) {
		if x := unit.FrameRate(below); inside(x) && float64(lo) < forecast*(1-0.7*r.width) {
			return x, true
		}
		if x := unit.FrameRate(above); inside(x) {
			return x, true
		}
	}
	if none {
		if inside(before.hi) {
			return before.hi, true
		}
		steps := map[unit.FrameRate]bool{}
		for _, t := range v.clean {
			steps[t.Rate] = true
		}
		return lo * unit.FrameRate(1+r.width*math.Pow(stride, float64(len(steps)-1))), true
	}
	return unit.FrameRate(math.Sqrt(float64(lo) * float64(hi))), true
}

const (
	// near is how far from a forecast a load is tried, in widths: what is offered
	// differs from what is asked, so there is some room.
	near = 0.4
	// stride is the factor by which steps grow that did not get there.
	stride = 8
	// coarse is how wide the bounds of a short rung may be at most.
	coarse = 0.7
)

// forecast is where the limit lies if the box forwards as much at every load
// above it as in the longest trials that lost frames, of those at the lowest load;
// 0: none lost any. Misses counts the loads that lost against such a forecast;
// length is that of those trials.
func (g Goal) forecast(v view) (forecast float64, misses int, length time.Duration) {
	var from Seen
	sum, n := 0.0, 0
	for _, t := range v.all {
		if t.Loss == 0 || t.Duration < from.Duration || t.Duration == from.Duration && n > 0 && t.Rate > from.Rate {
			continue
		}
		if t.Duration > from.Duration || t.Rate < from.Rate {
			from, sum, n = t, 0, 0
		}
		sum, n = sum+g.implies(t), n+1
	}
	wrong := map[unit.FrameRate]bool{}
	for i, t := range v.lossy {
		if g.unforeseen(v.lossy[:i], t) {
			wrong[t.Rate] = true
		}
	}
	if n == 0 {
		return 0, len(wrong), 0
	}
	return sum / float64(n), len(wrong), from.Duration
}

// blur is the least step of a walk, and how near the tester's own limit is looked
// for.
const blur = 0.05

// growth is the n-th step of a walk, as a factor: 1 + 4, 8, 16, 32 blurs.
func growth(n int) unit.FrameRate { return unit.FrameRate(1 + blur*math.Exp2(float64(min(n, 4)+1))) }

// outvote is the highest clean load, where the one trial that lost at or below it
// can be outvoted and so raise the lower bound by more than a width.
func (g Goal) outvote(v view) (load unit.FrameRate, more bool) {
	if v.lo == 0 || v.inversions != 1 || float64(v.lo) >= float64(v.top)*(1-g.Width) || v.lossyTo(v.top) > outvoted || slices.Contains(v.dead, v.top) {
		return 0, false
	}
	return v.top, true
}

// walk finds the bounds of a strict goal where some trials lost at or below loads
// that others carried: the lower one goes down from the lowest load that lost and
// the upper one up from the highest that did not, in growing steps, until each is
// confirmed.
func (s Search) walk(g Goal, v view) (Step, bool) {
	if v.lo == 0 {
		under := unit.FrameRate(0)
		for _, t := range v.clean {
			if t.Rate < min(v.bottom, v.wall) && v.lossyTo(t.Rate) <= outvoted {
				under = max(under, t.Rate)
			}
		}
		if under > 0 { // what was clean once may be so again
			return Step{under, g.Final}, true
		}
		low := min(v.bottom, v.wall)
		for _, t := range v.lossy { // outweighed or not, below them lies what can be confirmed
			low = min(low, t.Rate)
		}
		if r := low / growth(v.below+len(v.dead)); r >= s.floor() {
			return Step{s.at(r), g.Final}, true
		}
	}
	if load, more := g.outvote(v); more {
		return Step{load, g.Final}, true
	}
	if !math.IsInf(float64(v.hi), 1) || v.top >= s.Max {
		return Step{}, false
	}
	hi := inf
	for _, t := range v.lossy {
		if t.Rate > v.top {
			hi = min(hi, t.Rate)
		}
	}
	if math.IsInf(float64(hi), 1) {
		hi = s.at(v.top * growth(v.against))
	}
	if slices.Contains(v.dead, hi) {
		return Step{}, false
	}
	return Step{hi, g.Final}, true
}
