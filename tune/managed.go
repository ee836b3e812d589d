// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/host"
)

// Knobs that no recipe may name, for what boxdyno sets up on a box by itself: the journal
// puts them back as all others.
const (
	AddressPrefix = "address:" // with an address and its prefix length; values "present", "absent"
	ServiceKnob   = "service"  // the nftables table and the routes of boxdyno; values "on", "off"
	ClsactKnob    = "clsact"   // a port's clsact qdisc, with the programs on it; values "present", "absent"
	// GatewayPrefix with a network: no packet to it leaves but by boxdyno's own routes, and a
	// tunnel may be set up; values "on", "off", which takes all of it away.
	GatewayPrefix = "gateway:"

	// ServiceTable is the nftables table of family inet, and ServiceRoutes the protocol of the
	// routes, that ServiceKnob takes away.
	ServiceTable  = "boxdyno"
	ServiceRoutes = 211

	// TunnelDevice is the device, and TunnelSPI the first of two numbers of ESP's states and
	// templates, that a tunnel has and that GatewayPrefix takes away.
	TunnelDevice = "bdyno-vpn0"
	TunnelSPI    = 0xbd01
)

// findAny is Find, and knows these knobs, too.
func findAny(name string) (Spec, error) {
	if cidr, ok := strings.CutPrefix(name, AddressPrefix); ok {
		return addressSpec(cidr)
	}
	if to, ok := strings.CutPrefix(name, GatewayPrefix); ok {
		return gatewaySpec(to)
	}
	switch name {
	case ServiceKnob:
		return serviceSpec, nil
	case ClsactKnob:
		return clsactSpec, nil
	}
	return Find(name)
}

// addressSpec is an address of a port; another prefix length counts as present.
func addressSpec(cidr string) (Spec, error) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return Spec{}, fmt.Errorf("knob %s%s: %w", AddressPrefix, cidr, err)
	}
	return Spec{
		Name: AddressPrefix + cidr, Scope: PerPort, Check: oneOf("present"),
		Read: func(_ context.Context, at Site) (state string, err error) {
			state = "absent"
			err = at.link(func(l netlink.Link) error {
				all, err := netlink.AddrList(l, netlink.FAMILY_ALL)
				for _, a := range all {
					if a.IP.Equal(p.Addr().AsSlice()) {
						state = "present"
					}
				}
				return err
			})
			return state, err
		},
		Write: writeLink(func(l netlink.Link, v string) error {
			a, err := netlink.ParseAddr(cidr)
			if err != nil {
				return err
			}
			if v == "absent" {
				return netlink.AddrDel(l, a)
			}
			if p.Addr().Is6() {
				a.Flags = unix.IFA_F_NODAD
			}
			return netlink.AddrAdd(l, a)
		}),
	}, nil
}

// clsactSpec counts an ingress qdisc as present, too: it stands in the same place.
var clsactSpec = Spec{
	Name: ClsactKnob, Scope: PerPort, Check: oneOf("present"),
	Read: func(_ context.Context, at Site) (state string, err error) {
		state = "absent"
		err = at.link(func(l netlink.Link) error {
			all, err := netlink.QdiscList(l)
			for _, q := range all {
				if q.Attrs().Parent == netlink.HANDLE_INGRESS {
					state = "present"
				}
			}
			return err
		})
		return state, err
	},
	Write: writeLink(func(l netlink.Link, v string) error {
		q := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
		if v == "absent" {
			return netlink.QdiscDel(q)
		}
		return netlink.QdiscAdd(q)
	}),
	Disturbs: func(_ context.Context, at Site) ([]Ref, error) { // the kernel takes 0 for a mistake
		return []Ref{{Knob: queueLength.Name, Port: at.Port}}, nil
	},
}

var serviceSpec = Spec{
	Name: ServiceKnob, Scope: PerNetns, Check: oneOf("on"),
	Read: func(ctx context.Context, at Site) (string, error) {
		if host.Has("nft") != nil {
			return "", fmt.Errorf("%w: there is no program nft", host.ErrNotSupported)
		}
		tables, err := (&host.Local{Netns: at.Netns}).Run(ctx, "", "nft", "list", "tables", "inet")
		if err != nil {
			return "", err
		}
		routes, err := at.routes()
		if strings.Contains(string(tables), "table inet "+ServiceTable+"\n") || len(routes) > 0 {
			return "on", err
		}
		return "off", err
	},
	Write: func(ctx context.Context, at Site, value string) error {
		text := "table inet " + ServiceTable + " {}\n"
		if value == "off" {
			text += "delete table inet " + ServiceTable + "\n"
			if err := at.unroute(); err != nil {
				return err
			}
		}
		_, err := (&host.Local{Netns: at.Netns}).Run(ctx, text, "nft", "-f", "-")
		return err
	},
}

// routes are those with the protocol ServiceRoutes.
func (s Site) routes() (all []netlink.Route, err error) {
	err = s.within(func() error {
		all, err = netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: ServiceRoutes}, netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			return fmt.Errorf("list routes: %w", err)
		}
		return nil
	})
	return all, err
}

func (s Site) unroute() error {
	all, err := s.routes()
	if err != nil {
		return err
	}
	return s.within(func() error {
		for _, r := range all {
			if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("remove the route to %v: %w", r.Dst, err)
			}
		}
		return nil
	})
}
