// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// folded is t in tables of text that are at most width columns wide. Columns that have no
// room, or that are of other rows, go on in another table.
func (t Table) folded() (out []table) {
	if axes := t.axesWide(); axes > width/2 && len(t.figures()) > 0 {
		if j := t.joined(80); j.axesWide() < axes {
			if over := j.widest() - width; over > 0 {
				j = t.joined(max(20, 80-over))
			}
			t = j
		}
	}
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
		tb.title = t.Title
		out, part, bare = append(out, tb), nil, make([]bool, len(t.Rows))
	}
	for _, i := range t.figures() {
		if wider := append(slices.Clone(part), i); len(part) > 0 && (!together(i) || t.columns(wider, bare).wide() > width) {
			flush()
		}
		part = append(part, i)
	}
	flush()
	for i := range out {
		if len(out) > 1 {
			out[i].title += fmt.Sprintf(" (%d of %d)", i+1, len(out))
		}
	}
	for _, n := range t.Notes {
		out[len(out)-1].notes = append(out[len(out)-1].notes, note{n.Mark, n.Text})
	}
	return out
}

// axesWide is how many columns of text tell the rows apart.
func (t Table) axesWide() int {
	return t.columns(nil, slices.Repeat([]bool{true}, len(t.Rows))).wide()
}

// widest is how many columns of text the table takes with its widest figure alone.
func (t Table) widest() (n int) {
	for _, i := range t.figures() {
		n = max(n, t.columns([]int{i}, slices.Repeat([]bool{true}, len(t.Rows))).wide())
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
	axis := func(c Column) bool { return !c.Metric && c.Name != notesColumn }
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
		out.Rows = append(out.Rows, append([]Cell{{Text: clipTo(strings.Join(words, ", "), wide)}}, cells...))
	}
	return out
}

// columns is the text of figures' columns and of those that tell rows apart, for rows
// that have one of the figures, or that are bare. An interval has a column of its own.
func (t Table) columns(figures []int, bare []bool) (tb table) {
	var rows [][]Cell
	for k, r := range t.Rows {
		if bare[k] || slices.ContainsFunc(figures, func(i int) bool { return r[i].Value != nil }) {
			rows = append(rows, r)
		}
	}
	tb.rows = make([][]string, len(rows))
	for i, c := range t.Columns {
		told := func(r []Cell) bool { return r[i].Text != "" && r[i].Text != "-" }
		if c.Metric && !slices.Contains(figures, i) || !c.Metric && !slices.ContainsFunc(rows, told) {
			continue
		}
		tb.head, tb.right = append(tb.head, c.Label), append(tb.right, c.Metric)
		if c.Interval != "" {
			tb.head, tb.right = append(tb.head, c.Interval), append(tb.right, true)
		}
		for k, r := range rows {
			tb.rows[k] = append(tb.rows[k], r[i].Text)
			if c.Interval != "" {
				tb.rows[k] = append(tb.rows[k], cmp.Or(r[i].Interval, "-"))
			}
		}
	}
	return tb
}
