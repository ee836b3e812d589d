// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/verdict"
)

// judgedRecord is a trial's record as the runner would have it.
func judgedRecord(cfg []result.Pair, o procedure.Outcome) result.Record {
	r := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Load: o.Load, Account: o.Account, Phases: o.Phases, Warnings: o.Warnings}
	r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
	return r
}

// A point whose criterion stays open after its visits asks for more, each with a few
// trials, and no other does.
func TestOpenCriterionIsVisitedMore(t *testing.T) {
	testutil.Computed(t)
	for _, c := range []struct {
		asked float64
		open  bool
	}{{20e3, true}, {10e3, false}, {24e3, false}, {0, false}} {
		bed := roomtest.Build(t, "mem", map[string]string{"capacity": "20000", "queue": "8", "ceiling": "60000"})
		trials := 0
		one := func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			trials++
			o, err := f(ctx)
			return judgedRecord(cfg, o), err
		}
		env := &procedure.Env{Bed: bed, Trial: one, Criteria: []result.Criterion{{Metric: "throughput_fps", Min: &c.asked}}}
		env.Once = func(ctx context.Context, _ string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			return one(ctx, cfg, f)
		}
		n, before := 1, 0
		visited := func() {
			if n > visits && trials-before > visitAsks+2 {
				t.Errorf("asked for %v: visit %d took %d trials", c.asked, n, trials-before)
			}
			before = trials
		}
		env.Pause = func(found procedure.Outcome) bool {
			if visited(); found.Extra != (n >= visits) {
				t.Errorf("asked for %v: after %d visits extra is %v", c.asked, n, found.Extra)
			}
			n++
			return true
		}
		_, err := newForward().Run(t.Context(), env)
		if visited(); err != nil {
			t.Fatal(err)
		}
		want := visits
		if c.open {
			want = mostVisits
		}
		if n != want {
			t.Errorf("asked for %v: %d visits, want %d", c.asked, n, want)
		}
	}
}

// A visit begins no trial once the run's budget is spent, wherever it is.
func TestVisitEndsWithTheBudget(t *testing.T) {
	testutil.Computed(t)
	for budget := 3; budget < 24; budget++ {
		bed := roomtest.Build(t, "mem", map[string]string{"capacity": "20000", "queue": "8", "ceiling": "60000"})
		trials, pauses := 0, 0
		one := func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			trials++
			o, err := f(ctx)
			return judgedRecord(cfg, o), err
		}
		env := &procedure.Env{Bed: bed, Trial: one, Spent: func() bool { return trials >= budget }}
		env.Once = func(ctx context.Context, _ string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			return one(ctx, cfg, f)
		}
		env.Pause = func(procedure.Outcome) bool { pauses++; return trials < budget }
		out, err := newForward().Run(t.Context(), env)
		if err != nil {
			t.Fatal(err)
		}
		if most := max(budget, 4); trials > most || pauses == 0 {
			t.Errorf("a budget of %d trials: %d were made in %d visits", budget, trials, pauses)
		}
		if roomtest.Figure(t, out, "forwarding_rate_fps").Value == 0 {
			t.Errorf("a budget of %d trials: no rate under overload", budget)
		}
	}
}
