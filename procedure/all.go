// SPDX-License-Identifier: Apache-2.0

package procedure

import "boxdyno/result"

// All is every procedure.
var All = []Spec{
	{
		Name: "forward", Standard: "RFC 2544, RFC 2285",
		Deviation: "frames above 100 kframe/s leave in bursts of what falls due within 20 µs, at most 32, not one by one; what a stall of the tester delayed is made up at 9/8 of the rate; latency is measured with single frames",
		Doc:       "the box as a router: highest load without loss, forwarding rate under overload, latency, and where frames were lost",
		Names:     []string{"service", "direction", "frame_size"},
		Metrics:   forwardMetrics, New: newForward,
	},
	{
		Name: "self-test", Standard: "RFC 2544",
		Doc:     "the tester alone, port to port without the DUT: the ceiling of every figure",
		Names:   []string{"frame_size"},
		Metrics: []result.Metric{ceilingMetric}, New: newSelfTest,
	},
}
