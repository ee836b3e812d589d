// SPDX-License-Identifier: Apache-2.0

package service

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
)

// IPv6 is forwarded by one switch, which is left alone where putting it back would lose
// what the box had.
func TestManageLeavesIPv6(t *testing.T) {
	testutil.Privileged(t)
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		t.Skip("this kernel has no IPv6")
	}
	if err := host.Has("nft"); err != nil {
		t.Skip(err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	const was = "cd /proc/sys/net/ipv6/conf; grep . all/forwarding lan/forwarding own/forwarding"
	for _, c := range []struct{ name, set, why string }{
		{"forwards alone", "echo 1 >/proc/sys/net/ipv6/conf/own/forwarding", "own of the box forwards it alone"},
		{"advertised", "ip -6 route add default via 2001:db8::1 proto ra", "came by router advertisement"},
		{"a router", "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding; ip -6 route add default via 2001:db8::1 proto ra", ""},
		{"a host", "true", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
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
			sh("ip link add lan type veth peer name lan0; ip link add wan type veth peer name wan0; ip link add own type veth peer name own0; ip link set own0 up; ip link set own up; ip -6 address add 2001:db8::2/64 dev own nodad; " + c.set)
			before := sh(was)
			ports := []Port{
				{Name: "lan", Addresses: []netip.Prefix{netip.MustParsePrefix("198.18.0.1/16"), netip.MustParsePrefix("2001:2:0:1::1/64")}, Hops: []netip.Addr{netip.MustParseAddr("198.18.0.2"), netip.MustParseAddr("2001:2:0:1::2")}},
				{Name: "wan", Addresses: []netip.Prefix{netip.MustParsePrefix("198.19.0.1/16"), netip.MustParsePrefix("2001:2:0:2::1/64")}, Hops: []netip.Addr{netip.MustParseAddr("198.19.0.2"), netip.MustParseAddr("2001:2:0:2::2")}},
			}
			m, err := Manage(t.Context(), ns.Path(), ports, "test")
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			said := strings.Join(m.Warnings, "\n")
			if (c.why == "") != (said == "") || !strings.Contains(said, c.why) {
				t.Errorf("%q, want %q", said, c.why)
			}
			if has := strings.Contains(sh("ip -6 address show dev lan"), "2001:2:0:1::1/64"); has != (c.why == "") {
				t.Errorf("lan has the address: %v", has)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if after := sh(was); after != before {
				t.Errorf("it was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// A table of that name is somebody's, and would be replaced for good.
func TestManageRefusesForeignTable(t *testing.T) {
	testutil.Privileged(t)
	if err := host.Has("nft"); err != nil {
		t.Skip(err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	local := &host.Local{Netns: ns.Path()}
	if _, err := local.Run(t.Context(), "", "sh", "-ec", "ip link add lan type veth peer name wan; nft add table inet boxdyno"); err != nil {
		t.Fatal(err)
	}
	m, err := Manage(t.Context(), ns.Path(), []Port{{Name: "lan"}, {Name: "wan"}}, "test")
	if err == nil {
		t.Error(m.Close())
		t.Fatal("it is taken")
	}
	if out, err := local.Run(t.Context(), "", "sh", "-ec", "nft list ruleset; ip link show lan"); err != nil || !strings.Contains(string(out), "table inet boxdyno") || strings.Contains(string(out), ",UP") {
		t.Errorf("%s, %v", out, err)
	}
}
