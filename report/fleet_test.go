// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strings"
	"testing"

	"boxdyno/reference/sizing"
	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
)

// The page of a fleet's run says what each number of boards did, and from which on they pass
// a published box: by what was measured, not by so many times one board.
func TestFleetTables(t *testing.T) {
	job := sizing.Job{Kind: sizing.Crypto, Cipher: "aes-cbc-128", Direction: "encrypt"}
	nuc := 0.
	for _, c := range sizing.Published(job) {
		if c.Is("nuc-i5-8500t") {
			nuc = c.Rate.Value
		}
	}
	run := result.Run{Schema: result.Schema, ID: "shelf", Kind: "real", Topology: "fleet", Machines: []result.Machine{{Name: "b1", Board: "Raspberry Pi 4 Model B Rev 1.4"}}}
	var recs []result.Record
	add := func(n int, least, share, most float64) {
		lo, hi := least*nuc, most*nuc
		recs = append(recs, result.Record{Schema: result.Schema, ID: fmt.Sprint("p", n), Procedure: "fleet-crypto", Status: result.Passed, Repeat: 1,
			Config: []result.Pair{{Key: "nodes", Value: fmt.Sprint(n)}, {Key: "cipher", Value: job.Cipher}},
			Values: []result.Value{{Metric: "encrypt_bytes_per_s", Unit: "B/s", Value: share * nuc, Lo: &lo, Hi: &hi, N: 3}},
			Energy: []result.Energy{{Meter: "plug", Covers: "wall", Joules: 50 * float64(n), Seconds: 10, Readings: 9}}})
	}
	add(1, .4, .4, .4)
	add(2, .7, .7, .7)
	add(4, .95, 1.1, 1.3) // of as many times one 69 %: linear scaling says 3
	add(8, 1.6, 1.6, 1.6)
	var crossed, steps, beside *report.Table
	d := report.Summarize(run, recs)
	// No plan of all published boxes with linear crossovers and curves: that takes 41,000.
	if n := testing.AllocsPerRun(1, func() { report.Summarize(run, recs) }); n > 25000 {
		t.Errorf("%g allocations", n)
	}
	for i, table := range d.Tables {
		switch {
		case strings.HasSuffix(table.Title, "they pass one published box"):
			crossed = &d.Tables[i]
		case strings.HasSuffix(table.Title, "for each board, watt and dollar"):
			steps = &d.Tables[i]
		case strings.HasSuffix(table.Title, "beside those of a published cluster"):
			beside = &d.Tables[i]
		}
	}
	if crossed == nil || steps == nil || len(steps.Rows) != 4 || beside == nil || len(beside.Rows) != 5 {
		t.Fatalf("%+v", d.Tables)
	}
	cell := func(table *report.Table, row int, column string) report.Cell {
		for i, c := range table.Columns {
			if c.Name == column {
				return table.Rows[row][i]
			}
		}
		t.Fatalf("no %s in %+v", column, table.Columns)
		return report.Cell{}
	}
	row := 0
	for i, cells := range crossed.Rows {
		if strings.HasPrefix(cells[0].Text, "NUC") {
			row = i
		}
	}
	if c := cell(crossed, row, "box"); c.Value == nil || *c.Value != 4 || *c.Lo != 3 || *c.Hi != 8 {
		t.Errorf("%+v", c)
	}
	if c := cell(steps, 2, "of_linear"); c.Value == nil || *c.Value < .6874 || *c.Value > .6876 {
		t.Errorf("%+v", c)
	}
	if c := cell(steps, 2, "watts"); c.Value == nil || *c.Value != 20 {
		t.Errorf("%+v", c)
	}
	if c, all := cell(beside, 2, "published_rate"), cell(beside, 4, "published_rate"); c.Value == nil || *c.Value != 197.74*(1<<20) || all.Value == nil || cell(beside, 4, "own_rate").Value != nil || cell(beside, 4, "nodes").Text != "20" {
		t.Errorf("%+v", beside.Rows)
	}
	if c := cell(beside, 2, "own_linear"); c.Value == nil || *c.Value < .6874 || *c.Value > .6876 {
		t.Errorf("%+v", c)
	}
	if text := fmt.Sprint(beside.Notes); !strings.Contains(text, "one CBC stream") {
		t.Error(text)
	}
	var b strings.Builder
	if err := text.Terminal(&b, d); err != nil || !strings.Contains(b.String(), "they pass one published box") {
		t.Errorf("%v: %s", err, b.String())
	}
	run.Machines[0].Kind = result.KindEmulated
	for _, table := range report.Summarize(run, recs).Tables {
		if strings.Contains(strings.ToLower(table.Title), "boards") && strings.Contains(table.Title, "published") {
			t.Errorf("%+v", table)
		}
	}
}
