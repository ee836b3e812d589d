// SPDX-License-Identifier: Apache-2.0

package report

import (
	"boxdyno/result"
	"boxdyno/unit"
)

// This file is the shape of rows and self-tests in JSON, which drawings and other programs read. What a new
// procedure measures stands in Tables, and in the row's block by metric.

// A Row is one configuration of a procedure. With several repeats its figures
// are medians over them, and the intervals enclose all of theirs. Rates are of
// all directions together; in [0, 1] are the ratios.
type Row struct {
	ID            string  `json:"id"` // of the point that the ledger is from
	Name          string  `json:"name"`
	Procedure     string  `json:"procedure"`
	Service       string  `json:"service"`
	Direction     string  `json:"direction"`
	FrameSize     string  `json:"frame_size"` // octets with FCS, or the name of a mix
	MeanFrameSize float64 `json:"mean_frame_size,omitempty"`
	Rules         int     `json:"rules"`
	Flows         int     `json:"flows"`
	Networks      int     `json:"networks,omitempty"` // that frames go to; absent: one
	Tune          string  `json:"tune,omitempty"`     // the part of a recipe that was in force, in an ablation
	IP            int     `json:"ip,omitempty"`
	Beside        string  `json:"beside,omitempty"` // what ran on the box beside, or how it was heated, in words

	Verdict result.Status `json:"verdict"`
	Reason  string        `json:"reason,omitempty"`
	Bound   result.Bound  `json:"bound"`   // of throughput_fps; where there is none, of the rate under overload
	Repeats int           `json:"repeats"` // of the whole point

	ThroughputFPS   *float64     `json:"throughput_fps,omitempty"`    // highest load confirmed without loss
	ThroughputFPSLo *float64     `json:"throughput_fps_lo,omitempty"` // the same, or the least of the repeats
	ThroughputFPSHi *float64     `json:"throughput_fps_hi,omitempty"` // lowest load from which on every trial lost
	ThroughputN     int          `json:"throughput_trials,omitempty"`
	ThroughputBPS   *float64     `json:"throughput_bps,omitempty"`    // layer 2
	ThroughputL1BPS *float64     `json:"throughput_l1_bps,omitempty"` // layer 1, each direction
	LineRateShare   *float64     `json:"line_rate_share,omitempty"`
	LineRateFPS     *float64     `json:"line_rate_fps,omitempty"` // of the stated link, all directions
	ForwardingFPS   *float64     `json:"forwarding_rate_fps,omitempty"`
	ForwardingFPSLo *float64     `json:"forwarding_rate_fps_lo,omitempty"`
	ForwardingFPSHi *float64     `json:"forwarding_rate_fps_hi,omitempty"`
	ForwardingN     int          `json:"forwarding_rate_trials,omitempty"`
	ForwardingBPS   *float64     `json:"forwarding_rate_bps,omitempty"` // layer 2
	ForwardingBound result.Bound `json:"forwarding_rate_bound,omitempty"`
	DropFPS         *float64     `json:"drop_rate_fps,omitempty"` // thrown away at the place meant for it
	DropFPSLo       *float64     `json:"drop_rate_fps_lo,omitempty"`
	DropFPSHi       *float64     `json:"drop_rate_fps_hi,omitempty"`
	DropN           int          `json:"drop_rate_trials,omitempty"`
	DropBound       result.Bound `json:"drop_rate_bound,omitempty"`
	OfferedFPS      *float64     `json:"offered_fps,omitempty"` // under overload
	CeilingFPS      *float64     `json:"ceiling_fps,omitempty"` // of the tester, by its self-test

	LatencyP50     *float64 `json:"latency_p50_s,omitempty"`
	LatencyP99     *float64 `json:"latency_p99_s,omitempty"`
	LatencyMax     *float64 `json:"latency_max_s,omitempty"`
	LatencyLoadFPS *float64 `json:"latency_load_fps,omitempty"`

	Stalls         *int64   `json:"stalls,omitempty"`
	LongestStallNS *int64   `json:"longest_stall_ns,omitempty"`
	StealRatio     *float64 `json:"steal_ratio,omitempty"`

	// Block is what the procedure adds, under a key of its kind: "capture", "tunnel". Its
	// fields are followed by all other figures of the row, each named for its metric.
	Block Block `json:"-"`

	Energy []Joules `json:"energy,omitempty"`       // of procedures whose work can be counted, where a meter ran
	Apart  []Apart  `json:"energy_apart,omitempty"` // of a fleet: the boards that worked, those that idled, and what they share

	// Settings are the row's parameters and Figures all that was measured, by metric: in
	// pages alone, for their drawings.
	Settings []result.Pair      `json:"settings,omitempty"`
	Figures  map[string]*Figure `json:"figures,omitempty"`

	found tableRow
	of    *kind // nil: frames at a load, of which there is no block

	Ledger   *result.Account `json:"ledger,omitempty"` // of the last overload trial, of all phases of security, of a flood with what came before and after, or of the trial that connections' times or capture's costs are of
	Warnings []string        `json:"warnings,omitempty"`
}

