// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"boxdyno/reference/sizing"
	"boxdyno/result"
)

// An Apart is a fleet's power while it worked, told apart. Each board is in it once, however
// many meters see it.
type Apart struct {
	Per         string   `json:"per"` // the unit of work: "frame"
	When        string   `json:"when,omitempty"`
	Boards      int      `json:"boards"`                    // that worked
	Watts       float64  `json:"boards_w"`                  // of them
	Idle        int      `json:"idle_boards"`               // that the same meters see
	IdleWatts   float64  `json:"idle_boards_w"`             // of them
	SharedWatts float64  `json:"shared_w"`                  // of shared parts
	Rate        float64  `json:"rate,omitempty"`            // units of work a second; 0: not known by these meters
	Before      *float64 `json:"before_w,omitempty"`        // of the boards that worked, before the run
	SharedIdle  float64  `json:"shared_before_w,omitempty"` // of shared parts, before the run or as stated
	Meters      []string `json:"meters"`
	Points      int      `json:"points"` // repeats behind it: figures are their means
}

// apartOf tells a configuration's repeats apart, for each kind of work.
func apartOf(run result.Run, repeats []result.Record) (out []Apart) {
	for _, p := range repeats {
		var seen []result.Energy
		for _, e := range p.Energy {
			if slices.ContainsFunc(seen, func(o result.Energy) bool { return o.Per == e.Per && o.When == e.When }) {
				continue
			}
			seen = append(seen, e)
			one := p
			one.Energy = slices.DeleteFunc(slices.Clone(p.Energy), func(o result.Energy) bool { return o.Per != e.Per || o.When != e.When })
			t, _ := sizing.TellApart(run, one) // what is missing, the fleet's tables say
			if len(t.Meters) == 0 {
				continue
			}
			i := slices.IndexFunc(out, func(o Apart) bool { return o.Per == e.Per && o.When == e.When })
			if i < 0 {
				i, out = len(out), append(out, Apart{Per: e.Per, When: e.When, Boards: t.N, Idle: t.IdleN, Meters: t.Meters, Before: t.Before})
			}
			a := &out[i]
			a.Points++
			k := 1 / float64(a.Points)
			mean := func(of *float64, v float64) { *of += (v - *of) * k }
			mean(&a.Watts, t.Boards)
			mean(&a.IdleWatts, t.Idle)
			mean(&a.SharedWatts, t.Shared)
			mean(&a.Rate, workRate(one, t))
			mean(&a.SharedIdle, t.SharedBefore)
		}
	}
	return out
}

// workRate is the work a second of all boards that served: of the meters by which they are told
// apart, else of one that sees all of them; 0: no meter has it.
func workRate(p result.Record, t sizing.Apart) (rate float64) {
	for _, e := range t.Energy {
		if !(e.Work > 0) {
			rate = 0
			break
		}
		rate += e.Work / e.Seconds
	}
	for _, e := range p.Energy {
		all := !slices.ContainsFunc(p.Boards, func(b result.Board) bool { return !e.Sees(b.Name) })
		if rate == 0 && all && e.Work > 0 && e.Seconds > 0 {
			rate = e.Work / e.Seconds
		}
	}
	return rate
}

// rows are the parts of a fleet's power in the table of energies.
func (a Apart) rows(r Row) (out []tableRow) {
	note := "by " + strings.Join(a.Meters, " + ")
	add := func(what string, watts float64, before *float64) {
		figures := map[string]*Figure{"power_mean_w": {Value: watts, N: a.Points}}
		if a.Rate > 0 {
			figures["joules_per"] = &Figure{Value: watts / a.Rate, N: a.Points}
			if before != nil {
				figures["joules_per_above_idle"] = &Figure{Value: (watts - *before) / a.Rate, N: a.Points}
			}
		}
		out = append(out, tableRow{id: r.ID, config: []result.Pair{{Key: "what", Value: r.Name}, {Key: "when", Value: cmp.Or(a.When, "while it worked")}, {Key: "covers", Value: what}}, figures: figures, exact: []string{note}})
	}
	boards := func(n int) string {
		if n == 1 {
			return "1 board"
		}
		return fmt.Sprintf("%d boards", n)
	}
	add(boards(a.Boards)+" that worked", a.Watts, a.Before)
	if a.Idle > 0 {
		add(boards(a.Idle)+" that idled", a.IdleWatts, nil)
	}
	if a.SharedWatts > 0 {
		add("what they share", a.SharedWatts, &a.SharedIdle)
	}
	return out
}
