// SPDX-License-Identifier: Apache-2.0

package ports

import "github.com/vishvananda/netlink"

// Stats reads the counters of a port of this thread's namespace.
func Stats(port string) (*netlink.LinkStatistics, error) {
	l, err := netlink.LinkByName(port)
	if err != nil {
		return nil, err
	}
	return l.Attrs().Statistics, nil
}
