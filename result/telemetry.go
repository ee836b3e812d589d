// SPDX-License-Identifier: Apache-2.0

package result

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"boxdyno/unit"
)

// A Series is one thing that telemetry reads again and again. Name and Labels
// follow Prometheus and, where it has the same, node_exporter; with the name go base
// units.
type Series struct {
	Name    string      `json:"name"` // "node_cpu_seconds_total"
	Labels  []Pair      `json:"labels,omitempty"`
	Unit    unit.Symbol `json:"unit"`
	Counter bool        `json:"counter,omitempty"` // only grows; a value below half of the one before is a new start
	Place   Place       `json:"place,omitempty"`   // of the ledger, for counters of lost frames
	Help    string      `json:"help"`
}

// Grown is how much a counter grew from a to b: a value below half of the one before
// is a new start; one a little below it (some of the kernel's times go back by a
// tick) has not grown.
func Grown(a, b float64) float64 {
	switch {
	case b >= a:
		return b - a
	case b < a/2:
		return b
	}
	return 0
}

// The label MachineLabel stands where tester and DUT are different machines: its value is
// MachineTester or MachineDUT.
const (
	MachineLabel  = "machine"
	MachineTester = "tester"
	MachineDUT    = "dut"
)

// OfTester says whether the series tells of the tester, and the DUT is another machine.
func (s Series) OfTester() bool { return Get(s.Labels, MachineLabel) == MachineTester }

// Same says whether t is the same series, perhaps with another help.
func (s Series) Same(t Series) bool {
	return s.Name == t.Name && s.Unit == t.Unit && s.Counter == t.Counter && slices.Equal(s.Labels, t.Labels)
}

// A Batch is what a collector read at one instant: Values[i] is of series First+i.
// NaN is absent, in files null.
type Batch struct {
	At     unit.Instant `json:"at_ns"`
	First  int          `json:"first"`
	Values []float64    `json:"values"`
}

// A Digest is one series over one trial. Growth is of the whole trial, the settle
// time included, for what was under way when the traffic stopped counts too; N, Min,
// Mean and Max are of the traffic alone, where the trial says when that was. A series
// that has nothing to say is left out: a counter that did not move, a gauge that was
// absent.
type Digest struct {
	Series int     `json:"series"`           // index into Run.Series
	N      int     `json:"n"`                // samples
	Min    float64 `json:"min,omitempty"`    // of a gauge; of a counter, the lowest rate a second over at least half an interval. Not in files where it and Max are Mean
	Mean   float64 `json:"mean"`             // over time, of values between samples as if they went straight
	Max    float64 `json:"max,omitempty"`    // as Min
	Growth float64 `json:"growth,omitempty"` // of a counter
}

// A flatDigest is how a Digest stands in files.
type flatDigest struct {
	Series int      `json:"series"`
	N      int      `json:"n"`
	Min    *float64 `json:"min,omitempty"`
	Mean   float64  `json:"mean"`
	Max    *float64 `json:"max,omitempty"`
	Growth float64  `json:"growth,omitempty"`
}

// MarshalJSON leaves out what Mean says too: most gauges do not move in a trial.
func (d Digest) MarshalJSON() ([]byte, error) {
	f := flatDigest{Series: d.Series, N: d.N, Mean: d.Mean, Growth: d.Growth}
	if d.Min != d.Mean || d.Max != d.Mean {
		f.Min, f.Max = &d.Min, &d.Max
	}
	return json.Marshal(f)
}

// UnmarshalJSON fills in what MarshalJSON left out.
func (d *Digest) UnmarshalJSON(data []byte) error {
	var f flatDigest
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	*d = Digest{Series: f.Series, N: f.N, Min: f.Mean, Mean: f.Mean, Max: f.Mean, Growth: f.Growth}
	if f.Min != nil && f.Max != nil {
		d.Min, d.Max = *f.Min, *f.Max
	}
	return nil
}

