// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestFolded(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"a bc def", "a bc\n  def"},
		{"a-word-that-is-longer than", "a-word-that-is-longer\n  than"},
		{"µµ µµ µ", "µµ µµ\n  µ"},
	} {
		if got := folded(c.text, 6, "\n  "); got != c.want {
			t.Errorf("%q is folded to %q, want %q", c.text, got, c.want)
		}
	}
}

// A terminal has the columns for which it has room; a pipe has all.
func TestFit(t *testing.T) {
	for width, want := range map[int]string{0: "ID SOC NAME", 19: "ID SOC NAME", 18: "ID NAME", 3: "ID"} {
		rows := [][]string{{"ID", "SOC", "NAME"}, {"rpi-5", "BCM", "Raspber"}}
		gone := fit(rows, width, "SOC", "NAME")
		if got := strings.Join(rows[0], " "); got != want || len(gone)+len(rows[0]) != 3 || len(rows[1]) != len(rows[0]) {
			t.Errorf("at %d: %q without %q, want %q", width, got, slices.Clip(gone), want)
		}
	}
}
