// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"math"
	"os"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/subject/catalog"
)

// What iperf3 3.12 said of 500 datagrams of 148 octets at 2 Mbit/s.
func TestReadIperf3(t *testing.T) {
	said, err := os.ReadFile("testdata/iperf3-3.12.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := readIperf3(said, 5e9)
	if err != nil {
		t.Fatal(err)
	}
	if r.Accepted != 501 || r.Octets != 74000 || math.Abs(float64(r.Offered)-1688.7) > 0.1 || r.Last != 5e9 || r.Last-r.First != 296_089_000 {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct{ said, want string }{
		{`{"start": {}, "error": "unable to connect to server: Connection refused"}`, "Connection refused"},
		{`{"end": {}}`, "no datagrams"},
		{`{"end": {"streams": [{"udp": {"seconds": 0, "packets": 9}}]}}`, "no datagrams"},
		{`iperf3: error`, "no JSON"},
		{``, "no JSON"},
	} {
		if _, err := readIperf3([]byte(c.said), 5e9); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.said, err, c.want)
		}
	}
}

func TestIperf3Refuses(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"rate": "2Mbps"}, "give payload_size"},
		{map[string]string{"payload_size": "148"}, "give a rate"},
		{map[string]string{"payload_size": "148", "rate": "2Mbps", "burst": "8"}, "burst 8"},
	} {
		p := newCapture().(*Capture)
		roomtest.Assign(t, p.Flags, c.set)
		roomtest.Assign(t, p.Flags, map[string]string{"generator": "iperf3"})
		if err := p.Check(nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want a sentence with %q", c.set, err, c.want)
		}
	}
}

// Every datagram of iperf3's is in the books of tcpdump, which counts nothing else; its
// control connection is told apart, and the port is left as it was.
func TestIperf3Sends(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	for _, name := range []string{"iperf3", "ip", "tcpdump"} {
		if err := host.Has(name); err != nil {
			t.Skip(err)
		}
	}
	bed := roomtest.Build(t, "sandbox", nil)
	p := newCaptureOf(catalog.Captures)
	roomtest.Assign(t, p.Flags, map[string]string{"generator": "iperf3", "payload_size": "148", "rate": "payload:2Mbps", "duration": "592ms"})
	o, recs, err := captureAs(t, bed, p)
	if err != nil {
		t.Fatal(err)
	}
	if o.Status == result.Invalid {
		t.Skipf("the tester was held up: %s", o.Reason)
	}
	if n := valueOf(t, o, "frames_offered"); n != 1001 || o.Status != result.Passed || valueOf(t, o, "frames_counted") != n || valueOf(t, o, "frames_unexplained") != 0 {
		t.Errorf("%s: %s; %v", o.Status, o.Reason, o.Values)
	}
	if n := valueOf(t, o, "control_frames"); n < 5 || n > 100 {
		t.Errorf("%v frames of control", n)
	}
	if v := valueOf(t, o, "capture_offered_bps"); math.Abs(v/(2e6*194/148)-1) > 0.05 {
		t.Errorf("%v bit/s offered", v)
	}
	for _, r := range recs {
		if result.Get(r.Config, "trial") == "" && result.Get(r.Config, "burst") != "" && result.Get(r.Config, "generator") != "iperf3" {
			t.Errorf("the empty box of %v is the engine's, too", r.Config)
		}
		if a := r.Account; a != nil && r.Status == result.Passed && (a.Unexplained != 0 || a.Dropped() != 0) {
			t.Errorf("%v: %+v", r.Config, *a)
		}
	}
	tester := host.Local{Netns: bed.Ports[0].Netns}
	if out, err := tester.Run(t.Context(), "", "ip", "-4", "-o", "addr", "show", "dev", bed.Ports[0].Name); err != nil || len(out) != 0 {
		t.Errorf("the port still has %s, %v", out, err)
	}
}
