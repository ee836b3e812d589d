// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A flood leaves by no port that others need (RFC 6815): none that the default
// route goes by, and none of the connection over which boxdyno was called. A
// port is also what a bridge, bond or VLAN on top of it is.

// A Need is what a port is used for by others than this program. The zero value:
// nothing is known.
type Need struct {
	Why    string   // "carries the default route", "has the address 192.0.2.1/24"
	Own    bool     // it carries the connection over which this program was called
	Remedy []string // command that frees the port, if there is one
}

// Needed says what for others need the port, such as "carries the default route"
// or "shares a link with br0, which carries your own connection from 192.0.2.7". The
// caller's own connection comes before all else. It is that of SSH, or any other TCP
// connection that a process holds from which this one descends.
func (p Port) Needed() (use Need, err error) { return p.neededBy(sessions(os.DirFS("/"), os.Getpid())) }

// A Connection is one of TCP between this machine and another.
type Connection struct {
	Peer  netip.Addr `json:"peer"`
	Local netip.Addr `json:"local"`
}

// Connections are those over which this program was called, as far as they can be seen.
func Connections() (all []Connection) {
	for _, s := range sessions(os.DirFS("/"), os.Getpid()) {
		all = append(all, Connection{Peer: s.peer, Local: s.local})
	}
	return all
}

// Held are the connections of this program itself.
func Held() (all []Connection) {
	for _, s := range connections(os.DirFS("/"), "proc/self/") {
		all = append(all, Connection{Peer: s.peer.Unmap().WithZone(""), Local: s.local.Unmap().WithZone("")})
	}
	return all
}

// Carries says whether a connection goes by the port, or by what shares a link with it.
func (p Port) Carries(c Connection) (bool, error) {
	use, err := p.neededBy([]session{{peer: c.Peer, local: c.Local}})
	return use.Own, err
}

func (p Port) neededBy(sessions []session) (use Need, err error) {
	names := []string{p.Name}
	var routes []route
	held := map[string]bool{} // interfaces with an address of a session
	err = (&Local{Netns: p.Netns}).View(func(fs.FS) (err error) {
		here := netnsOf(os.DirFS("/"), "proc/thread-self/ns/net")
		sessions = slices.DeleteFunc(sessions, func(s session) bool { return s.netns != 0 && s.netns != here })
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, l := range links {
			if l.Attrs().Name == p.Name {
				names = together(links, l.Attrs().Index, p.Name)
			}
		}
		if routes, err = readRoutes(links); err != nil {
			return err
		}
		for _, s := range sessions {
			name, err := holderOf(s.local)
			if err != nil {
				return err
			}
			held[name] = true
		}
		return nil
	})
	if err != nil {
		return Need{}, fmt.Errorf("find out whether %s carries anything else: %w", p.Name, err)
	}
	return foremost(p.Name, names, func(name string) Need { return needed(routes, name, sessions, held[name]) }), nil
}

// foremost is the use that counts of a port and what shares a link with it, the port
// first: the caller's own connection before all else.
func foremost(port string, names []string, of func(name string) Need) (use Need) {
	for _, name := range names {
		found := of(name)
		if found.Why != "" && name != port {
			found.Why = "shares a link with " + name + ", which " + found.Why
		}
		if found.Own {
			return found
		}
		if use.Why == "" {
			use = found
		}
	}
	return use
}

// wide is the longest prefix of a route that counts as a default route. VPNs set
// 0.0.0.0/1 and 128.0.0.0/1 beside it, IPv6 has 2000::/3 for all global addresses.
const wide = 3

// needed says why an interface must not be flooded. It holds an address of one of the
// sessions, or not.
func needed(routes []route, name string, sessions []session, holds bool) (use Need) {
	for _, r := range routes {
		if r.name == name && r.to.Bits() <= wide && !r.to.Addr().IsMulticast() {
			use.Why = "carries the default route"
			if r.to.Bits() > 0 {
				use.Why = fmt.Sprintf("carries the route to %v, a part of the default route", r.to)
			}
			break
		}
	}
	for _, s := range sessions {
		if !s.peer.IsValid() || s.peer.IsLoopback() {
			continue
		}
		best := route{}
		for _, r := range routes {
			if r.to.Contains(s.peer) && (!best.to.IsValid() || r.to.Bits() > best.to.Bits()) {
				best = r
			}
		}
		if holds || best.name == name {
			return Need{Why: fmt.Sprintf("carries your own connection from %v", s.peer), Own: true}
		}
	}
	return use
}

// Used says who else uses the port: what Needed does, and besides a bridge or bond that
// it belongs to, an interface that stands on it, an address that is not link-local, or
// a packet socket. Addresses in the networks given do not count.
func (p Port) Used(but ...netip.Prefix) (use Need, err error) {
	if use, err = p.Needed(); err != nil || use.Why != "" {
		return use, err
	}
	err = (&Local{Netns: p.Netns}).View(func(fs.FS) error {
		l, err := netlink.LinkByName(p.Name)
		if err != nil {
			return fmt.Errorf("find port %s: %w", p.Name, err)
		}
		a := l.Attrs()
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("list links: %w", err)
		}
		for _, l := range links {
			o := l.Attrs()
			switch {
			case a.MasterIndex != 0 && o.Index == a.MasterIndex:
				use = Need{Why: "belongs to " + o.Name, Remedy: []string{"ip", "link", "set", p.Name, "nomaster"}}
				return nil
			case o.ParentIndex == a.Index && o.NetNsID < 0 && l.Type() != "veth":
				use.Why = "carries " + o.Name
				return nil
			}
		}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return fmt.Errorf("list the addresses of %s: %w", p.Name, err)
		}
		for _, addr := range addrs {
			a, _ := netip.AddrFromSlice(addr.IP)
			if !a.IsLinkLocalUnicast() && !slices.ContainsFunc(but, func(n netip.Prefix) bool { return n.Contains(a.Unmap()) }) { // its kernel gives itself those
				use = Need{Why: "has the address " + addr.IPNet.String(), Remedy: []string{"ip", "address", "del", addr.IPNet.String(), "dev", p.Name}}
				return nil
			}
		}
		use.Why, err = listener(a.Index)
		return err
	})
	return use, err
}

