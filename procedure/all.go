// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"slices"

	"boxdyno/lab"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/result"
)

// BurstsDeviation is the Deviation of procedures that search the throughput.
const BurstsDeviation = "frames from 50 kframe/s on leave in bursts of what falls due within 40 µs, at most 32, not one by one; what a stall of the tester delayed is made up at 9/8 of the rate"

// suiteNames name a point of the suite's procedures.
var suiteNames = []string{"service", "direction", "frame_size"}

// Own are the procedures of this package. catalog.All has every one.
var Own = []Spec{
	{
		Name: "forward", Needs: lab.Ports, Standard: "RFC 2544, RFC 2285",
		Deviation: BurstsDeviation + "; latency is measured with single frames",
		Doc:       "the box as a router: highest load without loss, forwarding rate under overload, latency, and where frames were lost",
		Names:     []string{"service", "direction", "frame_size"},
		Metrics:   ForwardMetrics, Joules: ForwardJoules, New: newForward,
	},
	{
		Name: "self-test", Needs: lab.Ports, Standard: "RFC 2544", Alone: true,
		Doc:     "the tester alone, port to port without the DUT: the ceiling of every figure",
		Names:   []string{"frame_size"},
		Metrics: []result.Metric{ceilingMetric}, New: newSelfTest,
	},
	{
		Name: "throughput", Needs: lab.Ports, Standard: "RFC 2544 section 26.1, RFC 2285", Deviation: BurstsDeviation,
		Doc:   "highest load without loss, and the forwarding rate under overload beside it",
		Names: suiteNames, Metrics: slices.Concat(ThroughputMetrics, metrics.List(ForwardMetrics).Pick("standing_start_fps")), Joules: ForwardJoules, New: newThroughput,
	},
	{
		Name: "latency", Needs: lab.Ports, Standard: "RFC 2544 section 26.2", Deviation: "software times every frame; figures are percentiles of all, not the delay of one tagged frame",
		Quick: "latency is measured 5 times 0.1 s, not 20 times 120 s (RFC 2544 section 26.2)",
		Doc:   "one-way delay at the throughput: percentiles, from repeated trials",
		Names: suiteNames, Metrics: latencyMetrics, New: newLatency,
	},
	{
		Name: "loss-curve", Needs: lab.Ports, Standard: "RFC 2544 section 26.3",
		Quick: "each load of the loss curve is offered for 50 ms (RFC 2544 section 24 asks for 60 s)",
		Doc:   "share of frames lost against the load, from the highest downwards to two clean trials",
		Names: suiteNames, Metrics: lossCurveMetrics, New: newLossCurve,
	},
	{
		Name: "back-to-back", Needs: lab.Ports, Standard: "RFC 9004",
		Quick: "back-to-back searches 10 times, not 50, to 2 %, with bursts of 0.1 s at most, not 2 s (RFC 9004, RFC 2544 section 26.4)",
		Doc:   "longest burst at the highest frame rate without loss, and the box's buffer",
		Names: suiteNames, Metrics: backToBackMetrics, New: newBackToBack,
	},
	{
		Name: "recovery", Needs: lab.Ports, Standard: "RFC 2544 section 26.5",
		Deviation: "recovery follows an overload of 110 % of the higher of throughput and forwarding rate: without a sharp limit the first may be no overload",
		Quick:     "the overload before recovery lasts 0.2 s, not 60 s (RFC 2544 section 26.5)",
		Doc:       "how long frames are still lost after an overload of 110 % has dropped to 50 %",
		Names:     suiteNames, Metrics: recoveryMetrics, New: newRecovery,
	},
	{
		Name: "security", Needs: lab.Ports, Standard: "RFC 9411 section 4.3.4",
		Deviation: "the phases of RFC 9411 offer UDP frames, not HTTP and HTTPS transactions; the source port marks known-bad traffic, not its content",
		Quick:     "the load of security is sustained for 3 s, not 300 s, after a ramp of 0.5 s (RFC 9411 section 4.3.4)",
		Doc:       "a firewall under sustained load in RFC 9411's phases: forwarding rate, loss, latency, and whether it still blocks what it must",
		Names:     suiteNames, Metrics: securityMetrics, New: newSecurity,
	},
	{
		Name: "connections", Needs: lab.KernelPorts, Standard: "RFC 9411 sections 7.2 and 7.5",
		Deviation: "nothing is retransmitted, so a lost frame fails its connection, and none may fail (RFC 9411 allows 0.001 %); one request a connection, over IPv4, with one segment under way at a time; a trial ends after 4194304 connections",
		Quick:     "each rate of new connections is offered for 0.15 s, the one found for 0.5 s (RFC 9411 section 4.3.4 asks for 300 s)",
		Doc:       "a stateful box: highest rate of new TCP connections, how many at once, time to first byte, goodput, and what limits it",
		Names:     []string{"service", "mode", "response_size"},
		Metrics:   connectionMetrics, Joules: connectionJoules, New: newConnections,
	},
	{
		Name: "capture", Needs: lab.Listener, Deviation: "captured frames have nobody's MAC address, as behind a mirror port, and end in the box after the subject's copy",
		Quick:   "capture offers rates for 1 s, in its search for 0.5 s at least, not for 10 s and 5 s: a buffer takes a larger share of them",
		Doc:     "software that captures frames: what it counts at a rate, or the highest rate without loss, and its cost to the box",
		Names:   []string{"subject", "payload_size", "frame_size", "rate"},
		Metrics: captureMetrics, Joules: captureJoules, New: newCapture,
	},
	{
		Name: "ids", Needs: lab.Listener, Deviation: "the IDS's traffic has nobody's MAC addresses, as behind a mirror port, and ends in the box after its copy",
		Quick:   "ids offers loads for 2 s, not for 60 s, in a search of few trials: a limit set by memory, which fills slowly, is not seen",
		Doc:     "intrusion detection on the box: highest load with hardly a frame lost, and whether it still detects every planted attack",
		Names:   []string{"subject", "rules", "rules_file", "traffic", "rate"},
		Metrics: idsMetrics, Joules: idsJoules, New: newIDS,
	},
	{
		Name: "infer", Lab: lab.Here, Alone: true,
		Deviation: "infer's models have parameters from a seed, not learned ones, and complete trees: their output means nothing, and a pruned tree costs less",
		Quick:     "trials of infer last 1 s and are repeated 3 times, not 10 s and 10 times",
		Doc:       "a detector as a load: features and a model for windows of frames, their cost, and the drops that they add to a capture",
		Names:     []string{"model", "runtime", "window", "rate"}, Metrics: inferMetrics, New: newInfer,
	},
	{
		Name: "flood", Needs: lab.Ports,
		Quick: "a flood lasts 2 s, after 0.5 s and before 1 s without it, not 30 s, 5 s and 10 s",
		Doc:   "a flooded box: how much benign traffic survives, what becomes of the flood, and when the box recovers",
		Names: []string{"service", "kind", "rate", "benign", "frame_size"}, Metrics: floodMetrics, New: newFlood,
	},
}
