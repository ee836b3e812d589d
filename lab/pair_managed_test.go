// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
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
		all[name+" nft"] = s.sh(t, "nft list ruleset; tc qdisc show; ip -o link show | grep -o xdp || true")
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
	if !slices.Equal(tb.Services, service.Kinds) || result.Get(tb.Settings, "services") != managed {
		t.Errorf("%v, %v", tb.Services, tb.Settings)
	}
	if all := result.Get(tb.Settings, "dut_cpus_all"); !tb.Spreads || tb.FarCPUs < 1 || !strings.Contains(all, " i0 by ") || !strings.Contains(all, " i1 by ") {
		t.Errorf("%v, %d, %q", tb.Spreads, tb.FarCPUs, all)
	}
	for _, c := range []struct {
		service Service
		place   result.Place // where frames end; "": nowhere
	}{
		{Service{Kind: "route", Networks: 3}, ""},
		{Service{Kind: "route", AllCPUs: true}, ""},
		{Service{Kind: "filter", Rules: 10}, ""},
		{Service{Kind: "drop-nft"}, result.NFT},
		{Service{Kind: "drop-xdp"}, result.XDP},
		{Service{Kind: "drop-tc"}, result.TC},
		{Service{Kind: "drop-xdp"}, result.XDP},
		{Service{Kind: "route"}, ""},
	} {
		if err := tb.Serve(t.Context(), c.service); err != nil {
			t.Fatal(err)
		}
		a := offer(t, tb, hasIPv6() && c.service.Kind == "filter", 5000, 500)
		lost := int64(0)
		if c.place != "" {
			lost = a.Accepted
		}
		if a.Unexplained != 0 || a.Accepted == 0 || a.Received != a.Accepted-lost || a.Dropped() != lost || a.DroppedAt(c.place) != lost {
			t.Errorf("%+v: %+v", c.service, a)
		}
	}
	if err := tb.Serve(t.Context(), Service{Kind: "nat", Flows: 1}); err != nil {
		t.Fatal(err)
	}
	if rules := b.box.sh(t, "nft list ruleset"); !strings.Contains(rules, `oifname "i1" masquerade`) || strings.Contains(rules, "drop_unwanted") {
		t.Error(rules)
	}
	for _, bad := range []Service{{Kind: "drop-all"}, {Kind: "nat"}, {Kind: "filter", Rules: -1}} {
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

// What somebody else has attached to the box's ports is left alone, and named.
func TestPairDropsRefuse(t *testing.T) {
	b := newBench(t)
	p := b.managed(t)
	b.box.sh(t, "tc qdisc add dev i1 clsact")
	tb, err := p.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	if err := tb.Serve(t.Context(), Service{Kind: "drop-tc"}); !errors.As(err, new(*host.Missing)) || !strings.Contains(err.Error(), "port i1 of the box without a clsact qdisc") {
		t.Errorf("%v", err)
	}
	programs, err := loadPrograms(Plant{})
	if err != nil {
		t.Fatal(err)
	}
	defer programs.Close()
	l, err := attach(b.box, "i0", programs.Pass)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := tb.Serve(t.Context(), Service{Kind: "drop-xdp"}); !errors.As(err, new(*host.Missing)) || !strings.Contains(err.Error(), "port i0 of the box without an XDP program") {
		t.Errorf("%v", err)
	}
	if err := tb.Serve(t.Context(), Service{Kind: "route"}); err != nil {
		t.Error(err)
	}
	if left := b.box.sh(t, "tc qdisc show; ip link show i0"); strings.Count(left, "clsact") != 1 || !strings.Contains(left, "xdp") {
		t.Error(left)
	}
}

// What a killed agent leaves goes when the agent starts again; the tester's own goes with
// the testbed.
func TestPairManagedIsKilled(t *testing.T) {
	for _, c := range []struct {
		service Service
		left    string // by the killed agent
	}{
		{Service{Kind: "nat", Flows: 1, Networks: 3}, "masquerade"},
		{Service{Kind: "drop-tc"}, "clsact"},
		{Service{Kind: "drop-xdp"}, "198.18.0.1/16"},
	} {
		t.Run(c.service.Kind, func(t *testing.T) { pairIsKilled(t, c.service, c.left) })
	}
}

func pairIsKilled(t *testing.T, s Service, left string) {
	b := newBench(t)
	p := b.managed(t)
	before := b.settings(t)
	tb, err := p.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	if err := tb.Serve(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	children := answering(t)
	if len(children) != 1 {
		t.Fatalf("%v answer for the DUT, want one", children)
	}
	if err := unix.Kill(children[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); len(answering(t)) > 0 && time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
	}
	_ = tb.Close() // the connection is gone
	now := b.box.sh(t, "nft list ruleset; ip address show i0; tc qdisc show")
	if !strings.Contains(now, left) {
		t.Fatalf("no %s was left: the test shows nothing", left)
	}
	if strings.Contains(now, "prog/xdp") {
		t.Errorf("the program is still attached: %s", now)
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
	if _, serves := tb.Means.(Server); serves || len(tb.Services) != 0 || !strings.Contains(b.box.sh(t, "ip address show i0; cat /proc/sys/net/ipv4/conf/i0/forwarding"), "198.18.0.1/16") {
		t.Errorf("%+v", tb)
	}
	if err := tb.Close(); err != nil {
		t.Error(err)
	}
	if d := snapshot.Diff(before, b.settings(t)); len(d) > 0 {
		t.Error(strings.Join(d, "\n"))
	}
}
