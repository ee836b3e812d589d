// SPDX-License-Identifier: Apache-2.0

// Package report renders a run's records: text for a terminal, CSV, JSON,
// Markdown and one self-contained HTML page. It needs no root and no testbed,
// so a report is made anywhere.
//
//	run, records --Summarize--> Document --Text, JSON, CSV, Markdown--> a file
//	                               |
//	      records -----------------+--HTML--> ui/dist/page.html with the data put in
//
// Every form says the same in the same order: what, how sure, why there, what
// next, how it was measured.
package report

import (
	"encoding/json"
	"time"

	"boxdyno/result"
	"boxdyno/verdict"
)

// A Document is what a run says: plain data, printed by --json, and the input
// of all other forms. A figure that was not measured is absent, never 0.
type Document struct {
	Schema  int           `json:"schema"`
	Version string        `json:"version"` // of boxdyno
	ID      string        `json:"id"`
	Start   time.Time     `json:"start"`
	Role    string        `json:"role,omitempty"`
	Preset  string        `json:"preset"`
	Verdict result.Status `json:"verdict"` // of the role; without a role the worst of the rows
	// Sentence is the verdict with its number, unit and bound; Summary is what
	// was found, whatever was asked.
	Sentence string `json:"sentence"`
	Summary  string `json:"summary,omitempty"`
	// Powers are what the box can do, where a run measured several kinds of work (the plan
	// box); Skipped is then what could not be measured, by reason.
	Powers   []Power           `json:"powers,omitempty"`
	Skipped  []Skip            `json:"skipped,omitempty"`
	Caveat   string            `json:"caveat,omitempty"` // that this is a sandbox or an emulated board
	Findings []verdict.Finding `json:"findings,omitempty"`

	Sure       []string    `json:"how_sure"` // intervals, repeats, books, in sentences
	Bottleneck *Bottleneck `json:"bottleneck,omitempty"`
	Next       []string    `json:"what_next,omitempty"`

	Topology  string `json:"topology"`
	Kind      string `json:"kind"`                // real, sandbox, emulated, memory
	Placement string `json:"placement,omitempty"` // shared, split

	Ablation *Ablation `json:"ablation,omitempty"` // of a run that takes a recipe apart: each Row is then a part of it

	// Beside is how points that ran beside a load, or hot, differ from the same ones
	// without; nil where no two differ in that alone.
	Beside *Comparison `json:"beside,omitempty"`

	Study *Study `json:"study,omitempty"` // the published comparison of capture software, where its points were measured

	Published []Citation `json:"published,omitempty"` // figures of the same experiments on other boxes
	Cited     []string   `json:"cited,omitempty"`     // the same in sentences, what is said of several of them once

	Watched  *Watched  `json:"watched,omitempty"`  // what telemetry says of the trials
	Metered  []string  `json:"metered,omitempty"`  // what must be known of the meters, in sentences
	Timeline *Timeline `json:"timeline,omitempty"` // all that telemetry saw, over time; in pages alone

	Rows           []Row      `json:"rows"`
	Tables         []Table    `json:"tables,omitempty"`          // of Rows' figures, as their procedures declare them
	SharedWarnings []string   `json:"shared_warnings,omitempty"` // those that every row carries
	Warnings       []string   `json:"warnings,omitempty"`        // of the whole run
	SelfTests      []SelfTest `json:"self_tests,omitempty"`
	Books          Books      `json:"books"`

	Budget *result.Budget `json:"budget,omitempty"` // absent: the run had none

	NotMeasured []string         `json:"not_measured,omitempty"`
	Deviations  []string         `json:"deviations,omitempty"`
	Machines    []result.Machine `json:"machines"`
	Environment []Setting        `json:"environment,omitempty"`
	Backend     []result.Pair    `json:"backend,omitempty"`
	Metrics     []result.Metric  `json:"metrics,omitempty"`
	Plan        json.RawMessage  `json:"plan,omitempty"`
	Seed        uint64           `json:"seed,string"`
	Command     string           `json:"command"` // repeats the run in a POSIX shell
}

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

	Suite *Suite `json:"suite,omitempty"` // of RFC 2544's procedures beside the throughput

	Security *Security `json:"security,omitempty"` // of procedure security, once its phases are over

	Connections *Connections `json:"connections,omitempty"` // of procedure connections

	Soak *Soak `json:"soak,omitempty"` // of procedure soak

	Capture *Capture `json:"capture,omitempty"` // of procedure capture
	Infer   *Infer   `json:"infer,omitempty"`   // of procedure infer
	Work    *Work    `json:"work,omitempty"`    // of procedures that let programs work on this machine's CPUs
	Crypto  *Crypto  `json:"crypto,omitempty"`  // of procedure crypto

	Storage *Storage `json:"storage,omitempty"` // of procedure storage

	IDS *IDS `json:"ids,omitempty"` // of procedure ids

	Tunnel *Tunnel `json:"tunnel,omitempty"` // of procedures vpn and stream

	Flood *Flood `json:"flood,omitempty"` // of procedure flood

	Energy []Joules `json:"energy,omitempty"` // of procedures whose work can be counted, where a meter ran

	// Settings are the row's parameters and Figures all that was measured, by metric: in
	// pages alone, for their drawings.
	Settings []result.Pair      `json:"settings,omitempty"`
	Figures  map[string]*Figure `json:"figures,omitempty"`

	Ledger   *result.Account `json:"ledger,omitempty"` // of the last overload trial, of all phases of security, of a flood with what came before and after, or of the trial that connections' times or capture's costs are of
	Warnings []string        `json:"warnings,omitempty"`
}

// A Bottleneck is what gave at one row, with the counters that show it.
type Bottleneck struct {
	Row      string        `json:"row"` // a Row's ID
	Name     string        `json:"name"`
	Cause    verdict.Cause `json:"cause"`
	Sentence string        `json:"sentence"`
	Evidence []result.Term `json:"evidence,omitempty"`
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

// Books counts the trials whose account closed.
type Books struct {
	Trials  int   `json:"trials"`                   // with an account
	Closed  int   `json:"closed"`                   // unexplained = 0
	Largest int64 `json:"largest_unexplained"`      // of either sign
	Invalid int   `json:"invalid_trials"`           // limited by the tester
	Starved int   `json:"starved_trials,omitempty"` // invalid too: a program did not have its CPUs
}

// A Setting is one line of the environment; After is "" where it did not change.
type Setting struct {
	Key    string `json:"key"`
	Before string `json:"before"`
	After  string `json:"after,omitempty"`
}
