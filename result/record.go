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

// A Metric is declared once by a procedure and stored once in the run header. With a
// Label it has a column in the procedure's tables.
type Metric struct {
	Name     string      `json:"name"`
	Unit     unit.Symbol `json:"unit"`
	Better   int         `json:"better"` // +1 more, -1 less, 0 neither
	Exact    bool        `json:"exact,omitempty"`
	Help     string      `json:"help"`
	Label    string      `json:"label,omitempty"`    // of the column; one that names the unit stands for it
	Group    string      `json:"group,omitempty"`    // title of the table; "": that of the labelled metric before it
	Interval string      `json:"interval,omitempty"` // what the interval is, which has a column of its own; "": it has none
	Heads    bool        `json:"heads,omitempty"`    // it heads a page
	Share    bool        `json:"share,omitempty"`    // shown in percent, 1 is the whole
	Of       string      `json:"of,omitempty"`       // the metric behind whose column stands what share of it this one is; "": none
}

// A Procedure is what one declares of its rows: a run keeps it, so that every reader can
// show them.
type Procedure struct {
	Name    string   `json:"name"`
	Axes    []Axis   `json:"axes,omitempty"`
	Metrics []Metric `json:"metrics"`          // in the order of the columns
	Trials  *Trials  `json:"trials,omitempty"` // nil: a point's trials are in no table
}

// An Axis is a parameter whose values tell rows apart.
type Axis struct {
	Name    string      `json:"name"`
	Default string      `json:"default,omitempty"` // told only where a row has another; "": always told
	Unit    unit.Symbol `json:"unit,omitempty"`    // of a number
	Words   []Pair      `json:"words,omitempty"`   // of values that are no quantity, such as a 0 for "as usual"
}

// Trials declares the table of a point's trials, a row each.
type Trials struct {
	Axis    string   `json:"axis"`             // what tells them apart: a key of their configuration
	Across  string   `json:"across,omitempty"` // another one, whose values are the columns of a table for each metric; "": a row for each trial
	Title   string   `json:"title"`            // behind the point's name
	Metrics []Metric `json:"metrics"`          // of the trials' values and of what their programs, sensors and meters say
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
	Open   bool        `json:"open,omitempty"` // with bound >=: nothing above is confirmed to be too much, and the tester is not why
}

// Limit makes v a lower bound for which the tester is the reason.
func (v *Value) Limit() { v.Bound, v.Open = AtLeast, false }

// A Phase is a stretch of a trial: "warm-up", "traffic", "settle".
type Phase struct {
	Name  string       `json:"name"`
	Begin unit.Instant `json:"begin_ns"`
	End   unit.Instant `json:"end_ns"`
}

// Seconds is how long the phase lasted.
func (p Phase) Seconds() float64 { return float64(p.End-p.Begin) / 1e9 }

// A KPI is how a box did in a stretch of a trial (RFC 9411): a whole phase, or one
// sample of it. Frames that it must forward are told from known-bad ones, which it
// must block.
type KPI struct {
	Phase      string         `json:"phase"`
	Begin      unit.Instant   `json:"begin_ns"`
	End        unit.Instant   `json:"end_ns"`
	Offered    unit.FrameRate `json:"offered_fps"`        // of frames to forward: of a phase as sent, of a sample by the sequence numbers of those that arrived
	Forwarded  unit.FrameRate `json:"forwarded_fps"`      // of them
	Sent       int64          `json:"sent"`               // frames to forward
	Lost       int64          `json:"lost"`               // of them; below zero is an anomaly to show
	Delay      *Delay         `json:"delay,omitempty"`    // nil where none arrived
	BadSent    int64          `json:"bad_sent,omitempty"` // known-bad frames; of a phase only
	BadArrived int64          `json:"bad_arrived"`        // of them
}

