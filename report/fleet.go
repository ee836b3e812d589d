// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strconv"

	"boxdyno/reference/sizing"
	"boxdyno/result"
	"boxdyno/unit"
)

// single are the published boxes that a fleet is compared with: those of the cluster study,
// and a board.
var single = []string{"nuc-i5-8500t", "desktop-ryzen-2700", "rpi-5"}

// cluster is the board of which the cluster study measured 2 to 20 together.
const cluster = "rpi-3-b-plus"

// fleetTables are what numbers of a fleet's boards did, for each board, watt and dollar, and
// from which number on they pass one published box, by what was measured. Runs of emulated
// boards have none: their speed is not a board's.
func fleetTables(run result.Run, recs []result.Record) (out []Table) {
	if run.Topology != "fleet" {
		return nil
	}
	r := sizing.Run{Run: run, Records: recs}
	for _, j := range sizing.JobsOf(r) {
		own := sizing.Own(j, []sizing.Run{r})
		if len(own) == 0 {
			continue
		}
		plan, err := sizing.Plan(j, append(own, singles(j)...), sizing.Options{Against: single, MeasuredOnly: true, Draws: 1000})
		if err != nil {
			continue // a cipher without a name, by a forged record
		}
		i := max(0, slices.IndexFunc(plan.Rows, func(r sizing.Row) bool { return r.Fleet })) // own ones are first
		out = append(out, stepTable(j, plan.Rows[i]))
		if t := crossTable(j, plan.Rows[i].Candidate, plan.Crossovers); len(t.Rows) > 0 {
			out = append(out, t)
		}
	}
	return append(out, clusterTables(r)...)
}

// clusterTables are what boards did together, beside as many of the published cluster and
// all of it: of ciphers, and of HPL.
func clusterTables(r sizing.Run) (out []Table) {
	rows, units := map[string][]tableRow{}, []string{}
	for _, j := range sizing.JobsOf(r) {
		own := sizing.Own(j, []sizing.Run{r})
		i := slices.IndexFunc(sizing.Published(j), func(c sizing.Candidate) bool { return c.Board == cluster && len(c.Measured) > 0 })
		if len(own) == 0 || i < 0 {
			continue
		}
		if rows[j.Unit()] == nil {
			units = append(units, j.Unit())
		}
		ours := max(0, slices.IndexFunc(own, func(c sizing.Candidate) bool { return c.Fleet }))
		rows[j.Unit()] = append(rows[j.Unit()], clusterRows(j, own[ours], sizing.Published(j)[i])...)
	}
	for _, u := range units {
		var metrics []result.Metric
		for _, of := range []struct{ name, label, whose string }{{"own", "these", "these boards"}, {"published", "published", "the published ones"}} {
			metrics = append(metrics,
				result.Metric{Name: of.name + "_rate", Label: of.label, Unit: unit.Symbol(u), Better: 1, Help: "what " + of.whose + " did together"},
				result.Metric{Name: of.name + "_linear", Label: of.label + ", of linear", Unit: "1", Share: true, Better: 1, Help: "the same as a share of so many times what one of them did"})
		}
		out = append(out, makeTable("Boards together, beside those of a published cluster", metrics, []result.Axis{{Name: "work"}, {Name: "nodes"}}, rows[u]))
	}
	return out
}

