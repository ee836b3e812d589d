// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/subject/ids"
)

// Suricata itself sees every planted attack, and every frame is in its books.
func TestIDSWithSuricata(t *testing.T) {
	if testing.Short() {
		t.Skip("is left out of a short test")
	}
	var missing *host.Missing
	if err := ids.NewSuricata().Check(t.Context(), nil); errors.As(err, &missing) {
		t.Skip(err)
	}
	bed := roomtest.Build(t, "sandbox", nil)
	p := newIDSOf(ids.Specs())
	roomtest.Assign(t, p.Flags, map[string]string{"rate": "10Mbps", "idle": "4Mbps", "duration": "250ms", "attacks": "0.5", "rules": "20", "rules_file": "generated", "threads": "1"})
	if err := p.Check(bed); err != nil {
		t.Fatal(err)
	}
	var recs []result.Record
	trial := func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		o, err := f(ctx)
		if err == nil && o.Account == nil && o.Reason != "" {
			t.Errorf("%v: %s", cfg, o.Reason)
		}
		r := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Load: o.Load, Account: o.Account, Warnings: o.Warnings}
		if r.Value("rules_loaded") != nil { // the self-test has none
			recs = append(recs, r)
		}
		return r, err
	}
	once := func(ctx context.Context, key string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		if strings.HasPrefix(key, "ids-idle/") { // a start of Suricata more, which takes ten seconds
			return result.Record{Status: result.Passed, Load: &result.Load{}}, nil
		}
		return trial(ctx, cfg, f)
	}
	if _, err := p.Run(t.Context(), &procedure.Env{Bed: bed, Trial: trial, Once: once}); err != nil {
		t.Fatal(err)
	}
	if len(recs) != 1 {
		t.Fatalf("%d trials of the IDS, want one", len(recs))
	}
	for _, r := range recs {
		get := func(name string) float64 {
			if v := r.Value(name); v != nil {
				return v.Value
			}
			t.Fatalf("%s: no %s in %v", r.Reason, name, r.Values)
			return 0
		}
		if a := r.Account; a.Accepted == 0 || a.Unexplained != 0 || a.Received+a.Dropped() != a.Accepted {
			t.Errorf("the books do not close: %+v", *a)
		}
		if n := get("rules_loaded"); n != 29 || get("rules_failed") != 0 {
			t.Errorf("%v rules were loaded and %v not, want the nine and 20", n, get("rules_failed"))
		}
		if get("frames_lost") > 0 {
			continue // attacks may be among them: the machine was busy
		}
		if planted := get("attacks_planted"); planted < 3 || get("attacks_detected") != planted || r.Status != result.Passed {
			t.Errorf("%s: %s; %v of %v attacks detected", r.Status, r.Reason, get("attacks_detected"), planted)
		}
	}
}
