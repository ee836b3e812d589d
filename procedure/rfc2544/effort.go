// SPDX-License-Identifier: Apache-2.0

package rfc2544

import "time"

// A suiteEffort is how long and how often the suite's procedures measure.
type suiteEffort struct {
	latencies  int
	latency    time.Duration
	loss       time.Duration // of each load of the curve
	bursts     int           // times that the longest burst is searched
	burst      time.Duration // the longest burst that is tried
	width      float64       // to which share of itself a burst is found
	recoveries int
	over, then time.Duration // recovery: of the overload, and of what follows
}

func suiteEffortOf(preset string) suiteEffort {
	if preset == "quick" {
		return suiteEffort{
			latencies: 5, latency: 100 * time.Millisecond, loss: 50 * time.Millisecond,
			bursts: 10, burst: 100 * time.Millisecond, width: 0.02,
			recoveries: 3, over: 200 * time.Millisecond, then: 100 * time.Millisecond,
		}
	}
	return suiteEffort{
		latencies: 20, latency: 2 * time.Minute, loss: time.Minute,
		bursts: 50, burst: 2 * time.Second, width: 0.005,
		recoveries: 5, over: time.Minute, then: time.Minute,
	}
}
