// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// The box itself is flooded while clients ask its server: they are answered, the books close
// without their frames, and the port of a box whose server is gone answers nobody.
func TestFloodOfTheBox(t *testing.T) {
	testutil.Alone(t)
	if err := host.Has("nginx"); err != nil {
		t.Skip(err)
	}
	b := roomtest.NewBench(t, "sandbox", map[string]string{"placement": "split"})
	set := map[string]string{"target": "box", "rate": "1k", "requests": "20", "duration": "500ms"}
	o := b.Run(FloodSpec, set)
	figure := func(o procedure.Outcome, metric string) float64 {
		t.Helper()
		for _, v := range o.Values {
			if v.Metric == metric {
				return v.Value
			}
		}
		t.Errorf("%s: %s has no %s", o.Status, o.Reason, metric)
		return -1
	}
	if o.Status == result.Invalid {
		t.Skipf("this machine is too busy: %s", o.Reason)
	}
	if figure(o, "service_requests") < 5 || figure(o, "service_survival_ratio") < 0.5 || figure(o, "service_failed_before") != 0 {
		t.Errorf("%s: %s: %+v", o.Status, o.Reason, o.Values)
	}
	if a := o.Account; a == nil || a.Accepted < 400 || a.Received != a.Accepted || a.Unexplained != 0 {
		t.Errorf("%+v", a)
	}
}

// A server with room for few half-open connections, and without cookies, answers next to nobody
// during a flood that its machine takes easily, and the record says so. What is scarce is that
// room, so the flood is slow. What one flood left half open is not there before the next.
func TestFloodFillsTheBacklog(t *testing.T) {
	testutil.Alone(t)
	if err := host.Has("nginx"); err != nil {
		t.Skip(err)
	}
	b := roomtest.NewBench(t, "sandbox", nil)
	if _, err := b.Bed.DUT.Run(t.Context(), "", "sysctl", "-qw", "net.ipv4.tcp_syncookies=0", "net.core.somaxconn=32"); err != nil {
		t.Fatal(err)
	}
	p := newFlood().(*Flood)
	roomtest.Assign(t, p.Flags, map[string]string{"target": "box"})
	m := &floodPoint{Flood: p, env: &procedure.Env{Bed: b.Bed}, effort: floodEffort{before: 300 * time.Millisecond}, mean: 64}
	defer func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := m.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var o procedure.Outcome
	for _, p.requests.Value = range []int{1, 40} { // who asks once is answered before the flood, and keeps nobody waiting
		var err error
		if o, err = m.storm(t.Context(), 2000, 300*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if n := roomtest.Figure(t, o, "service_failed_before").Value; n != 0 {
			t.Errorf("%v of %d requests a second failed before the flood", n, p.requests.Value)
		}
		if a := o.Account; a == nil || a.Accepted < 100 || a.Received != a.Accepted || a.Unexplained != 0 || a.Dropped() != 0 {
			t.Errorf("%+v", a)
		}
	}
	if asked, share := roomtest.Figure(t, o, "service_requests").Value, roomtest.Figure(t, o, "service_survival_ratio").Value; asked < 5 || share > 0.5 {
		t.Errorf("of %v requests a share of %v was answered", asked, share)
	}
	if o.Status != result.Failed || !strings.Contains(o.Reason, "requests a second were answered during a SYN flood") {
		t.Errorf("%s: %s", o.Status, o.Reason)
	}
}

func TestFloodOfTheBoxRefuses(t *testing.T) {
	bed := &lab.Testbed{}
	bed.Ports = make([]lab.Port, 1)
	for name, value := range map[string]string{"ip": "6", "sources": "any", "service": "nat", "direction": "wan-to-lan", "duration": "2h"} {
		p := newFlood().(*Flood)
		roomtest.Assign(t, p.Flags, map[string]string{"target": "box", name: value})
		if err := p.Check(bed); err == nil {
			t.Errorf("%s=%s is taken", name, value)
		}
	}
	p := newFlood().(*Flood)
	roomtest.Assign(t, p.Flags, map[string]string{"target": "box"})
	if err := p.Check(bed); err != nil {
		t.Error(err)
	}
	if need, service := p.Needs(); need&lab.Sockets == 0 || service != "" {
		t.Errorf("%v, %q", need, service)
	}
}
