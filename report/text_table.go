// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"fmt"
	"strings"
	"unicode/utf8"
)

// width is the most columns that Text writes, save for a command or a name
// that cannot be broken.
const width = 100

type texter struct{ *bufio.Writer }

func (t *texter) head(s string) {
	fmt.Fprintln(t)
	t.wrap("", s)
}

func (t *texter) list(head string, items []string) {
	if len(items) == 0 {
		return
	}
	t.head(head)
	for _, s := range items {
		t.wrap("  - ", s)
	}
}

// wrap writes s in lines of at most width columns behind prefix, the later ones
// indented as far; nothing for "".
func (t *texter) wrap(prefix, s string) {
	if s == "" {
		return
	}
	line, indent := prefix, strings.Repeat(" ", utf8.RuneCountInString(prefix))
	empty := true
	for _, word := range strings.Fields(clean(s)) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			fmt.Fprintln(t, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	fmt.Fprintln(t, line)
}

// clean keeps names and warnings from steering the terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case steers(r):
			return '\uFFFD'
		}
		return r
	}, s)
}

// A table is rows of cells; the columns named in right are right-aligned. Notes
// stand under it, each once; the rows that they touch carry their marks.
type table struct {
	title string
	head  []string
	right []bool
	rows  [][]string
	notes []note
}

type note struct{ mark, text string }

func (tb *table) add(cells ...string) { tb.rows = append(tb.rows, cells) }

// widths are those of the columns.
func (tb table) widths() []int {
	wide := make([]int, len(tb.head))
	for _, row := range append([][]string{tb.head}, tb.rows...) {
		for i, c := range row {
			wide[i] = max(wide[i], utf8.RuneCountInString(clean(c)))
		}
	}
	return wide
}

// wide is how many columns of text the table takes.
func (tb table) wide() (n int) {
	for _, w := range tb.widths() {
		n += 2 + w
	}
	return n
}

func (t *texter) table(tb table) {
	wide := tb.widths()
	line := func(row []string) {
		var s strings.Builder
		for i, c := range row {
			c = clean(c)
			pad := strings.Repeat(" ", wide[i]-utf8.RuneCountInString(c))
			if s.WriteString("  "); tb.right[i] {
				s.WriteString(pad + c)
			} else {
				s.WriteString(c + pad)
			}
		}
		fmt.Fprintln(t, strings.TrimRight(s.String(), " "))
	}
	if len(tb.head) > 0 {
		line(tb.head)
	}
	for _, row := range tb.rows {
		line(row)
	}
	for _, n := range tb.notes {
		t.wrap("  "+n.mark+": ", n.text)
	}
}
