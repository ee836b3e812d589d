// SPDX-License-Identifier: Apache-2.0

// Package printable keeps text of others from steering a terminal.
package printable

import (
	"fmt"
	"strings"
	"unicode"
)

// Steers says whether r would move a terminal's cursor, or lines and words of a page.
func Steers(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}

// Text returns s with the characters that steer terminals written as text, such as
// \u001b, so that data moves no cursor and changes no title. Ends of lines and tabs stay,
// and JSON remains what it was.
func Text(s string) string {
	bad := func(r rune) bool { return Steers(r) && r != '\n' && r != '\t' }
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
