// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/unit"
)

// A Goal is what a search looks for: the highest load at which the loss ratio of
// a trial is not above Loss. Its fields are those of RFC 9971 section 4.6, but
// for Lossy.
type Goal struct {
	Name    string         // "NDR", "PDR(0.1 %)"
	Loss    unit.LossRatio // 0: no frame may be lost
	Initial time.Duration  // of the first, shortest trials
	Final   time.Duration  // of a full-length trial
	Sum     time.Duration  // of the full-length trials that make a load a bound
	Exceed  float64        // share of them that may lose more than Loss, in [0, 1); 0 where Lossy is above 0
	Width   float64        // (Upper - Lower) / Upper, at most

	// Lossy is how many trials that lost more than Loss make an upper bound; 0:
	// what RFC 9971 asks for, which judges each load by its own trials. Above 0
	// the goal is strict: a trial that lost speaks against every load from its own
	// on, a clean full-length one for every load up to its own, and the bounds leave
	// contradictions between them, but for losses that enough clean trials outvote.
	Lossy int
}

// A Preset is what to look for, how long and how often to try.
type Preset struct {
	Name   string
	Goals  []Goal // the first is the throughput, or NDR
	Trials int    // hard cap; up to half more for those that are invalid or in doubt, where no loss contradicts a forecast
	// Halves: plain bisection from the highest load, each load tried at full
	// length until it is decided.
	Halves bool
	// Rest and Overload are how long a box rests, and is then overloaded at least, for
	// its memory to be measured; Longest is the most that such an overload lasts, and a
	// trial that memory makes longer (Sustained).
	Rest, Overload, Longest time.Duration
	// Deviation is what the preset does otherwise than RFC 2544, in words; "":
	// nothing.
	Deviation string
}

// ndr is g for no loss, pdr for a loss ratio.
func ndr(g Goal) Goal {
	g.Name, g.Loss = "NDR", 0
	return g
}

func pdr(loss unit.LossRatio, g Goal) Goal {
	g.Name, g.Loss = fmt.Sprintf("PDR(%v %%)", float64(loss)*100), loss
	return g
}

var (
	quick    = Goal{Initial: 150 * time.Millisecond, Final: 150 * time.Millisecond, Sum: 450 * time.Millisecond, Lossy: 5, Width: 0.005}
	standard = Goal{Initial: time.Minute / 16, Final: time.Minute, Sum: 2 * time.Minute, Lossy: 3, Width: 0.005}
	// Loss ratios of short trials say nothing of longer ones.
	quickPDR    = Goal{Initial: 150 * time.Millisecond, Final: 150 * time.Millisecond, Sum: 300 * time.Millisecond, Lossy: 5, Width: 0.005}
	standardPDR = Goal{Initial: time.Minute, Final: time.Minute, Sum: time.Minute, Lossy: 1, Width: 0.005}
	csit        = Goal{Initial: time.Second, Final: time.Second, Sum: 21 * time.Second, Exceed: 0.5, Width: 0.005}
)

// Presets are the presets by name.
var Presets = []Preset{
	{Name: "quick", Goals: []Goal{ndr(quick), pdr(0.001, quickPDR), pdr(0.005, quickPDR)}, Trials: 20,
		Rest: 300 * time.Millisecond, Overload: 400 * time.Millisecond, Longest: 2 * time.Second,
		Deviation: "the highest load without loss is confirmed by 3 trials of 0.15 s, not by one of 60 s (RFC 2544 section 24)"},
	{Name: "standard", Goals: []Goal{ndr(standard), pdr(0.001, standardPDR), pdr(0.005, standardPDR)}, Trials: 36,
		Rest: 2 * time.Second, Overload: 10 * time.Second, Longest: time.Minute,
		Deviation: "the highest load without loss is confirmed by 2 trials of 60 s (RFC 2544 section 24 asks for one)"},
	{Name: "csit", Goals: []Goal{ndr(csit), pdr(0.005, csit)}, Trials: 400,
		Rest: time.Second, Overload: time.Second, Longest: 10 * time.Second,
		Deviation: "a load counts as carried when at least half of its 21 trials of 1 s lost nothing (RFC 9971), not one of 60 s (RFC 2544 section 24)"},
	{Name: "tst009", Goals: []Goal{ndr(Goal{Initial: time.Minute / 16, Final: time.Minute, Sum: 2 * time.Minute, Exceed: 0.5, Width: 0.005})}, Trials: 60,
		Rest: 2 * time.Second, Overload: 10 * time.Second, Longest: time.Minute,
		Deviation: "a load counts as carried without loss when one of two trials of 60 s lost nothing (ETSI GS NFV-TST 009)"},
	{Name: "rfc2544", Goals: []Goal{ndr(Goal{Initial: time.Minute / 16, Final: time.Minute, Sum: time.Minute, Width: 0.005})}, Trials: 40,
		Rest: 2 * time.Second, Overload: 10 * time.Second, Longest: time.Minute},
	{Name: "bisect", Goals: []Goal{ndr(quick), pdr(0.001, quickPDR), pdr(0.005, quickPDR)}, Trials: 150, Halves: true,
		Rest: 300 * time.Millisecond, Overload: 400 * time.Millisecond, Longest: 2 * time.Second,
		Deviation: "the highest load without loss is bisected in trials of 0.15 s, not confirmed by one of 60 s (RFC 2544 section 24)"},
}

// Names are the names of Presets.
func Names() (out []string) {
	for _, p := range Presets {
		out = append(out, p.Name)
	}
	return out
}

// Get is the preset of that name.
func Get(name string) (Preset, error) {
	i := slices.IndexFunc(Presets, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return Preset{}, fmt.Errorf("search %q is not known: use %s", name, strings.Join(Names(), ", "))
	}
	return Presets[i], nil
}

// Estimate is about how many trials a search takes, and how long they offer
// load: what it takes at a box with a sharp limit.
func (p Preset) Estimate() (trials int, d time.Duration) {
	const limit = 6e5
	s := Search{Preset: p, Max: limit * 1.25, Guess: limit * 1.01}
	var h []Seen
	for {
		step, more := s.Next(h)
		if !more {
			return len(h), d
		}
		h = append(h, Seen{Step: step, Offered: step.Rate, Loss: unit.LossRatio(max(0, 1-limit/step.Rate)), Valid: true})
		d += step.Duration
	}
}
