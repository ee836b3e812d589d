// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/snapshot"
	"boxdyno/internal/testutil"
)

// veth makes a namespace with a pair p0, p1 of two queues each, up.
func veth(t testing.TB) (path string) {
	t.Helper()
	path = testutil.Cable{A: "p0", B: "p1", Queues: 2}.Make(t)
	err := netns.Do(path, func() error {
		l, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = netns.DoSys(path, func(sys *os.Root) error { // what goes with a queue must come back with it
		return errors.Join(sys.WriteFile("class/net/p0/queues/rx-1/rps_cpus", []byte("3"), 0), sys.WriteFile("class/net/p0/queues/tx-1/xps_cpus", []byte("1"), 0))
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func snap(t testing.TB, path string) map[string]string {
	t.Helper()
	s, err := snapshot.Take(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(s) < 500 || s["p0 features"] == "" || s["p0/queues/rx-0/rps_cpus"] == "" || s["sys/net/ipv4/ip_forward"] == "" {
		t.Fatalf("the snapshot has %d settings: does it read the namespace?", len(s))
	}
	return s
}

func onVeth(t testing.TB, dir, path string) (*Tuner, On) {
	t.Helper()
	tn := New()
	tn.dirs = []string{dir}
	return tn, On{Host: &host.Local{Label: "dut", Netns: path}, Ports: []string{"p0"}}
}

// everything a veth has, with a value that it does not have by itself.
var vethSteps = [][2]string{
	{"rps", "1"}, {"rfs", "64"}, {"xps", "2"},
	{"tx-checksum", "off"}, {"sg", "off"}, {"tso", "off"}, {"gso", "off"}, {"gro", "on"}, {"gro-list", "on"}, {"rx-vlan", "off"}, {"tx-vlan", "off"},
	{"threaded", "1"}, {"gro_flush_timeout", "20000"}, {"napi_defer_hard_irqs", "2"},
	{"mtu", "1400"}, {"txqueuelen", "500"}, {"promiscuous", "on"}, {"qdisc", "pfifo_fast"},
	{"sysctl:net.ipv4.ip_forward", "1"}, {"sysctl:net.ipv4.tcp_rmem", "4096 100000 200000"}, {"sysctl:net.ipv4.conf.{port}.rp_filter", "2"},
	{"sysctl:net.netfilter.nf_conntrack_udp_timeout", "7"}, {"channels", "rx=1 tx=1"},
}

func recipeOf(t testing.TB, steps [][2]string) Recipe {
	t.Helper()
	text := "name: test\nsteps:\n"
	for _, s := range steps {
		text += "- {knob: \"" + s[0] + "\", value: \"" + s[1] + "\"}\n"
	}
	r, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each knob of a veth changes what it says, and all of them together are put back,
// whichever way the settings are looked at.
func TestVeth(t *testing.T) {
	path := veth(t)
	testutil.NoLeaks(t)
	before := snap(t, path)
	tn, on := onVeth(t, t.TempDir(), path)
	r := recipeOf(t, vethSteps)
	for range 2 {
		a, settings, err := tn.Apply(t.Context(), r, on, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range settings {
			switch {
			case s.Knob == "sysctl:net.netfilter.nf_conntrack_udp_timeout" && strings.Contains(s.Problem, "not supported"): // without the module
			case s.Problem != "":
				t.Errorf("%+v", s)
			case s.Before == s.Got:
				t.Errorf("%+v: nothing changed", s)
			}
		}
		during := snap(t, path)
		want := map[string]string{
			"p0/queues/rx-0/rps_cpus": "1\n", "p0/queues/rx-1/rps_cpus": "", "p0/queues/rx-0/rps_flow_cnt": "64\n",
			"p0 threaded": "1\n", "p0 gro_flush_timeout": "20000\n", "p0 napi_defer_hard_irqs": "2\n", "p0 mtu": "1400\n", "p0 tx_queue_len": "500\n",
			"sys/net/ipv4/ip_forward": "1\n", "sys/net/ipv4/conf/p0/rp_filter": "2\n", "sys/net/ipv4/tcp_rmem": "4096\t100000\t200000\n",
		}
		for k, v := range want {
			if during[k] != v {
				t.Errorf("%s is %q, want %q", k, during[k], v)
			}
		}
		if q := during["p0 qdisc root"]; !strings.HasPrefix(q, "pfifo_fast ") {
			t.Errorf("qdisc %q", q)
		}
		if n := len(snapshot.Diff(before, during)); n < 20 {
			t.Errorf("only %d differences", n)
		}
		if notes, err := a.Revert(t.Context(), Revert{}); err != nil || notes != nil {
			t.Error(notes, err)
		}
		for _, d := range snapshot.Diff(before, snap(t, path)) {
			t.Errorf("left: %s", d)
		}
	}
}

// The guides' recipes on a veth: what it has not is named, the rest is set, and all of
// it goes back; with strict nothing is touched.
func TestRecipesOnVeth(t *testing.T) {
	path := veth(t)
	tn, on := onVeth(t, t.TempDir(), path)
	all, err := Recipes()
	if err != nil || len(all) < 4 {
		t.Fatal(len(all), err)
	}
	before := snap(t, path)
	for _, r := range all {
		// The machine's own settings are others' business in a test.
		var local Recipe
		for _, s := range r.Steps {
			if spec, _ := Find(s.Knob); spec.Scope != PerMachine {
				local.Steps = append(local.Steps, s)
			}
		}
		local.Name = r.Name
		if _, _, err := tn.Apply(t.Context(), local, on, Options{Strict: true}); !errors.As(err, new(*StrictError)) {
			t.Errorf("%s, strict: %v", r.Name, err)
		}
		for _, d := range snapshot.Diff(before, snap(t, path)) {
			t.Errorf("%s, strict: left %s", r.Name, d)
		}
		a, settings, err := tn.Apply(t.Context(), local, on, Options{})
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]bool{}
		for _, s := range settings {
			named[s.Knob] = s.Problem != ""
			if (s.Knob == "rings" || s.Knob == "coalesce" || s.Knob == "pause" || s.Knob == "eee") && !strings.Contains(s.Problem, "not supported") {
				t.Errorf("%s: a veth has no %s: %+v", r.Name, s.Knob, s)
			}
			if s.Knob == "sysctl:net.netfilter.nf_conntrack_max" && s.Problem == "" && s.Before != s.Got {
				t.Logf("nf_conntrack_max can be set in a namespace here")
			}
		}
		if named["gro"] || named["tso"] {
			t.Errorf("%s: a veth has gro and tso: %+v", r.Name, settings)
		}
		if _, err := a.Revert(t.Context(), Revert{}); err != nil {
			t.Error(err)
		}
		for _, d := range snapshot.Diff(before, snap(t, path)) {
			t.Errorf("%s: left %s", r.Name, d)
		}
	}
}

// A port or namespace that went away takes its settings with it: the rest is put back.
func TestVanished(t *testing.T) {
	path := veth(t)
	dir := t.TempDir()
	tn, on := onVeth(t, dir, path)
	a, _, err := tn.Apply(t.Context(), recipeOf(t, [][2]string{{"sysctl:net.ipv4.ip_forward", "1"}, {"mtu", "1400"}, {"gro", "on"}}), on, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = netns.Do(path, func() error {
		l, err := netlink.LinkByName("p0")
		if err == nil {
			err = netlink.LinkDel(l)
		}
		if err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs() // another one of that name
		attrs.Name, attrs.MTU = "p0", 1300
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "p2"})
	})
	if err != nil {
		t.Fatal(err)
	}
	notes, err := a.Revert(t.Context(), Revert{})
	if err != nil || !strings.Contains(strings.Join(notes, "\n"), "mtu of p0: dropped, for port p0 is another one now") {
		t.Error(notes, err)
	}
	s, err := snapshot.Take(path)
	if err != nil || s["sys/net/ipv4/ip_forward"] != "0\n" || s["p0 mtu"] != "1300\n" {
		t.Error(err, s["sys/net/ipv4/ip_forward"], s["p0 mtu"])
	}

	gone, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	on.Host = &host.Local{Netns: gone.Path()}
	if _, _, err = tn.Apply(t.Context(), recipeOf(t, [][2]string{{"sysctl:net.ipv4.ip_forward", "1"}}), on, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	tn.world.alive = func(owner) bool { return false }
	notes, err = tn.Recover(t.Context(), nil)
	if err != nil || !strings.Contains(strings.Join(notes, "\n"), "is not there any more") {
		t.Error(notes, err)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// What somebody else set on a real port meanwhile stays.
func TestChangedOnVeth(t *testing.T) {
	path := veth(t)
	tn, on := onVeth(t, t.TempDir(), path)
	a, _, err := tn.Apply(t.Context(), recipeOf(t, [][2]string{{"txqueuelen", "500"}, {"mtu", "1400"}}), on, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = netns.Do(path, func() error {
		l, err := netlink.LinkByName("p0")
		if err == nil {
			err = netlink.LinkSetTxQLen(l, 77)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Revert(t.Context(), Revert{}); !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
	if s := snap(t, path); s["p0 tx_queue_len"] != "77\n" || s["p0 mtu"] != "1500\n" {
		t.Error(s["p0 tx_queue_len"], s["p0 mtu"])
	}
	if _, err := a.Revert(context.Background(), Revert{Force: true}); err != nil {
		t.Error(err)
	}
	if s := snap(t, path); s["p0 tx_queue_len"] != "1000\n" {
		t.Error(s["p0 tx_queue_len"])
	}
}

// A namespace is found again under another path.
func TestLocate(t *testing.T) {
	path := veth(t)
	id, err := identity(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := locate(path, id); err != nil || got != path {
		t.Error(got, err)
	}
	if own, err := identity(""); err != nil || own == id {
		t.Error("two namespaces are one: ", own, err)
	}
	if got, err := locate("/proc/self/ns/net", id); !gone(err) {
		t.Error("only a descriptor holds it, and it was found as ", got)
	}
}
