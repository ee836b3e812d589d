// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// Frames of a port in a bridge come from the bridge; those of a veth's other end do not.
func TestStandingOn(t *testing.T) {
	link := func(index, master, parent int) netlink.LinkAttrs {
		return netlink.LinkAttrs{Index: index, MasterIndex: master, ParentIndex: parent}
	}
	links := []netlink.Link{
		&netlink.Device{LinkAttrs: link(2, 6, 0)}, &netlink.Device{LinkAttrs: link(3, 0, 0)},
		&netlink.Vlan{LinkAttrs: link(4, 0, 2)}, &netlink.Vlan{LinkAttrs: link(5, 0, 3)},
		&netlink.Bridge{LinkAttrs: link(6, 0, 0)}, &netlink.Vlan{LinkAttrs: link(7, 0, 6)}, &netlink.Veth{LinkAttrs: link(8, 0, 2)},
	}
	for _, c := range [][2][]int{{{2}, {2, 4, 6, 7}}, {{3}, {3, 5}}, {{8}, {8}}, {{2, 3}, {2, 3, 4, 5, 6, 7}}} {
		if got := standingOn(links, c[0]); !slices.Equal(got, c[1]) {
			t.Errorf("on %v stand %v, want %v", c[0], got, c[1])
		}
	}
}
