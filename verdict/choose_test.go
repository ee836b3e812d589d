// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"
	"testing"

	"boxdyno/result"
)

// Of alternatives one must meet all criteria, and the best is named with its margin and
// what came of the others.
func TestJudgeAlternatives(t *testing.T) {
	loss := result.Criterion{Text: "loss", Metric: "uncounted_ratio", Where: []result.Pair{{Key: "rate", Value: "1G"}}, Any: []string{"subject"}, Max: f(0)}
	rate := result.Criterion{Text: "rate", Metric: "lossless_l1_bps", Where: []result.Pair{{Key: "rate", Value: "search"}}, Any: []string{"subject"}, Min: f(1e9), Optional: true}
	at := func(subject, rate, metric string, v float64) result.Record {
		return result.Record{Status: result.Passed, Config: []result.Pair{{Key: "subject", Value: subject}, {Key: "rate", Value: rate}}, Values: []result.Value{{Metric: metric, Unit: "1", Value: v}}}
	}
	lost := func(subject string, v float64) result.Record { return at(subject, "1G", "uncounted_ratio", v) }
	limit := func(subject string, v float64) result.Record {
		return at(subject, "search", "lossless_l1_bps", v)
	}
	gone := result.Record{Status: result.Skipped, Reason: "missing the program c", Config: lost("c", 0).Config}
	dark := lost("d", 0)
	dark.Status, dark.Reason = result.Invalid, "the tester was held up"

	for _, c := range []struct {
		name   string
		recs   []result.Record
		want   result.Status
		chosen string
		texts  []string // of the first finding
	}{
		{"one is enough", []result.Record{lost("a", 0.1), lost("b", 0)}, result.Passed, "b", []string{"b: 0, and no more is allowed", "a does not: 0.1"}},
		{"two pass: the one whose rate is known", []result.Record{lost("a", 0), lost("b", 0), limit("b", 2e9)}, result.Passed, "b", []string{"a passes too"}},
		{"two pass: the larger margin", []result.Record{lost("a", 0), limit("a", 2e9), lost("b", 0), limit("b", 3e9)}, result.Passed, "b", nil},
		{"not one by one and the other by another", []result.Record{lost("a", 0), limit("a", 0.5e9), lost("b", 0.1), limit("b", 2e9)}, result.Failed, "", nil},
		{"none", []result.Record{lost("a", 0.1), lost("b", 0.01)}, result.Failed, "b", []string{"a does not: 0.1"}},
		{"one may pass yet", []result.Record{lost("a", 0.1), dark}, result.Invalid, "d", []string{"held up"}},
		{"one is missing", []result.Record{gone, lost("a", 0.1)}, result.Failed, "a", []string{"missing the program c"}},
		{"all are missing", []result.Record{gone}, result.Skipped, "c", nil},
		{"nothing was measured", nil, result.Skipped, "", nil},
		{"the worst of its repeats", []result.Record{lost("a", 0), lost("a", 0.2), lost("b", 0.1)}, result.Failed, "b", nil},
	} {
		status, findings := Judge([]result.Criterion{loss, rate}, c.recs)
		if status != c.want || len(findings) != 2 {
			t.Errorf("%s: %s, %+v", c.name, status, findings)
			continue
		}
		if got := result.Get(findings[0].Criterion.Where, "subject"); c.chosen != "" && got != c.chosen {
			t.Errorf("%s: %s is chosen, not %s", c.name, got, c.chosen)
		}
		for _, s := range c.texts {
			if !strings.Contains(findings[0].Text, s) {
				t.Errorf("%s: %q lacks %q", c.name, findings[0].Text, s)
			}
		}
	}
	if len(loss.Where) != 1 {
		t.Error("the criterion was changed")
	}
}

// A program that passes with another buffer passes, though it does not with its own.
func TestJudgeCombinations(t *testing.T) {
	c := result.Criterion{Text: "loss", Metric: "uncounted_ratio", Any: []string{"subject", "buffer"}, Max: f(0)}
	at := func(subject, buffer string, v float64) result.Record {
		return result.Record{Status: result.Passed, Config: []result.Pair{{Key: "subject", Value: subject}, {Key: "buffer", Value: buffer}}, Values: []result.Value{{Metric: "uncounted_ratio", Unit: "1", Value: v}}}
	}
	status, findings := Judge([]result.Criterion{c}, []result.Record{at("a", "0", 0.1), at("a", "64", 0), at("b", "0", 0.2)})
	if want := "a, buffer 64: 0, and no more is allowed; a does not: 0.1, 0.1 above the 0 allowed; b does not: 0.2, 0.2 above the 0 allowed"; status != result.Passed || findings[0].Text != want || findings[0].Chosen() != want[:strings.Index(want, ";")] {
		t.Errorf("%s: %q", status, findings[0].Text)
	}
}

// What was not measured and is optional decides nothing, and what was does.
func TestJudgeOptional(t *testing.T) {
	hot := result.Criterion{Text: "hot", Metric: result.HottestMetric, Max: f(80), Optional: true}
	value := func(v float64) result.Record {
		return result.Record{Status: result.Passed, Values: []result.Value{{Metric: result.HottestMetric, Unit: "°C", Value: v}}}
	}
	must := result.Criterion{Text: "x", Metric: "x", Min: f(1)}
	x := result.Record{Status: result.Passed, Values: []result.Value{{Metric: "x", Unit: "1", Value: 2}}}
	if s, fs := Judge([]result.Criterion{must, hot}, []result.Record{x}); s != result.Passed || fs[1].Status != result.Skipped {
		t.Errorf("without a sensor: %s, %+v", s, fs)
	}
	lost := result.Record{Status: result.Invalid, Reason: "the tester was held up"}
	if s, fs := Judge([]result.Criterion{must, hot}, []result.Record{x, lost}); fs[1].Status != result.Skipped || !strings.HasPrefix(fs[1].Text, "not measured: ") {
		t.Errorf("an invalid point without a sensor: %s, %+v", s, fs)
	}
	burnt := value(90)
	burnt.Status = result.Invalid
	if s, _ := Judge([]result.Criterion{hot}, []result.Record{burnt}); s != result.Failed {
		t.Errorf("too hot in an invalid trial: %s", s)
	}
	if s, _ := Judge([]result.Criterion{hot}, []result.Record{value(79), value(81)}); s != result.Failed {
		t.Errorf("too hot: %s", s)
	}
	if s, _ := Judge([]result.Criterion{hot}, []result.Record{value(79)}); s != result.Passed {
		t.Errorf("cool: %s", s)
	}
}
