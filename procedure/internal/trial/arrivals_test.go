// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/unit"
)

// The growth of delay from the second to the last quarter of a trial is that of its frames;
// where frames are missing, or were not due evenly, it is not known.
func TestLag(t *testing.T) {
	const frames, gap = 1000, 1e6 // ns
	steady := engine.Load{Rate: 1000, Pattern: engine.Constant}
	for _, c := range []struct {
		name    string
		load    engine.Load
		late    float64 // ns that each frame is later than the one before, beside the gap
		arrived uint64
		want    time.Duration
	}{
		{"a queue that grows", steady, 20e3, frames, 10 * time.Millisecond},
		{"steady", steady, 0, frames, 0},
		{"a queue that empties", steady, -20e3, frames, 0},
		{"a frame is missing", steady, 20e3, frames - 1, 0},
		{"flat out", engine.Load{Pattern: engine.Constant}, 20e3, frames, 0},
	} {
		var marks []engine.Mark
		for n := uint64(0); n < frames; n += 10 {
			marks = append(marks, engine.Mark{At: unit.Instant((gap + c.late) * float64(n)), Frames: n})
		}
		if got := lag(c.load, frames, c.arrived, 0, (frames-1)*gap, marks); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
