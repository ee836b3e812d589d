// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/snapshot"
	"boxdyno/internal/testutil"
	"boxdyno/link/hub"
	"boxdyno/result"
	"boxdyno/subject/tunnel"
)

// twoBoxes are the bench's two namespaces as boxes with an agent each.
func (b bench) twoBoxes(t *testing.T) *peers {
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // others recover what is in theirs
	at := func(s *space, folder string) reached {
		return reached{dial: hub.Dial, command: "nsenter --net=" + s.Netns, program: "env LAB_TEST_PAIR=" + folder + " " + os.Args[0] + " -test.run=^TestPairChild$"}
	}
	return &peers{reached: at(b.box, b.folder), first: at(b.tester, t.TempDir()), port: "e0", dut: "i0"}
}

// Two boxes are gateways of one cable, which refuse what no tunnel carries, and are then as
// they were.
func TestPeersOfTwoBoxes(t *testing.T) {
	testutil.Alone(t)
	b := newBench(t)
	for _, s := range []*space{b.tester, b.box} {
		s.sh(t, "sysctl -qw net.ipv6.conf.all.disable_ipv6=1; ip link set lo up") // whose addresses settle meanwhile
	}
	p := b.twoBoxes(t)
	before := b.settings(t)
	tb, err := p.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	if len(tb.Machines) != 2 || !tb.Apart {
		t.Errorf("%+v", tb)
	}
	var gates [2]tunnel.Gate
	var places [2]tunnel.Place
	for i, g := range tb.Gateways {
		gates[i], places[i] = g.Machine, g.Place
	}
	passes := func(want bool) {
		t.Helper()
		for from := range gates {
			_, err := tunnel.Through(t.Context(), gates, places, from, map[bool]time.Duration{true: 5 * time.Second, false: 100 * time.Millisecond}[want], func() error { return nil })
			if (err == nil) != want {
				t.Errorf("from %d: %v, want a way: %v", from, err, want)
			}
		}
	}
	if err := tb.Means.(Joiner).Direct(false); err != nil {
		t.Fatal(err)
	}
	passes(false)
	if said := b.box.sh(t, "ip route get 198.18.0.1 2>&1 || true"); !strings.Contains(said, "unreachable") && !strings.Contains(said, "No route") {
		t.Errorf("packets of no tunnel go by %s", said)
	}
	if err := errors.Join(tb.Means.(Joiner).Direct(true), tb.Means.(Joiner).Offloads(true), tb.Means.(Joiner).Offloads(false)); err != nil {
		t.Fatal(err)
	}
	passes(true)
	masks := func() (all []string) {
		t.Helper()
		for at, port := range map[*space]string{b.tester: "e0", b.box: "i0"} {
			err := netns.DoSys(at.Netns, func(sys *os.Root) error {
				files, err := fs.Glob(sys.FS(), "class/net/"+port+"/queues/rx-*/rps_cpus")
				for _, name := range files {
					mask, rerr := sys.ReadFile(name)
					all, err = append(all, name+" "+strings.TrimSpace(string(mask))), errors.Join(err, rerr)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(all)
		return all
	}
	asFound := masks()
	for _, all := range []bool{true, false, true} {
		if err := tb.Serve(t.Context(), Service{Kind: "route", Flows: 1, AllCPUs: all}); err != nil {
			t.Fatal(err)
		}
		now := masks()
		if !all && !slices.Equal(now, asFound) {
			t.Errorf("it was %q and is %q", asFound, now)
		}
		if all && slices.ContainsFunc(now, func(m string) bool { _, mask, _ := strings.Cut(m, " "); return strings.Trim(mask, "0,") == "" }) {
			t.Errorf("no RPS: %q", now)
		}
	}
	passes(true)
	if said := result.Get(tb.Settings, "dut_cpus_all"); strings.Count(said, "RPS") != 2 || tb.FarCPUs == 0 {
		t.Errorf("%q, %d CPUs", said, tb.FarCPUs)
	}
	if err := tb.Close(); err != nil {
		t.Error(err)
	}
	if d := snapshot.Diff(before, b.settings(t)); len(d) > 0 {
		t.Error(strings.Join(d, "\n"))
	}
	if now := masks(); !slices.Equal(now, asFound) {
		t.Errorf("it was %q and is %q", asFound, now)
	}
}

// A box that cannot be put back keeps no other one from being put back.
func TestPeersSpreadBoth(t *testing.T) {
	lost := errors.New("lost")
	var asked []bool
	ends := [2]*peer{}
	for i, err := range []error{lost, nil} {
		ends[i] = &peer{direct: func(bool) error { return nil }, spread: func(_ context.Context, all bool) error {
			asked = append(asked, all)
			return err
		}}
	}
	m := &peersMeans{both: ends}
	if err := m.Serve(t.Context(), Service{Kind: "route"}); !errors.Is(err, lost) || !slices.Equal(asked, []bool{false, false}) {
		t.Errorf("%v, asked %v", err, asked)
	}
}

// What cannot be a way between two gateways is refused with what helps.
func TestPeersRefuse(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name, box, want string
		set             func(*peers)
	}{
		{"another cable", "", "a cable from e1 of the DUT to i0", func(p *peers) { p.port = "e1" }},
		{"addresses of somebody else", "ip address add 198.18.3.3/24 dev i1", "the address 198.18.3.3", func(*peers) {}},
		{"no port", "", "dut_a is not given", func(p *peers) { p.dut = "" }},
		{"small frames", "ip link set i0 mtu 1400", "an MTU of 1500 at i0", func(*peers) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.box.sh(t, "ip address flush dev i1; ip link set i0 mtu 1500\n"+c.box)
			p := b.twoBoxes(t)
			c.set(p)
			tb, err := p.Build(t.Context())
			if err == nil {
				tb.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not say %q", err, c.want)
			}
			if m := (*host.Missing)(nil); errors.As(err, &m) && m.Hint == "" && m.Remedy == nil {
				t.Errorf("no remedy: %v", err)
			}
		})
	}
}
