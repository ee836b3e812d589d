// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"boxdyno/result"
	"boxdyno/unit"
)

func text(t *testing.T, d Document) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, d); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// Without a criterion nothing was passed; a run that broke off says so.
func TestVerdictWord(t *testing.T) {
	done, broke, skip := route("64"), route("512"), route("1518")
	broke.Verdict, skip.Verdict, skip.Reason = result.Running, result.Skipped, "missing nft"
	for _, x := range []struct {
		d    Document
		want string
	}{
		{Document{Verdict: result.Passed, Rows: []Row{done}}, "MEASURED "},
		{Document{Verdict: result.Running, Rows: []Row{done, broke}}, "NOT FINISHED The run was not finished: 1 of the 2 rows that were begun is complete."},
		{Document{Verdict: result.Skipped, Rows: []Row{skip}}, "SKIPPED Nothing was measured: missing nft."},
		{Document{Verdict: result.Skipped, Rows: []Row{done, skip}}, "SKIPPED route, both, 1518: missing nft."},
	} {
		x.d.Sentence = sentence(x.d)
		if got := text(t, x.d); !strings.HasPrefix(got, x.want) {
			t.Errorf("%s, want %s", got, x.want)
		}
	}
}

// A busy machine is named before the advice about the box.
func TestAdviceForABusyMachine(t *testing.T) {
	d := Document{Books: Books{Trials: 20, Invalid: 5}, Warnings: []string{"the machine was not idle before the run"}}
	if got := next(d, "Buy more."); len(got) != 2 || !strings.HasPrefix(got[0], "Stop what else runs") {
		t.Errorf("%q", got)
	}
	if got := next(Document{Books: Books{Trials: 20, Invalid: 1}, Warnings: d.Warnings}, ""); len(got) != 0 {
		t.Errorf("one invalid trial of 20: %q", got)
	}
}

func TestCSVOfTwoRunsIsOneTable(t *testing.T) {
	one := Kept{Document{ID: "a"}, []result.Record{{ID: "1", Config: []result.Pair{{Key: "service", Value: "route"}}}}}
	two := Kept{Document{ID: "b"}, []result.Record{{ID: "2", Config: []result.Pair{{Key: "loss", Value: "0"}}, Values: []result.Value{{Metric: "x", Unit: unit.Symbol("1"), Value: 7}}}}}
	var b bytes.Buffer
	if err := CSV(&b, one, two); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll() // refuses rows of different lengths
	if err != nil || len(rows) != 3 || rows[1][0] != "a" || rows[2][0] != "b" || rows[0][6] != "service" || rows[0][7] != "loss" || rows[2][7] != "0" {
		t.Errorf("%v, %q", err, rows)
	}
}
