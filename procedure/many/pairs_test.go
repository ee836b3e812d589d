// SPDX-License-Identifier: Apache-2.0

package many

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"boxdyno/procedure"
	"boxdyno/result"
)

// Every board sends once to each other one, and is in one pair of a round.
func TestPairings(t *testing.T) {
	for n := 2; n <= 9; n++ {
		seen := map[[2]int]int{}
		for _, round := range pairings(n, true) {
			busy := map[int]bool{}
			for _, pair := range round {
				if busy[pair[0]] || busy[pair[1]] || pair[0] == pair[1] || max(pair[0], pair[1]) >= n {
					t.Errorf("%d boards: round %v", n, round)
				}
				busy[pair[0]], busy[pair[1]] = true, true
				seen[pair]++
			}
			if len(round) != n/2 {
				t.Errorf("%d boards: %d pairs at once", n, len(round))
			}
		}
		if len(seen) != n*(n-1) {
			t.Errorf("%d boards: %d pairs", n, len(seen))
		}
	}
	if got := fmt.Sprint(pairings(4, false)); got != "[[[0 1] [2 3]]]" {
		t.Error(got)
	}
}

// The pair and the board that lose frames are named. A pair without figures is, too: it makes
// the point invalid, and is in no figure.
func TestPairsNames(t *testing.T) {
	names := []string{"b1", "b2", "b3", "b4"}
	for name, c := range map[string]struct {
		lost    func(from, to int) float64
		invalid func(from, to int) bool
		want    string
		none    string
	}{
		"no loss":          {func(int, int) float64 { return 0 }, nil, "", "worst"},
		"one pair":         {func(a, b int) float64 { return map[bool]float64{true: 0.2}[a == 1 && b == 3] }, nil, "the worst pair is b2 to b4: 20 % of its frames were lost", "all pairs"},
		"a board's cable":  {func(_, b int) float64 { return map[bool]float64{true: 0.1}[b == 2] }, nil, "all pairs to b3 lose frames: 10 % at least", "all pairs from"},
		"a board's sender": {func(a, _ int) float64 { return map[bool]float64{true: 0.1}[a == 0] }, nil, "all pairs from b1 lose frames: 10 % at least", "all pairs to"},
		"one is gone":      {func(int, int) float64 { return 0 }, func(a, b int) bool { return a == 0 && b == 1 }, "1 of 12 pairs are in no rate: from b1 to b2: board b2: it is gone", "worst"},
	} {
		var f found
		for _, round := range pairings(4, true) {
			var recs []result.Record
			for _, pair := range round {
				lost := c.lost(pair[0], pair[1])
				rec := result.Record{Status: result.Passed, Config: []result.Pair{{Key: "from", Value: names[pair[0]]}, {Key: "to", Value: names[pair[1]]}},
					Values: []result.Value{{Metric: "counting_rate_fps", Value: 1000 * (1 - lost)}, {Metric: "uncounted_ratio", Value: lost}},
					Boards: []result.Board{{Late: 1000, ClockError: 10}, {}}}
				if lost > 0 {
					rec.Status, rec.Reason = result.Failed, fmt.Sprintf("%g lost", lost)
				}
				if c.invalid != nil && c.invalid(pair[0], pair[1]) {
					rec.Status, rec.Reason = result.Invalid, "board b2: it is gone"
				}
				recs = append(recs, rec)
			}
			f.add(round, recs)
		}
		var o procedure.Outcome
		f.outcome(&o, names)
		said := strings.Join(o.Warnings, "\n")
		status := result.Passed
		switch {
		case c.invalid != nil:
			status = result.Invalid
		case c.want != "":
			status = result.Failed
		}
		if o.Status != status || (status != result.Passed) != strings.HasPrefix(o.Reason, "from b") || !strings.Contains(said, c.want) || strings.Contains(said, c.none) || c.want == "" && said != "" {
			t.Errorf("%s: %s %q", name, o.Status, said)
		}
		if name == "no loss" && (value(o.Values, "pairs_sum_fps") != 2000 || value(o.Values, "pairs_worst_fps") != 1000) {
			t.Errorf("%s: %+v", name, o.Values)
		}
		if i := slices.IndexFunc(o.Values, func(v result.Value) bool { return v.Metric == "pairs_sum_fps" }); name == "one is gone" && o.Values[i].N != 5 {
			t.Errorf("%s: a round without one of its pairs is in the sum: %+v", name, o.Values[i])
		}
	}
	// A slow sender hides no bad cable, and its own lateness is none.
	for _, c := range []struct {
		way    int64
		status result.Status
		want   string
	}{
		{300, result.Failed, "from b1 to b2: 30 % of its frames were lost between the boards, and it was slow"},
		{90, result.Invalid, "from b1 to b2: it was slow"},
	} {
		var f found
		f.add([][2]int{{0, 1}}, []result.Record{{
			Status: result.Invalid, Reason: "it was slow", Config: []result.Pair{{Key: "from", Value: "b1"}, {Key: "to", Value: "b2"}},
			Load: &result.Load{Intended: 1000, Offered: 900}, Account: &result.Account{Accepted: 1000, Received: 1000 - c.way, Drops: []result.Term{{Place: result.Link, N: c.way}}},
		}})
		var o procedure.Outcome
		if f.outcome(&o, names); o.Status != c.status || o.Reason != c.want || (c.status == result.Failed) != (value(o.Values, "pairs_lost_worst") == 0.3) {
			t.Errorf("%+v", o)
		}
	}
	f := found{}
	f.add([][2]int{{0, 1}}, []result.Record{{Status: result.Skipped, Reason: "tcpdump is missing", Config: []result.Pair{{Key: "from", Value: "b1"}, {Key: "to", Value: "b2"}}}})
	var o procedure.Outcome
	if f.outcome(&o, names); o.Status != result.Skipped || o.Reason != "from b1 to b2: tcpdump is missing" {
		t.Errorf("%+v", o)
	}
}
