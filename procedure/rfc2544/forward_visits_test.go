// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"slices"
	"strings"
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

// A visit begins no trial once the run's budget is spent, wherever it is. A run that is resumed
// then asks for the same trials, and for none more.
func TestVisitEndsWithTheBudget(t *testing.T) {
	testutil.Computed(t)
	run := func(spent func(kinds []string, kind string) bool) (kinds []string, out procedure.Outcome, pauses int) {
		bed := roomtest.Build(t, "mem", map[string]string{"capacity": "20000", "queue": "8", "ceiling": "60000"})
		one := func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			kinds = append(kinds, result.Get(cfg, "trial"))
			o, err := f(ctx)
			return judgedRecord(cfg, o), err
		}
		env := &procedure.Env{Bed: bed, Trial: one, Spent: func(kind string) bool { return spent(kinds, kind) }}
		env.Once = func(ctx context.Context, _ string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			o, err := f(ctx)
			return judgedRecord(cfg, o), err
		}
		env.Pause = func(procedure.Outcome) bool { pauses++; return !spent(kinds, "overload") }
		out, err := newForward().Run(t.Context(), env)
		if err != nil {
			t.Fatal(err)
		}
		return kinds, out, pauses
	}
	open := 0
	for budget := 3; budget < 41; budget += 2 {
		kinds, out, pauses := run(func(kinds []string, _ string) bool { return len(kinds) >= budget })
		if most := max(budget, 4); len(kinds) > most || pauses == 0 {
			t.Errorf("a budget of %d trials: %v were made in %d visits", budget, kinds, pauses)
		}
		if roomtest.Figure(t, out, "forwarding_rate_fps").Value == 0 {
			t.Errorf("a budget of %d trials: no rate under overload", budget)
		}
		for _, metric := range []string{"throughput_fps", "throughput_bps", "throughput_l1_bps", "line_rate_share"} {
			v := (&result.Record{Values: out.Values}).Value(metric)
			if v == nil || v.Hi != nil {
				continue
			}
			if open++; v.Bound != result.AtLeast || !v.Open || !slices.ContainsFunc(out.Warnings, func(w string) bool {
				return strings.HasSuffix(w, "is confirmed to lose frames: the throughput may be higher")
			}) {
				t.Errorf("a budget of %d trials: no load above %+v is confirmed to lose frames, and it does not say so: %q", budget, v, out.Warnings)
			}
		}
		again, _, _ := run(func(now []string, kind string) bool { return len(now) >= len(kinds) || kinds[len(now)] != kind })
		if !slices.Equal(again, kinds) {
			t.Errorf("a budget of %d trials: %v, and resumed %v", budget, kinds, again)
		}
	}
	if open == 0 {
		t.Error("no budget left a throughput without an upper bound: the test shows nothing")
	}
}