// A Capture is of procedure capture. All figures but those of the search are of one trial:
// that at the limit, or at the rate given.
type Capture struct {
	usual
	Subject string `json:"subject"`
	Payload int    `json:"payload_size,omitempty"` // octets of UDP payload that were asked for; 0: a frame size was
	Rate    string `json:"rate"`                   // as it was given; "search": none was
	Packets int    `json:"packets,omitempty"`      // that were asked for; 0: a duration was
	Lasts   string `json:"duration,omitempty"`     // that was asked for; "0s": as the preset says
	Burst   int    `json:"burst,omitempty"`        // frames back to back; 0: equal gaps
	Buffer  int    `json:"buffer,omitempty"`       // octets; 0: the subject's own
	Method  string `json:"method"`                 // ours, published

	Published []Published `json:"published,omitempty"` // figures of the same subject, payload and rate
}

// A Published is a published figure beside what was measured here the same way.
type Published struct {
	Source  string   `json:"source"`
	Metric  string   `json:"metric"`
	Value   float64  `json:"value"`
	Unit    string   `json:"unit"`
	Here    *float64 `json:"here,omitempty"` // in the same unit
	Lo      *float64 `json:"lo,omitempty"`
	Hi      *float64 `json:"hi,omitempty"`
	Note    string   `json:"note,omitempty"`    // what is known to be wrong or unfair in it
	Caution string   `json:"caution,omitempty"` // and in all figures of its source
}

// A Connections is of procedure connections.
type Connections struct {
	usual
	Mode         string `json:"mode"`           // rate, concurrent
	ResponseSize int    `json:"response_size"`  // octets, beside the HTTP header
	Rate         int    `json:"rate,omitempty"` // that was given, connections/s; 0: searched, or the procedure's own

	Gave []string `json:"gave,omitempty"` // what the box's counters say of the trials in which connections failed, in clauses
}

// A Crypto is of procedure crypto.
type Crypto struct {
	usual
	Path     string `json:"path"`
	Cipher   string `json:"cipher"`
	Parallel string `json:"parallel"` // streams that worked at once, as it was given
	Block    string `json:"block,omitempty"`
	Driver   string `json:"driver,omitempty"`       // or library
	Features string `json:"cpu_features,omitempty"` // that it may use
	Proven   string `json:"known_answer,omitempty"`

	Published []PublishedCipher `json:"published_ciphers,omitempty"` // the same cipher on other boxes
}

// A PublishedCipher is a published pair of figures, in octets a second; nil where it was
// not published.
type PublishedCipher struct {
	Box     string   `json:"box"`
	Encrypt *float64 `json:"encrypt_bytes_per_s,omitempty"`
	Decrypt *float64 `json:"decrypt_bytes_per_s,omitempty"`
	Said    string   `json:"said"` // where it was published, and what must be said beside it
}

// A Flood is of procedure flood. With several repeats the phases are those of the typical
// one.
type Flood struct {
	usual
	Kind    string       `json:"kind"`
	Rate    string       `json:"rate"`    // as it was given; "line", "search"
	Benign  string       `json:"benign"`  // as it was given
	Sources string       `json:"sources"` // network, any
	Phases  []result.KPI `json:"phases,omitempty"`
	Sensor  string       `json:"sensor,omitempty"` // that listened; "": none
}

// An IDS is of procedure ids. All figures but those of the search and of the idle load are
// of one trial: that at the limit, or at the rate given.
type IDS struct {
	usual
	Subject string `json:"subject"`
	Rules   string `json:"rules"`           // in words, beside those of the planted attacks: "1000 generated", "rules.gz"
	Traffic string `json:"traffic"`         // "appmix", or the name of a capture file; with the flood in it
	Flood   string `json:"flood,omitempty"` // kind; "": none
	Rate    string `json:"rate"`            // as it was given; "search": none was
	Lasts   string `json:"duration,omitempty"`
	Ring    string `json:"ring,omitempty"` // frames that a thread's ring has room for

	Loads []IDSLoad `json:"loads,omitempty"` // of the row's valid trials, in order of load
}

