// SPDX-License-Identifier: Apache-2.0

package procedure

import "time"

var ipVersions = []string{"4", "6"}

func ipText(ipv6 bool) string {
	if ipv6 {
		return "6"
	}
	return "4"
}

// An effort is how long and how often a preset measures.
type effort struct {
	selfTest  time.Duration
	warmUp    time.Duration
	overload  time.Duration
	overloads int // a visit
	latency   time.Duration
	settle    time.Duration // least wait after traffic
}

func effortOf(preset string) effort {
	if preset == "standard" {
		return effort{selfTest: 10 * time.Second, warmUp: 5 * time.Second, overload: 10 * time.Second, overloads: 2, latency: 20 * time.Second, settle: 2 * time.Second}
	}
	return effort{selfTest: 200 * time.Millisecond, warmUp: 100 * time.Millisecond, overload: 50 * time.Millisecond, overloads: 2, latency: 100 * time.Millisecond}
}