// clusterRows has a row for each number of our boards, and for the most of theirs.
func clusterRows(j sizing.Job, ours, theirs sizing.Candidate) (rows []tableRow) {
	most := theirs.Measured[len(theirs.Measured)-1].N
	var numbers []int
	for _, m := range ours.Measured {
		numbers = append(numbers, m.N)
	}
	if !slices.Contains(numbers, most) {
		numbers = append(numbers, most)
	}
	for _, n := range numbers {
		row := tableRow{config: []result.Pair{{Key: "work", Value: j.Words()}, {Key: "nodes", Value: strconv.Itoa(n)}}, figures: map[string]*Figure{}}
		for _, of := range []struct {
			name string
			c    sizing.Candidate
		}{{"own", ours}, {"published", theirs}} {
			v := 0.0
			if i := slices.IndexFunc(of.c.Measured, func(m sizing.Node) bool { return m.N == n }); i >= 0 {
				v = of.c.Measured[i].Value
			} else if n == 1 {
				v = of.c.Rate.Value
			}
			if v <= 0 || of.c.Rate.Value <= 0 {
				continue
			}
			row.figures[of.name+"_rate"] = &Figure{Value: v}
			row.figures[of.name+"_linear"] = &Figure{Value: v / (float64(n) * of.c.Rate.Value)}
		}
		if row.figures["published_rate"] != nil {
			for _, f := range theirs.Figures {
				if f.Said != "" && (f.What == "rate" && n == 1 || f.What == "rates of several" && n > 1) {
					row.exact = append(row.exact, f.Source+": "+f.Said)
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// singles are the published boxes of single that have a figure of the job.
func singles(j sizing.Job) []sizing.Candidate {
	return slices.DeleteFunc(sizing.Published(j), func(c sizing.Candidate) bool { return !slices.ContainsFunc(single, c.Is) })
}

func stepTable(j sizing.Job, row sizing.Row) Table {
	work, _ := j.Work()
	of := unit.Symbol(j.Unit())
	metrics := []result.Metric{
		{Name: "rate", Label: "together", Unit: of, Better: 1, Interval: "least to greatest", Help: "what they did together"},
		{Name: "per_board", Label: "per board", Unit: of, Better: 1, Help: "the same for each board"},
		{Name: "of_linear", Label: "of linear", Unit: "1", Share: true, Better: 1, Help: "as a share of so many times what one did"},
		{Name: "watts", Label: "boards", Unit: "W", Better: -1, Help: "power of those that served, without idle boards and shared parts"},
		{Name: "shared_watts", Label: "shared", Unit: "W", Better: -1, Help: "power of what they share"},
		{Name: "joules_per", Label: "per " + work, Unit: "J", Better: -1, Help: "energy of a unit of work, of boards and shared parts"},
		{Name: "per_watt", Label: "per W", Unit: of, Better: 1, Help: "rate for each watt of boards and shared parts"},
		{Name: "usd", Label: "USD", Unit: "1", Better: -1, Help: "price of boards and shared parts"},
		{Name: "per_dollar", Label: "per USD", Unit: of, Better: 1, Help: "rate for each dollar"},
	}
	var rows []tableRow
	for _, s := range row.Steps {
		figures := map[string]*Figure{"rate": {Value: s.Rate.Value}, "per_board": {Value: s.Per}}
		if s.Rate.Lo < s.Rate.Hi {
			figures["rate"] = &Figure{Value: s.Rate.Value, Lo: &s.Rate.Lo, Hi: &s.Rate.Hi}
		}
		for name, v := range map[string]*float64{"of_linear": s.Linear, "watts": s.Watts, "shared_watts": s.Parts, "joules_per": s.Joules, "per_watt": s.PerW, "usd": s.USD, "per_dollar": s.PerUSD} {
			if v != nil {
				figures[name] = &Figure{Value: *v}
			}
		}
		rows = append(rows, tableRow{config: []result.Pair{{Key: "nodes", Value: strconv.Itoa(s.N)}}, figures: figures})
	}
	return makeTable(j.Words()+": boards together, for each board, watt and dollar", metrics, []result.Axis{{Name: "nodes"}}, rows)
}

func crossTable(j sizing.Job, own sizing.Candidate, all []sizing.Crossover) Table {
	metrics := []result.Metric{
		{Name: sizing.PerBox, Label: "boards", Unit: "1", Better: -1, Exact: true, Interval: "interval", Help: "number from which on they do more than the box"},
		{Name: sizing.PerDollar, Label: "per dollar", Unit: "1", Better: -1, Exact: true, Interval: "interval", Help: "number from which on they do more for each dollar"},
		{Name: sizing.PerWatt, Label: "per watt", Unit: "1", Better: -1, Exact: true, Interval: "interval", Help: "number from which on they do more for each watt"},
	}
	var rows []tableRow
	at := map[string]int{}
	for _, x := range all {
		if x.Cluster != own.Name || x.Scaling != sizing.Measured {
			continue
		}
		i, ok := at[x.Against]
		if !ok {
			i, at[x.Against] = len(rows), len(rows)
			rows = append(rows, tableRow{config: []result.Pair{{Key: "passes", Value: x.Against}}, figures: map[string]*Figure{}})
		}
		if x.N != nil {
			f := &Figure{Value: float64(x.N.Value)}
			if lo, hi := float64(x.N.Lo), float64(x.N.Hi); lo < hi {
				f.Lo, f.Hi = &lo, &hi
			}
			rows[i].figures[x.Measure] = f
		} else {
			rows[i].notes = append(rows[i].notes, "by "+x.Measure+": "+x.Reason)
		}
	}
	return makeTable(j.Words()+": from how many boards on, as measured, they pass one published box", metrics, []result.Axis{{Name: "passes"}}, rows)
}
