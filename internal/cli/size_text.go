// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"boxdyno/reference/sizing"
	"boxdyno/report/text"
)

// sizeText prints a plan for people, on a terminal of that width; 0: the width does not matter.
func sizeText(out io.Writer, width int, r sizing.Result) error {
	title := "How many boxes for " + r.Job.Words()
	if r.Job.Load > 0 {
		title += ": " + r.Job.Rate(r.Job.Load)
	}
	if r.Spare > 0 {
		title += fmt.Sprintf(", %d spare", r.Spare)
	}
	for _, p := range r.Shared {
		title += fmt.Sprintf(", shared %s %g USD %g W", p.Name, p.USD, p.Watts)
	}
	for _, p := range r.Declared {
		if !slices.ContainsFunc(r.Shared, func(q sizing.Part) bool { return q.Name == p.Name }) {
			title += fmt.Sprintf(", shared %s %g USD %g W (boxes.yaml)", p.Name, p.USD, p.Watts)
		}
	}
	fmt.Fprintln(out, wrapped(title, width, ""))
	fmt.Fprintln(out)
	joules := "J/" + r.WorkUnit
	head := []string{"BOX", "FIGURE", "ONE DOES", "HOT"}
	if r.Job.Load > 0 {
		head = append(head, "NUMBER", "USD", "W", joules, "ROOM", "ONE FAILED", "TOGETHER")
	}
	rows := [][]string{head}
	for _, row := range r.Rows {
		cells := []string{name(row.Candidate), row.Origin, rate(r.Job, row.Rate), hot(row)}
		if r.Job.Load > 0 {
			number := counted(row.Number)
			if row.Rate.Bound == "<=" {
				number = ">= " + number
			}
			if row.Beyond {
				number = "too many"
			}
			cells = append(cells, number, estimate(row.Price), estimate(row.Watts), estimate(row.Joules), fmt.Sprintf("%+.0f %%", 100*row.Room), fmt.Sprintf("%+.0f %%", 100*row.Failed), together(row))
		}
		rows = append(rows, cells)
	}
	if width > 0 && wide(rows) > width {
		for i, row := range r.Rows {
			rows[i+1][0] = row.Name
		}
	}
	var gone []string
	if r.Job.Load > 0 {
		gone = fit(rows, width, "HOT", joules, "ONE FAILED", "ROOM", "FIGURE")
	}
	if err := tabled(out, rows); err != nil {
		return err
	}
	tooNarrow(out, width, gone, "--csv has all")
	if err := togethers(out, width, r); err != nil {
		return err
	}
	if err := crossovers(out, r); err != nil {
		return err
	}
	return sizeNotes(out, width, r)
}

// wrapped is text in lines that fit into a terminal of that width, the first one beginning with
// the indent, and the others with two columns more; 0: in one line.
func wrapped(text string, width int, indent string) string {
	if width == 0 {
		return indent + text
	}
	return indent + folded(text, width-len(indent)-2, "\n"+indent+"  ")
}

// togethers prints what numbers of one's own boards did together, with what they share from
// two boards on.
func togethers(out io.Writer, width int, r sizing.Result) error {
	for _, row := range r.Rows {
		if row.Origin != sizing.OwnRun || len(row.Measured) == 0 {
			continue
		}
		fmt.Fprintf(out, "\nWhat %s did together, measured:\n", name(row.Candidate))
		work, _ := r.Job.Work()
		rows := [][]string{{"BOARDS", "RATE", "PER BOARD", "OF AS MANY ALONE", "W", "SHARED W", "J/" + work, "PER W", "USD", "PER USD"}}
		for _, s := range row.Steps {
			cells := []string{strconv.Itoa(s.N), rate(r.Job, s.Rate), r.Job.Rate(s.Per)}
			for _, x := range []struct {
				v    *float64
				text func(v float64) string
			}{{s.Linear, func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }}, {s.Watts, fourDigits}, {s.Parts, fourDigits}, {s.Joules, fourDigits},
				{s.PerW, r.Job.Rate}, {s.USD, fourDigits}, {s.PerUSD, r.Job.Rate}} {
				if x.v == nil {
					cells = append(cells, unknown)
				} else {
					cells = append(cells, x.text(*x.v))
				}
			}
			rows = append(rows, cells)
		}
		gone := fit(rows, width, "SHARED W", "USD", "PER USD", "PER W")
		if err := tabled(out, rows); err != nil {
			return err
		}
		if len(gone) > 0 {
			fmt.Fprintf(out, "Too narrow for %s: --json has all.\n", strings.Join(gone, ", "))
		}
	}
	return nil
}

