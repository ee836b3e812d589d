// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"slices"

	"boxdyno/procedure/internal/metrics"
	"boxdyno/result"
	"boxdyno/unit"
)

// referenceLink is the link that line_rate_share is a share of where the
// topology states none.
const referenceLink unit.BitRate = 1e9

// underOverload is the title of the table of what was sent and forwarded, and the tester's ceiling.
const underOverload = "Under overload (forwarding rate); offered and ceiling in frame/s"

var CeilingMetric = result.Metric{Name: "ceiling_fps", Unit: "frame/s", Better: 1, Help: "what the tester alone carries from port to port, all streams together"}

// Ceiling is that in a table.
func Ceiling(title string) result.Metric {
	m := CeilingMetric
	m.Label, m.Group = "ceiling", title
	return m
}

// ForwardMetrics are what a Point finds; procedures pick theirs of them.
var ForwardMetrics = []result.Metric{
	{Name: "throughput_fps", Label: "frame/s", Group: "Without loss (throughput)", Interval: "interval", Heads: true, Unit: "frame/s", Better: 1, Help: "highest load without loss (RFC 2544), all streams together; the interval ends at the load from which on every trial lost frames"},
	{Name: "throughput_bps", Label: "bit/s", Unit: "bit/s", Better: 1, Help: "the same in layer-2 bits, FCS included"},
	{Name: "throughput_l1_bps", Unit: "bit/s", Better: 1, Help: "the same in layer-1 bits, preamble and gap included, for each direction"},
	{Name: "line_rate_share", Label: "of line", Share: true, Unit: "1", Better: 1, Help: "throughput as a share of line rate, for each direction; of 1 Gbit/s where the topology states no link rate"},
	{Name: "pdr_0_1pct_fps", Label: "PDR(0.1 %)", Unit: "frame/s", Better: 1, Help: "PDR(0.1 %): highest load of which at most a thousandth is lost, all streams together; never throughput"},
	{Name: "pdr_0_5pct_fps", Label: "PDR(0.5 %)", Unit: "frame/s", Better: 1, Help: "PDR(0.5 %): the same with five thousandths"},
	{Name: "standing_start_fps", Label: "from rest", Group: "Without loss (throughput)", Unit: "frame/s", Better: 1, Help: "with a ramp: highest load without loss if each trial begins with its full load, after a rest; throughput_fps is then that after a gentle start"},
	{Name: "offered_fps", Label: "offered", Group: underOverload, Unit: "frame/s", Help: "what the tester was measured to send under overload"},
	{Name: "forwarding_rate_fps", Label: "frame/s", Group: underOverload, Interval: "range", Heads: true, Unit: "frame/s", Better: 1, Help: "sustained rate of arrivals under overload, whatever was lost (RFC 2285): median of the repeats; interval is their range"},
	{Name: "forwarding_rate_bps", Label: "bit/s", Unit: "bit/s", Better: 1, Help: "the same in layer-2 bits, FCS included"},
	{Name: "burst_frames", Label: "burst, frames", Group: "Without loss (throughput)", Interval: "range", Unit: "frame", Help: "the box's memory: frames that pass beyond the forwarding rate, once, from rest (RFC 9004's sense); the lesser of two overloads, interval up to the greater"},
	{Name: "burst_time_s", Label: "burst lasts", Unit: "s", Help: "the same as a time: burst_frames at the forwarding rate"},
	Ceiling(underOverload),
	{Name: "drop_rate_fps", Label: "dropped frame/s", Group: "Dropped by policy, under overload", Interval: "range", Heads: true, Unit: "frame/s", Better: 1, Help: "unwanted frames thrown away where they should be under overload: median of the repeats, interval from least to greatest"},
	{Name: "latency_load_fps", Label: "at frame/s", Group: "Latency", Unit: "frame/s", Help: "load at which latency was measured"},
	{Name: "latency_p50_s", Label: "p50", Group: "Latency", Heads: true, Unit: "s", Better: -1, Help: "one-way delay at latency_load_fps, sender's program to meter's program, software stamps: median"},
	{Name: "latency_p99_s", Label: "p99", Unit: "s", Better: -1, Help: "the same, 99th percentile"},
	{Name: "latency_max_s", Label: "max", Heads: true, Unit: "s", Better: -1, Help: "the same, greatest"},
	{Name: "stalls", Unit: "1", Better: -1, Help: "times that the sender stalled for more than 50 us, over all trials"},
	{Name: "longest_stall_s", Unit: "s", Better: -1, Help: "the longest of them"},
	{Name: "steal_ratio", Unit: "1", Better: -1, Help: "largest share of CPU time that the hypervisor took in a trial"},
}

// ThroughputMetrics are those of a point whose throughput is searched.
var ThroughputMetrics = metrics.List(ForwardMetrics).Pick("throughput_fps", "throughput_bps", "throughput_l1_bps", "line_rate_share",
	"pdr_0_1pct_fps", "pdr_0_5pct_fps",
	"forwarding_rate_fps", "forwarding_rate_bps", "burst_frames", "burst_time_s", "offered_fps", "ceiling_fps", "stalls", "longest_stall_s", "steal_ratio")

// figures are the metrics of points and of the tester alone.
var figures = metrics.List(append(slices.Clip(ForwardMetrics), CeilingMetric))
