// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// After a search, buffers are filled at one visit, and each longer trial has one of its
// own: a budget may end the point after any of them, with a figure that is true. A rate
// that the tester cannot exceed is confirmed at once.
func TestCaptureLongerTrialsAreVisits(t *testing.T) {
	const (
		counts    = 100e3
		slowStart = 20 * time.Second
	)
	for _, c := range []struct {
		name    string
		ceiling unit.FrameRate
		lossy   int // longer trials that lose frames
		want    string
	}{
		{"sure", 400e3, 0, "fill fill, limit"},
		{"doubted", 400e3, 2, "fill fill, limit, limit, limit"},
		{"ceiling", 90e3, 0, "limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var kinds []string
			lossy := c.lossy
			trial := func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
				kind := result.Get(cfg, "trial")
				kinds = append(kinds, kind)
				rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
				d, derr := time.ParseDuration(result.Get(cfg, "duration"))
				if err != nil || derr != nil {
					t.Fatal(cfg)
				}
				a := &result.Account{Accepted: int64(rate * d.Seconds())}
				a.Received = min(a.Accepted, int64(counts*d.Seconds()))
				if kind == "limit" && lossy > 0 {
					lossy--
					a.Received = a.Accepted / 2
				}
				r := result.Record{Status: result.Passed, Load: &result.Load{Offered: unit.FrameRate(rate)}, Account: a}
				if a.Lost() > 0 {
					r.Status = result.Failed
				}
				r.Phases = []result.Phase{{Name: "traffic", Begin: unit.Instant(slowStart), End: unit.Instant(slowStart + d)}}
				r.End = r.Phases[0].End
				return r, nil
			}
			p := newCaptureOf(nil)
			m := &capturePoint{Capture: p, env: &procedure.Env{Bed: &lab.Testbed{}, Trial: trial}, effort: captureEffortOf("quick"), ceiling: c.ceiling, out: procedure.Outcome{Status: result.Passed}}
			s, err := search.New(p.searching().Name, c.ceiling, min(counts, c.ceiling))
			if err != nil {
				t.Fatal(err)
			}
			var after []string
			m.pause = func(_ context.Context, found procedure.Outcome) error {
				v := (&result.Record{Values: found.Values}).Value("lossless_fps")
				if kinds[0] == "limit" && (v == nil || v.Bound != result.AtMost || !strings.Contains(strings.Join(found.Warnings, ";"), "did not confirm it")) {
					t.Errorf("after %v: %+v, %v", after, v, found.Warnings)
				}
				if kinds[0] == "limit" && found.Next < slowStart {
					t.Errorf("a visit of %v is announced, and each trial takes %v beside its traffic", found.Next, slowStart)
				}
				if kinds[0] != "search" {
					after = append(after, strings.Join(kinds, " "))
				}
				kinds = nil
				return nil
			}
			if err := m.hunt(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			after = append(after, strings.Join(kinds, " "))
			if got := strings.Join(after, ", "); got != c.want {
				t.Errorf("visits %q, want %q", got, c.want)
			}
			if v := (&result.Record{Values: m.out.Values}).Value("lossless_fps"); v == nil || v.Value > counts {
				t.Errorf("%+v", v)
			}
		})
	}
}

// An estimate holds the overloads that fill buffers, and the longer trials.
func TestCaptureEstimateHoldsLongerTrials(t *testing.T) {
	p := newCaptureOf(nil)
	searched, _ := p.searching().Estimate()
	trials, d := p.Estimate()
	if least := time.Duration(searched)*captureEffortOf("quick").least + 2*confirming + time.Duration(trials)*captureAround; d < least || trials < searched+4 || p.Visits() < 4 {
		t.Errorf("%d trials, %v, %d visits", trials, d, p.Visits())
	}
}
