// SPDX-License-Identifier: Apache-2.0

// Package search says which load to try next, given what was seen. Pure: a
// search depends on its history only, so that a resumed run replays it.
//
// It follows RFC 9971 (MLRsearch): several goals in one search, each with a lower
// and an upper bound, short trials before long ones, a first guess from what came
// out under overload. Its slow twin is plain bisection.
package search

import (
	"fmt"
	"math"
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
	Doubt   unit.LossRatio // how much of Loss, at most, disturbances of tester and box may have cost
	Excused unit.LossRatio // how much of Loss fell on frames that disturbances were seen to touch
	Valid   bool           // false: the tester could not do its part
	Memory  bool           // Loss is what the trial would have lost if it had gone on: the box's memory explains that it lost less (Sustained.Judge)
}

// forwarded is about what came out, as a load to ask for.
func (t Seen) forwarded() float64 {
	return float64(min(t.Rate, t.Offered)) * (1 - float64(t.Loss))
}

// floor is the share of Max below which no load is tried: a box that loses there
// has no load without loss worth naming.
const floor = 1.0 / 200

// A Search is plain data: what is looked for, and between which loads.
type Search struct {
	Preset
	Max   unit.FrameRate // the highest load to try
	Guess unit.FrameRate // the first; 0: Max
	Ask   unit.FrameRate // a load to decide on before all others: is it carried? 0: none
	More  int            // trials that may decide on Ask beside those that a search has for it
}

// New makes a search of the named preset. max is the highest load worth offering
// to each stream: somewhat above what was forwarded under overload, the tester's
// ceiling or line rate, the least of them. guess is about the load sought, best
// the forwarding rate under overload; 0 or above max: not known.
func New(preset string, max unit.FrameRate, guess unit.FrameRate) (Search, error) {
	p, err := Get(preset)
	if err != nil {
		return Search{}, err
	}
	return Of(p, max, guess)
}

// Of is New with a preset that is none of Presets.
func Of(p Preset, max unit.FrameRate, guess unit.FrameRate) (Search, error) {
	if !(max > 0) || math.IsInf(float64(max), 0) {
		return Search{}, fmt.Errorf("search up to %v frame/s: the highest load must be above 0", float64(max))
	}
	s := Search{Preset: p, Max: max, Guess: max}
	if guess > 0 && guess <= max {
		s.Guess = s.at(guess)
	}
	return s, nil
}

// Next is the trial to come; false when the search is over. History is what
// Next asked for before, in that order.
//
// An invalid trial says nothing, so it is asked for again, until its load counts
// as beyond the tester.
func (s Search) Next(history []Seen) (Step, bool) {
	if step, more := s.ask(history); more {
		return step, true
	}
	if len(history) >= s.Trials+s.extra(history)+s.asked(history) {
		return Step{}, false
	}
	if s.Halves {
		return s.halve(history)
	}
	step, more := s.climb(history)
	if step.Rate < s.floor() { // a load as it was offered, not as it was asked for
		return Step{}, false
	}
	return step, more
}

// extra is how many trials the search gets beside its cap, for those that tell nothing: a box
// that forwards the same at every load above its limit has one to be found behind
// disturbances, another box need not.
func (s Search) extra(history []Seen) int {
	if len(history) < s.Trials {
		return 0
	}
	g := s.Goals[0]
	ladder := g.ladder()
	if _, misses, _ := g.forecast(g.see(history, ladder[len(ladder)-1])); misses > 0 {
		return 0
	}
	return min(g.silent(history), s.Trials/2)
}

func (s Search) floor() unit.FrameRate { return s.Max * floor }

// at is r as a load to ask for: between floor and Max, in whole frame/s where
// that keeps 4 digits and more.
func (s Search) at(r unit.FrameRate) unit.FrameRate {
	if r >= 10_000 {
		r = unit.FrameRate(math.Round(float64(r)))
	}
	return min(max(r, s.floor()), s.Max)
}

var inf = unit.FrameRate(math.Inf(1))
