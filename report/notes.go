// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const notesColumn = "notes"

// notes gathers the warnings of all rows. Those that differ in their numbers
// alone are one note, with the range of each number.
type notes struct{ list []*gathered }

type gathered struct {
	table  *table // under which it stands
	mark   string
	pieces []string // the text between its numbers
	lo, hi []string // its numbers
}

var figures = regexp.MustCompile(`[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?`)

// of enters what is said of a row that t has, and returns the marks.
func (n *notes) of(t *table, texts []string) string { return n.with(t, texts, nil) }

// with is of, and what is exact stands as it is: no row has a range of such figures.
func (n *notes) with(t *table, texts, exact []string) string {
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

// write puts the notes of t under it; without any it needs no column for them.
func (n *notes) write(t *table) {
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
		t.notes = append(t.notes, note{g.mark, s.String()})
	}
	if last := len(t.head) - 1; len(t.notes) == 0 && t.head[last] == notesColumn {
		t.head, t.right = t.head[:last], t.right[:last]
		for i := range t.rows {
			t.rows[i] = t.rows[i][:last]
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
