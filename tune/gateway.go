// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// lastMetric is that of a route which any other one precedes.
const lastMetric = 1 << 30

// gatewaySpec keeps packets to a network from leaving by any other way than boxdyno's: its
// last route refuses them. Off takes that route away, and with it the tunnel's device, states,
// policies and routes.
func gatewaySpec(network string) (Spec, error) {
	to, err := netip.ParsePrefix(network)
	if err != nil {
		return Spec{}, fmt.Errorf("knob %s%s: %w", GatewayPrefix, network, err)
	}
	refusing := &netlink.Route{Type: unix.RTN_UNREACHABLE, Protocol: ServiceRoutes, Priority: lastMetric,
		Dst: &net.IPNet{IP: to.Masked().Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Addr().BitLen())}}
	return Spec{
		Name: GatewayPrefix + network, Scope: PerNetns, Check: oneOf("on"),
		Read: func(_ context.Context, at Site) (string, error) {
			routes, err := at.routes()
			for _, r := range routes {
				if r.Type == unix.RTN_UNREACHABLE && r.Dst != nil && r.Dst.String() == refusing.Dst.String() {
					return "on", err
				}
			}
			return "off", err
		},
		Write: func(_ context.Context, at Site, value string) error {
			if value == "on" {
				return at.within(func() error { return netlink.RouteAdd(refusing) })
			}
			return errors.Join(at.untunnel(), at.unroute())
		},
	}, nil
}

// untunnel takes a tunnel's device, states and policies away.
func (s Site) untunnel() error {
	return s.within(func() error {
		l, err := netlink.LinkByName(TunnelDevice)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			err = nil
		} else if err == nil {
			err = netlink.LinkDel(l)
		}
		if err != nil {
			return fmt.Errorf("remove the tunnel's device: %w", err)
		}
		ours := func(n int) bool { return n == TunnelSPI || n == TunnelSPI+1 }
		states, _ := netlink.XfrmStateList(netlink.FAMILY_V4) // none where the kernel has no IPsec
		for _, st := range states {
			if ours(st.Spi) && ours(st.Reqid) {
				err = errors.Join(err, netlink.XfrmStateDel(&st))
			}
		}
		policies, _ := netlink.XfrmPolicyList(netlink.FAMILY_V4)
		for _, p := range policies {
			if len(p.Tmpls) == 1 && ours(p.Tmpls[0].Reqid) {
				err = errors.Join(err, netlink.XfrmPolicyDel(&p))
			}
		}
		if err != nil {
			return fmt.Errorf("remove IPsec's states and policies: %w", err)
		}
		return nil
	})
}
