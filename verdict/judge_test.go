// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"math"
	"strings"
	"testing"

	"boxdyno/result"
	"boxdyno/unit"
)

func f(v float64) *float64 { return &v }

func point(status result.Status, reason string, values ...result.Value) result.Record {
	return result.Record{
		Procedure: "forward", Status: status, Reason: reason, Values: values,
		Config: []result.Pair{{Key: "service", Value: "route"}, {Key: "frame_size", Value: "imix"}, {Key: "direction", Value: "both"}},
	}
}

func bps(v float64, lo, hi *float64, b result.Bound) result.Value {
	return result.Value{Metric: "throughput_l1_bps", Unit: "bit/s", Value: v, Lo: lo, Hi: hi, Bound: b}
}

func TestJudgeOnePoint(t *testing.T) {
	where := []result.Pair{{Key: "direction", Value: "both"}, {Key: "service", Value: "route"}}
	least := result.Criterion{Metric: "throughput_l1_bps", Where: where, Min: f(1e9)}
	most := result.Criterion{Metric: "throughput_l1_bps", Where: where, Max: f(1e9)}
	between := result.Criterion{Metric: "throughput_l1_bps", Where: where, Min: f(1e9), Max: f(2e9)}
	passed := func(v float64, lo, hi *float64, b result.Bound) result.Record {
		return point(result.Passed, "", bps(v, lo, hi, b))
	}
	open := bps(0.4e9, f(0.4e9), nil, ">=")
	open.Open = true
	shared := point(result.Passed, "")
	shared.Warnings = []string{"tester and DUT share a CPU"}
	elsewhere := passed(2e9, nil, nil, "")
	elsewhere.Config[2].Value = "lan-to-wan"
	trial := passed(2e9, nil, nil, "")
	trial.Parent = "p"

	for _, c := range []struct {
		name string
		c    result.Criterion
		r    result.Record
		want result.Status
		text string // part of it
	}{
		{"exact, met", least, passed(1.31e9, nil, nil, ""), result.Passed, "1.31 Gbit/s, 31 % above the 1.00 Gbit/s asked for"},
		{"exact, just met", least, passed(1e9, nil, nil, ""), result.Passed, "1.00 Gbit/s, as asked for"},
		{"exact, missed", least, passed(0.42e9, nil, nil, ""), result.Failed, "420 Mbit/s, 58 % below the 1.00 Gbit/s asked for"},
		{"interval, met", least, passed(1.1e9, f(1.1e9), f(1.2e9), ""), result.Passed, "between 1.10 Gbit/s and 1.20 Gbit/s, 10 % above"},
		{"interval, missed", least, passed(0.4e9, f(0.4e9), f(0.8e9), ""), result.Failed, "between 400 Mbit/s and 800 Mbit/s, 20 % below"},
		{"interval, around it", least, passed(0.9e9, f(0.9e9), f(1.1e9), ""), result.Invalid, "too close to call: between 900 Mbit/s and 1.10 Gbit/s, and the criterion asks for at least 1.00 Gbit/s: repeat with --standard"},
		{"interval, up to it", least, passed(0.9e9, f(0.9e9), f(1e9), ""), result.Invalid, "too close to call"},
		{"no upper bound is known", least, point(result.Passed, "", open), result.Invalid, "not decided: at least 400 Mbit/s, no upper limit was found, and the criterion asks"},
		{"median above, least below", least, passed(1.2e9, f(0.9e9), f(1.3e9), ""), result.Invalid, "too close to call"},
		{"at the ceiling, met", least, passed(1.1e9, f(1.1e9), nil, ">="), result.Passed, "at least 1.10 Gbit/s, 10 % above"},
		{"at the ceiling, below", least, passed(0.4e9, f(0.4e9), nil, ">="), result.Invalid, "the tester, not the box"},
		{"near the ceiling, and lossy above", least, passed(0.4e9, f(0.4e9), f(0.5e9), ">="), result.Invalid, "the tester, not the box"},
		{"a link of the rate asked for", least, passed(0.9995e9, f(0.9995e9), nil, ">="), result.Passed, "all that the tester could offer and within 0.1 % of the 1.00 Gbit/s"},
		{"not at the ceiling: no such grace", least, passed(0.9995e9, nil, nil, ""), result.Failed, "0.05 % below"},
		{"at most, below it", least, passed(0.4e9, nil, nil, "<="), result.Failed, "at most 400 Mbit/s, 60 % below"},
		{"at most, above it", least, passed(1.4e9, nil, nil, "<="), result.Invalid, "not decided"},
		{"max, met", most, passed(0.4e9, f(0.3e9), f(0.5e9), ""), result.Passed, "50 % below the 1.00 Gbit/s allowed"},
		{"max, missed", most, passed(1.4e9, f(1.25e9), f(1.5e9), ""), result.Failed, "25 % above the 1.00 Gbit/s allowed"},
		{"max, around it", most, passed(1e9, f(0.9e9), f(1.1e9), ""), result.Invalid, "too close to call: between 900 Mbit/s and 1.10 Gbit/s, and the criterion allows at most"},
		{"max, at least more", most, passed(1.4e9, nil, nil, ">="), result.Failed, "40 % above"},
		{"max, at least less", most, passed(0.4e9, nil, nil, ">="), result.Invalid, "not decided"},
		{"both, inside", between, passed(1.4e9, nil, nil, ""), result.Passed, "40 % above the 1.00 Gbit/s asked for"},
		{"both, above", between, passed(3e9, nil, nil, ""), result.Failed, "50 % above the 2.00 Gbit/s allowed"},
		{"both, below", between, passed(0.5e9, nil, nil, ""), result.Failed, "50 % below the 1.00 Gbit/s asked for"},
		{"no metric, with a warning", least, shared, result.Skipped, "not measured: tester and DUT share a CPU"},
		{"no metric, with a reason", least, point(result.Skipped, "nft is missing"), result.Skipped, "not measured: nft is missing"},
		{"no metric", least, point(result.Passed, ""), result.Skipped, "gave no throughput_l1_bps"},
		{"invalid point", least, point(result.Invalid, "the self-test is invalid", bps(2e9, nil, nil, "")), result.Invalid, "the self-test is invalid"},
		{"interrupted point", least, point(result.Aborted, "interrupted", bps(2e9, nil, nil, "")), result.Invalid, "not finished: interrupted"},
		{"not a number", least, passed(math.NaN(), nil, nil, ""), result.Invalid, "not a number"},
		{"a failed point with a figure", least, point(result.Failed, "lost", bps(0, f(0), f(0.1e9), "")), result.Failed, "90 % below"},
		{"another point", least, elsewhere, result.Skipped, "no such point"},
		{"a trial is no point", least, trial, result.Skipped, "no such point"},
		{"a criterion that asks nothing", result.Criterion{Metric: "throughput_l1_bps"}, passed(1, nil, nil, ""), result.Skipped, "neither min nor max"},
		{"far above", least, passed(3.9994e9, nil, nil, ""), result.Passed, "4.00 Gbit/s, 300 % above the 1.00 Gbit/s asked for"},
		{"a multiple", least, passed(16.43e9, nil, nil, ""), result.Passed, "16.4 Gbit/s, 16.4 times the 1.00 Gbit/s asked for"},
		{"thousands of times", result.Criterion{Metric: "throughput_l1_bps", Max: f(0.0001)}, passed(0.1644, nil, nil, ""), result.Failed, ", 1,640 times the "},
		{"millions of times", result.Criterion{Metric: "throughput_l1_bps", Max: f(1e-6)}, passed(9.999, nil, nil, ""), result.Failed, ", 10,000,000 times the "},
		{"a share of nothing", result.Criterion{Metric: "throughput_l1_bps", Max: f(0)}, passed(3, nil, nil, ""), result.Failed, "3 above the 0 bit/s allowed"},
	} {
		status, findings := Judge([]result.Criterion{c.c}, []result.Record{c.r})
		if len(findings) != 1 || status != c.want || findings[0].Status != c.want || !strings.Contains(findings[0].Text, c.text) {
			t.Errorf("%s: %s %+v, want %s %q", c.name, status, findings, c.want, c.text)
		}
	}
}

