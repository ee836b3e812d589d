// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/tune"
)

// A Way is what a machine needs to be one of two gateways of a cable.
type Way struct {
	Port  string       `json:"port"`
	Outer netip.Prefix `json:"outer"` // its own on the cable
	Inner netip.Addr   `json:"inner"` // its own in the network behind it, on the loopback
	Peer  netip.Addr   `json:"peer"`  // the other's on the cable
	To    netip.Prefix `json:"to"`    // the network behind the other
}

// A Gateway is this machine as one end of a Way, until it is closed; tune's journal puts it
// back after SIGKILL, with a tunnel that stood then.
type Gateway struct {
	spreading
	way   Way
	close func() error
}

// OpenGateway sets the namespace netns ("": this one) up. It needs CAP_NET_ADMIN. What
// cannot be set is an error, and then all is as before.
func OpenGateway(ctx context.Context, netns string, w Way, by string) (_ *Gateway, err error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	g := &Gateway{spreading: spreading{netns: netns, names: []string{w.Port}}, way: w}
	if err := g.free(); err != nil {
		return nil, err
	}
	r := tune.Recipe{Name: "gateway", Steps: []tune.Step{
		{Knob: tune.GatewayPrefix + w.To.Masked().String(), Target: tune.ForHost, Value: "on"},
		{Knob: "link", Target: w.Port, Value: "up"},
		{Knob: "link", Target: loopback, Value: "up"},
		{Knob: tune.AddressPrefix + w.Outer.String(), Target: w.Port, Value: "present"},
		{Knob: tune.AddressPrefix + netip.PrefixFrom(w.Inner, w.Inner.BitLen()).String(), Target: loopback, Value: "present"},
	}}
	on := tune.On{Host: &host.Local{Netns: netns}, Ports: []string{w.Port, loopback}}
	applied, settings, err := tune.New().Apply(ctx, r, on, tune.Options{By: by})
	if err != nil {
		return nil, fmt.Errorf("set the gateway up: %w", err)
	}
	g.close = sync.OnceValue(func() error {
		err := g.spread(context.Background(), false)
		_, rerr := applied.Revert(context.Background(), tune.Revert{})
		return errors.Join(err, rerr)
	})
	for _, s := range settings {
		if s.Problem != "" {
			return nil, errors.Join(fmt.Errorf("set the gateway up: %s of %s: %s", s.Knob, s.Target, s.Problem), g.Close())
		}
	}
	if err := g.Direct(true); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

const loopback = "lo"

func (w Way) check() error {
	if !w.Outer.Addr().Is4() || !w.Inner.Is4() || !w.Peer.Is4() || !w.To.Addr().Is4() || !w.Outer.Contains(w.Peer) || w.To.Contains(w.Inner) || w.To.Bits() < 8 {
		return errors.New("a gateway needs IPv4 addresses: its own and the other's in one network, and a network of each that are apart")
	}
	if w.Port == "" || w.Port == loopback {
		return errors.New("a gateway needs a port")
	}
	return nil
}

// free refuses what somebody else has, which would be taken for ours.
func (g *Gateway) free() error {
	err := netns.Do(g.netns, func() error {
		if _, err := netlink.LinkByName(g.way.Port); err != nil {
			return fmt.Errorf("find port %s: %w", g.way.Port, err)
		}
		var taken []string
		if _, err := netlink.LinkByName(tune.TunnelDevice); err == nil {
			taken = append(taken, "a device "+tune.TunnelDevice)
		}
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: tune.ServiceRoutes}, netlink.RT_FILTER_PROTOCOL)
		if err == nil && len(routes) > 0 {
			taken = append(taken, "routes of protocol 211")
		}
		addresses, aerr := netlink.AddrList(nil, netlink.FAMILY_V4)
		for _, a := range addresses {
			if own, ok := netip.AddrFromSlice(a.IP.To4()); ok && slices.ContainsFunc([]netip.Prefix{g.way.To, g.way.Outer.Masked(), inner(g.way)}, func(p netip.Prefix) bool { return p.Contains(own) }) {
				taken = append(taken, "the address "+own.String())
			}
		}
		err = errors.Join(err, aerr)
		if len(taken) > 0 {
			return &host.Missing{What: "a machine without " + strings.Join(taken, " and ") + " of somebody else", Hint: "remove them there"}
		}
		return err
	})
	return host.Permit("look at the gateway", err)
}

// inner is the network behind w.
func inner(w Way) netip.Prefix { return netip.PrefixFrom(w.Inner, w.To.Bits()).Masked() }

// Direct routes the other's network over the cable itself, or, with on false, not at all:
// what no tunnel carries is refused then.
func (g *Gateway) Direct(on bool) error {
	err := netns.Do(g.netns, func() error {
		l, err := netlink.LinkByName(g.way.Port)
		if err != nil {
			return err
		}
		r := &netlink.Route{LinkIndex: l.Attrs().Index, Gw: g.way.Peer.AsSlice(), Src: g.way.Inner.AsSlice(), Priority: 100, Protocol: tune.ServiceRoutes,
			Dst: &net.IPNet{IP: g.way.To.Masked().Addr().AsSlice(), Mask: net.CIDRMask(g.way.To.Bits(), 32)}}
		if on {
			return netlink.RouteReplace(r)
		}
		if err := netlink.RouteDel(r); !errors.Is(err, unix.ESRCH) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("route %v over the cable: %w", g.way.To.Masked(), err)
	}
	return nil
}

// Spread has flows that the gateway receives from the cable go to all of its CPUs, or as they
// did before.
func (g *Gateway) Spread(ctx context.Context, all bool) error { return g.spread(ctx, all) }

// A GatewayState is how a gateway's port is.
type GatewayState struct {
	MTU     int     `json:"mtu"`
	Carrier bool    `json:"carrier"`
	MAC     [6]byte `json:"mac"`
	Peer    [6]byte `json:"peer"` // that answers for the other gateway; zero: nobody has yet
}

// See looks at the port.
func (g *Gateway) See() (s GatewayState, err error) {
	err = netns.Do(g.netns, func() error {
		l, err := netlink.LinkByName(g.way.Port)
		if err != nil {
			return err
		}
		a := l.Attrs()
		s.MTU, s.Carrier = a.MTU, a.RawFlags&unix.IFF_LOWER_UP != 0
		copy(s.MAC[:], a.HardwareAddr)
		all, err := netlink.NeighList(a.Index, netlink.FAMILY_V4)
		for _, n := range all {
			if n.IP.Equal(g.way.Peer.AsSlice()) {
				copy(s.Peer[:], n.HardwareAddr)
			}
		}
		return err
	})
	if err != nil {
		return s, fmt.Errorf("look at port %s: %w", g.way.Port, err)
	}
	return s, nil
}

// Close puts everything back. It may be called more than once.
func (g *Gateway) Close() error { return g.close() }