// listener names a packet socket that is bound to a port of this thread's namespace: a
// capture, a DHCP client, another boxdyno.
func listener(index int) (why string, err error) {
	text, err := os.ReadFile("/proc/thread-self/net/packet")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("list packet sockets: %w", err)
	}
	inodes := PacketSockets(text, index)
	if inodes == nil {
		return "", nil
	}
	if who := socketHolder(inodes[0]); who != "" {
		return "is listened to by " + who, nil
	}
	return "is listened to by a packet socket (inode " + inodes[0] + ")", nil
}

// PacketSockets are the inodes of the sockets of text, a namespace's /proc/net/packet, that
// receive from the port of that index (proc(5), net/packet/af_packet.c: packet_seq_show).
func PacketSockets(text []byte, index int) (inodes []string) {
	for line := range strings.Lines(string(text)) {
		// sk RefCnt Type Proto Iface R Rmem User Inode
		if f := strings.Fields(line); len(f) == 9 && f[4] == strconv.Itoa(index) && f[5] == "1" {
			inodes = append(inodes, f[8])
		}
	}
	return inodes
}

// socketHolder is the process that has a socket, "dhclient (pid 812)"; "" where it cannot
// be seen.
func socketHolder(inode string) string {
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is good
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err != nil || to != "socket:["+inode+"]" {
			continue
		}
		pid := strings.Split(fd, "/")[2]
		comm, _ := os.ReadFile("/proc/" + pid + "/comm")
		return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(comm)), pid)
	}
	return ""
}

// A route is a destination and the interface that it is reached by.
type route struct {
	to   netip.Prefix
	name string
}

// readRoutes reads all routing tables of this thread's namespace.
func readRoutes(links []netlink.Link) ([]route, error) {
	all, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, err
	}
	return routesOf(all, links), nil
}

// routesOf are routes that lead to a network, one for each interface that they
// go by.
func routesOf(all []netlink.Route, links []netlink.Link) (routes []route) {
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	for _, r := range all {
		if r.Type != unix.RTN_UNICAST || r.Family != netlink.FAMILY_V4 && r.Family != netlink.FAMILY_V6 {
			continue
		}
		to := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if r.Family == netlink.FAMILY_V6 {
			to = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		if r.Dst != nil {
			a, _ := netip.AddrFromSlice(r.Dst.IP)
			ones, _ := r.Dst.Mask.Size()
			to = netip.PrefixFrom(a, ones)
		}
		for _, hop := range append(r.MultiPath, &netlink.NexthopInfo{LinkIndex: r.LinkIndex}) {
			if name := names[hop.LinkIndex]; name != "" {
				routes = append(routes, route{to, name})
			}
		}
	}
	return routes
}

// holderOf is the interface of this thread's namespace that has an address.
func holderOf(a netip.Addr) (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, iface := range all {
		addrs, err := iface.Addrs()
		if err != nil {
			return "", err
		}
		for _, x := range addrs {
			if n, ok := x.(*net.IPNet); ok && n.IP.Equal(a.AsSlice()) {
				return iface.Name, nil
			}
		}
	}
	return "", nil
}

// together are a port's name and those of the interfaces that share a link with
// it: what it stands on, as a VLAN does on a port and a bridge or bond on several,
// and what stands on any of these.
func together(links []netlink.Link, index int, name string) []string {
	on := func(upper, lower *netlink.LinkAttrs, kind string) bool {
		return lower.MasterIndex == upper.Index || upper.ParentIndex == lower.Index && upper.NetNsID < 0 && kind != "veth" // a veth's is its peer
	}
	names, seen := []string{name}, map[int]bool{index: true}
	todo := []*netlink.LinkAttrs{}
	kinds := map[int]string{}
	for _, l := range links {
		kinds[l.Attrs().Index] = l.Type()
		if l.Attrs().Index == index {
			todo = append(todo, l.Attrs())
		}
	}
	for _, down := range []bool{true, false} {
		for i := 0; i < len(todo); i++ {
			for _, l := range links {
				upper, lower := l.Attrs(), todo[i]
				if down {
					upper, lower = lower, upper
				}
				if a := l.Attrs(); !seen[a.Index] && on(upper, lower, kinds[upper.Index]) {
					seen[a.Index] = true
					names, todo = append(names, a.Name), append(todo, a)
				}
			}
		}
	}
	return names
}

// Benchmarks are the networks for benchmarks (RFC 2544, 5180).
var Benchmarks = []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("2001:2::/48")}

// aside are the networks for benchmarks, documentation and providers' own use,
// which lead nowhere (RFC 2544, 5180, 5737, 3849, 9637, 6598).
var aside = []netip.Prefix{
	Benchmarks[0], Benchmarks[1],
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("3fff::/20"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4"),
}

// Public says whether an address may be somebody's on the Internet: a global unicast
// address that is neither private nor set aside for benchmarks or documentation.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(aside, func(p netip.Prefix) bool { return p.Contains(a) })
}
