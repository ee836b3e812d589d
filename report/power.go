// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// A Joules is what a unit of work took, by one meter that ran meanwhile.
type Joules struct {
	Meter     string   `json:"meter"`
	Covers    string   `json:"covers"`             // wall, board, package...: docs/sensors.md
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
		out = append(out, Joules{Meter: e.Meter, Covers: e.Covers, Accuracy: e.Accuracy, Per: e.Per, When: e.When, Watts: e.Watts(), Idle: e.Idle,
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

// An energyTables has a table for each unit of work.
type energyTables struct {
	kind string
	list []*table
}

func newEnergyTables(kind string) *energyTables { return &energyTables{kind: kind} }

func (t *energyTables) add(r Row, notes func(t *table, texts []string) string) {
	before := ""
	for _, e := range r.Energy {
		title := "Energy for each " + e.Per + ", and what of it is above idle; W while it worked"
		i := slices.IndexFunc(t.list, func(of *table) bool { return of.title == title })
		if i < 0 {
			i = len(t.list)
			t.list = append(t.list, &table{title: title, head: []string{"what", "covers", "energy", "above idle", "W", "readings", notesColumn}, right: []bool{false, false, true, true, true, true, false}})
		}
		to := t.list[i]
		if head := r.Name + e.Per; head != before {
			to.add(r.Name, "", "", "", "", "", "")
			before = head
		}
		above := "-"
		if e.AboveIdle != nil {
			above = joules(*e.AboveIdle)
		}
		texts := []string{e.said()}
		if t.kind == "sandbox" {
			texts = append(texts, "tester and box are one machine: the tester's energy is in it")
		}
		to.add("  "+cmp.Or(e.When, "while it worked"), e.Covers, joules(e.JoulesPer), above, fmt.Sprintf("%.3g", e.Watts), number(e.Readings), notes(to, texts))
	}
}

func (t *energyTables) all() []*table { return t.list }

// joules is an energy with its unit; one below zero keeps its sign.
func joules(v float64) string {
	if math.Signbit(v) && v != 0 {
		return "-" + unit.SI(-v) + "J"
	}
	return unit.SI(v) + "J"
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
		why := "too few of its readings fell into trials whose work can be counted: make trials longer"
		if s.OfTester() || tester && covers != "wall" && covers != "command" {
			why = "it measures the tester, and the box is another machine"
		}
		out = append(out, fmt.Sprintf("No joules by %s, which covers the %s: %s.", meter, covers, why))
	}
	return out
}

// dropEmpty takes the columns of those names out where no row has anything in them.
func (tb *table) dropEmpty(names ...string) {
	for _, name := range names {
		i := slices.Index(tb.head, name)
		if i < 0 || slices.ContainsFunc(tb.rows, func(row []string) bool { return i < len(row) && row[i] != "-" && row[i] != "" }) {
			continue
		}
		tb.head, tb.right = slices.Delete(slices.Clone(tb.head), i, i+1), slices.Delete(slices.Clone(tb.right), i, i+1)
		for k, row := range tb.rows {
			tb.rows[k] = slices.Delete(slices.Clone(row), i, i+1)
		}
	}
}
