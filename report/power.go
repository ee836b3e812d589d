// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"boxdyno/result"
)

// A Joules is what a unit of work took, by one meter that ran meanwhile.
type Joules struct {
	Meter     string   `json:"meter"`
	Covers    string   `json:"covers"`             // wall, board, package...: docs/sensors.md
	Of        string   `json:"of,omitempty"`       // of several meters of a fleet: boards and shared parts that it sees
	Accuracy  string   `json:"accuracy,omitempty"` // as the meter's documents state; absent: they state none
	Per       string   `json:"per"`                // the unit of work: "frame"
	When      string   `json:"when,omitempty"`     // "under overload"
	Watts     float64  `json:"power_mean_w"`       // while it worked
	Idle      *float64 `json:"idle_w,omitempty"`   // the same meter's, before the run
	JoulesPer float64  `json:"joules_per"`
	AboveIdle *float64 `json:"joules_per_above_idle,omitempty"` // less what the idle machine took in the same time
	Trials    int      `json:"trials"`
	Readings  int      `json:"readings"` // of the meter in them
}

// energyOf sums the energies of a configuration's repeats.
func energyOf(repeats []result.Record) (out []Joules) {
	var all []result.Energy
	for _, p := range repeats {
		for _, e := range p.Energy {
			if !(e.Seconds > 0 && e.Work > 0) {
				continue
			}
			i := slices.IndexFunc(all, func(o result.Energy) bool { return o.Meter == e.Meter && o.Per == e.Per && o.When == e.When })
			if i < 0 {
				all = append(all, e)
				continue
			}
			s := &all[i]
			s.Joules, s.Seconds, s.Work = s.Joules+e.Joules, s.Seconds+e.Seconds, s.Work+e.Work
			s.Trials, s.Readings = s.Trials+e.Trials, s.Readings+e.Readings
			s.Idle = cmp.Or(s.Idle, e.Idle)
		}
	}
	for _, e := range all {
		out = append(out, Joules{Meter: e.Meter, Covers: e.Covers, Of: e.Of, Accuracy: e.Accuracy, Per: e.Per, When: e.When, Watts: e.Watts(), Idle: e.Idle,
			JoulesPer: e.JoulesPer(), AboveIdle: e.AboveIdle(), Trials: e.Trials, Readings: e.Readings})
	}
	return out
}

// widest is the meter that covers most of the machine; nil where there is none.
func widest(all []result.Energy) *result.Energy {
	order := []string{"wall", "board", "command", "line", "platform", "rails"}
	if len(all) == 0 {
		return nil
	}
	least := slices.MinFunc(all, func(a, b result.Energy) int { return cmp.Compare(index(order, a.Covers), index(order, b.Covers)) })
	return &least
}

// seen is what the meter covers, and of which boards. One of all boards of a fleet sees those
// that idle, too.
func (e Joules) seen(topology string) string {
	switch {
	case e.Of != "":
		return e.Covers + " of " + strings.ReplaceAll(e.Of, "+", ", ")
	case topology == "fleet":
		return e.Covers + ", with idle boards"
	}
	return e.Covers
}

// said is the meter in a note.
func (e Joules) said() string {
	s := e.Meter + " covers the " + e.Covers
	if e.Accuracy != "" {
		s += "; accuracy " + e.Accuracy
	} else {
		s += "; its documents state no accuracy"
	}
	if e.Idle != nil {
		s += fmt.Sprintf("; %.3g W when idle, before the run", *e.Idle)
	}
	return s
}

// energyTables are the rows' energies, a table for each unit of work.
func (d *Document) energyTables() (out []Table) {
	metrics := []result.Metric{
		{Name: "joules_per", Label: "energy", Unit: "J", Better: -1, Help: "energy for each unit of work"},
		{Name: "joules_per_above_idle", Label: "above idle", Unit: "J", Better: -1, Help: "of it, what the idle machine would not have taken in the same time"},
		{Name: "power_mean_w", Label: "W", Unit: "W", Help: "mean power while it worked"},
		{Name: "readings", Label: "readings", Unit: "1", Help: "readings of the meter in the trials"},
	}
	var units []string
	rows := map[string][]tableRow{}
	for _, r := range d.Rows {
		if d.Powers != nil && r.Verdict == result.Skipped {
			continue
		}
		for _, e := range r.Energy {
			figures := map[string]*Figure{"readings": {Value: float64(e.Readings), N: e.Trials}}
			fill := func(name string, v *float64) {
				if v != nil {
					figures[name] = &Figure{Value: *v, N: e.Trials}
				}
			}
			fill("joules_per", &e.JoulesPer)
			fill("joules_per_above_idle", e.AboveIdle)
			fill("power_mean_w", &e.Watts)
			if !slices.Contains(units, e.Per) {
				units = append(units, e.Per)
			}
			texts := []string{e.said()}
			if d.Kind == result.KindSandbox {
				texts = append(texts, "tester and box are one machine: the tester's energy is in it")
			}
			rows[e.Per] = append(rows[e.Per], tableRow{id: r.ID, config: []result.Pair{{Key: "what", Value: r.Name}, {Key: "when", Value: cmp.Or(e.When, "while it worked")}, {Key: "covers", Value: e.seen(d.Topology)}}, figures: figures, exact: texts})
		}
		for _, a := range r.Apart {
			rows[a.Per] = append(rows[a.Per], a.rows(r)...)
		}
	}
	for _, per := range units {
		out = append(out, makeTable("Energy for each "+per+", and what of it is above idle; W while it worked", metrics, []result.Axis{{Name: "what"}, {Name: "when"}, {Name: "covers"}}, rows[per]))
	}
	return out
}

// metered says what powers were typed in, and which meters ran and are in no figure.
func metered(run result.Run, rows []Row, recs []result.Record) (out []string) {
	for _, t := range run.Telemetry {
		if s := "A power was typed in: " + strings.TrimSpace(t.Reading) + ". It was read in one state, and is in no joules."; t.Reading != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	counted := func(meter string) bool {
		return slices.ContainsFunc(rows, func(r Row) bool {
			return slices.ContainsFunc(r.Energy, func(e Joules) bool { return strings.Contains(e.Meter, meter) })
		})
	}
	tester := slices.ContainsFunc(recs, func(r result.Record) bool {
		return slices.ContainsFunc(r.Energy, func(e result.Energy) bool { return e.Tester })
	})
	for _, s := range run.Series {
		meter, covers := result.Get(s.Labels, "meter"), result.Get(s.Labels, "covers")
		if covers == "" || s.Unit != "W" && s.Unit != "J" || counted(meter) && !s.OfTester() {
			continue
		}
		why := "it sees boards that idled, or whose part of one work cannot be told apart"
		if result.Get(s.Labels, "of") == "" || !slices.ContainsFunc(recs, func(r result.Record) bool {
			return r.Parent == "" && slices.ContainsFunc(r.Energy, func(e result.Energy) bool { return e.Meter == meter })
		}) {
			why = "too few of its readings fell into trials whose work can be counted: make trials longer"
		}
		if s.OfTester() || tester && covers != "wall" && covers != "command" {
			why = "it measures the tester, and the box is another machine"
		}
		out = append(out, fmt.Sprintf("No joules by %s, which covers the %s: %s.", meter, covers, why))
	}
	return out
}
