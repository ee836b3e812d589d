// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// links are eth0 to eth3 with the numbers 10 to 13.
func links() (all []netlink.Link) {
	for i := range 4 {
		all = append(all, &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 10 + i, Name: fmt.Sprint("eth", i), NetNsID: -1}})
	}
	return all
}

// to is a route by interface number; "" is the default.
func to(prefix string, family, index int) netlink.Route {
	r := netlink.Route{Type: unix.RTN_UNICAST, Family: family, LinkIndex: index}
	if prefix != "" {
		_, r.Dst, _ = net.ParseCIDR(prefix)
	}
	return r
}

func TestNeededPorts(t *testing.T) {
	refused, shared := to("", netlink.FAMILY_V6, 11), to("", netlink.FAMILY_V4, 0)
	refused.Type = unix.RTN_UNREACHABLE
	shared.MultiPath = []*netlink.NexthopInfo{{LinkIndex: 10}, {LinkIndex: 13}}
	routes := routesOf([]netlink.Route{
		shared, to("10.0.0.0/8", netlink.FAMILY_V4, 12), to("10.20.0.0/16", netlink.FAMILY_V4, 11),
		to("2001:db8:1::/48", netlink.FAMILY_V6, 12), refused,
	}, links())
	addr := func(s string) netip.Addr {
		if s == "" {
			return netip.Addr{}
		}
		return netip.MustParseAddr(s)
	}
	for _, c := range []struct {
		name, peer string
		holds      bool
		want       string
	}{
		{"eth0", "", false, "carries the default route"},
		{"eth3", "", false, "carries the default route"}, // its second way
		{"eth1", "", false, ""},
		{"eth1", "203.0.113.9", false, ""},                 // comes by the default route
		{"eth1", "10.20.30.40", false, "from 10.20.30.40"}, // 10.20.0.0/16 by eth1
		{"eth2", "10.20.30.40", false, ""},                 // 10.0.0.0/8 by eth2 is less exact
		{"eth2", "10.99.0.1", false, "from 10.99.0.1"},
		{"eth2", "203.0.113.9", true, "carries your own connection from 203.0.113.9"},
		{"eth2", "2001:db8:1::5", false, "from 2001:db8:1::5"},
		{"eth1", "fd00::9", false, ""},
		{"eth1", "127.0.0.1", false, ""},
	} {
		if got := needed(routes, c.name, addr(c.peer), c.holds); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s, connection from %q: %q, want %q", c.name, c.peer, got, c.want)
		}
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		zero := to("0.0.0.0/0", family, 10) // as some versions of the library have it
		if family == netlink.FAMILY_V6 {
			zero = to("::/0", family, 10)
		}
		for _, r := range []netlink.Route{to("", family, 10), zero} {
			if needed(routesOf([]netlink.Route{r}, links()), "eth0", netip.Addr{}, false) == "" {
				t.Errorf("the default route %v alone does not count", r)
			}
		}
	}
}

// What shares a link with a port is found above and below it.
func TestTogether(t *testing.T) {
	device := func(index int, name string, master, parent int) netlink.Link {
		return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index, Name: name, MasterIndex: master, ParentIndex: parent, NetNsID: -1}}
	}
	remote := &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Index: 8, Name: "remote", ParentIndex: 1, NetNsID: 3}}
	all := []netlink.Link{
		device(1, "eth0", 0, 0), device(2, "eth1", 5, 0), device(3, "eth2", 5, 0), device(4, "eth0.7", 0, 1), device(5, "br0", 0, 0),
		device(6, "br0.9", 0, 5), device(7, "apart", 0, 0), remote,
		&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Index: 20, Name: "v0", ParentIndex: 21, NetNsID: -1}},
		&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Index: 21, Name: "v1", ParentIndex: 20, NetNsID: -1}},
	}
	for name, want := range map[string]string{
		"eth0": "eth0 eth0.7", "eth0.7": "eth0.7 eth0", "eth1": "eth1 br0 br0.9", "br0": "br0 eth1 eth2 br0.9",
		"br0.9": "br0.9 br0 eth1 eth2", "apart": "apart", "remote": "remote", "v0": "v0",
	} {
		for _, l := range all {
			if l.Attrs().Name != name {
				continue
			}
			if got := strings.Join(together(all, l.Attrs().Index, name), " "); got != want {
				t.Errorf("%s shares a link with %q, want %q", name, got, want)
			}
		}
	}
}

// The user's connection is found where sudo took it out of the environment.
func TestSession(t *testing.T) {
	tree := fstest.MapFS{
		"proc/40/status":  {Data: []byte("Name:\tboxdyno\nPPid:\t30\n")},
		"proc/40/environ": {Data: []byte("HOME=/root\x00SUDO_UID=1000\x00")},
		"proc/30/status":  {Data: []byte("Name:\tsudo\nPPid:\t20\n")},
		"proc/20/status":  {Data: []byte("Name:\tbash\nPPid:\t1\n")},
		"proc/20/environ": {Data: []byte("HOME=/home/u\x00SSH_CONNECTION=::ffff:203.0.113.9 51000 192.0.2.7 22\x00")},
		"proc/1/status":   {Data: []byte("Name:\tinit\nPPid:\t0\n")},
	}
	peer, local := session(tree, 40)
	if peer != netip.MustParseAddr("203.0.113.9") || local != netip.MustParseAddr("192.0.2.7") {
		t.Errorf("%v to %v", peer, local)
	}
	tree["proc/20/environ"] = &fstest.MapFile{Data: []byte("SSH_CONNECTION=nonsense\x00")}
	if peer, _ := session(tree, 40); peer.IsValid() {
		t.Errorf("%v of nonsense", peer)
	}
	tree["proc/1/status"] = &fstest.MapFile{Data: []byte("PPid:\t40\n")} // cannot be, and must end
	if peer, _ := session(tree, 40); peer.IsValid() {
		t.Errorf("%v of a circle", peer)
	}
}
