// SPDX-License-Identifier: Apache-2.0

// Package compare writes a Comparison as text for a terminal, as Markdown, CSV and JSON.
package compare

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report"
	"boxdyno/report/internal/grid"
	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/stat"
)

// JSON writes the comparison, indented.
func JSON(w io.Writer, c report.Comparison) error { return grid.JSON(w, c) }

// Terminal writes the comparison for a terminal: no colour codes, at most 100
// columns.
func Terminal(w io.Writer, c report.Comparison) error {
	b := bufio.NewWriter(w)
	t := &grid.Writer{Writer: b}
	t.Wrap("", sentence(c))
	t.List("How sure", sure(c))
	for _, tb := range tables(c) {
		fmt.Fprintln(t)
		t.Wrap("", tb.Title)
		t.Table(tb)
	}
	t.List("What else differs, and may be why", others(c))
	t.Head("What was compared")
	for _, s := range subjects(c) {
		t.Wrap("  ", s)
	}
	return b.Flush()
}

// Markdown writes the comparison in GitHub's dialect, without HTML.
func Markdown(w io.Writer, c report.Comparison) error {
	var b grid.Markdown
	fmt.Fprintf(&b, "# %s\n\n", grid.Escape(sentence(c)))
	b.List("How sure", sure(c))
	for _, tb := range tables(c) {
		fmt.Fprintf(&b, "## %s\n\n", grid.Escape(tb.Title))
		b.Table(tb)
	}
	b.List("What else differs, and may be why", others(c))
	b.List("What was compared", subjects(c))
	_, err := w.Write(b.Bytes())
	return err
}

