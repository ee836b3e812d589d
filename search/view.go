// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"boxdyno/unit"
)

// A rung is one step of a goal's ladder: trials of this length at least, so much
// of them at a load, the bounds so near.
type rung struct {
	trial, sum time.Duration
	width      float64
	last       bool
}

// ladder goes from the first trials to full length in factors of four, and from
// one full-length trial at a load to all of them. Each rung is half as wide as
// the one before, but for the last two.
func (g Goal) ladder() (out []rung) {
	for d := g.Initial; d < g.Final; d *= 4 {
		out = append(out, rung{trial: d, sum: d})
	}
	if g.Sum > g.Final {
		out = append(out, rung{trial: g.Final, sum: g.Final})
	}
	out = append(out, rung{trial: g.Final, sum: g.Sum, last: true})
	width := g.Width
	for i := len(out) - 1; i >= 0; i-- {
		out[i].width = width
		if i > 0 && out[i-1].trial < g.Final {
			width *= 2
		}
	}
	return out
}

// lost says whether t lost more than g allows.
func (g Goal) lost(t Seen) bool { return t.Loss > g.Loss }

// need is how many lossy trials make a strict goal's upper bound: twice as many
// where trials contradict each other.
func (g Goal) need(v view) int { return g.Lossy * (1 + min(v.inversions, 1)) }

// A view is a history by asked load, as one goal sees it from one rung.
type view struct {
	lo, hi     unit.FrameRate   // relevant bounds (RFC 9971 section 4.8); 0 and +Inf: none
	all        []Seen           // valid trials
	clean      []Seen           // low-loss trials as long as the rung's
	lossy      []Seen           // high-loss trials that count
	top, high  unit.FrameRate   // highest asked and offered of clean; where there are inversions, of shorter ones too
	bottom     unit.FrameRate   // lowest of lossy that is not outweighed; +Inf: none
	inversions int              // lossy trials at or below a clean one that was as long
	below      int              // lossy trials at or below top
	against    int              // clean trials of any length at or above bottom
	dead       []unit.FrameRate // beyond the tester
	shunned    unit.FrameRate   // in doubt too often; 0: none
	wall       unit.FrameRate   // lowest of dead; +Inf: none
}

// see is history as g sees it from rung r.
func (g Goal) see(history []Seen, r rung) view {
	told := g.told(history)
	v := view{bottom: inf, wall: inf, all: valid(told)}
	v.dead, v.shunned = beyond(history, told)
	for _, d := range v.dead {
		v.wall = min(v.wall, d)
	}
	v.clean, v.lossy = make([]Seen, 0, len(v.all)), make([]Seen, 0, len(v.all))
	highest := map[time.Duration]unit.FrameRate{} // clean load of trials of a length
	for _, t := range v.all {
		switch {
		case !g.lost(t):
			highest[t.Duration] = max(highest[t.Duration], t.Rate)
			if t.Duration >= r.trial {
				v.clean = append(v.clean, t)
				v.top, v.high = max(v.top, t.Rate), max(v.high, t.Offered)
			}
		case t.Duration < r.trial && g.Loss > 0 && g.Lossy > 0:
			// A stall weighs more in a short trial, so that its loss ratio says
			// nothing of a longer one; but a frame lost is lost in both.
		default:
			v.lossy = append(v.lossy, t)
		}
	}
	for _, t := range v.lossy {
		if g.Lossy == 0 || !v.outweighed(t) {
			v.bottom = min(v.bottom, t.Rate)
		}
	}
	for _, t := range v.lossy {
		for d, rate := range highest {
			if d >= t.Duration && rate >= t.Rate {
				v.inversions++
				break
			}
		}
	}
	for _, t := range v.all {
		if g.lost(t) {
			continue
		}
		if v.inversions > 0 {
			v.top, v.high = max(v.top, t.Rate), max(v.high, t.Offered)
		}
		if t.Rate >= v.bottom {
			v.against++
		}
	}
	for _, t := range v.lossy {
		if t.Rate <= v.top {
			v.below++
		}
	}
	if g.Lossy > 0 {
		v.lo, v.hi = g.pooled(v, r)
	} else {
		v.lo, v.hi = g.relevant(v, r)
	}
	return v
}

// outweighed says whether at least twice as many trials that were clean at or above
// the load of a lossy one speak against it as lossy ones at or below its load do
// for it: a box stands still now and then at any load.
func (v view) outweighed(t Seen) bool {
	against := 0
	for _, c := range v.clean {
		if c.Rate >= t.Rate {
			against++
		}
	}
	return against >= 2*v.lossyTo(t.Rate)
}

// lossyTo is how many trials lost at or below a load.
func (v view) lossyTo(load unit.FrameRate) (n int) {
	for _, t := range v.lossy {
		if t.Rate <= load {
			n++
		}
	}
	return n
}

// A lower bound holds against at most this many lossy trials, for each of which it
// takes so many more clean full-length ones.
const (
	outvoted = 1
	outvotes = 2
)

// pooled are the bounds of a strict goal.
func (g Goal) pooled(v view, r rung) (lo, hi unit.FrameRate) {
	sum := time.Duration(0)
	for _, t := range slices.Backward(byRate(v.clean)) {
		against := v.lossyTo(t.Rate)
		if sum += t.Duration; against <= outvoted && sum >= r.sum+time.Duration(outvotes*against)*g.Final {
			lo = t.Rate
			break
		}
	}
	if !r.last { // what a longer trial lost, a shorter clean one above does not speak against
		return lo, v.bottom
	}
	n := g.need(v)
	for _, t := range byRate(v.lossy) {
		if t.Rate <= v.top {
			continue
		}
		if n--; n == 0 {
			return lo, t.Rate
		}
	}
	return lo, inf
}

