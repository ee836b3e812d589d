// SPDX-License-Identifier: Apache-2.0

// Package search says which load to try next, given what was seen. Pure: a
// search depends on its history only, so that a resumed run replays it.
//
// A box that forwards in software has no sharp limit: at some loads it loses
// frames in one trial and none in the next. So a search finds two bounds and
// confirms each by repeated trials; what contradicts them moves them apart.
package search

import (
	"fmt"
	"math"
	"slices"
	"time"

	"boxdyno/unit"
)

// A Step is one trial to come.
type Step struct {
	Rate     unit.FrameRate // each stream's
	Duration time.Duration
}

// A Seen is one trial that was.
type Seen struct {
	Step
	Offered unit.FrameRate // measured; each stream's
	Loss    unit.LossRatio // lost/offered, in [0, 1]
	Valid   bool           // false: the tester could not do its part
}

// A Limit is what a history says of the highest load without loss. Its rates
// are offered (measured) ones.
type Limit struct {
	// Lower is the highest load up to which no trial lost frames and at or above
	// which as many full-length trials were clean as the preset confirms; 0: none.
	Lower unit.FrameRate
	// Upper is the lowest load above every clean trial up to which, from the
	// highest clean load on, as many trials lost frames as the preset confirms;
	// 0: none is known, and the limit may lie anywhere above Lower.
	Upper unit.FrameRate
	// AtCeiling: no valid trial lost frames, up to the highest load worth
	// offering or to one that the tester could not offer.
	AtCeiling bool
	// Sharp: both bounds are confirmed, nothing contradicted them, and they are
	// not further apart than the preset's width.
	Sharp bool
	// Inversions counts lossy trials at or below the highest clean load.
	Inversions            int
	Clean, Lossy, Invalid int // trials
}

// A Preset is how long and how often to try.
type Preset struct {
	Name    string
	Trial   time.Duration // of a trial that looks for the limit
	Confirm time.Duration // full length: of a trial that confirms the lower bound
	Clean   int           // clean full-length trials that confirm the lower bound
	Lossy   int           // lossy trials, of any length, that confirm the upper one
	Width   float64       // (Upper - Lower) / Upper of a sharp limit, at most
	Trials  int           // hard cap, invalid ones included
	// Deviation is what the preset does otherwise than RFC 2544, in words.
	Deviation string
}

// Presets are the presets by name.
var Presets = []Preset{
	{Name: "quick", Trial: 100 * time.Millisecond, Confirm: 200 * time.Millisecond, Clean: 3, Lossy: 4, Width: 0.05, Trials: 21,
		Deviation: "the highest load without loss is searched in trials of 0.1 s and confirmed by 3 trials of 0.2 s, not by one of 60 s (RFC 2544 section 24)"},
	{Name: "standard", Trial: 2 * time.Second, Confirm: time.Minute, Clean: 2, Lossy: 3, Width: 0.01, Trials: 36,
		Deviation: "the highest load without loss is searched in trials of 2 s and confirmed by 2 trials of 60 s (RFC 2544 section 24 asks for one)"},
}

const (
	// floor is the share of Max below which no load is tried: a box that loses
	// there has no load without loss worth naming.
	floor = 1.0 / 200
	// tries is how often in a row a load is invalid before it counts as beyond
	// the tester; once one does, a fresh load below it is not tried again.
	tries = 3
	// coarse is how near the bounds are when the lower one is first tried at
	// full length: to halve the gap further is wasted where there is no threshold.
	coarse = 0.3
)

// A Search is plain data: what is looked for, and between which loads.
type Search struct {
	Preset
	Max   unit.FrameRate // the highest load to try
	Guess unit.FrameRate // the first
}

// New makes a search. max is the highest load worth offering to each stream:
// about what was forwarded under overload, the tester's ceiling or line rate,
// the least of them. guess is the first load to try; 0 or above max: half of max.
func New(preset string, max unit.FrameRate, guess unit.FrameRate) (Search, error) {
	i := slices.IndexFunc(Presets, func(p Preset) bool { return p.Name == preset })
	if i < 0 {
		return Search{}, fmt.Errorf("search preset %q is not known: use quick or standard", preset)
	}
	if !(max > 0) || math.IsInf(float64(max), 0) {
		return Search{}, fmt.Errorf("search up to %v frame/s: the highest load must be above 0", float64(max))
	}
	s := Search{Preset: Presets[i], Max: max, Guess: max / 2}
	if guess > 0 && guess <= max {
		s.Guess = s.at(guess)
	}
	return s, nil
}

