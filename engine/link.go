// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/vishvananda/netlink"

// linkStats reads the counters of a port of this thread's namespace.
func linkStats(port string) (*netlink.LinkStatistics, error) {
	l, err := netlink.LinkByName(port)
	if err != nil {
		return nil, err
	}
	return l.Attrs().Statistics, nil
}
