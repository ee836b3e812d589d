// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/unit"
)

// A trafficPort is the interface that a command works on, as it was found.
type trafficPort struct {
	host.Port
	local *host.Local
	mac   [6]byte
	mtu   int
	index int

	driver  string
	link    unit.BitRate // of a link that says so and is a real one, else 0
	claimed unit.BitRate // what --link-rate says
}

// openPort finds an interface. One that is not there is an error of usage, one
// that is down a *host.Missing.
func (f *portFlags) openPort() (*trafficPort, error) {
	if f.port == "" {
		return nil, usage(errors.New("which interface? Give -i, such as -i eth1"))
	}
	ns, err := namespacePath(f.netns)
	if err != nil {
		return nil, err
	}
	p := &trafficPort{Port: host.Port{Netns: ns, Name: f.port}, local: &host.Local{Netns: ns}}
	if f.linkRate != "" {
		if p.claimed, err = linkRateOf(f.linkRate); err != nil {
			return nil, usage(fmt.Errorf("--link-rate: %w", err))
		}
	}
	err = p.local.View(func(fs.FS) error {
		iface, err := net.InterfaceByName(f.port)
		if err != nil {
			return usage(fmt.Errorf("there is no interface %s%s: ip link shows them", f.port, in(f.netns)))
		}
		if len(iface.HardwareAddr) != 6 {
			return usage(fmt.Errorf("%s is no Ethernet port: it has no MAC address", f.port))
		}
		if iface.Flags&net.FlagUp == 0 {
			remedy := []string{"ip", "link", "set", f.port, "up"}
			if ns != "" {
				remedy = append([]string{"nsenter", "--net=" + ns}, remedy...)
			}
			return &host.Missing{What: "a port that is up: " + f.port + " is down", Remedy: [][]string{remedy}}
		}
		p.index, p.mtu = iface.Index, iface.MTU
		copy(p.mac[:], iface.HardwareAddr)
		p.driver, p.link = host.Driver(p.Name, "")
		return nil
	})
	if errors.Is(err, fs.ErrPermission) {
		return nil, host.Privilege("enter the network namespace " + f.netns)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func in(ns string) string {
	if ns == "" {
		return ""
	}
	return " in the network namespace " + ns
}

// namespacePath is where the namespace that --netns names is found.
func namespacePath(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	path := s
	if !strings.Contains(s, "/") {
		path = filepath.Join("/run/netns", s)
	}
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return "", host.Privilege("look at the network namespace " + s)
		}
		return "", usage(fmt.Errorf("--netns: there is no network namespace %s: ip netns shows those with names", s))
	}
	return path, nil
}

// lineRate is what shares of line rate are of, and where it comes from.
func (p *trafficPort) lineRate() (unit.BitRate, string) {
	switch {
	case p.claimed > 0:
		return p.claimed, "--link-rate"
	case p.link > 0:
		return p.link, "link"
	}
	return 1e9, "reference"
}

// portCounts are cumulative counters of one way through a port.
type portCounts struct {
	frames, octets uint64 // octets with FCS
	dropped        uint64 // by the port, errors included
	foreign        uint64 // of frames, of a meter: those of no stream that it counts
}

func (c portCounts) since(before portCounts) portCounts {
	return portCounts{c.frames - before.frames, c.octets - before.octets, c.dropped - before.dropped, c.foreign - before.foreign}
}

// sent reads the port's transmit counters.
func (p *trafficPort) sent() (c portCounts, err error) {
	err = p.local.View(func(root fs.FS) error {
		text, err := fs.ReadFile(root, "proc/thread-self/net/dev")
		if err == nil {
			c, err = parseSent(string(text), p.Name)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("read %s's counters: %w", p.Name, err)
	}
	return c, err
}

// parseSent reads a port's line of /proc/net/dev: after its name eight receive
// counters, then octets, packets, errors, drops sent. Octets there are without
// FCS.
func parseSent(text, port string) (portCounts, error) {
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) != port {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 12 {
			return portCounts{}, fmt.Errorf("its line has %d counters, want 16", len(fields))
		}
		var v [4]uint64
		for i := range v {
			n, err := strconv.ParseUint(fields[8+i], 10, 64)
			if err != nil {
				return portCounts{}, fmt.Errorf("counter %d: %w", 8+i, err)
			}
			v[i] = n
		}
		return portCounts{frames: v[1], octets: v[0] + v[1]*unit.FCS, dropped: v[2] + v[3]}, nil
	}
	return portCounts{}, engine.ErrPortGone
}

// How counters are read once traffic has stopped: until two reads are equal.
const (
	settleStep = 20 * time.Millisecond
	settleMost = 2 * time.Second
)

// settled reads the transmit counters until they stand still.
func (p *trafficPort) settled() (portCounts, error) {
	last, err := p.sent()
	for end := time.Now().Add(settleMost); err == nil && time.Now().Before(end); {
		time.Sleep(settleStep)
		var now portCounts
		if now, err = p.sent(); now == last {
			break
		}
		last = now
	}
	return last, err
}

// neighbour is the MAC address that the kernel would send to for a destination
// by this port: the destination's own or its gateway's, where that is known.
func (p *trafficPort) neighbour(dst netip.Addr) (mac [6]byte, ok bool) {
	_ = p.local.View(func(fs.FS) error { // whatever fails: not known
		routes, err := netlink.RouteGet(dst.AsSlice())
		if err != nil || len(routes) == 0 || routes[0].LinkIndex != p.index {
			return nil
		}
		next := dst
		if gw, isGateway := netip.AddrFromSlice(routes[0].Gw); isGateway {
			next = gw.Unmap()
		}
		all, err := netlink.NeighList(p.index, netlink.FAMILY_ALL)
		if err != nil {
			return nil
		}
		for _, n := range all {
			const unusable = netlink.NUD_FAILED | netlink.NUD_INCOMPLETE | netlink.NUD_NOARP
			if a, valid := netip.AddrFromSlice(n.IP); valid && a.Unmap() == next && len(n.HardwareAddr) == 6 && n.State&unusable == 0 {
				copy(mac[:], n.HardwareAddr)
				ok = true
			}
		}
		return nil
	})
	return mac, ok
}

// peer is the MAC address of the other end of a veth whose ends both stand in
// the port's namespace.
func (p *trafficPort) peer() (mac [6]byte, ok bool) {
	_ = p.local.View(func(fs.FS) error { // whatever fails: not known
		own, err := netlink.LinkByIndex(p.index)
		if err != nil || own.Type() != "veth" || own.Attrs().NetNsID >= 0 {
			return nil
		}
		other, err := netlink.LinkByIndex(own.Attrs().ParentIndex)
		if err == nil && other.Type() == "veth" && other.Attrs().ParentIndex == p.index && len(other.Attrs().HardwareAddr) == 6 {
			copy(mac[:], other.Attrs().HardwareAddr)
			ok = true
		}
		return nil
	})
	return mac, ok
}
