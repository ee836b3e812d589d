// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// The published capture experiment with a remote sender, at four of its points: iperf3 sends
// from the tester, and the box captures. Every datagram is in the books.
func TestBoxPublishedCapture(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	for _, name := range []string{"iperf3", "tcpdump"} {
		if err := host.Has(name); err != nil {
			t.Skip(err)
		}
	}
	tester, _ := oneCable(t)
	points := 0
	for _, r := range runBox(t, tester, "capture", "--set", "subject=tcpdump", "--set", "payload_size=148,1400", "--set", "rate=2Mbps,10Mbps", "--set", "packets=500", "--set", "generator=iperf3", "--set", "method=published", "--set", "window=5s") {
		if r.Procedure != "capture" || r.Parent != "" {
			continue
		}
		points++
		for _, name := range []string{"main_cpu_share", "frames_counted", "control_frames"} {
			if v := r.Value(name); v == nil || v.Value < 0 {
				t.Errorf("%s: %s %s: %s: %+v", r.ID, r.Status, r.Reason, name, v)
			}
		}
		if v := r.Value("frames_counted"); r.Status == result.Passed && (v == nil || v.Value != 501 || r.Value("frames_unexplained").Value != 0) {
			t.Errorf("%s: %+v", r.ID, r.Values)
		}
		if r.Status == result.Failed {
			t.Errorf("%s: %s", r.ID, r.Reason)
		}
	}
	if points != 4 {
		t.Errorf("%d points", points)
	}
	left := inSpace(t, tester, "ip -4 -o address show dev e0")
	if strings.TrimSpace(left) != "" {
		t.Errorf("the tester's port keeps %s", left)
	}
}