// CSV writes one line for each figure of a side against the base, exact.
func CSV(w io.Writer, c report.Comparison) error {
	var settings []string
	for _, m := range c.Metrics {
		for _, r := range m.Rows {
			for _, p := range r.Config {
				if !slices.Contains(settings, p.Key) {
					settings = append(settings, p.Key)
				}
			}
		}
	}
	out := csv.NewWriter(w)
	head := append([]string{"metric", "unit", "procedure"}, settings...)
	head = append(head, "base", "other", "verdict", "effect", "effect_bound", "relative", "effect_lo", "effect_hi", "p", "p_holm", "samples",
		"base_median", "base_lo", "base_hi", "base_n", "base_bound", "other_median", "other_lo", "other_hi", "other_n", "other_bound", "warnings")
	if err := out.Write(grid.CSV(head)); err != nil {
		return err
	}
	num := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	for _, m := range c.Metrics {
		for _, r := range m.Rows {
			line := []string{m.Name, string(m.Unit), r.Procedure}
			for _, s := range settings {
				line = append(line, result.Get(r.Config, s))
			}
			line = append(line, c.Sides[0].Name, r.Side, r.Verdict, num(&r.Effect), string(r.Bound), strconv.FormatBool(r.Relative), num(r.Lo), num(r.Hi), num(r.P), num(r.PHolm), r.Samples)
			for _, v := range []report.ComparedValue{r.Base, r.Other} {
				line = append(line, num(&v.Median), num(v.Lo), num(v.Hi), strconv.Itoa(len(v.Samples)), string(v.Bound))
			}
			if err := out.Write(grid.CSV(append(line, strings.Join(r.Warnings, "; ")))); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// sentence says what was found: how many figures are better and worse, and which
// most.
func sentence(c report.Comparison) string {
	counts := map[string]int{}
	var most *report.ComparedRow
	var of report.ComparedMetric
	all := 0
	for _, m := range c.Metrics {
		for i := range m.Rows {
			r := &m.Rows[i]
			all++
			counts[r.Verdict]++
			if (r.Verdict == report.Better || r.Verdict == report.Worse) && (most == nil || r.Relative && math.Abs(r.Effect) > math.Abs(most.Effect)) {
				most, of = r, m
			}
		}
	}
	if most == nil {
		switch {
		case counts[report.TooFew] == all:
			return fmt.Sprintf("Nothing can be said of %s: too few repeats.", phrase.Count(all, "figure"))
		case c.Count == 0:
			return fmt.Sprintf("Nothing can be said of %s: bounds and single repeats cannot be compared.", phrase.Count(all, "figure"))
		}
		return fmt.Sprintf("No difference was found in %s (~).", phrase.Count(c.Count, "figure")) + open(c, counts)
	}
	var words []string
	for _, v := range []string{report.Worse, report.Better} {
		if n := counts[v]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s %s", n, phrase.Is(n), v))
		}
	}
	return fmt.Sprintf("Of %s, %s; most of all %s of %s%s: %s than %s.%s", phrase.Count(c.Count, "figure"), strings.Join(words, " and "),
		of.Name, most.Side, where(c, *most), report.EffectText(*most, of)+", "+most.Verdict, c.Sides[0].Name, open(c, counts))
}

func open(c report.Comparison, counts map[string]int) string {
	if n := counts[report.TooFew] + counts[report.BoundOnly]; n > 0 {
		return fmt.Sprintf(" %d more are left open.", n)
	}
	return ""
}

// where names a row's configuration, as far as rows differ in it.
func where(c report.Comparison, r report.ComparedRow) string {
	var words []string
	for _, p := range r.Config {
		if result.Get(c.Same, p.Key) != p.Value || !slices.ContainsFunc(c.Same, func(s result.Pair) bool { return s.Key == p.Key }) {
			words = append(words, p.Key+" "+p.Value)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return " at " + strings.Join(words, ", ")
}

func sure(c report.Comparison) (out []string) {
	if c.Count > 0 {
		out = append(out, fmt.Sprintf("Medians with %g %% order-statistic intervals; effects by Hodges and Lehmann, the %g %% interval that of each comparison alone; p by Mann and Whitney's test, corrected by Holm for %s: the chance that any difference here is false is %g %%.",
			stat.Confidence*100, stat.Confidence*100, phrase.Count(c.Count, "comparison"), c.Level*100))
	}
	for _, m := range c.Metrics {
		if len(m.Also) > 0 {
			out = append(out, fmt.Sprintf("%s stands for %s too: the same figure in another unit counts once.", m.Name, strings.Join(m.Also, ", ")))
		}
	}
	return append(out, c.Notes...)
}

func others(c report.Comparison) (out []string) {
	for _, d := range c.Differences {
		var words []string
		for i, v := range d.Values {
			if v == "" {
				v = "(none)"
			}
			words = append(words, c.Sides[i].Name+" "+v)
		}
		out = append(out, d.Key+": "+strings.Join(words, "; "))
	}
	return out
}

func subjects(c report.Comparison) (out []string) {
	for i, s := range c.Sides {
		what := ""
		if i == 0 {
			what = ", the base"
		}
		out = append(out, fmt.Sprintf("%s%s: %s of %s, the first of %s", s.Name, what, phrase.Count(s.Points, "valid point"), phrase.Count(len(s.Runs), "run"), s.Start[0].UTC().Format("2006-01-02 15:04 UTC")))
	}
	say := func(where string, settings []result.Pair) {
		var words []string
		for _, p := range settings {
			words = append(words, p.Key+" "+p.Value)
		}
		if len(words) > 0 {
			out = append(out, where+": "+strings.Join(words, ", "))
		}
	}
	say("everywhere", c.Same)
	for _, name := range procedures(c) {
		say("in "+name, within(c, name))
	}
	return out
}

// setting is a row's value of a setting, or its procedure.
func setting(r report.ComparedRow, key string) string {
	if key == report.ProcedureColumn {
		return r.Procedure
	}
	return result.Get(r.Config, key)
}

// within are the settings that all compared points of a procedure have, and those of
// others do not.
func within(c report.Comparison, procedure string) (out []result.Pair) {
	first := true
	for _, m := range c.Metrics {
		for _, r := range m.Rows {
			if r.Procedure != procedure {
				continue
			}
			if first {
				out, first = slices.Clone(r.Config), false
			}
			out = slices.DeleteFunc(out, func(p result.Pair) bool { return result.Get(r.Config, p.Key) != p.Value || slices.Contains(c.Same, p) })
		}
	}
	return out
}

// procedures are those of the rows, in the order of appearance.
func procedures(c report.Comparison) (names []string) {
	for _, m := range c.Metrics {
		for _, r := range m.Rows {
			if !slices.Contains(names, r.Procedure) {
				names = append(names, r.Procedure)
			}
		}
	}
	return names
}

// tables are one for each metric. Where one would be wider than a terminal, the
// first settings go into its title, and each of their values has its own.
func tables(c report.Comparison) (out []grid.Table) {
	for _, m := range c.Metrics {
		var keys []string
		for _, r := range m.Rows {
			for _, p := range r.Config {
				if !slices.Contains(keys, p.Key) && !slices.ContainsFunc(slices.Concat(c.Same, within(c, r.Procedure)), func(s result.Pair) bool { return s.Key == p.Key }) {
					keys = append(keys, p.Key)
				}
			}
		}
		if slices.ContainsFunc(m.Rows, func(r report.ComparedRow) bool { return r.Procedure != m.Rows[0].Procedure }) {
			keys = append([]string{report.ProcedureColumn}, keys...)
		}
		for above := 0; ; above++ {
			ts := metricTables(c, m, keys[:above], keys[above:])
			if above == len(keys) || !slices.ContainsFunc(ts, func(t grid.Table) bool { return t.Wide() > grid.Width }) {
				out = append(out, ts...)
				break
			}
		}
	}
	return out
}

func metricTables(c report.Comparison, m report.ComparedMetric, above, columns []string) (out []grid.Table) {
	var groups [][]string
	rows := map[string][]report.ComparedRow{}
	for _, r := range m.Rows {
		var group []string
		for _, key := range above {
			group = append(group, key+" "+setting(r, key))
		}
		title := strings.Join(group, ", ")
		if rows[title] == nil {
			groups = append(groups, group)
		}
		rows[title] = append(rows[title], r)
	}
	for _, group := range groups {
		title := strings.Join(append([]string{m.Name + ", " + string(m.Unit) + map[int]string{1: ", more is better", -1: ", less is better"}[m.Better]}, group...), "; ")
		tb := sided(c, title, "side", columns...)
		n := &grid.Notes{}
		for _, r := range rows[strings.Join(group, ", ")] {
			var cells []string
			for _, key := range columns {
				cells = append(cells, setting(r, key))
			}
			if len(c.Sides) > 2 {
				cells = append(cells, phrase.Clip(r.Side))
			}
			verdict := r.Verdict
			if verdict == report.Alike {
				verdict = ""
			}
			tb.Add(append(cells, medianCell(r.Base), medianCell(r.Other), report.EffectText(r, m), report.IntervalText(r, m), report.PText(r.PHolm),
				fmt.Sprintf("%d+%d", len(r.Base.Samples), len(r.Other.Samples)), verdict, n.Of(&tb, r.Warnings))...)
		}
		n.Write(&tb)
		out = append(out, tb)
	}
	return out
}

// sided is a table with a column for each side, behind others; side heads that of the sides' names.
func sided(c report.Comparison, title, side string, columns ...string) grid.Table {
	t := grid.Table{Title: title, Head: slices.Clone(columns), Right: make([]bool, len(columns))}
	if len(c.Sides) > 2 {
		t.Head, t.Right = append(t.Head, side), append(t.Right, false)
	}
	other := "other"
	if len(c.Sides) == 2 {
		other = phrase.Clip(c.Sides[1].Name)
	}
	t.Head = append(t.Head, phrase.Clip(c.Sides[0].Name), other, "effect", "95 % interval", "p", "n", "", grid.NotesColumn)
	t.Right = append(t.Right, true, true, true, true, true, true, false, false)
	return t
}

// medianCell is "1.17 M ±2 %"; without an interval, the median alone.
func medianCell(v report.ComparedValue) string {
	s := phrase.SI(&v.Median, v.Bound)
	if v.Lo == nil || v.Median == 0 {
		return s
	}
	return fmt.Sprintf("%s ±%.2g %%", s, 100*math.Max(*v.Hi/v.Median-1, 1-*v.Lo/v.Median))
}
