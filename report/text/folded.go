// SPDX-License-Identifier: Apache-2.0

package text

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report"
	"boxdyno/report/internal/grid"
	"boxdyno/report/internal/phrase"
)

// folded is t in tables of text that are at most width columns wide. Columns that have no
// room, or that are of other rows, go on in another table. Where that saves a table, what
// all rows share is said once, in a note.
func folded(t report.Table) []grid.Table {
	out := parts(narrow(t))
	if len(out) > 1 {
		if fewer := parts(narrow(factored(t))); len(fewer) < len(out) {
			out = fewer
		}
	}
	for i := range out {
		if len(out) > 1 {
			out[i].Title += fmt.Sprintf(" (%d of %d)", i+1, len(out))
		}
	}
	return out
}

// narrow is t with one column for all that tells its rows apart, where that takes more than
// half of a line.
func narrow(t report.Table) report.Table {
	if axes := axesWide(t); axes > grid.Width/2 && len(figures(t)) > 0 {
		if j := joined(t, 80); axesWide(j) < axes {
			if over := widest(j) - grid.Width; over > 0 {
				j = joined(t, max(20, 80-over))
			}
			return j
		}
	}
	return t
}

// factored is t without the columns of words in which all rows agree: a note says them.
func factored(t report.Table) report.Table {
	var same []string
	keep := func(i int) bool {
		c := t.Columns[i]
		if c.Metric || c.Name == grid.NotesColumn || len(t.Rows) < 2 {
			return true
		}
		return slices.ContainsFunc(t.Rows, func(r []report.Cell) bool { return r[i].Text != t.Rows[0][i].Text })
	}
	out := t
	out.Columns, out.Rows = nil, make([][]report.Cell, len(t.Rows))
	for i, c := range t.Columns {
		if !keep(i) {
			same = append(same, strings.TrimPrefix(c.Label+" "+t.Rows[0][i].Text, "what "))
			continue
		}
		out.Columns = append(out.Columns, c)
		for k := range t.Rows {
			out.Rows[k] = append(out.Rows[k], t.Rows[k][i])
		}
	}
	if len(same) == 0 {
		return t
	}
	out.Notes = append([]report.Note{{Mark: "all", Text: strings.Join(same, ", ")}}, t.Notes...)
	return out
}

// parts are t's columns of figures in as many tables as they need.
func parts(t report.Table) (out []grid.Table) {
	var part []int // columns of figures
	bare := make([]bool, len(t.Rows))
	for k, r := range t.Rows {
		bare[k] = !slices.ContainsFunc(r, func(c report.Cell) bool { return c.Value != nil })
	}
	together := func(i int) bool {
		return len(part) == 0 || slices.ContainsFunc(t.Rows, func(r []report.Cell) bool {
			return r[i].Value != nil && slices.ContainsFunc(part, func(p int) bool { return r[p].Value != nil })
		})
	}
	flush := func() {
		tb := columns(t, part, bare)
		tb.Title = t.Title
		out, part, bare = append(out, tb), nil, make([]bool, len(t.Rows))
	}
	for _, i := range figures(t) {
		if wider := append(slices.Clone(part), i); len(part) > 0 && (!together(i) || columns(t, wider, bare).Wide() > grid.Width) {
			flush()
		}
		part = append(part, i)
	}
	flush()
	if n := repeats(t); n != "" {
		out[len(out)-1].Notes = append(out[len(out)-1].Notes, grid.Note{Mark: "n", Text: n})
	}
	for _, n := range t.Notes {
		out[len(out)-1].Notes = append(out[len(out)-1].Notes, grid.Note{Mark: n.Mark, Text: n.Text})
	}
	return out
}

// repeats says how many measurements are behind each figure with an interval; "" where none has
// several.
func repeats(t report.Table) string {
	var counts, labels []string
	for i, c := range t.Columns {
		least, most := math.MaxInt, 0
		for _, r := range t.Rows {
			if c.Interval != "" && r[i].Value != nil {
				least, most = min(least, r[i].N), max(most, r[i].N)
			}
		}
		if most > 1 {
			n := strconv.Itoa(most)
			if least < most {
				n = strconv.Itoa(least) + " to " + n
			}
			counts, labels = append(counts, n), append(labels, c.Label)
		}
	}
	switch same := slices.Compact(slices.Clone(counts)); {
	case len(same) == 0:
		return ""
	case len(same) == 1:
		return "each figure with a range is of " + same[0] + " measurements"
	}
	counts[0] += " measurements"
	for i, n := range counts {
		labels[i] = n + " of " + labels[i]
	}
	return strings.Join(labels, "; ")
}

// axesWide is how many columns of text tell the rows apart.
func axesWide(t report.Table) int {
	return columns(t, nil, slices.Repeat([]bool{true}, len(t.Rows))).Wide()
}

// widest is how many columns of text the table takes with its widest figure alone.
func widest(t report.Table) (n int) {
	for _, i := range figures(t) {
		n = max(n, columns(t, []int{i}, slices.Repeat([]bool{true}, len(t.Rows))).Wide())
	}
	return n
}

// figures are the columns of metrics.
func figures(t report.Table) (out []int) {
	for i, c := range t.Columns {
		if c.Metric {
			out = append(out, i)
		}
	}
	return out
}

// joined is t with all that tells its rows apart in one column, in at most wide characters.
func joined(t report.Table, wide int) report.Table {
	axis := func(c report.Column) bool { return !c.Metric && c.Name != grid.NotesColumn }
	out := t
	out.Columns, out.Rows = append([]report.Column{{Name: "what", Label: "what"}}, slices.DeleteFunc(slices.Clone(t.Columns), axis)...), nil
	for _, r := range t.Rows {
		var words []string
		var cells []report.Cell
		for i, c := range t.Columns {
			text := r[i].Text
			switch {
			case !axis(c):
				cells = append(cells, r[i])
			case text == "on" || text == "off" || r[i].Number:
				words = append(words, c.Label+" "+text)
			case !r[i].Usual && !slices.Contains([]string{"", "-", "0", "none", "default"}, text):
				words = append(words, text)
			}
		}
		out.Rows = append(out.Rows, append([]report.Cell{{Text: phrase.ClipTo(strings.Join(words, ", "), wide)}}, cells...))
	}
	return out
}

// columns is the text of figures' columns and of those that tell rows apart, for rows
// that have one of the figures, or that are bare. An interval has a column of its own.
func columns(t report.Table, figures []int, bare []bool) (tb grid.Table) {
	var rows [][]report.Cell
	for k, r := range t.Rows {
		if bare[k] || slices.ContainsFunc(figures, func(i int) bool { return r[i].Value != nil }) {
			rows = append(rows, r)
		}
	}
	tb.Rows = make([][]string, len(rows))
	for i, c := range t.Columns {
		told := func(r []report.Cell) bool { return r[i].Text != "" && r[i].Text != "-" }
		if c.Metric && !slices.Contains(figures, i) || !c.Metric && !slices.ContainsFunc(rows, told) {
			continue
		}
		tb.Head, tb.Right = append(tb.Head, c.Label), append(tb.Right, c.Metric)
		if c.Interval != "" {
			tb.Head, tb.Right = append(tb.Head, c.Interval), append(tb.Right, true)
		}
		for k, r := range rows {
			tb.Rows[k] = append(tb.Rows[k], r[i].Text)
			if c.Interval != "" {
				tb.Rows[k] = append(tb.Rows[k], cmp.Or(r[i].Interval, "-"))
			}
		}
	}
	return tb
}
