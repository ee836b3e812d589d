// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	"boxdyno/result"
)

// Trials by two keys are a table of rows and columns, with the median of each cell; one of
// which no trial passed or failed is empty.
func TestMatrices(t *testing.T) {
	trial := func(from, to string, v float64, status result.Status) result.Record {
		return result.Record{Status: status, Config: []result.Pair{{Key: "from", Value: from}, {Key: "to", Value: to}}, Values: []result.Value{{Metric: "x", Unit: "bit/s", Value: v}}}
	}
	of := &result.Trials{Axis: "from", Across: "to", Title: "streams", Metrics: []result.Metric{{Name: "x", Label: "rate", Unit: "bit/s"}}}
	tables := stressed(Row{Name: "r"}, of, result.Run{}, []result.Record{
		trial("b", "a", 5e6, result.Passed), trial("a", "b", 1e6, result.Passed), trial("a", "b", 3e6, result.Passed), trial("a", "b", 9e6, result.Passed), trial("a", "c", 7e6, result.Invalid),
		trial("b", "d", 2e6, result.Failed),
	})
	if len(tables) != 1 || len(tables[0].Columns) != 4 || len(tables[0].Rows) != 2 {
		t.Fatalf("%+v", tables)
	}
	got := tables[0]
	if got.Columns[0].Label != "from" || got.Columns[1].Label != "a" || got.Columns[2].Label != "b" || got.Columns[3].Label != "d" {
		t.Errorf("%+v", got.Columns)
	}
	for i, want := range [][]string{{"a", "-", "3.00 Mbit/s", "-"}, {"b", "5.00 Mbit/s", "-", "2.00 Mbit/s"}} {
		for k, w := range want {
			if c := got.Rows[i][k]; c.Text != w {
				t.Errorf("row %d, column %d: %q, want %q", i, k, c.Text, w)
			}
		}
	}
}
