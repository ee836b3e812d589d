// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
)

// A service of all CPUs has as many queues and RPS at both ports, the next one that is none
// has them as they were, and so has the end.
func TestAllCPUs(t *testing.T) {
	testutil.Privileged(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	sh := func(line string) string {
		t.Helper()
		out, err := (&host.Local{Netns: ns.Path()}).Run(t.Context(), "", "sh", "-ec", line)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	allowed, err := host.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	queues := min(3, len(allowed))
	sh("ip link add lan numrxqueues 3 numtxqueues 3 type veth peer name lan0 numrxqueues 3 numtxqueues 3; ip link add wan numrxqueues 1 type veth peer name wan0; for p in lan wan lan0 wan0; do ethtool -L $p rx 1 tx 1 2>/dev/null || true; ip link set $p up; done")
	masks := func() (lines string) {
		t.Helper()
		err := netns.DoSys(ns.Path(), func(sys *os.Root) error {
			files, err := fs.Glob(sys.FS(), "class/net/[lw]an/queues/rx-*/rps_cpus")
			for _, name := range files {
				mask, rerr := sys.ReadFile(name)
				lines, err = lines+name+": "+string(mask), errors.Join(err, rerr)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	before := masks()
	m, err := Manage(t.Context(), ns.Path(), []Port{
		{Name: "lan", Addresses: []netip.Prefix{netip.MustParsePrefix("198.18.0.1/16")}, Hops: []netip.Addr{netip.MustParseAddr("198.18.0.2")}},
		{Name: "wan", Addresses: []netip.Prefix{netip.MustParsePrefix("198.19.0.1/16")}, Hops: []netip.Addr{netip.MustParseAddr("198.19.0.2")}},
	}, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	lan := "lan by RPS"
	if queues > 1 {
		lan = fmt.Sprintf("lan by %d queues and RPS", queues)
	}
	if got, err := m.AllCPUs(); err != nil || got != fmt.Sprintf("%s: %s, wan by RPS", cpuText(len(allowed)), lan) {
		t.Errorf("%q, %v", got, err)
	}
	for _, all := range []bool{true, true, false, true} {
		if err := m.Set(t.Context(), Service{Kind: "route", AllCPUs: all}); err != nil {
			t.Fatal(err)
		}
		now := masks()
		if !all {
			if now != before {
				t.Errorf("it was\n%s\nand is\n%s", before, now)
			}
			continue
		}
		if n := strings.Count(now, "/lan/queues/rx-"); n != queues {
			t.Errorf("lan has %d queues, want %d", n, queues)
		}
		for line := range strings.Lines(now) {
			if _, mask, ok := strings.Cut(line, "rps_cpus: "); ok && strings.Trim(mask, "0,\n") == "" {
				t.Errorf("no RPS: %s", line)
			}
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if now := masks(); now != before {
		t.Errorf("it was\n%s\nand is\n%s", before, now)
	}
}
