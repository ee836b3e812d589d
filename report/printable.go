// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// steers says whether r would move a terminal's cursor, or lines and words of a page.
func steers(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}

// Printable returns s with the characters that steer terminals written as text, such as
// \u001b, so that data moves no cursor and changes no title. Ends of lines and tabs stay,
// and JSON remains what it was.
func Printable(s string) string {
	bad := func(r rune) bool { return steers(r) && r != '\n' && r != '\t' }
	if !strings.ContainsFunc(s, bad) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if bad(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// csvCell returns a text as a cell that no spreadsheet takes for a formula.
func csvCell(s string) string {
	s = Printable(s)
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

func csvCells(all []string) []string {
	for i := range all {
		all[i] = csvCell(all[i])
	}
	return all
}
