// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
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
		got := needed(routes, c.name, []session{{peer: addr(c.peer)}}, c.holds)
		if !strings.Contains(got.Why, c.want) || (got.Why == "") != (c.want == "") || got.Own != strings.Contains(c.want, "from") {
			t.Errorf("%s, connection from %q: %+v, want %q", c.name, c.peer, got, c.want)
		}
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		zero := to("0.0.0.0/0", family, 10) // as some versions of the library have it
		if family == netlink.FAMILY_V6 {
			zero = to("::/0", family, 10)
		}
		for _, r := range []netlink.Route{to("", family, 10), zero} {
			if needed(routesOf([]netlink.Route{r}, links()), "eth0", nil, false).Why == "" {
				t.Errorf("the default route %v alone does not count", r)
			}
		}
	}
}

// The caller's own connection comes before all else, whatever shares the link.
func TestForemostUse(t *testing.T) {
	uses := map[string]Need{"eth0": {Why: "carries the default route"}, "br0": {Why: "carries your own connection", Own: true}, "eth9": {}}
	of := func(name string) Need { return uses[name] }
	if got := foremost("eth0", []string{"eth0", "eth9", "br0"}, of); !got.Own || got.Why != "shares a link with br0, which carries your own connection" {
		t.Errorf("%+v", got)
	}
	if got := foremost("eth0", []string{"eth0", "eth9"}, of); got.Own || got.Why != "carries the default route" {
		t.Errorf("%+v", got)
	}
	if got := foremost("eth9", []string{"eth9"}, of); got.Why != "" {
		t.Errorf("%+v", got)
	}
}

// A default route may come in parts.
func TestSplitDefaultRoutes(t *testing.T) {
	for prefix, want := range map[string]bool{
		"0.0.0.0/1": true, "128.0.0.0/1": true, "::/1": true, "8000::/1": true, "2000::/3": true,
		"10.0.0.0/8": false, "224.0.0.0/4": false, "fc00::/7": false, "ff00::/8": false,
	} {
		family := netlink.FAMILY_V4
		if strings.Contains(prefix, ":") {
			family = netlink.FAMILY_V6
		}
		if got := needed(routesOf([]netlink.Route{to(prefix, family, 10)}, links()), "eth0", nil, false); (got.Why != "") != want {
			t.Errorf("a route to %s: %q", prefix, got.Why)
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

// The user's connections are found where sudo took the variable out of the environment.
func TestSessions(t *testing.T) {
	tree := fstest.MapFS{
		"proc/40/status":  {Data: []byte("Name:\tboxdyno\nPPid:\t30\n")},
		"proc/40/environ": {Data: []byte("HOME=/root\x00SUDO_UID=1000\x00")},
		"proc/30/status":  {Data: []byte("Name:\tsudo\nPPid:\t20\n")},
		"proc/20/status":  {Data: []byte("Name:\tbash\nPPid:\t10\n")},
		"proc/20/environ": {Data: []byte("HOME=/home/u\x00SSH_CONNECTION=::ffff:203.0.113.9 51000 192.0.2.7 22\x00")},
		"proc/10/status":  {Data: []byte("Name:\tsshd\nPPid:\t1\n")},
		"proc/1/status":   {Data: []byte("Name:\tinit\nPPid:\t0\n")},
	}
	addr := netip.MustParseAddr
	want := []session{{peer: addr("203.0.113.9"), local: addr("192.0.2.7")}}
	if got := sessions(tree, 40); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	tree["proc/20/environ"] = &fstest.MapFile{Data: []byte("SSH_CONNECTION=nonsense\x00")}
	if got := sessions(tree, 40); got != nil {
		t.Errorf("%v of nonsense", got)
	}
	word := func(octets ...byte) string { return fmt.Sprintf("%08X", binary.NativeEndian.Uint32(octets)) }
	tree["proc/10/fd/3"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("socket:[900]")}
	tree["proc/10/fd/4"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("socket:[901]")}
	tree["proc/10/net/tcp"] = &fstest.MapFile{Data: []byte("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 901 1 x 100 0 0 10 0\n" + // listens
		"   1: " + word(192, 0, 2, 7) + ":0016 " + word(198, 51, 100, 4) + ":C738 01 00000000:00000000 00:00000000 00000000     0        0 900 1 x 20 4 0 10 -1\n" +
		"   2: " + word(192, 0, 2, 7) + ":0016 " + word(198, 51, 100, 5) + ":C738 01 00000000:00000000 00:00000000 00000000     0        0 999 1 x 20 4 0 10 -1\n")}
	want = []session{{peer: addr("198.51.100.4"), local: addr("192.0.2.7")}}
	if got := sessions(tree, 40); !slices.Equal(got, want) {
		t.Errorf("of sockets %v, want %v", got, want)
	}
	tree["proc/1/status"] = &fstest.MapFile{Data: []byte("PPid:\t40\n")} // cannot be, and must end
	if got := sessions(tree, 40); !slices.Equal(got, want) {
		t.Errorf("%v of a circle", got)
	}
}

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "::ffff:1.1.1.1": true, "172.32.0.1": true,
		"198.19.255.1": false, "10.1.1.1": false, "172.16.3.4": false, "192.168.0.1": false, "127.0.0.1": false, "169.254.1.1": false,
		"224.0.0.1": false, "255.255.255.255": false, "203.0.113.5": false, "2001:2:0:2::2": false, "fd00::1": false, "fe80::1": false, "::1": false, "2001:db8::1": false,
	} {
		if got := Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %v, want %v", text, got, want)
		}
	}
}

func TestPacketSockets(t *testing.T) {
	const text = `sk               RefCnt Type Proto  Iface R Rmem   User   Inode
000000003b2f3c2f 3      3    0003   7     1 0      0      41234
00000000aa2f3c2f 3      3    0003   0     1 0      0      41235
00000000bb2f3c2f 3      3    0000   8     0 0      0      41236
`
	for index, want := range map[int][]string{7: {"41234"}, 8: nil, 1: nil} {
		if got := PacketSockets([]byte(text), index); !slices.Equal(got, want) {
			t.Errorf("port %d: %q, want %q", index, got, want)
		}
	}
}

// A connection that a parent holds is a session, as sshd's is above sudo.
func TestSessionOfASocket(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.To4() != nil && !n.IP.IsLoopback()
	})
	if i < 0 {
		t.Skip("needs an IPv4 address other than loopback's: ip address add 192.0.2.1/32 dev lo gives one")
	}
	own := addrs[i].(*net.IPNet).IP
	l, err := net.Listen("tcp", net.JoinHostPort(own.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	ns := netnsOf(os.DirFS("/"), "proc/self/ns/net")
	a, _ := netip.AddrFromSlice(own.To4())
	if got, want := sessions(os.DirFS("/"), child.Process.Pid), (session{a, a, ns}); !slices.Contains(got, want) {
		t.Errorf("%v lack %v", got, want)
	}
}
