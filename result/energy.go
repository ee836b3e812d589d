// SPDX-License-Identifier: Apache-2.0

package result

import (
	"slices"
	"strings"
)

// An Energy is what one meter measured while a trial's load ran, from readings that
// were taken meanwhile. In a point's record it is the sum over trials that did the
// same work, with that work. Meters are never added, except the packages of RAPL:
// several may cover the same part of the machine.
type Energy struct {
	Meter  string `json:"meter"`  // "RAPL package-0", "ina219 iio:device0", "Shelly ..."
	Covers string `json:"covers"` // the part of the machine that it measures: docs/sensors.md
	// Of is which boards and shared parts it sees, of several meters of a fleet: names with +
	// between them, or "all" boards; "": of one meter of all.
	Of       string  `json:"of,omitempty"`
	Accuracy string  `json:"accuracy,omitempty"` // as its documents state; "": they state none
	Joules   float64 `json:"joules"`
	Seconds  float64 `json:"seconds"`          // of load that the readings cover, > 0
	Readings int     `json:"readings"`         // taken in that time
	Tester   bool    `json:"tester,omitempty"` // the meter sits in the tester, and the box is another machine

	// Of a point's record alone.
	When   string   `json:"when,omitempty"`   // which trials, in words: "under overload"
	Trials int      `json:"trials,omitempty"` // behind it
	Per    string   `json:"per,omitempty"`    // the unit of Work, in words: "frame"
	Work   float64  `json:"work,omitempty"`   // done in Seconds; 0: the meter sees boards that idled, or whose work cannot be told apart
	Idle   *float64 `json:"idle_w,omitempty"` // the same meter's power before the run, in W; nil: not measured
}

// Sees says whether the meter sees a board of that name.
func (e Energy) Sees(board string) bool {
	words := strings.Split(e.Of, "+")
	return e.Of == "" || slices.Contains(words, "all") || slices.Contains(words, board)
}

// Names are what the meter sees: of all boards, those of the run's machines.
func (e Energy) Names(r Run) (names []string) {
	for _, name := range strings.Split(e.Of, "+") {
		if name != "all" {
			names = append(names, name)
			continue
		}
		for _, m := range r.Machines {
			names = append(names, m.Name)
		}
	}
	return names
}

// SeesParts says whether the meter sees nothing but some of the parts.
func (e Energy) SeesParts(parts []Part) bool {
	return !slices.ContainsFunc(strings.Split(e.Of, "+"), func(name string) bool { return !named(parts, name) })
}

func named(parts []Part, name string) bool {
	return slices.ContainsFunc(parts, func(p Part) bool { return p.Name == name })
}

// SeesPart says whether the meter sees a shared part: by name, or with all boards where the
// part is inside.
func (e Energy) SeesPart(p Part) bool {
	return e.Of == "" && p.Inside || slices.Contains(strings.Split(e.Of, "+"), p.Name)
}

// Watts is the mean power under load.
func (e Energy) Watts() float64 { return e.Joules / e.Seconds }

// JoulesPer is the energy of one unit of work, that of the idle machine included.
func (e Energy) JoulesPer() float64 { return e.Joules / e.Work }

// AboveIdle is the energy of one unit of work beyond what the idle machine took in the
// same time; nil where its idle power was not measured. It is negative where the
// machine took less than when idle: an anomaly to show.
func (e Energy) AboveIdle() *float64 {
	if e.Idle == nil {
		return nil
	}
	v := (e.Joules - *e.Idle*e.Seconds) / e.Work
	return &v
}