// A Delay is one-way delays in s; each is the upper edge of a histogram's bucket,
// or made of such edges.
type Delay struct {
	Min  float64 `json:"min_s"`
	Mean float64 `json:"mean_s"`
	P99  float64 `json:"p99_s"`
	Max  float64 `json:"max_s"`
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
	Forwarded    unit.FrameRate `json:"forwarded_fps"`      // of the stationary last part of the arrivals while traffic ran (Arrivals); without one, over the time from the first frame sent to the last sent or received
	Arrivals     *Arrivals      `json:"arrivals,omitempty"` // nil where the meter kept no course of them, or none of it is stationary
	Ramp         *Ramp          `json:"ramp,omitempty"`     // what came before it, gently
	Backend      string         `json:"backend"`            // transmitter/meter and mode: "xdp/native"
	Batch        int            `json:"batch"`
	Late         int64          `json:"late,omitempty"`         // frames sent more than an interval behind the schedule
	LateLost     int64          `json:"late_lost,omitempty"`    // of them, those that did not arrive
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

// A Ramp is the growing load before a trial's own. Its frames are in the account, and
// in no other figure; those that arrived damaged are in Load.Broken too.
type Ramp struct {
	Lasts time.Duration `json:"lasts_ns"`
	Sent  int64         `json:"sent_frames"` // accepted
	Lost  int64         `json:"lost_frames"` // of them
}

// Arrivals is the course of the frames that came while traffic ran and after it, all
// meters together.
type Arrivals struct {
	Settled time.Duration `json:"settled_ns"`        // from the first frame that came to the stationary part
	Steady  time.Duration `json:"steady_ns"`         // how long the stationary part is, up to the last frame sent
	Falling bool          `json:"falling,omitempty"` // the very last of it is slower than the rest: it may have ended
	Beyond  int64         `json:"beyond_frames"`     // that came beyond Forwarded x the time of traffic: a bucket that was full, a queue that was empty. Below 0: the box began slower
	Drained int64         `json:"drained_frames"`    // that came after the last one was sent, but for the way's own delay
	Lag     time.Duration `json:"lag_ns,omitempty"`  // of a paced trial without loss: by how much more the last quarter's frames were delayed than the second quarter's, the least delay of each
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

// Mean is that of the buckets' upper edges; 0 for an empty histogram.
func (h *Histogram) Mean() float64 {
	var sum float64
	for i, c := range h.Count {
		sum += h.Upper[i] * float64(c)
	}
	return sum / float64(max(h.Total(), 1))
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

// A CPU is what one CPU of this machine did from before a trial's sender was set
// up until it was taken down, some 10 ms more than the traffic. Shares are of the
// kernel's ticks (/proc/stat), in [0, 1]: a trial of 50 ms has a dozen.
// The CPU of a sender that polls its clock is always busy.
type CPU struct {
	CPU      int     `json:"cpu"`
	Role     string  `json:"role,omitempty"`  // "tester", "dut", "tester and dut"; "": neither
	Rings    bool    `json:"rings,omitempty"` // of several CPUs that carry the DUT: it takes frames off the rings of its ports, and others do the rest
	User     float64 `json:"user"`            // nice included
	System   float64 `json:"system"`          // threads of the kernel included, so a NAPI thread too
	IRQ      float64 `json:"irq"`
	SoftIRQ  float64 `json:"softirq"`
	Steal    float64 `json:"steal"`
	Idle     float64 `json:"idle"`               // waiting for disks included
	Polls    int64   `json:"polls,omitempty"`    // softirqs for received frames
	Squeezed int64   `json:"squeezed,omitempty"` // of them, those that ended before the work did (time_squeeze)
}

// DUTWork is how a trial's DUT did its work, as far as this machine shows it.
type DUTWork struct {
	Threads int      `json:"threads,omitempty"` // that receive its frames (threaded NAPI); 0: softirq does
	Ran     float64  `json:"ran,omitempty"`     // over the traffic's time, one CPU's is 1: time that those threads ran, by the scheduler's ns clock; without threads that of softirq on the DUT's CPUs, in ticks
	Waited  float64  `json:"waited,omitempty"`  // the same of the least time that a thread was ready while none of them ran: something else had the CPU
	Receive *Receive `json:"receive,omitempty"` // of a DUT that is another machine: how its CPUs took frames
	State   []Pair   `json:"state,omitempty"`   // how it is set up, where frames were lost: "nft rules", "conntrack entries", "lan rps_cpus"...
}

// A Receive is how the CPUs of a machine with our agent took frames, by its own counters, over
// a trial's traffic and some ms more.
type Receive struct {
	CPUs      []CPU   `json:"cpus"`                // of that machine; the one that was busiest with receive work has the role "dut"
	Ran       float64 `json:"ran"`                 // share of the time that this CPU was in softirq, ksoftirqd among it
	Ksoftirqd float64 `json:"ksoftirqd,omitempty"` // of it, the share that its ksoftirqd ran
	Waited    float64 `json:"waited,omitempty"`    // share of the time that ksoftirqd was ready and something else had the CPU
	Dropped   int64   `json:"dropped,omitempty"`   // frames that full backlogs dropped (softnet_stat), on all CPUs
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
	KPIs        []KPI        `json:"kpis,omitempty"`    // of a trial with phases of load, one a phase
	Samples     []KPI        `json:"samples,omitempty"` // of such a trial, in order
	Status      Status       `json:"verdict"`
	Reason      string       `json:"reason,omitempty"`
	Values      []Value      `json:"values,omitempty"`
	Load        *Load        `json:"load,omitempty"`
	Account     *Account     `json:"ledger,omitempty"`
	CPUs        []CPU        `json:"cpus,omitempty"`    // of a trial
	DUT         *DUTWork     `json:"dut,omitempty"`     // of a trial
	Digests     []Digest     `json:"digests,omitempty"` // of a trial, in the order of Run.Series
	Energy      []Energy     `json:"energy,omitempty"`  // by meter; of a point also by kind of trial
	Usage       []Usage      `json:"usage,omitempty"`
	Copies      []Copy       `json:"copies,omitempty"`   // of programs that worked at once
	Alerts      []Alert      `json:"alerts,omitempty"`   // of an IDS's trial, by rule
	Boards      []Board      `json:"boards,omitempty"`   // of a fleet
	Settings    []Setting    `json:"settings,omitempty"` // of a procedure at a point: what a recipe had set meanwhile
	Warnings    []string     `json:"warnings,omitempty"`
	Environment int          `json:"environment"` // index into Run.Environments

	// Left is what was left of the run's budget each time that the procedure asked since the
	// point's trial before: a resumed run decides by it.
	Left []time.Duration `json:"left_ns,omitempty"`
}

// An Alert is what a rule of an IDS found in a trial.
type Alert struct {
	Rule    int   `json:"rule"`              // sid
	Planted int64 `json:"planted,omitempty"` // attacks in the traffic that it must find; 0: none, or not known
	Raised  int64 `json:"raised"`
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

// SenderAlone is the "path" in the identity of a self-test that had no two ports of
// the tester wired to each other: its frames went into the box.
const SenderAlone = "through the box"

// Ceiling is what the tester carries by a self-test's record: what went from port to
// port, or of the sender alone what it offered, whatever the box let through; that
// of the meter is then not known. 0 where nothing was measured.
func (r *Record) Ceiling() unit.FrameRate {
	switch {
	case r.Load == nil:
		return 0
	case Get(r.Config, "path") == SenderAlone:
		return r.Load.Offered
	}
	return r.Load.Forwarded
}

// SelfTest is the procedure that measures the tester alone.
const SelfTest = "self-test"

// OfConnections says whether the rates of r's load are of new connections, not of
// frames: a trial or point of that procedure, or its self-test.
func (r *Record) OfConnections() bool {
	const connections = "connections"
	return r.Procedure == connections || r.Procedure == SelfTest && Get(r.Config, connections) != ""
}

// Finished says whether a resumed run may keep the record.
func (r *Record) Finished() bool { return r.Status != Running && r.Status != Aborted }

// Kinds of runs and testbeds, and of machines but for the last.
const (
	KindReal     = "real"
	KindSandbox  = "sandbox"  // namespaces of one machine
	KindEmulated = "emulated" // no speed of it means anything
	KindMemory   = "memory"   // nothing is measured
)

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
	Box          string          `json:"box,omitempty"` // what its user calls the box at the end of a cable
	Kind         string          `json:"kind"`          // real, sandbox, emulated, memory
	Role         string          `json:"role,omitempty"`
	Preset       string          `json:"preset"`               // quick or standard
	Criteria     []Criterion     `json:"criteria,omitempty"`   // of the role
	NotMeasured  []string        `json:"not_measured"`         // what the preset leaves out, in words
	Deviations   []string        `json:"deviations,omitempty"` // from the standards, in words
	Machines     []Machine       `json:"machines"`
	Environments [][]Pair        `json:"environments"` // before, after: clock source, governor, offloads, placement...
	Metrics      []Metric        `json:"metrics"`
	Procedures   []Procedure     `json:"procedures,omitempty"` // absent in runs of before 0.2
	Backend      []Pair          `json:"backend"`              // per port: the choice and why others were not taken
	Series       []Series        `json:"series,omitempty"`     // of telemetry; a resumed run only adds to them
	Telemetry    []Telemetry     `json:"telemetry,omitempty"`  // how each part of the run was watched
	Recipe       json.RawMessage `json:"recipe,omitempty"`     // of tuning, as its file has it
	Settings     []Setting       `json:"settings,omitempty"`   // what became of it
	Ablation     *Ablation       `json:"ablation,omitempty"`   // the recipe is taken apart, a part of it in force at each point
	Budget       *Budget         `json:"budget,omitempty"`     // how the run kept its time budget; absent: it had none
	Warnings     []string        `json:"warnings,omitempty"`
}

// A Budget is the time that a run was allowed, and what it left out to keep it.
type Budget struct {
	Seconds     float64  `json:"budget_s"`
	Spent       float64  `json:"spent_s"`                // when the last visit ended
	NotMeasured []string `json:"not_measured,omitempty"` // IDs of points without a visit
	Ended       []string `json:"ended,omitempty"`        // IDs of points that were to be visited again
}
