// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"errors"
	"fmt"

	"boxdyno/result"
)

// memoryLatency walks from line to line.
var memoryLatency = memoryProgram{
	name: "memory-latency", source: "memory_latency.c", doc: "time of a load whose address is what the load before it loaded, over a working set",
	had: "a working set", takes: func(size int64) int64 { return size + size/16 }, last: secondsOf, figures: latencyFigures,
}

func latencyFigures(text string, size int64) ([]result.Value, error) {
	var t struct {
		Lines    int64   `json:"lines"`
		Seen     int64   `json:"seen"`
		Loads    float64 `json:"loads"`
		Seconds  float64 `json:"seconds"`
		End      int64   `json:"end"`
		RightEnd int64   `json:"right_end"`
	}
	err := printedJSON(text, &t)
	switch {
	case err != nil:
		return nil, err
	case t.Lines != size/64 || t.Loads <= 0 || t.Seconds <= 0:
		return nil, fmt.Errorf("it printed what is no figure: %.80q", text)
	case t.Seen != t.Lines:
		return nil, fmt.Errorf("the walk came back to its first line after %d of %d", t.Seen, t.Lines)
	case t.End != t.RightEnd:
		return nil, errors.New("the walk that was timed ended on another line than it must")
	}
	return []result.Value{{Metric: "load_latency_s", Unit: "s", Value: t.Seconds / t.Loads}}, nil
}

var memoryLatencyMetrics = []result.Metric{
	{Name: "load_latency_s", Unit: "s", Better: -1, Help: "of a trial: time of a load that must wait for the load before it, over its working set; the copies' mean"},
}