// relevant are the relevant bounds: the lowest load that is an upper bound, and
// the highest below it that is a lower one (RFC 9971 section 4.8).
func (g Goal) relevant(v view, r rung) (lo, hi unit.FrameRate) {
	at := map[unit.FrameRate][]Seen{}
	for _, t := range v.all {
		at[t.Rate] = append(at[t.Rate], t)
	}
	for _, load := range slices.Sorted(maps.Keys(at)) {
		switch g.classify(at[load], r.trial, r.sum) {
		case upperBound:
			return lo, load
		case lowerBound:
			lo = load
		}
	}
	return lo, inf
}

// told is history with those trials invalid that do not tell g whether the box
// lost more than it may: it lost more, but no more than disturbances may have cost,
// unless such a loss recurs. A trial of a strict goal that was offered less than was
// asked for, for the tester stood still amid it, tells of no more where it was clean;
// where it lost, it lost at the load that was asked for.
func (g Goal) told(history []Seen) []Seen {
	out := slices.Clone(history)
	for i, t := range out {
		switch {
		case g.Lossy > 0 && t.Valid && !g.lost(t) && float64(t.Offered) < float64(t.Rate)*(1-g.shy(history, t)):
			out[i].Rate = t.Offered // clean at another load
		case !g.lost(t):
		case t.Loss-t.Doubt > g.Loss:
			if g.Lossy > 0 && float64(t.Offered) < float64(t.Rate)*(1-g.Width/4) {
				out[i].Offered = t.Rate
			}
		case g.recurs(history, t):
			out[i].Offered = max(t.Offered, t.Rate)
		default:
			out[i].Valid = false
		}
	}
	return out
}

// silent is how many trials tell g nothing.
func (g Goal) silent(history []Seen) (n int) {
	for _, t := range g.told(history) {
		if !t.Valid {
			n++
		}
	}
	return n
}

// shy is how far from what was asked a clean trial may be offered and still speak of
// it, as a share: the width, or less where all others of that load, which were
// offered more, lost frames.
func (g Goal) shy(history []Seen, t Seen) float64 {
	others := 0
	for _, o := range history {
		if o.Rate != t.Rate || !o.Valid || o.Duration != t.Duration || o == t {
			continue
		}
		if !g.lost(o) || o.Offered <= t.Offered {
			return g.Width
		}
		others++
	}
	if others < recurring {
		return g.Width
	}
	return g.Width / 4
}

// recurring is how many trials of a load must lose about as much for it to be
// believed of the box: what is disturbed at random loses now much, now nothing.
const recurring = 3

// recurs says whether t lost at least what most trials of its load lost alike, and
// no trial of that or a higher load lost nothing.
func (g Goal) recurs(history []Seen, t Seen) bool {
	var losses []unit.LossRatio
	for _, o := range history {
		switch {
		case !o.Valid || o.Duration != t.Duration || o.Rate < t.Rate:
		case !g.lost(o):
			if float64(o.Offered) >= float64(o.Rate)*(1-g.shy(history, o)) {
				return false
			}
		case o.Rate == t.Rate && o.Loss-o.Excused > g.Loss:
			losses = append(losses, o.Loss)
		}
	}
	slices.Sort(losses)
	return len(losses) >= recurring && losses[recurring-1] <= 2*losses[0] && t.Loss-t.Excused > g.Loss
}

func byRate(trials []Seen) []Seen {
	return slices.SortedFunc(slices.Values(trials), func(a, b Seen) int { return cmp.Compare(a.Rate, b.Rate) })
}

func valid(history []Seen) []Seen {
	out := make([]Seen, 0, len(history))
	for _, t := range history {
		if t.Valid {
			out = append(out, t)
		}
	}
	return out
}

// tries is how often in a row a load is invalid before it counts as beyond the
// tester, and doubts how often it is in doubt; once one does, another load is
// tried once less. The first load that is in doubt shuns times is left for one just
// above, where a box that did lose frames loses more.
const (
	tries  = 3
	doubts = 2 * recurring
	shuns  = recurring + 1
)

// beyond are the loads of history, of which told is left, that the tester could
// not offer, or not evenly enough, and has not offered as much since.
func beyond(history, told []Seen) (dead []unit.FrameRate, shunned unit.FrameRate) {
	row, doubted := 0, 0
	for i, t := range told {
		if t.Valid || row > 0 && told[i-1].Rate != t.Rate {
			row, doubted = 0, 0
		}
		if t.Valid {
			dead = slices.DeleteFunc(dead, func(d unit.FrameRate) bool { return d <= t.Rate })
			continue
		}
		row++
		if history[i].Valid {
			doubted++
		}
		most := tries
		if doubted > 0 {
			most = doubts
		}
		if doubted == shuns && row == doubted && shunned == 0 {
			shunned = t.Rate
		}
		fresh := !slices.ContainsFunc(told[:i], func(o Seen) bool { return o.Valid && o.Rate == t.Rate })
		if (row >= most || row-doubted >= tries || row >= most-1 && len(dead) > 0 && fresh) && !slices.Contains(dead, t.Rate) {
			dead = append(dead, t.Rate)
		}
	}
	return dead, shunned
}
