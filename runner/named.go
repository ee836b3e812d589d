// SPDX-License-Identifier: Apache-2.0

package runner

// This file names the metrics that the runner looks for in procedures' declarations.
const (
	forwardingRate  = "forwarding_rate_fps" // an ablation's, where a procedure has it
	dropRate        = "drop_rate_fps"       // the same, where the service drops
	searchedRate    = "throughput_fps"      // found by a search, whose deviations are the run's
	latencyFamilies = "latency"             // begins those that a sleeping CPU distorts
)
