// SPDX-License-Identifier: Apache-2.0

package grid

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// NotesColumn is the heading of the column for the marks of notes.
const NotesColumn = "notes"

// Notes gathers the warnings of all rows. Those that differ in their numbers
// alone are one note, with the range of each number.
type Notes struct{ list []*gathered }

type gathered struct {
	table  *Table // under which it stands
	mark   string
	pieces []string // the text between its numbers
	lo, hi []string // its numbers
}

var figures = regexp.MustCompile(`[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?`)

// Of enters what is said of a row that t has, and returns the marks.
func (n *Notes) Of(t *Table, texts []string) string { return n.With(t, texts, nil) }

// With is Of, and what is exact stands as it is: no row has a range of such figures.
func (n *Notes) With(t *Table, texts, exact []string) string {
	var entered []int
	for k, s := range append(slices.Clip(texts), exact...) {
		pieces, numbers := []string{s}, []string(nil)
		if k < len(texts) {
			pieces, numbers = figures.Split(s, -1), figures.FindAllString(s, -1)
		}
		i := slices.IndexFunc(n.list, func(g *gathered) bool { return g.table == t && slices.Equal(g.pieces, pieces) })
		if i < 0 {
			i = len(n.list)
			n.list = append(n.list, &gathered{t, letters(i), pieces, slices.Clone(numbers), numbers})
		}
		g := n.list[i]
		for k, s := range numbers {
			if value(s) < value(g.lo[k]) {
				g.lo[k] = s
			}
			if value(s) > value(g.hi[k]) {
				g.hi[k] = s
			}
		}
		entered = append(entered, i)
	}
	slices.Sort(entered)
	var marks []string
	for _, i := range slices.Compact(entered) {
		marks = append(marks, n.list[i].mark)
	}
	return strings.Join(marks, " ")
}

// Write puts the notes of t under it; without any it needs no column for them.
func (n *Notes) Write(t *Table) {
	for _, g := range n.list {
		if g.table != t {
			continue
		}
		var s strings.Builder
		for k, piece := range g.pieces {
			s.WriteString(piece)
			if k == len(g.lo) {
				break
			}
			if s.WriteString(g.lo[k]); g.hi[k] != g.lo[k] {
				s.WriteString(" to " + g.hi[k])
			}
		}
		t.Notes = append(t.Notes, Note{g.mark, s.String()})
	}
	if last := len(t.Head) - 1; len(t.Notes) == 0 && t.Head[last] == NotesColumn {
		t.Head, t.Right = t.Head[:last], t.Right[:last]
		for i := range t.Rows {
			t.Rows[i] = t.Rows[i][:last]
		}
	}
}

func value(s string) float64 {
	v, err := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// letters is a, b, ... z, aa, ab ...
func letters(n int) string {
	s := string(rune('a' + n%26))
	if n >= 26 {
		s = letters(n/26-1) + s
	}
	return s
}
