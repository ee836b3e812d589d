// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"slices"
	"testing"
	"time"

	"boxdyno/unit"

	"pgregory.net/rapid"
)

// However frames arrive on several queues, what the sum of their marks says of an instant
// was true at most catchUp before it or after, also of queues that few frames come to.
func TestMergeMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var arrivals []unit.Instant
		var queues []Arrived
		for range rapid.IntRange(1, 4).Draw(t, "queues") {
			var p progress
			gap := rapid.Int64Range(1000, 20e6).Draw(t, "gap")
			at := unit.Instant(rapid.Int64Range(1, 500e6).Draw(t, "begin"))
			frames := rapid.IntRange(1, 300).Draw(t, "frames")
			for n := range frames {
				p.note(uint64(n), at)
				arrivals = append(arrivals, at)
				at += unit.Instant(rapid.Int64Range(1, 2*gap).Draw(t, "next"))
				if rapid.IntRange(0, 19).Draw(t, "pause") == 0 {
					at += unit.Instant(200 * time.Millisecond)
				}
			}
			queues = append(queues, Arrived{p.latest(), uint64(frames)})
		}
		slices.Sort(arrivals)
		by := func(t unit.Instant) uint64 {
			n, _ := slices.BinarySearch(arrivals, t)
			return uint64(n)
		}
		merged := MergeMarks(queues...)
		if len(merged) == 0 || merged[0].At != arrivals[0] {
			t.Fatalf("the first frame came at %v: %v", arrivals[0], merged)
		}
		for i, m := range merged {
			if i > 0 && (m.At <= merged[i-1].At || m.Frames < merged[i-1].Frames) {
				t.Fatalf("marks %d and %d are out of order: %v", i-1, i, merged)
			}
			if before, after := by(m.At-catchUp), by(m.At+catchUp); m.Frames+1 < before || m.Frames > after+1 {
				t.Fatalf("%+v, but %d came %v before, and %d by as long after", m, before, time.Duration(catchUp), after)
			}
		}
	})
}
