// SPDX-License-Identifier: Apache-2.0

// Package result holds records: plain data and the bundle's files. Standard
// library only; databases and Parquet are in store.
package result

import (
	"encoding/json"
	"time"

	"boxdyno/unit"
)

// Schema is the version of Run and Record as they stand in files.
const Schema = 1

// Status is the verdict of a trial or of a procedure at one point.
type Status string

const (
	Running Status = "running" // written and synced before a trial; with no later line for its ID, the box died here
	Passed  Status = "passed"
	Failed  Status = "failed"  // the box lost frames, or missed its criterion
	Invalid Status = "invalid" // the tester could not do its part; says nothing about the box
	Skipped Status = "skipped" // a named prerequisite is missing
	Aborted Status = "aborted"
)

// A Pair is one setting that identifies a measurement, in canonical text.
type Pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Get is the value of key among ps, "" where there is none.
func Get(ps []Pair, key string) string {
	for _, p := range ps {
		if p.Key == key {
			return p.Value
		}
	}
	return ""
}

// A Metric is declared once by a procedure and stored once in the run header.
type Metric struct {
	Name   string      `json:"name"`
	Unit   unit.Symbol `json:"unit"`
	Better int         `json:"better"` // +1 more, -1 less, 0 neither
	Exact  bool        `json:"exact,omitempty"`
	Help   string      `json:"help"`
}

// A Bound says whether a value is the thing itself or a limit of it.
type Bound string

const (
	Exactly Bound = ""
	AtLeast Bound = ">="
	AtMost  Bound = "<="
)

// A Value is one figure. Its Metric must be declared by the procedure.
type Value struct {
	Metric string      `json:"metric"`
	Unit   unit.Symbol `json:"unit"`
	Value  float64     `json:"value"`
	Lo     *float64    `json:"lo,omitempty"` // interval, where one is known
	Hi     *float64    `json:"hi,omitempty"`
	N      int         `json:"n,omitempty"` // trials behind it; 0: one
	Bound  Bound       `json:"bound,omitempty"`
}

// A Phase is a stretch of a trial: "warm-up", "traffic", "settle".
type Phase struct {
	Name  string       `json:"name"`
	Begin unit.Instant `json:"begin_ns"`
	End   unit.Instant `json:"end_ns"`
}

// Load is what was asked and what the tester was measured to send, all streams
// together. Rates are over the time from first to last frame, not over the
// configured duration.
type Load struct {
	MeanSize     float64        `json:"mean_frame_size"`        // octets with FCS
	Streams      int            `json:"streams"`                // 1, or 2 for both directions at once
	Intended     unit.FrameRate `json:"intended_fps,omitempty"` // 0: flat out
	Offered      unit.FrameRate `json:"offered_fps"`
	Peak         unit.FrameRate `json:"peak_fps,omitempty"` // at which delayed frames were made up
	Forwarded    unit.FrameRate `json:"forwarded_fps"`      // over the time from the first frame sent to the last sent or received
	Backend      string         `json:"backend"`            // transmitter/meter and mode: "xdp/native"
	Batch        int            `json:"batch"`
	Late         int64          `json:"late,omitempty"`         // frames sent more than an interval behind the schedule
	CatchUp      int64          `json:"catch_up,omitempty"`     // longest burst sent to catch up, frames
	Stalls       int64          `json:"stalls"`                 // times that the sender stood still for more than 50 us
	LongestStall int64          `json:"longest_stall_ns"`       // ns
	Reordered    int64          `json:"reordered,omitempty"`    // RFC 4737, received
	Duplicate    int64          `json:"duplicate,omitempty"`    // received more than once
	Broken       int64          `json:"broken,omitempty"`       // signed frames that arrived damaged
	Foreign      int64          `json:"foreign,omitempty"`      // frames at the meter that are not ours
	Latency      *Histogram     `json:"latency,omitempty"`      // s: transmit stamp in the sender to arrival in the meter
	Gaps         *Histogram     `json:"arrival_gaps,omitempty"` // s: between arrivals
	MeterDrops   int64          `json:"meter_drops,omitempty"`  // the meter's own
	CPUSpeed     float64        `json:"cpu_speed,omitempty"`    // just before the trial: the slowest CPU of tester and DUT as a share of its fastest in the run so far, by a counted loop; 0: not known
	StealRatio   float64        `json:"steal_ratio"`            // CPU time taken by the hypervisor, all CPUs, in [0, 1]
	ObserverCPU  time.Duration  `json:"observer_cpu_ns"`        // what boxdyno's own user space cost meanwhile
	ObserverMem  uint64         `json:"observer_memory_bytes"`  // the most memory that boxdyno has had so far
}

