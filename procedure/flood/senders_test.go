// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"math"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// A flood that one sender cannot send is sent by two, amid the same benign frames, and the
// books close.
func TestFloodOfSenders(t *testing.T) {
	testutil.Computed(t)
	for _, c := range []struct{ senders, lose string }{{"2", "0"}, {"3", "0"}, {"2", "50"}, {"8", "0"}} {
		b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "0", "ceiling": "200k", "lose_every": c.lose})
		o := b.Run(FloodSpec, map[string]string{"rate": "300k", "duration": "300ms", "senders": c.senders})
		r := floodTrial(t, b, o)
		if n := roomtest.Figure(t, o, "flood_sent").Value; n != 90_000 {
			t.Errorf("%+v: %v frames of the flood, want 90000: %s", c, n, o.Reason)
		}
		if v := roomtest.Figure(t, o, "flood_offered_fps").Value; math.Abs(v/300e3-1) > 0.01 {
			t.Errorf("%+v: %v frame/s: %s %s", c, v, o.Status, o.Reason)
		}
		survived := roomtest.Figure(t, o, "benign_survival_ratio").Value
		if c.lose == "0" && (o.Status != result.Passed || survived != 1 || roomtest.Figure(t, o, "flood_arrived").Value != 90_000) || c.lose != "0" && math.Abs(survived-0.98) > 0.01 {
			t.Errorf("%+v: %s %s: %+v", c, o.Status, o.Reason, o.Values)
		}
		if r.Account.Unexplained != 0 {
			t.Errorf("%+v: %+v", c, r.Account)
		}
	}
}
