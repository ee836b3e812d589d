// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/caps"
	"boxdyno/internal/netns"
)

// A space is a namespace that is being furnished, with a netlink handle that
// stays bound to it whatever thread uses it.
type space struct {
	*host.Local
	ns *netns.Namespace
	nl *netlink.Handle
}

// newSpace makes a namespace with the sysctls (paths under /proc/sys) set, so
// that links inherit them. It needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
func newSpace(label string, sysctls [][2]string) (*space, error) {
	ns, err := netns.New()
	if err != nil {
		return nil, err
	}
	s := &space{Local: &host.Local{Label: label, Netns: ns.Path()}, ns: ns}
	err = netns.Do(s.Netns, func() error {
		for _, kv := range sysctls {
			if err := sysctl(kv[0], kv[1]); err != nil {
				return err
			}
		}
		s.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up the namespace of the %s: %w", label, err), s.close())
	}
	return s, nil
}

// close lets go of the namespace; the kernel then removes all that is in it.
func (s *space) close() error {
	if s.nl != nil {
		s.nl.Close()
	}
	return s.ns.Close()
}

// sysctl writes where the caller's thread stands: /proc/sys/net is the view of
// whoever opens it.
func sysctl(name, value string) error {
	if err := caps.Override(func() error { return os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0) }); err != nil {
		return fmt.Errorf("set sysctl: %w", err)
	}
	return nil
}

// hasIPv6 says whether the kernel was started with IPv6.
func hasIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return err == nil
}

// An end is one end of a cable.
type end struct {
	at   *space
	name string
	mac  [6]byte
}

func (e end) port() host.Port {
	return host.Port{Host: e.at.Label, Netns: e.at.Netns, Name: e.name}
}

// cable makes a veth pair with one queue each way, its offloads off, and leaves
// it down.
func cable(a, b end, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = a.name, a.mac[:], mtu
	attrs.NumTxQueues, attrs.NumRxQueues = 1, 1
	err := a.at.nl.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs,
		PeerName:  b.name, PeerHardwareAddr: b.mac[:], PeerNamespace: netlink.NsFd(b.at.ns.Fd()),
		PeerTxQLen: -1, // as all else: that of attrs
	})
	if err != nil {
		return fmt.Errorf("make the cable from %s to %s: %w", a.name, b.name, err)
	}
	for _, e := range []end{a, b} {
		if err := netns.Do(e.at.Netns, func() error { return offloadsOff(e.name) }); err != nil {
			return fmt.Errorf("switch offloads of %s off: %w", e.name, err)
		}
	}
	return nil
}

// remove takes an end away, and its cable's other end with it.
func remove(e end) error {
	return e.at.link("remove", e.name, e.at.nl.LinkDel)
}

// lay makes cables. undo removes them at once, not when the kernel gets round to it.
func lay(cables [][2]end, mtu int, undo *cleanup) error {
	for _, c := range cables {
		if err := cable(c[0], c[1], mtu); err != nil {
			return err
		}
		undo.add(func() error { return remove(c[0]) })
	}
	return nil
}

// raise sets both ends of cables up.
func raise(cables [][2]end) error {
	for _, c := range cables {
		for _, e := range c {
			if err := e.at.up(e.name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *space) up(name string) error   { return s.link("set up", name, s.nl.LinkSetUp) }
func (s *space) down(name string) error { return s.link("set down", name, s.nl.LinkSetDown) }

func (s *space) link(what, name string, f func(netlink.Link) error) error {
	l, err := s.nl.LinkByName(name)
	if err == nil {
		err = f(l)
	}
	if err != nil {
		return fmt.Errorf("%s %s of the %s: %w", what, name, s.Label, err)
	}
	return nil
}

// address gives a port its address, and neighbours addresses after it a
// permanent neighbour at mac each: nobody asks for them, on no link.
func (s *space) address(name string, p netip.Prefix, neighbours int, mac [6]byte) error {
	link, err := s.nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s of the %s: %w", name, s.Label, err)
	}
	bits := p.Addr().BitLen()
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), bits)}}
	if p.Addr().Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	if err := s.nl.AddrAdd(link, addr); err != nil {
		return fmt.Errorf("give %s the address %v: %w", name, p, err)
	}
	ip := p.Addr()
	for range neighbours {
		ip = ip.Next()
		if err := s.permanent(link, ip, mac); err != nil {
			return err
		}
	}
	return nil
}

// neighbour gives a port one permanent neighbour.
func (s *space) neighbour(name string, ip netip.Addr, mac [6]byte) error {
	link, err := s.nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s of the %s: %w", name, s.Label, err)
	}
	return s.permanent(link, ip, mac)
}

func (s *space) permanent(link netlink.Link, ip netip.Addr, mac [6]byte) error {
	err := s.nl.NeighAdd(&netlink.Neigh{
		LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: ip.AsSlice(), HardwareAddr: mac[:],
	})
	if err != nil {
		return fmt.Errorf("give %s the neighbour %v: %w", link.Attrs().Name, ip, err)
	}
	return nil
}

// frames is the sum of the frame counters of all links.
func (s *space) frames() (n uint64, err error) {
	links, err := s.nl.LinkList()
	for _, l := range links {
		if st := l.Attrs().Statistics; st != nil {
			n += st.RxPackets + st.TxPackets + st.RxDropped + st.TxDropped
		}
	}
	return n, err
}
