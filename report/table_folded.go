// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report/internal/grid"
	"boxdyno/report/internal/phrase"
)

// folded is t in tables of text that are at most width columns wide. Columns that have no
// room, or that are of other rows, go on in another table. Where that saves a table, what
// all rows share is said once, in a note.
func (t Table) folded() []grid.Table {
	out := t.narrow().parts()
	if len(out) > 1 {
		if fewer := t.factored().narrow().parts(); len(fewer) < len(out) {
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
func (t Table) narrow() Table {
	if axes := t.axesWide(); axes > grid.Width/2 && len(t.figures()) > 0 {
		if j := t.joined(80); j.axesWide() < axes {
			if over := j.widest() - grid.Width; over > 0 {
				j = t.joined(max(20, 80-over))
			}
			return j
		}
	}
	return t
}

// factored is t without the columns of words in which all rows agree: a note says them.
func (t Table) factored() Table {
	var same []string
	keep := func(i int) bool {
		c := t.Columns[i]
		if c.Metric || c.Name == grid.NotesColumn || len(t.Rows) < 2 {
			return true
		}
		return slices.ContainsFunc(t.Rows, func(r []Cell) bool { return r[i].Text != t.Rows[0][i].Text })
	}
	out := t
	out.Columns, out.Rows = nil, make([][]Cell, len(t.Rows))
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
	out.Notes = append([]Note{{"all", strings.Join(same, ", ")}}, t.Notes...)
	return out
}

// parts are t's columns of figures in as many tables as they need.
func (t Table) parts() (out []grid.Table) {
	var part []int // columns of figures
	bare := make([]bool, len(t.Rows))
	for k, r := range t.Rows {
		bare[k] = !slices.ContainsFunc(r, func(c Cell) bool { return c.Value != nil })
	}
	together := func(i int) bool {
		return len(part) == 0 || slices.ContainsFunc(t.Rows, func(r []Cell) bool {
			return r[i].Value != nil && slices.ContainsFunc(part, func(p int) bool { return r[p].Value != nil })
		})
	}
	flush := func() {
		tb := t.columns(part, bare)
		tb.Title = t.Title
		out, part, bare = append(out, tb), nil, make([]bool, len(t.Rows))
	}
	for _, i := range t.figures() {
		if wider := append(slices.Clone(part), i); len(part) > 0 && (!together(i) || t.columns(wider, bare).Wide() > grid.Width) {
			flush()
		}
		part = append(part, i)
	}
	flush()
	if n := t.repeats(); n != "" {
		out[len(out)-1].Notes = append(out[len(out)-1].Notes, grid.Note{Mark: "n", Text: n})
	}
	for _, n := range t.Notes {
		out[len(out)-1].Notes = append(out[len(out)-1].Notes, grid.Note{Mark: n.Mark, Text: n.Text})
	}
	return out
}

// repeats says how many measurements are behind each figure with an interval; "" where none has
// several.
func (t Table) repeats() string {
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
		return same[0] + " behind each figure with a range"
	}
	for i, n := range counts {
		labels[i] = n + " behind " + labels[i]
	}
	return strings.Join(labels, "; ")
}

// axesWide is how many columns of text tell the rows apart.
func (t Table) axesWide() int {
	return t.columns(nil, slices.Repeat([]bool{true}, len(t.Rows))).Wide()
}

// widest is how many columns of text the table takes with its widest figure alone.
func (t Table) widest() (n int) {
	for _, i := range t.figures() {
		n = max(n, t.columns([]int{i}, slices.Repeat([]bool{true}, len(t.Rows))).Wide())
	}
	return n
}

// figures are the columns of metrics.
func (t Table) figures() (out []int) {
	for i, c := range t.Columns {
		if c.Metric {
			out = append(out, i)
		}
	}
	return out
}

// joined is t with all that tells its rows apart in one column, in at most wide characters.
func (t Table) joined(wide int) Table {
	axis := func(c Column) bool { return !c.Metric && c.Name != grid.NotesColumn }
	out := t
	out.Columns, out.Rows = append([]Column{{Name: "what", Label: "what"}}, slices.DeleteFunc(slices.Clone(t.Columns), axis)...), nil
	for _, r := range t.Rows {
		var words []string
		var cells []Cell
		for i, c := range t.Columns {
			text := r[i].Text
			switch {
			case !axis(c):
				cells = append(cells, r[i])
			case text == "on" || text == "off" || r[i].number:
				words = append(words, c.Label+" "+text)
			case !r[i].usual && !slices.Contains([]string{"", "-", "0", "none", "default"}, text):
				words = append(words, text)
			}
		}
		out.Rows = append(out.Rows, append([]Cell{{Text: phrase.ClipTo(strings.Join(words, ", "), wide)}}, cells...))
	}
	return out
}

// columns is the text of figures' columns and of those that tell rows apart, for rows
// that have one of the figures, or that are bare. An interval has a column of its own.
func (t Table) columns(figures []int, bare []bool) (tb grid.Table) {
	var rows [][]Cell
	for k, r := range t.Rows {
		if bare[k] || slices.ContainsFunc(figures, func(i int) bool { return r[i].Value != nil }) {
			rows = append(rows, r)
		}
	}
	tb.Rows = make([][]string, len(rows))
	for i, c := range t.Columns {
		told := func(r []Cell) bool { return r[i].Text != "" && r[i].Text != "-" }
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
