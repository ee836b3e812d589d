// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"boxdyno/reference/boards"
	"boxdyno/result"
)

// fleet is the topology of runs on several boards at once.
const fleet = "fleet"

// withFleets adds what boards did together, by the newest run of each model of board that
// has it: to the box of that model, or as a box of its own whose rate is that of one board.
func (j Job) withFleets(out []Candidate, runs []Run) []Candidate {
	var seen []string
	for _, r := range runs {
		if slices.ContainsFunc(r.Run.Machines, func(m result.Machine) bool { return m.Kind == "emulated" }) {
			continue
		}
		name, model := boardsOf(r.Run)
		c := Candidate{Name: name, Board: boards.Model(model).ID, Origin: OwnRun}
		if slices.Contains(seen, c.Key()) || !c.together(j, r) {
			continue
		}
		seen = append(seen, c.Key())
		i := slices.IndexFunc(out, func(o Candidate) bool { return c.Board != "" && o.Board == c.Board })
		switch {
		case i >= 0:
			o := &out[i]
			o.Measured, o.Power = c.Measured, c.Power
			o.Figures = append(o.Figures, c.Figures[len(c.Figures)-1])
		case c.Rate.Value > 0:
			c.known(j)
			out = append(out, c)
		}
	}
	return out
}

// boardsOf is the name of a run's boards, and their model where all are of one.
func boardsOf(r result.Run) (name, model string) {
	for i, m := range r.Machines {
		if of := cmp.Or(m.Board, m.CPU); i == 0 {
			model = of
		} else if of != model {
			return "boards of several models", ""
		}
	}
	return cmp.Or(model, "boards of a fleet"), model
}

// together fills in what a fleet's run says of 1, 2, ... boards.
func (c *Candidate) together(j Job, r Run) bool {
	best := map[int]measurement{}
	for _, m := range repeated(j, r) {
		n, err := strconv.Atoi(result.Get(m.of.Config, "nodes"))
		if was, ok := best[n]; err != nil || n < 1 || n > Most || ok && was.Value >= m.Value {
			continue
		}
		best[n] = m
	}
	for n, m := range best {
		c.Measured = append(c.Measured, Node{n, m.Value})
		var at Candidate
		if at.metered(m.of); at.Watts != nil {
			c.Power = append(c.Power, Node{n, at.Watts.Value})
		}
		if n == 1 {
			c.Rate = m.Estimate
			c.Watts = at.Watts
			c.Figures = append(c.Figures, Figure{What: "rate", Text: j.Rate(m.Value) + ", " + m.of.ID, Source: "run " + r.Run.ID})
			c.Figures = append(c.Figures, at.Figures...)
		}
	}
	byN := func(a, b Node) int { return cmp.Compare(a.N, b.N) }
	slices.SortFunc(c.Measured, byN)
	slices.SortFunc(c.Power, byN)
	if len(c.Measured) == 0 {
		return false
	}
	last := c.Measured[len(c.Measured)-1]
	c.Figures = append(c.Figures, Figure{What: "rates of several", Text: fmt.Sprintf("%d to %d boards; %d do %s", c.Measured[0].N, last.N, last.N, j.Rate(last.Value)), Source: "run " + r.Run.ID})
	return true
}