// Estimate is about how many trials a search takes, and how long they offer load.
func (p Preset) Estimate() (trials int, d time.Duration) {
	look := 3 + int(math.Ceil(math.Log2(math.Ln2/p.Width))) + p.Lossy - 1
	full := 1 + p.Clean
	return look + full, time.Duration(look)*p.Trial + time.Duration(full)*p.Confirm
}

// Next is the trial to come; false when the search is over. History is what
// Next asked for before, in that order.
//
// While nothing contradicts a threshold: step from the guess until it is
// bracketed, bisect (with one full-length trial on the way), confirm the lower
// bound, confirm the upper one. A lossy trial at or below a clean one shows that
// there is none; from then on the lower bound walks down from the lowest lossy
// load and the upper one up from the highest clean load, in growing steps, until
// each is confirmed. An invalid trial says nothing, so it is asked for again,
// until its load counts as beyond the tester.
func (s Search) Next(history []Seen) (Step, bool) {
	if len(history) >= s.Trials {
		return Step{}, false
	}
	v := s.view(history)
	if step, more := s.lower(v); more {
		return step, true
	}
	return s.upper(v)
}

// lower looks for the lower bound and confirms it.
func (s Search) lower(v view) (Step, bool) {
	wall := min(v.lowLossy, v.lowDead)
	lo := v.cleanBelow(wall)
	if v.lowLossy <= v.highClean { // no threshold: walk down, at full length
		if v.confirmedBelow(wall, s.Clean) {
			return Step{}, false
		}
		return s.full(wall / growth(s.Width, v.inversions+v.dead))
	}
	none := math.IsInf(float64(wall), 1)
	gap := 0.0
	if !none {
		gap = float64((wall - lo) / wall)
	}
	switch {
	case none && lo == 0:
		return Step{s.Guess, s.Trial}, true
	case lo == 0 && wall <= s.floor():
		return Step{}, false
	case lo == 0:
		return Step{s.at(wall / unit.FrameRate(math.Exp2(math.Exp2(float64(v.loads-1))))), s.Trial}, true
	case none && lo < s.Max:
		return Step{s.at(2 * lo), s.Trial}, true
	case gap > 0 && gap < coarse && len(v.full) == 0:
		return Step{lo, s.Confirm}, true
	case gap > 0.75*s.Width: // what is offered differs from what is asked: leave room
		return Step{s.at(unit.FrameRate(math.Sqrt(float64(lo) * float64(wall)))), s.Trial}, true
	case v.full[lo] < s.Clean:
		return Step{lo, s.Confirm}, true
	}
	return Step{}, false
}

// upper confirms the upper bound once the lower one is settled.
func (s Search) upper(v view) (Step, bool) {
	if math.IsInf(float64(v.lowLossy), 1) || v.highClean >= s.Max {
		return Step{}, false
	}
	hi := v.lossyAbove(v.highClean)
	if math.IsInf(float64(hi), 1) {
		hi = s.at(v.highClean * growth(s.Width, v.against))
	}
	if v.isDead[hi] || v.lossy[hi] >= s.Lossy {
		return Step{}, false
	}
	return Step{hi, s.Trial}, true
}

// full is a full-length trial at r, unless that is below the floor.
func (s Search) full(r unit.FrameRate) (Step, bool) {
	if r < s.floor() {
		return Step{}, false
	}
	return Step{s.at(r), s.Confirm}, true
}

// growth is the n-th step of a walk, as a factor: 1 + 4, 8, 16... widths.
func growth(width float64, n int) unit.FrameRate {
	return unit.FrameRate(1 + width*math.Exp2(float64(n+1)))
}

func (s Search) floor() unit.FrameRate { return s.Max * floor }

// at is r as a load to ask for: between floor and Max, in whole frame/s where
// that keeps 3 digits and more.
func (s Search) at(r unit.FrameRate) unit.FrameRate {
	if r >= 1000 {
		r = unit.FrameRate(math.Round(float64(r)))
	}
	return min(max(r, s.floor()), s.Max)
}

