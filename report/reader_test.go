// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
	"boxdyno/unit"
)

func printed(t *testing.T, d report.Document) string {
	t.Helper()
	var b bytes.Buffer
	if err := text.Terminal(&b, d); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// Without a criterion nothing was passed; a run that broke off says so.
func TestVerdictWord(t *testing.T) {
	done, broke, skip := report.Route("64"), report.Route("512"), report.Route("1518")
	broke.Verdict, skip.Verdict, skip.Reason = result.Running, result.Skipped, "missing nft"
	for _, x := range []struct {
		d    report.Document
		want string
	}{
		{report.Document{Verdict: result.Passed, Rows: []report.Row{done}}, "MEASURED "},
		{report.Document{Verdict: result.Running, Rows: []report.Row{done, broke}}, "NOT FINISHED The run was not finished: 1 of the 2 rows that were begun is complete."},
		{report.Document{Verdict: result.Skipped, Rows: []report.Row{skip}}, "SKIPPED Nothing was measured: missing nft."},
		{report.Document{Verdict: result.Skipped, Rows: []report.Row{done, skip}}, "SKIPPED route, both, 1518: missing nft."},
	} {
		x.d.Sentence = report.Sentence(x.d)
		if got := printed(t, x.d); !strings.HasPrefix(got, x.want) {
			t.Errorf("%s, want %s", got, x.want)
		}
	}
}

// A busy machine is named before the advice about the box.
func TestAdviceForABusyMachine(t *testing.T) {
	d := report.Document{Books: report.Books{Trials: 20, Invalid: 5}, Warnings: []string{"the machine was not idle before the run"}}
	if got := report.Next(d, "Buy more."); len(got) != 2 || !strings.HasPrefix(got[0], "Stop what else runs") {
		t.Errorf("%q", got)
	}
	if got := report.Next(report.Document{Books: report.Books{Trials: 20, Invalid: 1}, Warnings: d.Warnings}, ""); len(got) != 0 {
		t.Errorf("one invalid trial of 20: %q", got)
	}
}

func TestCSVOfTwoRunsIsOneTable(t *testing.T) {
	one := report.Kept{Document: report.Document{ID: "a"}, Records: []result.Record{{ID: "1", Config: []result.Pair{{Key: "service", Value: "route"}}}}}
	two := report.Kept{Document: report.Document{ID: "b"}, Records: []result.Record{{ID: "2", Config: []result.Pair{{Key: "loss", Value: "0"}}, Values: []result.Value{{Metric: "x", Unit: unit.Symbol("1"), Value: 7}}}}}
	var b bytes.Buffer
	if err := text.CSV(&b, one, two); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll() // refuses rows of different lengths
	if err != nil || len(rows) != 3 || rows[1][0] != "a" || rows[2][0] != "b" || rows[0][6] != "service" || rows[0][7] != "loss" || rows[2][7] != "0" {
		t.Errorf("%v, %q", err, rows)
	}
}