func TestJudgeMany(t *testing.T) {
	at := func(metric string, v float64) result.Value {
		return result.Value{Metric: metric, Unit: "frame/s", Value: v}
	}
	min := func(metric string, v float64) result.Criterion { return result.Criterion{Metric: metric, Min: f(v)} }
	near := result.Value{Metric: "c", Value: 1, Lo: f(0), Hi: f(9)}
	recs := []result.Record{point(result.Passed, "", at("a", 10), at("b", 10), near)}
	for _, c := range []struct {
		name string
		cs   []result.Criterion
		want result.Status
	}{
		{"none", nil, result.Skipped},
		{"met", []result.Criterion{min("a", 1), min("b", 1)}, result.Passed},
		{"one not measured", []result.Criterion{min("a", 1), min("x", 1)}, result.Skipped},
		{"one missed", []result.Criterion{min("x", 1), min("a", 11), min("b", 1)}, result.Failed},
		{"one not decided", []result.Criterion{min("c", 5), min("a", 1), min("x", 1)}, result.Invalid},
		{"one not decided, one missed", []result.Criterion{min("c", 5), min("a", 11), min("x", 1)}, result.Failed},
		{"an optional one not decided", []result.Criterion{{Metric: "c", Min: f(5), Optional: true}, min("a", 1)}, result.Passed},
		{"an optional one missed", []result.Criterion{{Metric: "a", Min: f(11), Optional: true}, min("a", 1)}, result.Failed},
	} {
		status, findings := Judge(c.cs, recs)
		if status != c.want || len(findings) != len(c.cs) {
			t.Errorf("%s: %s %+v, want %s", c.name, status, findings, c.want)
		}
	}
	repeats := []result.Record{point(result.Passed, "", at("a", 10)), point(result.Passed, "", at("a", 4)), point(result.Passed, "", at("a", 12))}
	status, findings := Judge([]result.Criterion{min("a", 5)}, repeats)
	if status != result.Failed || !strings.HasSuffix(findings[0].Text, "(the worst of 3 points)") {
		t.Errorf("three repeats of which one misses: %s %q", status, findings[0].Text)
	}
}

