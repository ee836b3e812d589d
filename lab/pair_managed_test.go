// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/snapshot"
	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/service"
)

// settings of a bench's two namespaces, with what snapshots lack.
func (b bench) settings(t *testing.T) (all map[string]string) {
	t.Helper()
	all = map[string]string{}
	for name, s := range map[string]*space{"tester": b.tester, "box": b.box} {
		taken, err := snapshot.Take(s.Netns)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range taken {
			if !strings.Contains(k, "neigh") && !strings.Contains(k, "conntrack_count") && !strings.Contains(k, "statistics") {
				all[name+" "+k] = v
			}
		}
		all[name+" links"] = s.sh(t, "ip -o link show up | cut -d: -f2; ip -o address | sed 's/valid_lft.*//'; ip route show table all; ip -6 route show table all | grep -v fe80 || true")
		all[name+" nft"] = s.sh(t, "nft list ruleset")
	}
	return all
}

func (b bench) managed(t *testing.T) *pair {
	t.Helper()
	if err := host.Has("nft"); err != nil {
		t.Skip(err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // others recover what is in theirs
	b.box.sh(t, "ip link set i0 down; ip link set i1 down")
	b.tester.sh(t, "ip link set e0 down; ip link set e1 down")
	p := b.pair()
	p.services = managed
	return p
}

// A box that nobody has configured is set up for one service after another, and is as it
// was afterwards.
func TestPairManagesServices(t *testing.T) {
	testutil.Alone(t)
	b := newBench(t)
	p := b.managed(t)
	before := b.settings(t)
	tb, err := p.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	if !slices.Equal(tb.Services, service.Managed) || result.Get(tb.Settings, "services") != managed {
		t.Errorf("%v, %v", tb.Services, tb.Settings)
	}
	for _, c := range []struct {
		service Service
		place   result.Place // where frames end; "": nowhere
	}{
		{Service{Kind: "route", Networks: 3}, ""},
		{Service{Kind: "filter", Rules: 10}, ""},
		{Service{Kind: "drop-nft"}, result.NFT},
		{Service{Kind: "route"}, ""},
	} {
		if err := tb.Serve(t.Context(), c.service); err != nil {
			t.Fatal(err)
		}
		a := offer(t, tb, hasIPv6() && c.service.Kind == "filter", 5000, 500)
		if lost := a.DroppedAt(result.NFT); a.Unexplained != 0 || (c.place == "") != (lost == 0) || c.place == "" && a.Received != a.Accepted {
			t.Errorf("%+v: %+v", c.service, a)
		}
	}
	if err := tb.Serve(t.Context(), Service{Kind: "nat", Flows: 1}); err != nil {
		t.Fatal(err)
	}
	if rules := b.box.sh(t, "nft list ruleset"); !strings.Contains(rules, `oifname "i1" masquerade`) || strings.Contains(rules, "drop_unwanted") {
		t.Error(rules)
	}
	for _, bad := range []Service{{Kind: "drop-xdp"}, {Kind: "nat"}, {Kind: "filter", Rules: -1}} {
		if err := tb.Serve(t.Context(), bad); err == nil {
			t.Errorf("%+v is served", bad)
		}
	}
	if err := tb.Close(); err != nil {
		t.Error(err)
	}
	if d := snapshot.Diff(before, b.settings(t)); len(d) > 0 {
		t.Error(strings.Join(d, "\n"))
	}
}

// What a killed agent leaves goes when the agent starts again; the tester's own goes with
// the testbed.
func TestPairManagedIsKilled(t *testing.T) {
	b := newBench(t)
	p := b.managed(t)
	before := b.settings(t)
	tb, err := p.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	if err := tb.Serve(t.Context(), Service{Kind: "nat", Flows: 1, Networks: 3}); err != nil {
		t.Fatal(err)
	}
	children := answering(t)
	if len(children) != 1 {
		t.Fatalf("%v answer for the DUT, want one", children)
	}
	if err := unix.Kill(children[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); len(answering(t)) > 0 && time.Since(begin) < 5*time.Second; time.Sleep(10 * time.Millisecond) {
	}
	_ = tb.Close() // the connection is gone
	if !strings.Contains(b.box.sh(t, "nft list ruleset; ip address show i0"), "198.18.0.1/16") {
		t.Fatal("nothing was left: the test shows nothing")
	}
	at, err := p.agent()
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.dial(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if d := snapshot.Diff(before, b.settings(t)); len(d) > 0 {
		t.Error(strings.Join(d, "\n"))
	}
}

// With one cable the box gets its address, and forwards nothing.
func TestPairManagesOneCable(t *testing.T) {
	b := newBench(t)
	p := b.managed(t)
	p.ends[1].port, p.dut[1] = "", ""
	before := b.settings(t)
	tb, err := p.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	if tb.Serve != nil || len(tb.Services) != 0 || !strings.Contains(b.box.sh(t, "ip address show i0; cat /proc/sys/net/ipv4/conf/i0/forwarding"), "198.18.0.1/16") {
		t.Errorf("%+v", tb)
	}
	if err := tb.Close(); err != nil {
		t.Error(err)
	}
	if d := snapshot.Diff(before, b.settings(t)); len(d) > 0 {
		t.Error(strings.Join(d, "\n"))
	}
}
