// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"boxdyno/reference/boards"
	"boxdyno/result"
)

// A Run is a run with its records, as a bundle keeps them.
type Run struct {
	Run     result.Run
	Records []result.Record
}

// Own are the boxes whose rate of the job runs have measured, each by the newest run that
// has it. Runs of simulated and emulated boxes are left out: their speed is not a box's.
// Only points count whose measurement was valid; of several that do the same work, such
// as paths of a cipher, the fastest does. Of repeats of a point the median counts, and their
// range is its interval: the best of them would be luck.
func Own(j Job, runs []Run) (out []Candidate) {
	var fleets []Run
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b Run) int { return b.Run.Start.Compare(a.Run.Start) })
	for _, r := range runs {
		if !Counts(r.Run.Kind) || len(r.Run.Machines) == 0 {
			continue
		}
		if r.Run.Topology == Fleet {
			fleets = append(fleets, r)
			continue
		}
		m := r.Run.Machines[0]
		if r.Run.Box != "" {
			m = r.Run.Machines[len(r.Run.Machines)-1]
		}
		c := Candidate{Name: cmp.Or(r.Run.Box, m.Name, m.Board), Board: boards.Model(m.Board).ID, Origin: OwnRun}
		if !c.measured(j, r) {
			continue
		}
		i := slices.IndexFunc(out, func(o Candidate) bool { return o.Name == c.Name && o.Board == c.Board })
		if i < 0 {
			c.known(j)
			out = append(out, c)
		} else if out[i].Soaked == nil {
			out[i].Soaked = c.Soaked // of an older run: better than none
		}
	}
	return j.withFleets(out, fleets)
}

// Counts says whether a run of that kind measured a box that can be bought.
func Counts(kind string) bool { return kind == "real" || kind == "sandbox" }

// Points returns a copy of the points that say something of the job: Own needs no other record.
func (j Job) Points(recs []result.Record) (out []result.Record) {
	for _, p := range recs {
		if j.value(p) != nil {
			out = append(out, p)
		}
	}
	return out
}

// A measurement is what one point says of the job.
type measurement struct {
	Estimate
	of result.Record
}

// repeated has the measurements of a run, one of each configuration.
func repeated(j Job, r Run) (out []measurement) {
	all := map[string][]measurement{}
	var order []string
	for _, p := range r.Records {
		v := j.value(p)
		if v == nil {
			continue
		}
		e := Estimate{Value: v.Value, Lo: v.Value, Hi: v.Value, Bound: string(v.Bound)}
		if v.Lo != nil && v.Hi != nil && *v.Lo <= v.Value && v.Value <= *v.Hi {
			e.Lo, e.Hi = *v.Lo, *v.Hi
		}
		key := fmt.Sprintf("%s %q", p.Procedure, p.Config)
		if all[key] == nil {
			order = append(order, key)
		}
		all[key] = append(all[key], measurement{e, p})
	}
	for _, key := range order {
		ms := all[key]
		slices.SortStableFunc(ms, func(a, b measurement) int { return cmp.Compare(a.Value, b.Value) })
		m := ms[(len(ms)-1)/2] // of an even number the lower one, on which a plan can rely
		if len(ms) > 1 {
			m.Lo, m.Hi = ms[0].Value, ms[len(ms)-1].Value
		}
		out = append(out, m)
	}
	return out
}

// measured fills in what a run says of the job.
func (c *Candidate) measured(j Job, r Run) bool {
	found := false
	for _, m := range repeated(j, r) {
		e, p := m.Estimate, m.of
		if hot(p.Config) {
			if c.Soaked == nil || e.Value > c.Soaked.Value {
				c.Soaked = &e
			}
			continue
		}
		if found && e.Value <= c.Rate.Value {
			continue
		}
		found = true
		c.Rate = e
		c.Figures = []Figure{{What: "rate", Text: j.Rate(e.Value) + ", " + p.ID, Source: "run " + r.Run.ID, Said: caution(r.Run)}}
		c.metered(p)
	}
	if !found && c.Soaked != nil { // measured hot alone
		c.Rate, found = *c.Soaked, true
		c.Figures = []Figure{{What: "rate", Text: j.Rate(c.Rate.Value) + ", hot", Source: "run " + r.Run.ID, Said: caution(r.Run)}}
	}
	return found
}

// metered fills in the power that the widest meter saw in a point.
func (c *Candidate) metered(p result.Record) {
	c.Watts = nil
	if e := widest(p); e != nil {
		w := Exact(e.Watts())
		c.Watts = &w
		c.Figures = append(c.Figures, Figure{What: "watts", Text: fmt.Sprintf("%.3g W", w.Value), Source: e.Meter, Said: "covers the " + e.Covers})
	}
}

// widest is the meter in a point's record that covers most; nil: there is none.
func widest(p result.Record) *result.Energy {
	for _, covers := range []string{"wall", "board", "command", "line", "platform"} {
		for i, e := range p.Energy {
			if e.Covers == covers && e.Seconds > 0 && e.Joules > 0 && !e.Tester {
				return &p.Energy[i]
			}
		}
	}
	return nil
}

// caution is what limits trust in a run's rates.
func caution(r result.Run) string {
	if r.Kind == "sandbox" {
		return "in a sandbox: the machine's own power, without a network card"
	}
	return ""
}

// Does says whether points of a procedure with these settings do the job.
func (j Job) Does(procedure string, settings []result.Pair) bool {
	get := func(key string) string { return result.Get(settings, key) }
	switch {
	case !slices.Contains(j.Procedures(), procedure):
		return false
	case j.Kind == IDS:
		return rules(get("rules")) >= j.Rules
	case j.Kind == Firewall:
		return get("frame_size") == "64" && slices.Contains([]string{"filter", "nat"}, get("service")) && rules(get("rules")) >= j.Rules
	case j.Kind == Crypto:
		return get("cipher") == j.Cipher
	}
	return true
}

// value is the point's rate of the job, nil where it is another job or no valid point.
func (j Job) value(p result.Record) *result.Value {
	if p.Parent != "" || p.Status != result.Passed && p.Status != result.Failed || !j.Does(p.Procedure, p.Config) {
		return nil
	}
	v := p.Value(j.Metric())
	if v == nil || !(v.Value > 0) || v.Bound == result.AtMost {
		return nil
	}
	return v
}

// rules is the number in front of "1000 generated"; 0 where there is none.
func rules(s string) int {
	word, _, _ := strings.Cut(s, " ")
	n, _ := strconv.Atoi(word) // "": none
	return n
}
