// SPDX-License-Identifier: Apache-2.0

// Package ports asks the kernel about ports: index, MTU, counters, and whether they are still there.
package ports

import (
	"fmt"

	"boxdyno/host"

	"github.com/vishvananda/netlink"
)

// Ethernet is p's index and MTU, seen from its namespace.
func Ethernet(p host.Port) (index, mtu int, err error) {
	l, err := netlink.LinkByName(p.Name)
	if err != nil {
		return 0, 0, fmt.Errorf("find port %s: %w", p.Name, err)
	}
	a := l.Attrs()
	if a.EncapType != "ether" && a.EncapType != "loopback" {
		return 0, 0, fmt.Errorf("packet sockets on %s: its link type is %s, want Ethernet: %w", p.Name, a.EncapType, host.ErrNotSupported)
	}
	return a.Index, a.MTU, nil
}