func fourDigits(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// crossovers prints from how many on clusters pass other boxes, a line for a cluster.
func crossovers(out io.Writer, r sizing.Result) error {
	for _, other := range against(r.Crossovers) {
		fmt.Fprintf(out, "\nFrom how many on a cluster passes one %s:\n", other)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "CLUSTER OF\tSCALING\tPER BOX\tPER DOLLAR\tPER WATT")
		type line struct{ cluster, board, scaling string }
		var lines []line
		cells := map[line]map[string]string{}
		for _, x := range r.Crossovers {
			if x.Against != other {
				continue
			}
			l := line{x.Cluster, x.Board, x.Scaling}
			if cells[l] == nil {
				cells[l] = map[string]string{}
				lines = append(lines, l)
			}
			cells[l][x.Measure] = crossed(x)
		}
		for _, l := range lines {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.cluster, l.scaling, cells[l][sizing.PerBox], cells[l][sizing.PerDollar], cells[l][sizing.PerWatt])
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func crossed(x sizing.Crossover) string {
	switch {
	case x.N != nil && x.Never > 0.025:
		return fmt.Sprintf("%s (%.0f %% never)", counted(*x.N), 100*x.Never)
	case x.N != nil:
		return counted(*x.N)
	case strings.Contains(x.Reason, "not known"), strings.Contains(x.Reason, "not measured"):
		return unknown
	}
	return "never"
}

// sizeNotes prints where figures come from and what must be said of them, once each.
func sizeNotes(out io.Writer, width int, r sizing.Result) error {
	fmt.Fprintln(out, "\nFigures:")
	var said []string
	say := func(s string) {
		if !slices.Contains(said, s) {
			said = append(said, s)
		}
	}
	for _, row := range r.Rows {
		for _, f := range row.Figures {
			s := f.Source
			if f.Said != "" {
				s += ": " + f.Said
			}
			switch {
			case f.What == "price" || f.What == "watts":
				say(f.What + " of " + cmp.Or(row.Board, row.Name) + ": " + f.Text + ", " + s)
			case strings.HasPrefix(f.What, "shared "):
				if slices.ContainsFunc(row.Shared, func(p sizing.Part) bool { return "shared "+p.Name == f.What }) {
					say(name(row.Candidate) + " from two on: " + f.What + ", " + f.Text + ", " + s)
				}
			case row.Origin == sizing.OwnRun:
				say(row.Name + ": " + f.Text + ", " + s)
			default:
				say(s)
			}
		}
		for _, w := range row.WhatIf {
			say("what if: " + name(row.Candidate) + ", " + w)
		}
		for _, n := range row.Notes {
			say(name(row.Candidate) + ": " + n)
		}
	}
	for _, p := range r.Declared {
		if p.Meter != "" && p.Watts == 0 {
			say("shared " + p.Name + ": a meter reads it in runs, and boxes.yaml states no watts: 0 W are counted where no run has it")
		}
	}
	for _, m := range r.Missing {
		said = append(said, m+": no figure of "+r.Job.Words()+" is known")
	}
	for _, s := range said {
		fmt.Fprintln(out, wrapped(s, width, "  "))
	}
	if slices.ContainsFunc(r.Rows, func(row sizing.Row) bool { return row.Scaling == sizing.Measured }) {
		fmt.Fprintln(out, wrapped("Boards of your own that were measured together are counted by what they did together.", width, ""))
	}
	fmt.Fprintln(out, wrapped("Linear: each of several boxes does what one does alone. Joules count all boxes under load.", width, ""))
	fmt.Fprintln(out, wrapped(fmt.Sprintf("Intervals: %s; seed %d.", r.Method, r.Seed), width, ""))
	return nil
}

func name(c sizing.Candidate) string {
	if c.Board != "" && c.Board != c.Name {
		return c.Name + " [" + c.Board + "]"
	}
	return c.Name
}

func rate(j sizing.Job, e sizing.Estimate) string {
	s := j.Rate(e.Value)
	if e.Lo < e.Hi {
		s += " (" + j.Rate(e.Lo) + " to " + j.Rate(e.Hi) + ")"
	}
	return strings.TrimSpace(e.Bound + " " + s)
}

func hot(r sizing.Row) string {
	if r.Heat == nil {
		return unknown
	}
	return fmt.Sprintf("%.0f %%", 100**r.Heat)
}

func counted(c sizing.Count) string {
	if c.Lo == c.Hi || c.Value == c.Lo && c.Value == c.Hi {
		return strconv.Itoa(c.Value)
	}
	return fmt.Sprintf("%d (%d to %d)", c.Value, c.Lo, c.Hi)
}

func estimate(e *sizing.Estimate) string {
	if e == nil {
		return unknown
	}
	s := strconv.FormatFloat(e.Value, 'g', 4, 64)
	if e.Lo < e.Hi {
		s += fmt.Sprintf(" (%.3g to %.3g)", e.Lo, e.Hi)
	}
	return s
}

// together is the number by measured rates of several boxes.
func together(r sizing.Row) string {
	switch {
	case r.Several != nil:
		return counted(*r.Several)
	case len(r.Measured) > 0:
		return fmt.Sprintf("more than %d", r.Measured[len(r.Measured)-1].N)
	}
	return ""
}

// sizeCSV prints a plan's rows; what is not known is empty.
func sizeCSV(out io.Writer, r sizing.Result) error {
	lines := [][]string{{"box", "board", "figure", "rate", "rate_lo", "rate_hi", "rate_bound", "unit", "soaked", "number", "number_lo", "number_hi", "usd", "usd_lo", "usd_hi", "watts", "watts_lo", "watts_hi", "joules_per_" + r.WorkUnit, "head_room", "head_room_failed", "number_several", "what_if", "source"}}
	f := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	three := func(e *sizing.Estimate) []string {
		if e == nil {
			return []string{"", "", ""}
		}
		return []string{f(e.Value), f(e.Lo), f(e.Hi)}
	}
	for _, row := range r.Rows {
		cells := []string{row.Name, row.Board, row.Origin, f(row.Rate.Value), f(row.Rate.Lo), f(row.Rate.Hi), row.Rate.Bound, r.Unit, three(row.Soaked)[0]}
		if r.Job.Load > 0 {
			cells = append(cells, strconv.Itoa(row.Number.Value), strconv.Itoa(row.Number.Lo), strconv.Itoa(row.Number.Hi))
		} else {
			cells = append(cells, "", "", "")
		}
		cells = append(cells, three(row.Price)...)
		cells = append(cells, three(row.Watts)...)
		cells = append(cells, three(row.Joules)[0])
		if r.Job.Load > 0 {
			cells = append(cells, f(row.Room), f(row.Failed))
		} else {
			cells = append(cells, "", "")
		}
		several := ""
		if row.Several != nil {
			several = strconv.Itoa(row.Several.Value)
		}
		source := ""
		if len(row.Figures) > 0 {
			source = row.Figures[0].Source
		}
		lines = append(lines, append(cells, several, strings.Join(row.WhatIf, "; "), source))
	}
	return text.CSVLines(out, lines)
}