// Limit is what history says.
func (s Search) Limit(history []Seen) Limit {
	v := s.view(history)
	l := Limit{Inversions: v.inversions}
	var clean, lossy []unit.FrameRate // offered: full-length and below every loss; above every clean one
	var highClean, lowLossy = unit.FrameRate(0), inf
	for _, t := range history {
		switch {
		case !t.Valid:
			l.Invalid++
		case t.Loss > 0:
			l.Lossy++
			lowLossy = min(lowLossy, t.Offered)
		default:
			l.Clean++
			highClean = max(highClean, t.Offered)
		}
	}
	for _, t := range history {
		switch {
		case !t.Valid:
		case t.Loss > 0 && t.Rate > v.highClean && t.Offered > highClean:
			lossy = append(lossy, t.Offered)
		case t.Loss <= 0 && t.Duration >= s.Confirm && t.Rate < v.lowLossy && t.Offered < lowLossy:
			clean = append(clean, t.Offered)
		}
	}
	slices.Sort(clean)
	slices.Sort(lossy)
	lowerSure, upperSure := len(clean) >= s.Clean, len(lossy) >= s.Lossy
	if lowerSure {
		l.Lower = clean[len(clean)-s.Clean]
	}
	if upperSure {
		l.Upper = lossy[s.Lossy-1]
	}
	atTop := v.highClean >= s.Max || v.dead > 0 && float64(v.lowDead-v.cleanBelow(v.lowDead)) <= s.Width*float64(v.lowDead)
	l.AtCeiling = lowerSure && l.Lossy == 0 && atTop
	l.Sharp = lowerSure && upperSure && l.Inversions == 0 && float64(l.Upper-l.Lower) <= s.Width*float64(l.Upper)
	return l
}

var inf = unit.FrameRate(math.Inf(1))

// A view is a history by asked load.
type view struct {
	loads      int                    // distinct, valid and dead
	dead       int                    // loads that are beyond the tester
	lowLossy   unit.FrameRate         // +Inf: none
	highClean  unit.FrameRate         // 0: none
	lowDead    unit.FrameRate         // +Inf: none
	inversions int                    // lossy trials at or below highClean
	against    int                    // clean trials at or above lowLossy
	clean      map[unit.FrameRate]int // trials of any length
	full       map[unit.FrameRate]int // clean ones of full length
	lossy      map[unit.FrameRate]int
	isDead     map[unit.FrameRate]bool
}

func (s Search) view(history []Seen) view {
	v := view{lowLossy: inf, lowDead: inf, clean: map[unit.FrameRate]int{}, full: map[unit.FrameRate]int{},
		lossy: map[unit.FrameRate]int{}, isDead: map[unit.FrameRate]bool{}}
	for i, t := range history {
		switch {
		case !t.Valid:
			beyond := len(v.isDead) > 0 && v.clean[t.Rate]+v.lossy[t.Rate] == 0
			if beyond || trailing(history[:i+1]) == tries {
				v.isDead[t.Rate] = true
				v.lowDead = min(v.lowDead, t.Rate)
			}
			continue
		case t.Loss > 0:
			v.lossy[t.Rate]++
			v.lowLossy = min(v.lowLossy, t.Rate)
		default:
			v.clean[t.Rate]++
			v.highClean = max(v.highClean, t.Rate)
			if t.Duration >= s.Confirm {
				v.full[t.Rate]++
			}
		}
	}
	v.dead = len(v.isDead)
	at := map[unit.FrameRate]bool{}
	for _, t := range history {
		if t.Valid || v.isDead[t.Rate] {
			at[t.Rate] = true
		}
		if t.Valid && t.Loss > 0 && t.Rate <= v.highClean {
			v.inversions++
		}
		if t.Valid && t.Loss <= 0 && t.Rate >= v.lowLossy {
			v.against++
		}
	}
	v.loads = len(at)
	return v
}

// cleanBelow is the highest load below wall with a clean trial; 0: none.
func (v view) cleanBelow(wall unit.FrameRate) (r unit.FrameRate) {
	for c := range v.clean {
		if c < wall {
			r = max(r, c)
		}
	}
	return r
}

// lossyAbove is the lowest load above r with a lossy trial; +Inf: none.
func (v view) lossyAbove(r unit.FrameRate) unit.FrameRate {
	least := inf
	for c := range v.lossy {
		if c > r {
			least = min(least, c)
		}
	}
	return least
}

// confirmedBelow says whether a load below wall was clean often enough.
func (v view) confirmedBelow(wall unit.FrameRate, times int) bool {
	for c, n := range v.full {
		if c < wall && n >= times {
			return true
		}
	}
	return false
}

// trailing is how many invalid trials at one load end history.
func trailing(history []Seen) (n int) {
	for i := len(history) - 1; i >= 0 && !history[i].Valid && history[i].Rate == history[len(history)-1].Rate; i-- {
		n++
	}
	return n
}
