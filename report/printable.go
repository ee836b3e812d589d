// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Printable returns s with its control characters written as text, such as \x1b, so that
// data moves no cursor and changes no title of a terminal. Ends of lines and tabs stay.
func Printable(s string) string {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if !strings.ContainsFunc(s, control) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if control(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// csvCell returns a text as a cell that no spreadsheet takes for a formula.
func csvCell(s string) string {
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
