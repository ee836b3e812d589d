// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"slices"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// A box of one arm is offered last, for a second, what it carries without loss; without a search it
// is not.
func TestArmEndsAtOnce(t *testing.T) {
	testutil.Computed(t)
	for _, search := range []string{"preset", procedure.NoSearch} {
		bed := roomtest.Build(t, "mem", map[string]string{"capacity": "20000", "queue": "16"})
		p := ArmSpec.New()
		out, recs := carry(t, p, bed, map[string]string{"search": search})
		if out.Status != result.Passed {
			t.Fatalf("%s: %s", out.Status, out.Reason)
		}
		kinds := func(r result.Record) bool { return result.Get(r.Config, "trial") == procedure.AtOnce }
		i := slices.IndexFunc(recs, kinds)
		if search == procedure.NoSearch {
			if i >= 0 || p.(*arm).AtOnce() != 0 {
				t.Errorf("without a search: %+v", recs[i])
			}
			continue
		}
		least := time.Hour
		for _, r := range recs {
			if d, err := time.ParseDuration(result.Get(r.Config, "duration")); err == nil { // the self-test's is its own
				least = min(least, d)
			}
		}
		if got := p.(*arm).Shortest(); got != least {
			t.Errorf("the shortest trial: %v, want %v", got, least)
		}
		want := roomtest.Figure(t, out, "throughput_fps").Value
		if i != len(recs)-1 || i < 0 || recs[i].Status != result.Passed || float64(recs[i].Load.Intended) != want || result.Get(recs[i].Config, "duration") != "1s" {
			t.Errorf("the last of %d trials, %d: %+v; want %g frame/s", len(recs), i, recs[max(i, 0)], want)
		}
	}
}
