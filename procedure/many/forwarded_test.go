// SPDX-License-Identifier: Apache-2.0

package many

import (
	"math"
	"slices"
	"strings"
	"testing"

	"boxdyno/procedure"
	"boxdyno/result"
)

// Where the sender bounds what is known of a pair, its rate under overload names the slow one.
func TestForwardNamesByOverload(t *testing.T) {
	var f forwarded
	var recs []result.Record
	for _, rate := range []float64{800, 3000} {
		low := 260.
		recs = append(recs, result.Record{Status: result.Passed, Values: []result.Value{{Metric: "throughput_fps", Value: low, Lo: &low, Bound: result.AtLeast}, {Metric: "forwarding_rate_fps", Value: rate}}})
	}
	f.add([][2]int{{0, 1}, {2, 3}}, recs)
	var o procedure.Outcome
	f.outcome(&o, []string{"b1", "b2", "b3", "b4"})
	if len(o.Warnings) != 1 || o.Warnings[0] != "by what pairs forward under overload, the slowest pair is b1 to b2: 800 frame/s, 42 % of the median" || o.Values[0].Bound != result.AtLeast || o.Values[0].Hi != nil {
		t.Errorf("%q, %+v", o.Warnings, o.Values)
	}
}

// A pair that passed without a figure is named, and no sum of that figure goes without it.
func TestForwardLacksAFigure(t *testing.T) {
	names := []string{"b1", "b2", "b3", "b4"}
	for lacking, c := range map[string]struct{ sum, other, want string }{
		"forwarding_rate_fps": {"pairs_forwarding_fps", "pairs_throughput_fps", "1 of 2 pairs have no rate under overload, and their rounds no sum of it: from b1 to b2"},
		"throughput_fps":      {"pairs_throughput_fps", "pairs_forwarding_fps", "1 of 2 pairs have no highest load without loss, and their rounds no sum of it: from b1 to b2"},
	} {
		low := 1000.
		values := []result.Value{{Metric: "throughput_fps", Value: low, Lo: &low}, {Metric: "forwarding_rate_fps", Value: low}}
		round := [][2]int{{0, 1}, {2, 3}}
		var recs []result.Record
		for _, pair := range round {
			rec := result.Record{Status: result.Passed, Values: values, Config: []result.Pair{{Key: "from", Value: names[pair[0]]}, {Key: "to", Value: names[pair[1]]}}}
			if pair[0] == 0 {
				rec.Values = slices.DeleteFunc(slices.Clone(values), func(v result.Value) bool { return v.Metric == lacking })
			}
			recs = append(recs, rec)
		}
		var f forwarded
		f.add(round, recs)
		var o procedure.Outcome
		f.outcome(&o, names)
		if said := strings.Join(o.Warnings, "\n"); o.Status != result.Passed || !strings.Contains(said, c.want) || !math.IsNaN(value(o.Values, c.sum)) || value(o.Values, c.other) != 2000 {
			t.Errorf("without %s: %s %q, %+v", lacking, o.Status, said, o.Values)
		}
	}
}

// The narrowest pair and board are named; the sum has the bounds of all pairs, and none of a round
// that lacks a pair. A pair without a limit makes the point fail, or invalid, by its name.
func TestForwardNames(t *testing.T) {
	names := []string{"b1", "b2", "b3", "b4"}
	for name, c := range map[string]struct {
		rate   func(from, to int) float64
		status func(from, to int) result.Status
		want   string
		point  result.Status
		sum    [3]float64 // of a round, and its interval
	}{
		"all alike":   {func(int, int) float64 { return 1000 }, nil, "the slowest pair is b1 to b2: 1.00 kframe/s, 100 % of the median", result.Passed, [3]float64{2000, 1800, 2200}},
		"one pair":    {func(a, b int) float64 { return map[bool]float64{true: 100, false: 1000}[a == 1 && b == 3] }, nil, "the slowest pair is b2 to b4: 100 frame/s, 10 % of the median", result.Passed, [3]float64{2000, 990, 2200}},
		"a cable":     {func(a, b int) float64 { return map[bool]float64{true: 100, false: 1000}[a == 2 || b == 2] }, nil, "all pairs from b3 are slow: at most 100 frame/s, 18 % of the median; all pairs to b3 are slow", result.Passed, [3]float64{1100, 990, 1210}},
		"one fails":   {func(int, int) float64 { return 1000 }, func(a, b int) result.Status { return map[bool]result.Status{true: result.Failed}[a == 0 && b == 1] }, "1 of 12 pairs are in no rate: from b1 to b2: its reason", result.Failed, [3]float64{2000, 1800, 2200}},
		"one is gone": {func(int, int) float64 { return 1000 }, func(a, b int) result.Status { return map[bool]result.Status{true: result.Invalid}[a == 0 && b == 1] }, "1 of 12 pairs are in no rate: from b1 to b2: its reason", result.Invalid, [3]float64{2000, 1800, 2200}},
		"none can":    {func(int, int) float64 { return 1000 }, func(int, int) result.Status { return result.Skipped }, "12 of 12 pairs are in no rate", result.Skipped, [3]float64{}},
	} {
		var f forwarded
		for _, round := range pairings(4, true) {
			var recs []result.Record
			for _, pair := range round {
				v := c.rate(pair[0], pair[1])
				lo, hi := .9*v, 1.1*v
				rec := result.Record{Status: result.Passed, Reason: "its reason", Config: []result.Pair{{Key: "from", Value: names[pair[0]]}, {Key: "to", Value: names[pair[1]]}},
					Values: []result.Value{{Metric: "throughput_fps", Value: v, Lo: &lo, Hi: &hi}, {Metric: "forwarding_rate_fps", Value: 2 * v}}, Boards: []result.Board{{}, {}}}
				if c.status != nil && c.status(pair[0], pair[1]) != "" {
					rec.Status, rec.Values = c.status(pair[0], pair[1]), nil
				}
				recs = append(recs, rec)
			}
			f.add(round, recs)
		}
		var o procedure.Outcome
		f.outcome(&o, names)
		if said := strings.Join(o.Warnings, "\n"); o.Status != c.point || !strings.Contains(said, c.want) || (o.Status != result.Passed) != strings.HasPrefix(o.Reason, "from b") {
			t.Errorf("%s: %s %q, %q", name, o.Status, o.Reason, said)
		}
		if c.sum[0] == 0 {
			continue
		}
		if v := o.Values[0]; v.Metric != "pairs_throughput_fps" || v.Value != c.sum[0] || *v.Lo != c.sum[1] || *v.Hi != c.sum[2] || v.N != 6-len(f.bad)-len(f.failed) || value(o.Values, "pairs_forwarding_fps") != 2*c.sum[0] {
			t.Errorf("%s: %+v", name, o.Values)
		}
	}
}
