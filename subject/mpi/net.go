// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/unit"
)

// A Net is where a machine is in a network.
type Net struct {
	Prefix    netip.Prefix `json:"prefix"`
	Address   netip.Addr   `json:"address"`
	Interface string       `json:"interface"`
	Control   bool         `json:"control,omitempty"` // it carries the connection to who asks
	Speed     unit.BitRate `json:"speed,omitempty"`   // of the interface's link; 0: not known
}

// A Network is a parameter: a prefix between machines, or any that fits.
type Network struct{ netip.Prefix }

// String implements flag.Value.
func (n *Network) String() string {
	if !n.IsValid() {
		return "auto"
	}
	return n.Prefix.String()
}

// Set implements flag.Value.
func (n *Network) Set(s string) error {
	if s == "auto" {
		*n = Network{}
		return nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() || p != p.Masked() {
		return fmt.Errorf("%q is neither auto nor a network such as 10.0.0.0/24", s)
	}
	n.Prefix = p
	return nil
}

// mostNets are more than a machine has.
const mostNets = 64

// Nets are this machine's in private networks of IPv4, without loopback.
func Nets() (all []Net, err error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list this machine's addresses: %w", err)
	}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		for _, a := range addresses {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Addr().Is4() && !host.Public(p.Addr()) && p.Addr().IsGlobalUnicast() && len(all) < mostNets {
				_, speed := host.Driver(i.Name, "")
				all = append(all, Net{Prefix: p.Masked(), Address: p.Addr(), Interface: i.Name, Speed: speed})
			}
		}
	}
	return all, nil
}

// loopback is for the processes of one machine.
var loopback = Net{Prefix: netip.MustParsePrefix("127.0.0.0/8"), Address: netip.MustParseAddr("127.0.0.1"), Interface: "lo"}

// Shared is where each machine is in a network that all are in, at an address of its own:
// want, or the first one if want is the zero Prefix. One machine needs none.
func Shared(all [][]Net, want netip.Prefix) ([]Net, error) {
	if len(all) == 1 {
		return []Net{loopback}, nil
	}
	var tried []netip.Prefix
	for _, n := range all[0] {
		tried = append(tried, n.Prefix)
	}
	if want.IsValid() {
		tried = []netip.Prefix{want.Masked()}
	}
	slices.SortFunc(tried, netip.Prefix.Compare)
	for _, p := range tried {
		if at := in(all, p); at != nil {
			return at, nil
		}
	}
	var names []string
	for _, p := range tried {
		names = append(names, p.String())
	}
	return nil, fmt.Errorf("the boards have no private IPv4 network in common, with an address of its own for each: tried %s", strings.Join(names, ", "))
}

// in is where each machine is in p; nil if one is not, is there twice, or shares its address.
func in(all [][]Net, p netip.Prefix) (at []Net) {
	seen := map[netip.Addr]bool{}
	for _, nets := range all {
		mine := slices.DeleteFunc(slices.Clone(nets), func(n Net) bool { return n.Prefix != p || !p.Contains(n.Address) })
		if len(mine) != 1 || seen[mine[0].Address] {
			return nil
		}
		seen[mine[0].Address] = true
		at = append(at, mine[0])
	}
	return at
}
