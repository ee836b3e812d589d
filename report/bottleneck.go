// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"

	"boxdyno/result"
	"boxdyno/verdict"
)

// bottleneck looks at the row that decided the verdict, or else at the
// headline's, and says what to try there.
func bottleneck(d Document, run result.Run, points []result.Record, trials map[string][]result.Record) (*Bottleneck, string) {
	r := headline(d.Rows)
	for _, f := range d.Findings {
		if f.Status == d.Verdict && f.Status != result.Passed {
			if missed, _ := nearest(d, f.Criterion); missed != nil {
				r = missed
			}
			break
		}
	}
	if r == nil {
		return nil, ""
	}
	p := points[slices.IndexFunc(points, func(p result.Record) bool { return p.ID == r.ID })]
	valid := false // an invalid trial tells of the tester, where there is no other
	for _, t := range trials[p.ID] {
		if ok := t.Status != result.Invalid; t.Account != nil && (ok || !valid) && result.Get(t.Config, "trial") == "overload" {
			p, valid = t, ok
		}
	}
	p.Account = r.said().limited(r, p)
	c := verdict.Case{Record: p, Series: run.Series}
	for _, s := range d.Environment {
		c.Environment = append(c.Environment, result.Pair{Key: s.Key, Value: s.Before})
	}
	limits := verdict.Limits(c)
	if len(limits) == 0 {
		return nil, ""
	}
	l := limits[0]
	return &Bottleneck{Row: r.ID, Name: r.Name, Cause: l.Cause, Sentence: l.Sentence, Evidence: l.Evidence}, l.Next
}

func next(d Document, advice string) (out []string) {
	if othersHeldUp(d) {
		out = append(out, "Stop what else runs on this machine and repeat: the tester, too, had to share it.")
	} else if d.Books.Invalid*10 > d.Books.Trials {
		out = append(out, "Repeat it where the tester is disturbed less: the reasons of the invalid trials are on the page.")
	}
	if advice != "" && d.Kind != result.KindMemory { // nothing there can be looked at
		out = append(out, advice)
	}
	out = append(out, captureAdvice(d)...)
	if d.Placement == "shared" {
		out = append(out, "Give the box's receive work a CPU of its own (placement split): then throughput without loss can be measured.")
	}
	if d.Preset == "quick" && len(d.NotMeasured) > 0 {
		out = append(out, "Run it with --standard: it takes longer, narrows the intervals, and measures some of what the quick preset leaves out.")
	}
	return out
}
