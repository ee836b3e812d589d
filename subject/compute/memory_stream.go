// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"

	"boxdyno/result"
)

// memoryStream is McCalpin's.
var memoryStream = memoryProgram{
	name: "memory-stream", source: "memory_stream.c", doc: "the four kernels of STREAM over three arrays: copy, scale, add, triad",
	had: "STREAM's three arrays", takes: func(size int64) int64 { return 3 * size }, last: func(*Memory) string { return "10" }, figures: streamFigures,
}

// streamWrong is how far the elements may be from what they must be, as STREAM has it for
// doubles.
const streamWrong = 1e-13

func streamFigures(text string, size int64) (vs []result.Value, err error) {
	var t struct {
		Size  int64      `json:"size"`
		Copy  float64    `json:"copy"`
		Scale float64    `json:"scale"`
		Add   float64    `json:"add"`
		Triad float64    `json:"triad"`
		Wrong [3]float64 `json:"wrong"`
	}
	if err := printedJSON(text, &t); err != nil {
		return nil, err
	}
	if t.Size != size || !(t.Copy > 0 && t.Scale > 0 && t.Add > 0 && t.Triad > 0) {
		return nil, fmt.Errorf("it printed what is no figure: %.80q", text)
	}
	for i, w := range t.Wrong {
		if !(w < streamWrong) {
			return nil, fmt.Errorf("array %c of STREAM holds something else than it should: its elements are wrong by %.2g on average", 'a'+i, w)
		}
	}
	octets := float64(size / 8 * 8)
	for _, k := range []struct {
		metric  string
		arrays  float64
		seconds float64
	}{{"stream_copy_rate", 2, t.Copy}, {"stream_scale_rate", 2, t.Scale}, {"stream_add_rate", 3, t.Add}, {"stream_triad_rate", 3, t.Triad}} {
		vs = append(vs, result.Value{Metric: k.metric, Unit: "B/s", Value: k.arrays * octets / k.seconds})
	}
	return vs, nil
}

var memoryStreamMetrics = []result.Metric{
	{Name: "stream_copy_rate", Label: "STREAM copy", Interval: "range", Heads: true, Unit: "B/s", Better: 1, Help: "STREAM's copy, c = a: octets read and octets written a second, in the best of its passes but the first; all copies together"},
	{Name: "stream_scale_rate", Label: "STREAM scale", Interval: "range", Heads: true, Unit: "B/s", Better: 1, Help: "the same of scale, b = 3 c"},
	{Name: "stream_add_rate", Label: "STREAM add", Interval: "range", Heads: true, Unit: "B/s", Better: 1, Help: "the same of add, c = a + b"},
	{Name: "stream_triad_rate", Label: "STREAM triad", Interval: "range", Heads: true, Unit: "B/s", Better: 1, Help: "the same of triad, a = b + 3 c"},
}
