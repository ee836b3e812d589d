// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"strings"
	"testing"

	"boxdyno/internal/printable"
	"boxdyno/report"
	"boxdyno/report/compare"
	"boxdyno/report/internal/grid"
	"boxdyno/report/text"
)

// Data moves no cursor, and is no formula.
func TestDataIsPrinted(t *testing.T) {
	if got, want := printable.Text("a\x1b[2J\u009bm\tb\u202e\n"), `a\u001b[2J\u009bm`+"\tb"+`\u202e`+"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	run, recs := report.Firewall()
	run.Warnings = append(run.Warnings, "\x1b]0;title\a")
	recs[0].Reason = "=HYPERLINK(1)"
	d := report.Summarized(run, recs)
	var terminal, table bytes.Buffer
	if err := text.Terminal(&terminal, d); err != nil || strings.ContainsRune(terminal.String(), 0x1b) {
		t.Errorf("%v: an escape in %q", err, terminal.String())
	}
	if err := text.CSV(&table, report.Kept{Document: d, Records: recs}); err != nil || strings.Contains(table.String(), ",=HYPERLINK") || !strings.Contains(table.String(), ",'=HYPERLINK(1)") {
		t.Errorf("%v: a formula in %.300s", err, table.String())
	}
}

// Text of others is text in Markdown: no list, rule, heading, fence, sum, link or markup.
func TestMarkdownIsText(t *testing.T) {
	for s, want := range map[string]string{
		"1. x": `1\. x`, " 12) x": `12\) x`, "- x": `\- x`, "---": `\---`, "===": `\===`, "+": `\+`, "1.17 Mframe/s": "1.17 Mframe/s", "-5": "-5",
		"~~~": `\~\~\~`, "$$x$$": `\$\$x\$\$`, "    x": "x", "# x": `\# x`, "> x": "&gt; x", "![a](b)": `!\[a\](b)`, "a\n\n- b\x1b": "a  - b\uFFFD", "<b>|": `&lt;b&gt;\|`,
	} {
		if got := grid.EscapeLine(s); got != want {
			t.Errorf("%q is %q, want %q", s, got, want)
		}
	}
	run, recs := report.Firewall()
	const evil = "~~~\n# <img src=x>\x1b[31m\u202e"
	run.Warnings = append(run.Warnings, evil)
	recs[0].Reason = evil
	for i := range recs {
		for j := range recs[i].Config {
			recs[i].Config[j].Value = evil
		}
	}
	d := report.Summarized(run, recs)
	c, err := report.Compare("x", []report.Side{{Name: "=1+1" + evil, Runs: []report.Kept{{Document: d, Records: recs}}}, {Name: "@b", Runs: []report.Kept{{Document: d, Records: recs}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var cells bytes.Buffer
	if err := compare.CSV(&cells, c); err != nil || strings.Contains(cells.String(), ",=1") || strings.Contains(cells.String(), ",@b") || strings.ContainsAny(cells.String(), "\x1b\u202e") || !strings.Contains(cells.String(), "'=1+1") {
		t.Errorf("%v: %s", err, cells.String())
	}
	var b bytes.Buffer
	if err := text.Markdown(&b, d); err != nil || strings.ContainsAny(b.String(), "\x1b\u202e") || strings.Contains(b.String(), "<img") || !strings.Contains(b.String(), "&lt;img") {
		t.Errorf("%v: %s", err, b.String())
	}
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(strings.TrimLeft(line, " |"), "~~~") {
			t.Errorf("a fence: %q", line)
		}
	}
}