// A Histogram is counts over buckets; Upper[i] is the inclusive upper edge of
// bucket i in seconds, ascending; empty buckets are left out.
type Histogram struct {
	Upper []float64 `json:"upper_s"`
	Count []uint64  `json:"count"`
}

// Total is the number of samples.
func (h *Histogram) Total() (n uint64) {
	for _, c := range h.Count {
		n += c
	}
	return n
}

// Quantile is the upper edge of the bucket that holds the q-th quantile, q in
// [0, 1]; 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) float64 {
	total := h.Total()
	if total == 0 {
		return 0
	}
	want := q * float64(total)
	var sum uint64
	for i, c := range h.Count {
		if sum += c; float64(sum) >= want && sum > 0 {
			return h.Upper[i]
		}
	}
	return h.Upper[len(h.Upper)-1]
}

// A Record is one trial, or (Parent == "") what a procedure made of its trials.
// Identity is text, figures are declared Values, and what has structure has a
// typed block that is nil where it does not apply. There is no map.
type Record struct {
	Schema      int          `json:"schema"`
	ID          string       `json:"id"`
	Parent      string       `json:"parent,omitempty"`
	Procedure   string       `json:"procedure"`
	Config      []Pair       `json:"config"` // ordered; with Repeat it is the identity
	Repeat      int          `json:"repeat"`
	Start       time.Time    `json:"start"` // wall clock, for people
	Begin       unit.Instant `json:"begin_ns"`
	End         unit.Instant `json:"end_ns"`
	Phases      []Phase      `json:"phases,omitempty"`
	Status      Status       `json:"verdict"`
	Reason      string       `json:"reason,omitempty"`
	Values      []Value      `json:"values,omitempty"`
	Load        *Load        `json:"load,omitempty"`
	Account     *Account     `json:"ledger,omitempty"`
	Warnings    []string     `json:"warnings,omitempty"`
	Environment int          `json:"environment"` // index into Run.Environments
}

// Value is the record's value of metric, nil where it has none.
func (r *Record) Value(metric string) *Value {
	for i := range r.Values {
		if r.Values[i].Metric == metric {
			return &r.Values[i]
		}
	}
	return nil
}

// Finished says whether a resumed run may keep the record.
func (r *Record) Finished() bool { return r.Status != Running && r.Status != Aborted }

// A Machine identifies a host; Kind says real, sandbox or emulated, and every
// figure from one that is not real says so.
type Machine struct {
	Name     string   `json:"name"`
	Board    string   `json:"board"`
	CPU      string   `json:"cpu"`
	CPUs     int      `json:"cpus"`
	Memory   uint64   `json:"memory_bytes"`
	Kernel   string   `json:"kernel"`
	Machine  string   `json:"machine"`  // kernel's architecture: "x86_64"
	Userland string   `json:"userland"` // this binary's: "amd64"
	OS       string   `json:"os"`
	Virtual  string   `json:"virtual,omitempty"` // hypervisor, where one is seen
	BootID   string   `json:"boot_id"`
	Kind     string   `json:"kind"` // real, sandbox, emulated
	NICs     []string `json:"nics,omitempty"`
}

// A Run is run.json: what is said once.
type Run struct {
	Schema       int             `json:"schema"`
	Version      string          `json:"version"` // of boxdyno
	ID           string          `json:"id"`
	Start        time.Time       `json:"start"`
	Command      []string        `json:"command"`
	Plan         json.RawMessage `json:"plan"` // resolved: every key with its value
	Seed         uint64          `json:"seed"`
	Topology     string          `json:"topology"`
	Kind         string          `json:"kind"` // real, sandbox, emulated, memory
	Role         string          `json:"role,omitempty"`
	Preset       string          `json:"preset"`               // quick or standard
	Criteria     []Criterion     `json:"criteria,omitempty"`   // of the role
	NotMeasured  []string        `json:"not_measured"`         // what the preset leaves out, in words
	Deviations   []string        `json:"deviations,omitempty"` // from the standards, in words
	Machines     []Machine       `json:"machines"`
	Environments [][]Pair        `json:"environments"` // before, after: clock source, governor, offloads, placement...
	Metrics      []Metric        `json:"metrics"`
	Backend      []Pair          `json:"backend"` // per port: the choice and why others were not taken
	Warnings     []string        `json:"warnings,omitempty"`
}
