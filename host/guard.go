// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A flood leaves by no port that others need (RFC 6815): none that the default
// route goes by, and none of the connection over which boxdyno was called. A
// port is also what a bridge, bond or VLAN on top of it is.

// Needed says what for others need the port, such as "carries the default route"
// or "shares a link with br0, which carries your own connection from 192.0.2.7";
// "" where nothing is known. The connection is that of SSH.
func (p Port) Needed() (why string, err error) {
	peer, local := session(os.DirFS("/"), os.Getpid())
	names := []string{p.Name}
	var routes []route
	var holder string
	err = (&Local{Netns: p.Netns}).View(func(fs.FS) (err error) {
		links, err := netlink.LinkList()
		if err == nil {
			for _, l := range links {
				if l.Attrs().Name == p.Name {
					names = together(links, l.Attrs().Index, p.Name)
				}
			}
			routes, err = readRoutes(links)
		}
		if err == nil && local.IsValid() {
			holder, err = holderOf(local)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("find out whether %s carries anything else: %w", p.Name, err)
	}
	for _, name := range names {
		why := needed(routes, name, peer, holder == name && holder != "")
		switch {
		case why == "":
		case name != p.Name:
			return "shares a link with " + name + ", which " + why, nil
		default:
			return why, nil
		}
	}
	return "", nil
}

// needed says why an interface must not be flooded; "": nothing is known.
// peer is the other end of the user's connection, whose address here the
// interface may hold.
func needed(routes []route, name string, peer netip.Addr, holds bool) string {
	for _, r := range routes {
		if r.name == name && r.to.Bits() == 0 {
			return "carries the default route"
		}
	}
	if !peer.IsValid() || peer.IsLoopback() {
		return ""
	}
	best := route{}
	for _, r := range routes {
		if r.to.Contains(peer) && (!best.to.IsValid() || r.to.Bits() > best.to.Bits()) {
			best = r
		}
	}
	if holds || best.name == name {
		return fmt.Sprintf("carries your own connection from %v", peer)
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

// session is the connection over which the process was started: SSH_CONNECTION
// of itself or of a process that it descends from, for sudo takes it out of the
// environment. Invalid addresses: there is none, or it cannot be known.
func session(root fs.FS, pid int) (peer, local netip.Addr) {
	for range 64 { // generations
		dir := "proc/" + strconv.Itoa(pid) + "/"
		env, _ := fs.ReadFile(root, dir+"environ") // another user's cannot be read
		for v := range bytes.SplitSeq(env, []byte{0}) {
			s, ok := bytes.CutPrefix(v, []byte("SSH_CONNECTION="))
			if f := strings.Fields(string(s)); ok && len(f) == 4 {
				from, err := netip.ParseAddr(f[0])
				to, errTo := netip.ParseAddr(f[2])
				if errors.Join(err, errTo) == nil {
					return from.Unmap().WithZone(""), to.Unmap().WithZone("")
				}
			}
		}
		status, err := fs.ReadFile(root, dir+"status")
		if err != nil {
			break
		}
		_, rest, _ := strings.Cut(string(status), "\nPPid:")
		parent, _, _ := strings.Cut(rest, "\n")
		if pid, err = strconv.Atoi(strings.TrimSpace(parent)); err != nil || pid < 1 {
			break
		}
	}
	return netip.Addr{}, netip.Addr{}
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
