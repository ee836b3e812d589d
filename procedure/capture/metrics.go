// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"slices"

	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
)

var Metrics = slices.Concat([]result.Metric{
	{Name: "lossless_fps", Label: "found frame/s", Group: "Capture: highest rate of which every frame is counted, a thousandth and five are not; counted a second under overload", Interval: "interval", Heads: true, Unit: "frame/s", Better: 1, Help: "rate search: highest rate of which every frame was counted, confirmed by a longer trial; interval up to the rate from which every trial lost frames"},
	{Name: "lossless_bps", Unit: "bit/s", Better: 1, Help: "the same in layer-2 bits, FCS included"},
	{Name: "lossless_l1_bps", Unit: "bit/s", Better: 1, Help: "the same in layer-1 bits, preamble and gap included: comparable with a link's rate"},
	{Name: "counted_0_1pct_fps", Label: "0.1 %", Unit: "frame/s", Better: 1, Help: "rate search: highest rate of which at most a thousandth is not counted, PDR(0.1 %), in the search's short trials"},
	{Name: "counted_0_5pct_fps", Label: "0.5 %", Unit: "frame/s", Better: 1, Help: "the same with five thousandths"},
	{Name: "counted_0_5pct_l1_bps", Unit: "bit/s", Better: 1, Help: "the same in layer-1 bits, as lossless_l1_bps"},
	{Name: "counting_overload_fps", Label: "overload frame/s", Interval: "range", Unit: "frame/s", Better: 1, Help: "rate overload, or search with preset standard: frames counted a second under the load, from 250 kframe/s on, of which most are counted (a 4th of it or less with a slow tester); receiving has no precedence. Median of 3 to 21 trials with its 95 % interval (of fewer than 6: their range). >=: the tester offered no more than was counted"},
}, captureTrialMetrics, []result.Metric{
	{Name: "control_frames", Unit: "1", Help: "generator iperf3: frames of its control connection, neither offered nor counted"},
	{Name: "main_cpu_share", Unit: "1", Better: -1, Help: "method published: CPU time of the subject's main process alone over the window, of the time that it was watched"},
	{Name: "main_memory_bytes", Unit: "B", Better: -1, Help: "method published: most memory that the main process alone had (VmHWM)"},
})

// captureTrialMetrics are of one trial of a subject that receives frames.
var captureTrialMetrics = []result.Metric{
	{Name: "capture_offered_fps", Unit: "frame/s", Help: "what the tester was measured to send"},
	{Name: "capture_offered_bps", Unit: "bit/s", Help: "the same in layer-2 bits, FCS included"},
	{Name: "frames_offered", Label: "sent", Group: "Frames sent and counted: when the last one had left, later, at last", Unit: "1", Help: "frames that the tester's port took"},
	{Name: "frames_counted", Label: "counted", Heads: true, Unit: "1", Better: 1, Help: "of them, those that the subject counted, however late"},
	{Name: "frames_at_end", Label: "at end", Unit: "1", Better: 1, Help: "of them, those that it had counted by its first word after the last frame; most speak ten times a second"},
	{Name: "frames_lag", Label: "later", Unit: "1", Better: -1, Help: "counted after that"},
	{Name: "drain_s", Label: "within", Unit: "s", Better: -1, Help: "from the last frame until the count stopped rising; limited by how often the program reports, and 0 is no lag"},
	{Name: "frames_lost", Label: "lost", Heads: true, Unit: "1", Better: -1, Help: "offered and never counted"},
	{Name: "uncounted_ratio", Label: "share lost", Share: true, Unit: "1", Better: -1, Help: "frames_lost of frames_offered"},
	{Name: "counting_rate_fps", Unit: "frame/s", Better: 1, Help: "frames counted a second while frames were sent; without loss over the traffic, or until the count was stable if the last frames came more than 1.2 s late"},
	{Name: "drops_before", Label: "before", Group: "Where the lost frames ended: before the socket, in the kernel, in the subject", Unit: "1", Better: -1, Help: "of the lost, those that the box's counters name before the subject's socket: receive ring, driver, XDP, backlog"},
	{Name: "drops_kernel", Label: "kernel", Unit: "1", Better: -1, Help: "of them, those that the kernel dropped at the subject's socket, by the subject's own reading, or by ours where it has none"},
	{Name: "drops_subject", Label: "subject", Unit: "1", Better: -1, Help: "of them, those that the subject dropped itself, by its own reading, or took and never counted, by the kernel's"},
	{Name: "frames_unexplained", Label: "unexplained", Unit: "1", Better: -1, Help: "of them, those that no counter names; negative: more were named than lost"},
	{Name: "subject_cpu_s", Unit: "s", Better: -1, Help: "CPU time of the subject's whole process tree from the first frame until the count stopped rising"},
	{Name: "subject_cpu_per_frame_s", Label: "a frame", Group: "What a subject costs: CPU a frame, of one CPU, with the kernel's work and above the empty box", Unit: "s", Better: -1, Help: "the same for each frame counted"},
	{Name: "subject_cpu_share", Label: "of one", Share: true, Unit: "1", Better: -1, Help: "its CPU time while frames were sent, of that time: 1 is a whole CPU"},
	{Name: "subject_memory_bytes", Label: "memory", Group: "What a subject takes: memory of its tree, processes, time until it is ready and has counted its first frame", Unit: "B", Better: -1, Help: "most memory that its tree had at once"},
	{Name: "subject_processes", Label: "processes", Unit: "1", Help: "processes of its tree at the end of the traffic"},
	{Name: "startup_s", Label: "ready", Unit: "s", Better: -1, Help: "from its start until it was ready"},
	{Name: "startup_cpu_s", Unit: "s", Better: -1, Help: "CPU time of its tree until it counted its first frame"},
	{Name: "socket_s", Unit: "s", Better: -1, Help: "from its start until its socket was open"},
	{Name: "first_frame_s", Label: "first frame", Group: "What a subject takes: memory of its tree, processes, time until it is ready and has counted its first frame", Unit: "s", Better: -1, Help: "from its start until it said that it had counted its first frame; probes are sent after 0, 0.1, 0.3, 0.7 s and so on"},
	{Name: "receive_cpu_s", Unit: "s", Better: -1, Help: "CPU time of the threads that receive the DUT's frames (threaded NAPI; placement split), while there was work"},
	{Name: "host_cpu_per_frame_s", Label: "kernel too", Group: "What a subject costs: CPU a frame, of one CPU, with the kernel's work and above the empty box", Unit: "s", Better: -1, Help: "receive_cpu_s and subject_cpu_s for each frame offered: what capturing costs the box in all"},
	{Name: "host_cpu_above_per_frame_s", Label: "above", Unit: "s", Better: -1, Help: "the same without what the empty box needs for each frame of the same load; negative where the subject spares the kernel work"},
}

// figures are the metrics of all procedures of this room.
var figures = metrics.List(slices.Concat(Metrics, idsMetrics, SensorMetrics))

var captureJoules = trial.OfSubject("frame", func(trial result.Record) float64 { return float64(trial.Load.Forwarded) })