// Where a box carried the load that is asked for in most trials and lost frames in some, the
// remedy is no longer budget.
func TestRemedyOfABoxThatStandsStill(t *testing.T) {
	v := bps(0.6e9, f(0.6e9), nil, ">=")
	v.Open = true
	p := point(result.Passed, "", v, result.Value{Metric: "throughput_fps", Unit: "frame/s", Value: 60e3})
	p.ID = "p"
	trial := func(kind string, load float64, s result.Status) result.Record {
		return result.Record{Parent: "p", Status: s, Load: &result.Load{Offered: unit.FrameRate(load)}, Config: []result.Pair{{Key: "trial", Value: kind}}}
	}
	lost, carried, more := trial("search", 100.2e3, result.Failed), trial("search", 99.9e3, result.Passed), trial("search", 150e3, result.Passed)
	for name, c := range map[string]struct {
		trials []result.Record
		says   string
	}{
		"half carried it": {[]result.Record{lost, carried, lost, more}, "repeat with"},
		"many carried it": {[]result.Record{lost, carried, lost, more, more}, "the box stands still now and then: 2 trials at this load lost frames, and 3 carried it or more"},
		"one lost":        {[]result.Record{lost, carried, more, more}, "repeat with"},
		"others count not": {[]result.Record{lost, lost, trial("search", 150e3, result.Failed), trial("search", 99e3, result.Passed), trial("search", 100e3, result.Invalid), trial("overload", 200e3, result.Passed),
			trial("warm-up", 100e3, result.Passed)}, "repeat with"},
	} {
		_, findings := Judge([]result.Criterion{{Metric: "throughput_l1_bps", Min: f(1e9)}}, append(c.trials, p))
		if got := findings[0]; got.Status != result.Invalid || !strings.Contains(got.Text, c.says) {
			t.Errorf("%s: %s %q, want %q", name, got.Status, got.Text, c.says)
		}
	}
}
