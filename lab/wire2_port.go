// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/unit"
)

// A nic is a real port as it was found. Nothing about it is set: what keeps the
// tester's kernel off it hangs on descriptors of this process.
type nic struct {
	host.Port
	index  int
	mac    [6]byte
	mtu    int
	driver string
	speed  unit.BitRate // 0: a virtual link, or one that does not say
	nl     *netlink.Handle
	shield []link.Link
}

// openNIC finds a port that is up, has a cable in it and is nobody else's (with
// force: may be somebody's; with own: may carry the caller's connection). Else it is a *host.Missing with what to do.
func openNIC(p host.Port, force, own bool) (_ *nic, err error) {
	n := &nic{Port: p}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	err = netns.Do(p.Netns, func() (err error) {
		if n.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		l, err := ethernet(n.nl.LinkByName, p.Name)
		if err != nil {
			return err
		}
		a := l.Attrs()
		n.index, n.mtu, n.mac = a.Index, a.MTU, [6]byte(a.HardwareAddr)
		if err := n.free(force, own); err != nil {
			return err
		}
		if a.RawFlags&unix.IFF_UP == 0 {
			return &host.Missing{What: "a port that is up: " + p.Name + " is down", Remedy: [][]string{{"ip", "link", "set", p.Name, "up"}}}
		}
		if err := n.plain(); err != nil {
			return err
		}
		n.driver, n.speed = host.Driver(p.Name, l.Type())
		return nil
	})
	return n, host.Permit("use port "+p.Name, err)
}

// ethernet is the port of that name in the calling thread's namespace.
func ethernet(find func(string) (netlink.Link, error), name string) (netlink.Link, error) {
	l, err := find(name)
	switch {
	case errors.As(err, &netlink.LinkNotFoundError{}):
		return nil, fmt.Errorf("there is no port %s: ip link shows the names", name)
	case err != nil:
		return nil, fmt.Errorf("find port %s: %w", name, err)
	case l.Attrs().EncapType != "ether" || len(l.Attrs().HardwareAddr) != 6:
		return nil, fmt.Errorf("port %s is not of Ethernet: give another one", name)
	}
	return l, nil
}

func (n *nic) close() error {
	var err error
	for _, l := range n.shield {
		err = errors.Join(err, l.Close())
	}
	n.shield = nil
	if n.nl != nil {
		n.nl.Close()
	}
	return err
}

// free refuses a port that is somebody's. The caller's own connection is refused with
// force, too.
func (n *nic) free(force, own bool) error {
	if own {
		return nil
	}
	use, err := n.Needed()
	if err == nil && !use.Own && !force {
		use, err = n.Used()
	}
	switch {
	case err != nil:
		return err
	case use.Why == "" || force && !use.Own:
		return nil
	}
	m := &host.Missing{What: "a port that is free: " + n.Name + " " + use.Why}
	switch {
	case use.Own:
		m.Hint = "give another port, or set force_own_connection=true if it may be cut"
	case use.Remedy != nil:
		m.Remedy = [][]string{use.Remedy}
	default:
		m.Hint = "give another port, or set force=true to use it all the same"
	}
	return m
}

// merging are the features that make several frames one before a meter sees them,
// UDP's too.
var merging = []string{"rx-udp-gro-forwarding", "rx-gro-list"}

// plain refuses a port that merges test frames.
func (n *nic) plain() error {
	e, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer e.Close()
	features, err := e.Features(n.Name)
	if err != nil {
		return nil // a driver without them
	}
	for _, f := range merging {
		if features[f].Active {
			return &host.Missing{What: fmt.Sprintf("a port that does not merge frames: %s has %s on", n.Name, f),
				Remedy: [][]string{{"ethtool", "-K", n.Name, f, "off"}}}
		}
	}
	return nil
}

// carrier says whether the cable is in and the other end there.
func (n *nic) carrier() (bool, error) {
	l, err := n.nl.LinkByIndex(n.index)
	if err != nil {
		return false, fmt.Errorf("port %s is gone: %w", n.Name, err)
	}
	return l.Attrs().RawFlags&unix.IFF_LOWER_UP != 0, nil
}

// frames are the port's own counters: what it sent, and what came to it, with what it
// had no room for, which the ledger names.
func (n *nic) frames() (sent, received uint64, err error) {
	l, err := n.nl.LinkByIndex(n.index)
	if err != nil {
		return 0, 0, fmt.Errorf("read the counters of %s: %w", n.Name, err)
	}
	s := l.Attrs().Statistics
	if s == nil {
		return 0, 0, fmt.Errorf("read the counters of %s: the kernel gives none", n.Name)
	}
	return s.TxPackets, s.RxPackets + s.RxMissedErrors, nil
}

// setShield keeps the tester's kernel off the port: what the packet sockets have seen goes no
// further, and the kernel sends nothing (Linux 6.6). Without it the kernel must at
// least not forward test frames; the string says which.
func (n *nic) setShield() (string, error) {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // TCX_DROP
	})
	if err != nil {
		return "", host.Permit("load a BPF program", fmt.Errorf("keep the kernel off %s: %w", n.Name, err))
	}
	defer prog.Close()
	err = netns.Do(n.Netns, func() error {
		for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			l, err := link.AttachTCX(link.TCXOptions{Interface: n.index, Program: prog, Attach: at})
			if err != nil {
				return err
			}
			n.shield = append(n.shield, l)
		}
		return nil
	})
	if err == nil {
		return "tcx", nil
	}
	if !errors.Is(err, ebpf.ErrNotSupported) {
		return "", host.Permit("attach a BPF program to "+n.Name, fmt.Errorf("keep the kernel off %s: %w", n.Name, err))
	}
	return "none (" + err.Error() + ")", n.forwardsNothing()
}

// forwardsNothing refuses a tester that would send test frames on.
func (n *nic) forwardsNothing() error {
	return (&host.Local{Netns: n.Netns}).View(func(root fs.FS) error {
		for _, version := range []string{"ipv4", "ipv6"} {
			v, err := fs.ReadFile(root, "proc/sys/net/"+version+"/conf/"+n.Name+"/forwarding")
			if err == nil && strings.TrimSpace(string(v)) != "0" {
				return &host.Missing{
					What:   fmt.Sprintf("a tester that does not forward what it receives on %s (this kernel has no TCX to keep it from that)", n.Name),
					Remedy: [][]string{{"sysctl", "-w", "net." + version + ".conf." + n.Name + ".forwarding=0"}},
				}
			}
		}
		return nil
	})
}

// addressRun is count addresses from first on; none of an invalid one.
func addressRun(first netip.Addr, count int) (all []netip.Addr) {
	for ; first.IsValid() && count > 0; count-- {
		all = append(all, first)
		first = first.Next()
	}
	return all
}
