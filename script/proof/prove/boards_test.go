// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"boxdyno/result"
)

// A cell works only if each point was measured and no trial's books stay open.
func TestBoardCell(t *testing.T) {
	point := func(s result.Status) result.Record {
		return result.Record{Procedure: "forward", Status: s, Reason: "why"}
	}
	trial := func(s result.Status, unexplained int64) result.Record {
		return result.Record{Procedure: "forward", Parent: "p", Status: s, Account: &result.Account{Accepted: 5, Unexplained: unexplained}}
	}
	for _, c := range []struct {
		recs []result.Record
		bare bool
		want string
	}{
		{nil, false, "nothing was measured"},
		{[]result.Record{point(result.Passed), trial(result.Failed, 0), trial(result.Invalid, 0)}, false, "works; unexplained 0 of 10"},
		{[]result.Record{point(result.Passed), trial(result.Failed, 0), trial(result.Invalid, 7)}, false, "unexplained 0 to 7 in 1 of 2 trials, 10 frames"},
		{[]result.Record{point(result.Invalid), trial(result.Invalid, 0)}, false, "works; unexplained 0 of 5; no figure, invalid: why"},
		{[]result.Record{point(result.Invalid), trial(result.Invalid, 0)}, true, "invalid: why"},
		{[]result.Record{point(result.Skipped)}, true, "skipped: why"},
		{[]result.Record{point(result.Skipped), point(result.Passed), trial(result.Passed, 0)}, false, "skipped: why"},
		{[]result.Record{point(result.Aborted), trial(result.Passed, 0)}, false, "aborted: why"},
		{[]result.Record{point(result.Failed), trial(result.Passed, -2), trial(result.Passed, 0)}, false, "unexplained -2 to 0 in 1 of 2 trials, 10 frames"},
		{[]result.Record{point(result.Invalid)}, false, "invalid: why"},
		{[]result.Record{point(result.Passed), {Procedure: "forward", Parent: "p", Status: result.Invalid, Reason: "late"}}, false, "no trial has books: late"},
		{[]result.Record{point(result.Passed), {Procedure: "forward", Parent: "p", Status: result.Passed}}, true, "works; 1 trials, without the engine's frames"},
		{[]result.Record{point(result.Passed), {Procedure: "forward", Parent: "p", Status: result.Passed}}, false, "no trial has books:"},
		{[]result.Record{{Procedure: "self-test", Status: result.Passed}}, false, "nothing was measured"},
	} {
		if got, works := boardCell(c.recs, c.bare); got != c.want || works != (c.want[0] == 'w' || len(c.recs) == 1 && c.recs[0].Status == result.Skipped) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Two tunnels are in order only if both were measured; a point that was skipped is no failure.
func TestPairCell(t *testing.T) {
	point := func(s result.Status, goodput, cpu, bare float64) result.Record {
		return result.Record{Status: s, Reason: "why", Values: []result.Value{{Metric: "goodput_bps", Value: goodput}, {Metric: "cpu_per_mbit_s", Value: cpu}, {Metric: "baseline_cpu_per_mbit_s", Value: bare}}}
	}
	for _, c := range []struct {
		r     result.Record
		works bool
	}{{point(result.Passed, 1e6, 1, 1), true}, {point(result.Passed, 0, 1, 1), false}, {point(result.Skipped, 0, 0, 0), true}, {point(result.Failed, 1e6, 1, 1), false}} {
		if seen, works := pairCell(c.r); works != c.works {
			t.Errorf("%v: %q", c.r.Status, seen)
		}
	}
	said, ordered := inOrder(point(result.Passed, 8e6, 0.5, 0.25), point(result.Passed, 2e6, 1.25, 0.25))
	if !ordered || !strings.Contains(said, " 4.00 times ") || !strings.Contains(said, "0.250 s more") || !strings.Contains(said, "with OpenVPN 1.000 s") {
		t.Errorf("%v %q", ordered, said)
	}
	if said, ordered := inOrder(point(result.Passed, 8e6, 1, 1), point(result.Skipped, 0, 0, 0)); ordered {
		t.Errorf("%q", said)
	}
}

// A row that is named twice is one row, and one that is none is named.
func TestFleetRows(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  int
	}{{nil, len(fleetRuns)}, {[]string{"stream", "stream"}, 1}, {[]string{"stream", "none"}, 0}} {
		runs, err := fleetRows(c.names)
		if len(runs) != c.want || (err == nil) != (c.want > 0) || err != nil && !strings.Contains(err.Error(), `"none"`) {
			t.Errorf("%q: %d runs, %v", c.names, len(runs), err)
		}
	}
}
