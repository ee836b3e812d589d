// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"strings"
	"testing"
)

// Data moves no cursor, and is no formula.
func TestDataIsPrinted(t *testing.T) {
	if got, want := Printable("a\x1b[2J\u009bm\tb\n"), `a\x1b[2J\x9bm`+"\tb\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	run, recs := firewall()
	run.Warnings = append(run.Warnings, "\x1b]0;title\a")
	recs[0].Reason = "=HYPERLINK(1)"
	d := Summarize(run, recs)
	var text, table bytes.Buffer
	if err := Text(&text, d); err != nil || strings.ContainsRune(text.String(), 0x1b) {
		t.Errorf("%v: an escape in %q", err, text.String())
	}
	if err := CSV(&table, Kept{d, recs}); err != nil || strings.Contains(table.String(), ",=HYPERLINK") || !strings.Contains(table.String(), ",'=HYPERLINK(1)") {
		t.Errorf("%v: a formula in %.300s", err, table.String())
	}
}
