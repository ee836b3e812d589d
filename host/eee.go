// SPDX-License-Identifier: Apache-2.0

package host

import "boxdyno/internal/ethtool"

// EEE says whether a port of this thread's namespace lets its link sleep between
// frames (IEEE 802.3az), which adds to latency: "on", "off" or "unknown".
func EEE(port string) string {
	e, err := ethtool.Open()
	if err != nil {
		return "unknown"
	}
	defer e.Close()
	switch eee, err := e.EEE(port); {
	case err != nil: // a driver without it
		return "unknown"
	case eee.Enabled != 0:
		return "on"
	}
	return "off"
}