// An IDSLoad is one trial of an IDS.
type IDSLoad struct {
	ID       string   `json:"id"`
	Offered  float64  `json:"offered_bps"` // layer 2
	Lost     float64  `json:"lost_ratio"`
	Planted  int      `json:"planted,omitempty"`        // attacks; 0: not known
	Detected *float64 `json:"detected_ratio,omitempty"` // of them
}

// An Infer is of procedure infer.
type Infer struct {
	usual
	Model   string `json:"model"`
	Runtime string `json:"runtime"`
	Window  string `json:"window"`
	Batch   int    `json:"batch"`
	CPUs    int    `json:"cpus"`           // that evaluated; 0: all of the box's
	Rate    string `json:"rate,omitempty"` // as it was given; "": none was
	Buffer  int    `json:"buffer,omitempty"`

	FrameSize string `json:"frame_size,omitempty"` // of rows with a rate, as it was given; "": 64
}

// A Security is of procedure security. With several repeats the phases are those of the
// typical one.
type Security struct {
	usual
	Load   string       `json:"load"`             // share of the throughput, "80%", or frame/s
	Phases []result.KPI `json:"phases,omitempty"` // of load, in order
}

// A Soak is of procedure soak: of several repeats, of the last one.
type Soak struct {
	usual
	Class     string     `json:"class"`
	Version   string     `json:"stress_ng,omitempty"` // of stress-ng
	Passed    int        `json:"passed"`
	Failed    int        `json:"failed"`
	Skipped   int        `json:"skipped"`
	Known     int        `json:"known"`               // failed for a known cause, which is no fault of the box
	Broken    string     `json:"broken_at,omitempty"` // stressor that ran when the run broke off
	Meter     string     `json:"meter,omitempty"`     // of the watts: the one that covers most
	Stressors []Stressor `json:"stressors,omitempty"` // in the order in which they ran
}

// A Stressor is how the box did under one of stress-ng's; what was not measured is
// absent.
type Stressor struct {
	Name    string        `json:"name"`
	Verdict result.Status `json:"verdict"`
	Known   bool          `json:"known,omitempty"` // skipped because it fails for a known cause, which Reason says
	Reason  string        `json:"reason,omitempty"`

	Ops         *float64 `json:"bogo_ops,omitempty"`
	Rate        *float64 `json:"bogo_ops_rate,omitempty"`     // a second
	CPURate     *float64 `json:"bogo_ops_cpu_rate,omitempty"` // a second of CPU time
	Clock       *float64 `json:"clock_share,omitempty"`       // just after it, of the fastest measured in the run: slowest CPU
	CPU         *float64 `json:"cpu_s,omitempty"`             // time of its whole process tree
	Memory      *float64 `json:"peak_memory_bytes,omitempty"` // of the same
	Temperature *float64 `json:"temperature_max,omitempty"`   // hottest sensor, °C
	Watts       *float64 `json:"power_mean_w,omitempty"`
	Throttled   *float64 `json:"throttle_events,omitempty"` // or times that a flag was seen set
	Standstill  *float64 `json:"standstill_s,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`
}

// A Storage is of procedure storage.
type Storage struct {
	usual
	Device   string           `json:"device"`
	Cipher   string           `json:"cipher"`
	Bits     string           `json:"key_bits,omitempty"`
	Spec     string           `json:"cipher_spec,omitempty"` // cryptsetup's name of it
	Programs string           `json:"programs,omitempty"`    // "fio 3.33, cryptsetup 2.6.1"
	Proven   *bool            `json:"proven,omitempty"`      // false: boxdyno could not compute the answer itself
	Patterns []StoragePattern `json:"patterns"`
}

// A StoragePattern is one of fio's, on the disk without and with encryption.
type StoragePattern struct {
	Pattern  string      `json:"pattern"`
	Unit     unit.Symbol `json:"unit"` // B/s, or requests: 1/s
	Plain    *Figure     `json:"plain,omitempty"`
	LUKS2    *Figure     `json:"luks2,omitempty"`
	Share    *Figure     `json:"share,omitempty"`
	PlainP99 *Figure     `json:"plain_p99_s,omitempty"`
	LUKS2P99 *Figure     `json:"luks2_p99_s,omitempty"`
}

