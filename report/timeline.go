// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"math"
	"strconv"

	"boxdyno/unit"
)

// A Timeline is what telemetry saw while a run lasted, as drawings over one axis of
// time want it. The axis is running time: pauses between the parts of a resumed run
// are cut out of it.
//
//	telemetry.jsonl.gz -> track: a cell an interval of sampling -> at most 1000 steps -> Line
//
// Counters are rates, gauges means over time; where a step holds several intervals,
// Lo and Hi are the least and the greatest of them, so that no peak is lost.
type Timeline struct {
	From    unit.Instant `json:"from_ns"`         // first sample: 0 of the axis
	First   int          `json:"first,omitempty"` // step of the axis at which the values begin; not 0 in a part of a timeline alone
	Step    int64        `json:"step_ns"`         // value i of a line is of First+i to First+i+1 steps of the axis
	Steps   int          `json:"steps"`
	Rate    float64      `json:"rate_hz"` // of sampling
	Panels  []Panel      `json:"panels,omitempty"`
	Gaps    []Gap        `json:"gaps,omitempty"`         // in order; the longest, if there are many
	Shorter int          `json:"shorter_gaps,omitempty"` // that are not in Gaps
	Remarks []string     `json:"remarks,omitempty"`      // what is not drawn, and why
}

// A Panel is lines of one kind, or rows of them.
type Panel struct {
	Kind  string      `json:"kind"` // softirq, throttled, temperature, clock, loop, power, drops
	Title string      `json:"title"`
	Unit  unit.Symbol `json:"unit"`
	Lines []Line      `json:"lines"`
}

// A Line is one thing over time. Mean has a value a step, Lo and Hi too where they
// say more than Mean.
type Line struct {
	Row    string `json:"row,omitempty"` // lines of one row are drawn together, apart from other rows
	Name   string `json:"name"`
	Mean   Points `json:"mean,omitempty"`
	Lo     Points `json:"lo,omitempty"`
	Hi     Points `json:"hi,omitempty"`
	InGaps Points `json:"in_gaps,omitempty"` // of a counter, the rate over each of the timeline's gaps
	Marks  []Mark `json:"marks,omitempty"`   // what was measured at single instants
}

// A Mark is a value at an instant.
type Mark struct {
	At    unit.Instant `json:"at_ns"`
	Value float64      `json:"value"`
}

// A Gap is a time in which nothing was sampled.
type Gap struct {
	From unit.Instant `json:"from_ns"`
	To   unit.Instant `json:"to_ns"`
	Cut  int64        `json:"cut_ns,omitempty"` // of a pause between two parts of a run, what the axis leaves out of it
}

// Points are values in files with 4 digits; NaN is absent, in files null.
type Points []float64

// MarshalJSON implements json.Marshaler.
func (p Points) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 6*len(p)+2)
	b = append(b, '[')
	for i, v := range p {
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			b = append(b, "null"...)
		default:
			b = strconv.AppendFloat(b, Rounded(v), 'g', -1, 64)
		}
	}
	return append(b, ']'), nil
}

// JSONSchema implements schema.Describer.
func (Points) JSONSchema() map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"type": []string{"number", "null"}}}
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Points) UnmarshalJSON(data []byte) error {
	var vs []*float64
	if err := json.Unmarshal(data, &vs); err != nil {
		return err
	}
	*p = nil
	for _, v := range vs {
		if v == nil {
			v = new(math.NaN())
		}
		*p = append(*p, *v)
	}
	return nil
}

// Rounded returns v with the 4 digits that files have of Points.
func Rounded(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64) // what FormatFloat writes reads back
	return r
}
