// SPDX-License-Identifier: Apache-2.0

package grid

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

// Markdown is text in GitHub's dialect, without HTML.
type Markdown struct{ bytes.Buffer }

// Para writes a paragraph; nothing for "".
func (b *Markdown) Para(s string) {
	if s != "" {
		fmt.Fprintf(b, "%s\n\n", EscapeLine(s))
	}
}

// List writes a heading and its items; nothing without items.
func (b *Markdown) List(head string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "## %s\n\n", head)
	for _, s := range items {
		fmt.Fprintf(b, "- %s\n", EscapeLine(s))
	}
	b.WriteByte('\n')
}

// Table writes a table and its notes.
func (b *Markdown) Table(t Table) {
	head, rule := make([]string, len(t.Head)), make([]string, len(t.Head))
	for i := range rule {
		head[i], rule[i] = Escape(t.Head[i]), map[bool]string{true: "--:", false: "---"}[t.Right[i]]
	}
	if len(t.Head) > 0 {
		fmt.Fprintf(b, "| %s |\n| %s |\n", strings.Join(head, " | "), strings.Join(rule, " | "))
	}
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = Escape(c)
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	if len(t.Head) > 0 {
		b.WriteByte('\n')
	}
	for _, n := range t.Notes {
		fmt.Fprintf(b, "- %s: %s\n", n.Mark, Escape(n.Text))
	}
	if len(t.Notes) > 0 {
		b.WriteByte('\n')
	}
}

var mdEscape = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "#", `\#`, "~", `\~`, "$", `\$`)

// mdMark is what would make a list, a rule or a heading at the beginning of a line.
var mdMark = regexp.MustCompile(`^\s*(\d{1,9})?([-+=.)])(\s|[-+=]|$)`)

// Escape makes text of s that is only text in Markdown, on one line.
func Escape(s string) string { return mdEscape.Replace(Clean(s)) }

// EscapeLine is Escape for the beginning of a line.
func EscapeLine(s string) string {
	return mdMark.ReplaceAllString(strings.TrimSpace(Escape(s)), `$1\$2$3`)
}
