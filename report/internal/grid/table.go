// SPDX-License-Identifier: Apache-2.0

// Package grid writes paragraphs, lists and tables of text for terminals and in Markdown.
// It knows nothing of what is in them.
package grid

import (
	"bufio"
	"fmt"
	"strings"
	"unicode/utf8"

	"boxdyno/internal/printable"
)

// Width is the most columns that Text writes, save for a command or a name
// that cannot be broken.
const Width = 100

// A Writer writes for a terminal, in lines of at most Width columns.
type Writer struct{ *bufio.Writer }

// Head writes a heading behind an empty line.
func (w *Writer) Head(s string) {
	fmt.Fprintln(w)
	w.Wrap("", s)
}

// List writes a heading and a line for each item; nothing without items.
func (w *Writer) List(head string, items []string) {
	if len(items) == 0 {
		return
	}
	w.Head(head)
	for _, s := range items {
		w.Wrap("  - ", s)
	}
}

// Wrap writes s in lines of at most width columns behind prefix, the later ones
// indented as far; nothing for "".
func (w *Writer) Wrap(prefix, s string) {
	if s == "" {
		return
	}
	line, indent := prefix, strings.Repeat(" ", utf8.RuneCountInString(prefix))
	empty := true
	for _, word := range strings.Fields(Clean(s)) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > Width {
			fmt.Fprintln(w, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	fmt.Fprintln(w, line)
}

// Clean keeps names and warnings from steering the terminal.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case printable.Steers(r):
			return '\uFFFD'
		}
		return r
	}, s)
}

// A Table is rows of cells; the columns named in right are right-aligned. Notes
// stand under it, each once; the rows that they touch carry their marks.
type Table struct {
	Title string
	Head  []string
	Right []bool
	Rows  [][]string
	Notes []Note
}

// A Note stands under a table; the rows that it touches carry its mark.
type Note struct{ Mark, Text string }

// Add appends a row.
func (tb *Table) Add(cells ...string) { tb.Rows = append(tb.Rows, cells) }

// widths are those of the columns.
func (tb Table) widths() []int {
	wide := make([]int, len(tb.Head))
	for _, row := range append([][]string{tb.Head}, tb.Rows...) {
		for i, c := range row {
			wide[i] = max(wide[i], utf8.RuneCountInString(Clean(c)))
		}
	}
	return wide
}

// Wide is how many columns of text the table takes.
func (tb Table) Wide() (n int) {
	for _, w := range tb.widths() {
		n += 2 + w
	}
	return n
}

// Table writes a table and its notes.
func (w *Writer) Table(tb Table) {
	wide := tb.widths()
	line := func(row []string) {
		var s strings.Builder
		for i, c := range row {
			c = Clean(c)
			pad := strings.Repeat(" ", wide[i]-utf8.RuneCountInString(c))
			if s.WriteString("  "); tb.Right[i] {
				s.WriteString(pad + c)
			} else {
				s.WriteString(c + pad)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(s.String(), " "))
	}
	if len(tb.Head) > 0 {
		line(tb.Head)
	}
	for _, row := range tb.Rows {
		line(row)
	}
	for _, n := range tb.Notes {
		w.Wrap("  "+n.Mark+": ", n.Text)
	}
}
