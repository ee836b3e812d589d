// SPDX-License-Identifier: Apache-2.0

package many

import (
	"math"
	"slices"
	"strings"
	"testing"

	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
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
	if len(o.Warnings) != 2 || o.Warnings[0] != "by what pairs forward under overload, the slowest pair is b1 to b2: 800 frame/s, 42 % of the median" || o.Values[0].Bound != result.AtLeast || o.Values[0].Hi != nil {
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

// What all pairs carried at one time has a sum where they did so in one trial, with what they lost.
func TestForwardAtOnce(t *testing.T) {
	pair := func(from string, at unit.Instant, carries, of float64, bound result.Bound) result.Record {
		return result.Record{Status: result.Passed, Config: []result.Pair{{Key: "from", Value: from}, {Key: "to", Value: "b9"}},
			Phases: []result.Phase{{Name: "traffic"}, {Name: procedure.AtOnce, Begin: at, End: at + 1}},
			Values: []result.Value{{Metric: "throughput_fps", Value: of, Lo: &of, Bound: bound}, {Metric: "forwarding_rate_fps", Value: of}, {Metric: "at_once_fps", Value: carries}, {Metric: "at_once_lost", Value: 1 - carries/of}, {Metric: "at_once_offered_fps", Value: of}}}
	}
	without := pair("b3", 5, 100, 100, "")
	without.Values, without.Warnings = without.Values[:2], []string{notAtOnce + "it was late"}
	short := pair("b1", 5, 90, 100, result.AtLeast)
	short.Values[2].Bound, short.Warnings = result.AtMost, []string{tooShort + "a queue grew"}
	gentle := pair("b1", 5, 75, 100, "")
	gentle.Values[0].Value = 900 // after a ramp
	gentle.Values = append(gentle.Values, result.Value{Metric: "standing_start_fps", Value: 100})
	for name, c := range map[string]struct {
		rounds    [][]result.Record
		sum, lost float64
		bound     result.Bound
		want      string
	}{
		"all":              {[][]result.Record{{pair("b1", 5, 100, 100, ""), pair("b3", 5, 300, 300, "")}}, 400, 0, result.Exactly, ""},
		"a shared trunk":   {[][]result.Record{{pair("b1", 5, 75, 100, ""), pair("b3", 5, 300, 300, "")}}, 375, 0.0625, result.Exactly, "all pairs at once lose frames at loads that each carries by itself: from b1 to b9 (25 %)"},
		"lower bounds":     {[][]result.Record{{pair("b1", 5, 100, 100, result.AtLeast), pair("b3", 5, 300, 300, "")}}, 400, 0, result.AtLeast, ""},
		"too short":        {[][]result.Record{{short, pair("b3", 5, 300, 300, "")}}, 390, 0.025, result.AtMost, tooShort + "from b1 to b9: a queue grew"},
		"standing starts":  {[][]result.Record{{gentle, pair("b3", 5, 300, 300, "")}}, 375, 0.0625, result.Exactly, "offered at one time what each carries from a standing start"},
		"of two parts":     {[][]result.Record{{pair("b1", 5, 100, 100, ""), pair("b3", 9, 300, 300, "")}}, math.NaN(), math.NaN(), "", "the pairs of 1 of 1 rounds were not all offered their loads at one time"},
		"one has none":     {[][]result.Record{{pair("b1", 5, 100, 100, ""), without}, {pair("b3", 8, 50, 100, "")}}, 50, 0.5, result.Exactly, "the pairs of 1 of 2 rounds were not all offered their loads at one time: from b3 to b9: it was late"},
		"the worst of two": {[][]result.Record{{pair("b1", 5, 90, 100, "")}, {pair("b3", 8, 50, 100, "")}}, 70, 0.5, result.Exactly, "from b1 to b9 (10 %); from b3 to b9 (50 %)"},
	} {
		var f forwarded
		for _, recs := range c.rounds {
			f.add([][2]int{{0, 1}, {2, 3}}[:len(recs)], recs)
		}
		var o procedure.Outcome
		f.outcome(&o, []string{"b1", "b2", "b3", "b4"})
		same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a/b-1) < 1e-9 }
		said := strings.Join(o.Warnings, "\n")
		if !same(value(o.Values, "pairs_at_once_fps"), c.sum) || !same(value(o.Values, "pairs_at_once_lost"), c.lost) || !strings.Contains(said, c.want) || c.want == "" && strings.Contains(said, "at once") {
			t.Errorf("%s: %+v, %q", name, o.Values, said)
		}
		for _, v := range o.Values {
			if v.Metric == "pairs_at_once_fps" && v.Bound != c.bound {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
}
