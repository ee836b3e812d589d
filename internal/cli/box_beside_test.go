// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// A box is heated, and loaded beside a measurement, by its own agent; nothing is left there.
func TestBoxBeside(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	if err := host.Has("stress-ng"); err != nil {
		t.Skip(err)
	}
	tester, box := oneCable(t)
	trials, phases := 0, map[string]int{}
	for _, r := range runBox(t, tester, "capture", "--set", "subject=af_packet", "--set", "rate=1k", "--set", "duration=500ms", "--set", "beside=cpu:1@50%", "--set", "heat=1s") {
		if r.Procedure != "capture" || r.Parent == "" || result.Get(r.Config, "trial") != "rate" {
			continue
		}
		trials++
		for _, u := range r.Usage {
			if strings.HasPrefix(u.Subject, "stress-ng cpu") && u.CPU > 0 {
				phases[u.Phase]++
			}
		}
		if r.Status == result.Failed {
			t.Errorf("%s: %s", r.ID, r.Reason)
		}
	}
	if trials == 0 || phases["beside"] != trials || phases["heat"] == 0 {
		t.Errorf("%d trials, and stress-ng in %v", trials, phases)
	}
	if left := inside(t, box.Path(), "stress-ng"); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}