// A Suite is of RFC 2544's procedures beside the throughput. Rates are of all streams
// together.
type Suite struct {
	usual
	Latency []Quantile `json:"latency,omitempty"` // at latency_load_fps, from low to high
}

// A Quantile is one of a delay's.
type Quantile struct {
	Name  string   `json:"name"` // "p99", "max"
	Value float64  `json:"value"`
	Lo    *float64 `json:"lo,omitempty"`
	Hi    *float64 `json:"hi,omitempty"`
	N     int      `json:"n"`
}

// A Figure is a value with its interval, its repeats and its bound.
type Figure struct {
	Value float64      `json:"value"`
	Lo    *float64     `json:"lo,omitempty"`
	Hi    *float64     `json:"hi,omitempty"`
	N     int          `json:"n"`
	Bound result.Bound `json:"bound,omitempty"`
	Open  bool         `json:"open,omitempty"` // with bound >=: nothing above is confirmed to be too much, and the tester is not why
}

// A Tunnel is of procedures vpn and stream. Figures of UDP are in the row itself.
type Tunnel struct {
	usual
	Tunnel      string `json:"tunnel"` // none: the cable between the gateways, and every row of stream
	Cipher      string `json:"cipher,omitempty"`
	Offloads    string `json:"offloads"`
	Protocol    string `json:"protocol"`
	Connections string `json:"connections"`        // at once
	Userland    string `json:"userland,omitempty"` // of the programs; "": the machine's own

	Published string `json:"published,omitempty"` // a figure of the same experiment, with its note
}

// A Work is of a procedure that lets programs work on this machine's CPUs.
type Work struct {
	usual
	Procedure string       `json:"procedure"`
	Title     string       `json:"title"`        // of the procedure's table
	Setting   string       `json:"setting"`      // what tells the row from others: "dhrystone, 1 copy"
	Program   string       `json:"program"`      // the same without how many CPUs: "dhrystone"
	CPUs      string       `json:"cpus"`         // "1 CPU", "all CPUs", "CPU 0+2-3"
	Of        []string     `json:"of,omitempty"` // what its figures are of: "compiler gcc_12", as the trials say
	Figures   []WorkFigure `json:"figures"`
	Clock     *float64     `json:"clock_share,omitempty"` // just after the work, of before it, in the round where it fell most
	Curve     *WorkCurve   `json:"curve,omitempty"`

	Published []PublishedWork `json:"published,omitempty"` // of the same experiment on other boxes
}

// A WorkFigure is one of a program's own.
type WorkFigure struct {
	Metric  string      `json:"metric"`
	What    string      `json:"what"` // the metric in words
	Unit    unit.Symbol `json:"unit"`
	Figure  Figure      `json:"figure"`
	Slowest *float64    `json:"slowest_copy,omitempty"` // of several copies, in the last round
	Fastest *float64    `json:"fastest_copy,omitempty"`
}

// A WorkCurve is a figure of a work's trials against what they were told apart by.
type WorkCurve struct {
	Of     string      `json:"of"`      // "working set"
	OfUnit unit.Symbol `json:"of_unit"` // "B"
	Metric string      `json:"metric"`
	What   string      `json:"what"`           // the metric in words: "a load"
	Note   string      `json:"note,omitempty"` // how it was measured
	Unit   unit.Symbol `json:"unit"`
	Points []WorkPoint `json:"points"` // from the least At to the greatest
}

// A WorkPoint is the figure at a place of a WorkCurve: the median of the rounds with least
// and greatest as its interval.
type WorkPoint struct {
	At     float64 `json:"at"`
	Figure Figure  `json:"figure"`
}

// A PublishedWork is what was published of the same experiment on another box.
type PublishedWork struct {
	Box    string  `json:"box"`
	Metric string  `json:"metric,omitempty"` // that it can be laid beside; "": it says something else
	Value  float64 `json:"value,omitempty"`  // in the metric's unit
	Text   string  `json:"text"`             // what was published, with its number
	Said   string  `json:"said"`             // where, and what must be said beside it
}

// A SelfTest is what the tester can offer without the box.
type SelfTest struct {
	Name       string        `json:"name"`
	CeilingFPS *float64      `json:"ceiling_fps,omitempty"`
	CeilingCPS *float64      `json:"ceiling_cps,omitempty"` // connections/s
	Verdict    result.Status `json:"verdict"`
	Reason     string        `json:"reason,omitempty"`
	Warnings   []string      `json:"warnings,omitempty"`
}
