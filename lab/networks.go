// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/frame"
)

// route has the DUT route n networks of each side's destinations (frame.Network),
// each by a route of its own, with the tester's first address as the next hop: a
// permanent neighbour. A network that the port's own prefix is stays with it. With n
// below 2 there is nothing to add.
func (v *services) route(n int) error {
	if n < 2 {
		return nil
	}
	side := -1
	return v.eachPort(func(index int) error {
		side++
		for _, own := range sides[side].nets() {
			hop := own.Addr().Next()
			for i := range n {
				to := frame.Network(hop, i).Masked()
				if to == own.Masked() {
					continue
				}
				r := netlink.Route{
					LinkIndex: index, Gw: hop.AsSlice(),
					Dst: &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Addr().BitLen())},
				}
				if err := v.dut.nl.RouteAdd(&r); err != nil {
					return fmt.Errorf("route %v by %v: %w", to, hop, err)
				}
				v.routes = append(v.routes, r)
			}
		}
		return nil
	})
}

// unroute takes the routes away again; one that is gone already is no error.
func (v *services) unroute() error {
	for len(v.routes) > 0 {
		last := len(v.routes) - 1
		if err := v.dut.nl.RouteDel(&v.routes[last]); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove the route to %v: %w", v.routes[last].Dst, err)
		}
		v.routes = v.routes[:last]
	}
	return nil
}
