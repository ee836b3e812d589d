// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"boxdyno/reference/boards"
	"boxdyno/result"
)

// Fleet is the topology of runs on several boards at once.
const Fleet = "fleet"

// ratesOfSeveral is Figure.What of what boards did together.
const ratesOfSeveral = "rates of several"

// inFleet follows the name of boards that were measured together.
const inFleet = " (fleet)"

// withFleets adds what boards did together, by the newest run of each model of board that
// has it, as a box of its own: (fleet) follows its name, and it scales as was measured. What
// one of its boards did alone is a box as any other, where no run of one has measured it.
func (j Job) withFleets(out []Candidate, runs []Run) []Candidate {
	var seen []string
	for _, r := range runs {
		if emulated(r.Run) {
			continue
		}
		name, model := boardsOf(r.Run)
		c := Candidate{Name: name, Board: boards.Model(model).ID, Origin: OwnRun}
		if slices.Contains(seen, c.Key()) || !c.together(j, r) {
			continue
		}
		i := slices.IndexFunc(out, func(o Candidate) bool { return !o.Fleet && (o.Board == c.Board && o.Board != "" || o.Name == c.Name) })
		several := c.Measured[len(c.Measured)-1].N > 1
		if i >= 0 && !several || i < 0 && !(c.Rate.Value > 0) {
			continue // nothing of several: its parts are not those of another run's rate
		}
		seen = append(seen, c.Key())
		if i < 0 {
			one := c
			if several {
				one.Measured, one.Power, one.Shared = nil, nil, nil
				one.Figures = slices.DeleteFunc(slices.Clone(c.Figures), func(f Figure) bool {
					return f.What == ratesOfSeveral || strings.HasPrefix(f.What, "shared ") || f.Text == "not known"
				})
			}
			one.known(j)
			out = append(out, one)
		} else if !(c.Rate.Value > 0) { // 1 is not among its numbers
			one := out[i]
			c.Rate, c.Watts = one.Rate, one.Watts
			c.Figures = append(c.Figures, slices.DeleteFunc(slices.Clone(one.Figures), func(f Figure) bool { return f.What == "price" })...)
		}
		if !several {
			continue
		}
		c.known(j)
		c.Name, c.Fleet = c.Name+inFleet, true
		out = append(out, c)
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
	numbers := slices.Sorted(maps.Keys(best))
	if len(numbers) == 0 {
		return false
	}
	idle := idleOf(r.Run)
	c.shared(r.Run, idle, numbers, best)
	source := "run " + r.Run.ID
	for _, n := range numbers {
		m := best[n]
		c.Measured = append(c.Measured, Node{N: n, Value: m.Value, Lo: m.Lo, Hi: m.Hi})
		watts, figure := c.power(r.Run, m.of, n, idle)
		if watts > 0 {
			c.Power = append(c.Power, Node{N: n, Value: watts})
		}
		if n == 1 {
			c.Rate = m.Estimate
			c.Figures = append(c.Figures, Figure{What: "rate", Text: j.Rate(m.Value) + ", " + m.of.ID, Source: source})
			if watts > 0 {
				w := Exact(watts)
				c.Watts = &w
			}
		}
		if figure != nil && (n == 1 || watts == 0) && !slices.Contains(c.Figures, *figure) {
			c.Figures = append(c.Figures, *figure)
		}
	}
	last := c.Measured[len(c.Measured)-1]
	c.Figures = append(c.Figures, Figure{What: ratesOfSeveral, Text: fmt.Sprintf("%d to %d boards; %d do %s", c.Measured[0].N, last.N, last.N, j.Rate(last.Value)), Source: source})
	return true
}

// environment is a value of a run's environment, "" if it has none.
func environment(r result.Run, key string) string {
	for _, env := range r.Environments {
		if v := result.Get(env, key); v != "" {
			return v
		}
	}
	return ""
}

// idleOf is what each meter of a run measured before its first trial.
func idleOf(r result.Run) (out []result.Energy) {
	for _, t := range slices.Backward(r.Telemetry) {
		for _, e := range t.Idle {
			if e.Seconds > 0 && !slices.ContainsFunc(out, func(o result.Energy) bool { return o.Meter == e.Meter }) {
				out = append(out, e)
			}
		}
	}
	return out
}

// shared fills in what a run's boards shared, and what meters at those parts read.
func (c *Candidate) shared(r result.Run, idle []result.Energy, numbers []int, points map[int]measurement) {
	for _, p := range Parts(r.Shared()) {
		for _, e := range idle {
			if p.stands(e) {
				w := e.Watts()
				p.Idle = &w
			}
		}
		for _, n := range numbers {
			for _, e := range points[n].of.Energy {
				if p.stands(e) && e.Seconds > 0 && !slices.ContainsFunc(p.Loaded, func(l Node) bool { return l.N == n }) {
					p.Loaded = append(p.Loaded, Node{N: n, Value: e.Watts()})
					p.Watts = e.Watts()
				}
			}
		}
		f := Figure{What: "shared " + p.Name, Text: fmt.Sprintf("%g USD, %.3g W idle, %.3g W loaded", p.USD, p.idle(), p.Watts), Source: "run " + r.ID, Said: "as stated"}
		switch {
		case p.Loaded != nil:
			f.Said = "watts by a meter at it: " + p.Meter
		case p.Meter != "":
			f.Said += ": no reading of " + p.Meter + " fell into trials"
		}
		c.Figures = append(c.Figures, f)
		c.Shared = append(c.Shared, p)
	}
}

// power is the watts of the n boards that served in a point, alone. 0: that is not known, and
// the figure says why; nil: there was no meter.
func (c *Candidate) power(r result.Run, p result.Record, n int, idle []result.Energy) (watts float64, f *Figure) {
	a, why := tell(r, p, n, c.Shared, idle)
	switch {
	case why != nil:
		return 0, why
	case len(a.Meters) == 0:
		return 0, nil
	}
	f = &Figure{What: "watts", Text: fmt.Sprintf("%.3g W", a.Boards), Source: strings.Join(a.Meters, " + "), Said: "covers the " + a.Covers}
	if a.IdleN > 0 {
		f.Said += fmt.Sprintf("; it sees %d boards, and those that idled took %.3g W each", n+a.IdleN, a.Idle/float64(a.IdleN))
	}
	return a.Boards, f
}

// JobsOf are the jobs that boards of a fleet's run did together, each once, in the order of
// its points.
func JobsOf(r Run) (out []Job) {
	for _, p := range r.Records {
		var jobs []Job
		switch p.Procedure {
		case fleetHPL:
			jobs = []Job{{Kind: HPL}}
		case fleetCrypto:
			for _, direction := range []string{"encrypt", "decrypt"} {
				jobs = append(jobs, Job{Kind: Crypto, Cipher: result.Get(p.Config, "cipher"), Direction: direction})
			}
		}
		for _, j := range jobs {
			if j.value(p) != nil && !slices.Contains(out, j) {
				out = append(out, j)
			}
		}
	}
	return out
}
