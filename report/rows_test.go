// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"testing"

	"boxdyno/result"
)

func Route(size string, warnings ...string) Row {
	return Row{ID: size, Name: "route, both, " + size, Service: "route", Direction: "both", FrameSize: size, Verdict: result.Passed, Warnings: warnings}
}

// What several rows carry is said once under the table, with the range of its numbers.
func TestNotesAreGathered(t *testing.T) {
	row := func(id string, notes ...string) tableRow {
		return tableRow{id: id, procedure: "p", config: []result.Pair{{Key: "service", Value: "route"}}, figures: map[string]*Figure{"rate": {Value: 1000}}, notes: notes}
	}
	declared := map[string]result.Procedure{"p": {Axes: []result.Axis{{Name: "service"}}, Metrics: []result.Metric{{Name: "rate", Label: "rate", Group: "Rates"}}}}
	got := buildTables(declared, []tableRow{row("1", "9 trials were invalid", "latency is not known"), row("2", "6,435 trials were invalid"), row("3")})[0]
	if want := []Note{{"a", "9 to 6,435 trials were invalid"}, {"b", "latency is not known"}}; !slices.Equal(got.Notes, want) {
		t.Errorf("notes: %q, want %q", got.Notes, want)
	}
	var marks []string
	for _, cells := range got.Rows {
		marks = append(marks, cells[len(cells)-1].Text)
	}
	if want := []string{"a b", "a", ""}; !slices.Equal(marks, want) {
		t.Errorf("marks: %q, want %q", marks, want)
	}
}

// 0 as the lower bound is no figure.
func TestNoLoad(t *testing.T) {
	r := Route("imix")
	r.ThroughputFPS, r.ThroughputL1BPS = new(0.0), new(0.0)
	d := Document{Verdict: result.Passed, Rows: []Row{r}}
	if summary(d) != "IMIX frames, route, both: no load without loss was confirmed." {
		t.Errorf("summary: %s", summary(d))
	}
	if said := r.remarks(); len(said) != 1 || said[0] != "no load without loss was confirmed" {
		t.Errorf("remarks: %q", said)
	}
}

// A repeat without an upper end makes the row a lower bound only where no other one has one.
func TestMergeOfOpenRepeats(t *testing.T) {
	repeat := func(v float64, hi *float64, b result.Bound) result.Record {
		return result.Record{Values: []result.Value{{Metric: throughput, Value: v, Lo: &v, Hi: hi, Bound: b, Open: b != result.Exactly && hi == nil}}}
	}
	ceiling := repeat(190e3, nil, result.AtLeast)
	ceiling.Values[0].Open = false
	closed, open := repeat(187e3, new(188e3), ""), repeat(170e3, nil, result.AtLeast)
	for name, c := range map[string]struct {
		repeats []result.Record
		bound   result.Bound
		open    bool
		hi      float64
	}{
		"one of three is open":         {[]result.Record{closed, open, repeat(187.1e3, new(188.2e3), "")}, result.Exactly, false, 188.2e3},
		"all are open":                 {[]result.Record{open, open}, result.AtLeast, true, 0},
		"open, and by the tester":      {[]result.Record{ceiling, open}, result.AtLeast, false, 0},
		"one is bounded by the tester": {[]result.Record{open, closed, ceiling}, result.AtLeast, false, 188e3},
	} {
		f := merge(throughput, c.repeats)
		if f.bound != c.bound || f.open != c.open || (f.hi == nil) != (c.hi == 0) || f.hi != nil && *f.hi != c.hi {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
