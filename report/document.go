// SPDX-License-Identifier: Apache-2.0

// Package report makes a run's Document from its records, and compares runs: plain data,
// which rooms write. It needs no root and no testbed, so a report is made anywhere. Rooms
// import this package, and it imports none of them.
//
//	run, records --Summarize--> Document, Tables --+--> text: terminal, Markdown, CSV, JSON, benchmark lines
//	                               ^               +--> page: one HTML file
//	telemetry ----------timeline---+
//	runs --Compare--> Comparison ------------------> compare: terminal, Markdown, CSV, JSON
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
	Box       string `json:"box,omitempty"`       // what its user calls it
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

// A Bottleneck is what gave at one row, with the counters that show it.
type Bottleneck struct {
	Row      string        `json:"row"` // a Row's ID
	Name     string        `json:"name"`
	Cause    verdict.Cause `json:"cause"`
	Sentence string        `json:"sentence"`
	Evidence []result.Term `json:"evidence,omitempty"`
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

// A Kept run is what CSV takes: its document and its records.
type Kept struct {
	Document Document
	Records  []result.Record
}