// A Telemetry says how one part of a run was watched, and what that cost.
type Telemetry struct {
	Rate       float64      `json:"rate_hz"`
	Collectors []string     `json:"collectors"`
	Absent     []string     `json:"absent,omitempty"`        // collectors that found nothing to read, or lacked something: "name: why"
	CPUs       []int        `json:"cpus,omitempty"`          // that the sampler's threads kept to; none: any
	From       unit.Instant `json:"from_ns"`                 // first sample
	To         unit.Instant `json:"to_ns"`                   // last sample
	Samples    int          `json:"samples"`                 // of them those on demand, at both ends of trials and of their traffic
	Gaps       int          `json:"gaps"`                    // times that a sample was late by more than two intervals
	Longest    int64        `json:"longest_lateness_ns"`     // ns
	CPUShare   float64      `json:"cpu_share"`               // of one core: the sampler's threads, reading, encoding and compressing
	Memory     uint64       `json:"anonymous_memory_bytes"`  // of the whole process (RssAnon), the most that was seen
	Dropped    int64        `json:"dropped_bytes,omitempty"` // of lines that could not be written in time
	Idle       []Energy     `json:"idle,omitempty"`          // what each meter measured before the first trial
	Reading    string       `json:"reading,omitempty"`       // a power that the user typed in, with the state that it was read in; in no joules
}

// A TelemetryHead stands before the batches in a file or stream of telemetry, which
// can be read alone by it. A later one takes its place: series are only ever added.
type TelemetryHead struct {
	Schema int       `json:"schema"`
	Start  time.Time `json:"start"` // wall clock at instant 0
	Rate   float64   `json:"rate_hz"`
	Series []Series  `json:"series"`
}

// AppendBatch appends b to line as one line of JSON, always in this form, which
// the reader counts on. It does not allocate where
// line has room.
func AppendBatch(line []byte, b Batch) []byte {
	line = append(line, `{"at_ns":`...)
	line = strconv.AppendInt(line, int64(b.At), 10)
	line = append(line, `,"first":`...)
	line = strconv.AppendInt(line, int64(b.First), 10)
	line = append(line, `,"values":[`...)
	for i, v := range b.Values {
		if i > 0 {
			line = append(line, ',')
		}
		line = appendNumber(line, v)
	}
	return append(line, "]}\n"...)
}

// appendNumber is the shortest text that reads back as v; null where JSON has none.
func appendNumber(b []byte, v float64) []byte {
	const exact = 1 << 53
	if n := int64(v); v > -exact && v < exact && float64(n) == v {
		return strconv.AppendInt(b, n, 10)
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// parseBatch reads a line as AppendBatch writes it.
func parseBatch(line []byte) (b Batch, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"at_ns":`))
	if !ok {
		return b, false
	}
	at, rest, ok1 := bytes.Cut(rest, []byte(`,"first":`))
	first, rest, ok2 := bytes.Cut(rest, []byte(`,"values":[`))
	values, ok3 := bytes.CutSuffix(bytes.TrimRight(rest, "\n"), []byte("]}"))
	n, err1 := strconv.ParseInt(string(at), 10, 64)
	i, err2 := strconv.ParseUint(string(first), 10, 31)
	if !ok1 || !ok2 || !ok3 || err1 != nil || err2 != nil {
		return b, false
	}
	b = Batch{At: unit.Instant(n), First: int(i)}
	if len(values) == 0 {
		return b, true
	}
	b.Values = make([]float64, 0, bytes.Count(values, []byte(","))+1)
	for text := range bytes.SplitSeq(values, []byte(",")) {
		v := math.NaN()
		if string(text) != "null" {
			var err error
			if v, err = strconv.ParseFloat(string(text), 64); err != nil || math.IsNaN(v) {
				return b, false
			}
		}
		b.Values = append(b.Values, v)
	}
	return b, true
}
