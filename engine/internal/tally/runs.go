// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"cmp"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/unit"
)

const (
	// otherClock is how long before a run's first frame no frame of it was sent.
	otherClock = unit.Instant(time.Second)
	// Numbers that are so far ahead, and so low, did not wrap: 2^31 and more frames
	// of the run before make them look ahead.
	farAhead, lowNumber = 1 << 30, 1 << 20
)

// A runBook is what a tracker notes of its stream's run.
type runBook struct {
	arrived    unit.Instant // its first frame
	begin, top unit.Instant // sender's times of its first frame that came, and of that with the highest number
	lowest     uint64
	past       []RunMark
}

// A RunMark is what its stream had counted when a run ended.
type RunMark struct {
	Frames, Octets, Reordered, Duplicate uint64
	First, Last, Begin, Top              unit.Instant
	Lowest, Next                         uint64
}

// anew says whether a frame of the extended number n, sent at an instant (0: not
// known) where next was expected, begins a run.
func (b *runBook) anew(n, next uint64, sent unit.Instant) bool {
	switch {
	case len(b.past) == engine.MaxRuns-1:
		return false
	case n >= next:
		return n-next > farAhead && uint32(n) < lowNumber
	case sent == 0 || b.top == 0:
		return false
	}
	return sent-b.top > 0 || b.begin-sent > otherClock
}

func (t *tracker) mark() RunMark {
	return RunMark{
		t.frames, t.octets, t.reordered, t.duplicate,
		t.book.arrived, t.last, t.book.begin, t.book.top, t.book.lowest, t.next,
	}
}

// RunsOf are the runs of which marks tell, each counted by itself.
func RunsOf(marks []RunMark) (runs []engine.RxRun) {
	var before RunMark
	for _, m := range marks {
		runs = append(runs, engine.RxRun{
			Frames: m.Frames - before.Frames, Octets: m.Octets - before.Octets,
			Reordered: m.Reordered - before.Reordered, Duplicate: m.Duplicate - before.Duplicate,
			Lowest: m.Lowest - firstSequence, Span: m.Next - firstSequence,
			First: m.First, Last: m.Last, Begin: m.Begin, End: m.Top,
		})
		before = m
	}
	return runs
}

// JoinRuns are the runs that a port's queues have seen of one stream, each by
// itself: parts of one run overlap in the sender's time, or the later part goes on
// where the earlier one ended. Two parts that one queue told apart are two runs.
func JoinRuns(queues ...[]engine.RxRun) (runs []engine.RxRun) {
	type part struct {
		engine.RxRun
		queue int
	}
	var parts []part
	for i, q := range queues {
		for _, r := range q {
			parts = append(parts, part{r, i})
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.First, b.First) })
	in := make([]bool, len(queues)) // the last of runs
	for _, p := range parts {
		if n := len(runs); n > 0 && !in[p.queue] && joins(&runs[n-1], &p.RxRun) {
			add(&runs[n-1], &p.RxRun)
		} else {
			runs = append(runs, p.RxRun)
			clear(in)
		}
		in[p.queue] = true
	}
	return runs
}

// joins says whether part is of the same run as r.
func joins(r, part *engine.RxRun) bool {
	switch {
	case r.End == 0 || part.End == 0: // not stamped
		return true
	case part.Begin <= r.End && r.Begin <= part.End:
		return true
	}
	return part.Begin > r.End && part.Lowest >= r.Span
}

// add counts part as of r.
func add(r, part *engine.RxRun) {
	r.Frames += part.Frames
	r.Octets += part.Octets
	r.Reordered += part.Reordered
	r.Duplicate += part.Duplicate
	r.Lowest, r.Span = min(r.Lowest, part.Lowest), max(r.Span, part.Span)
	r.First, r.Last = min(r.First, part.First), max(r.Last, part.Last)
	r.Begin, r.End = min(r.Begin, part.Begin), max(r.End, part.End)
}

// SpanOf is the sequence numbers of all runs.
func SpanOf(runs []engine.RxRun) (span uint64) {
	for _, r := range runs {
		span += r.Span
	}
	return span
}
