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
	// markEvery is the least time between two marks of a stream. The kernel's
	// meter looks at the clock once a tick, so that its marks lie up to a tick
	// further apart: at most 10 ms.
	markEvery = unit.Instant(3 * time.Millisecond)
	// catchUp is the time from a mark within which all frames came that are in no later
	// mark but the next: markEvery, and the longest tick.
	catchUp = markEvery + unit.Instant(10*time.Millisecond)
	// KeptMarks is how many of the latest marks a receive CPU keeps, those of all
	// its streams together.
	KeptMarks = 8 * 2048
	// idleAfter is the time without a mark after which nothing more is expected.
	idleAfter = unit.Instant(30 * time.Millisecond)
)

// A progress collects the marks of one stream.
type progress struct{ marks []engine.Mark }

// note marks a frame that arrived at an instant, behind so many others, if it is time.
func (p *progress) note(frames uint64, at unit.Instant) {
	if n := len(p.marks); frames != 0 && n != 0 && at-p.marks[n-1].At < markEvery {
		return
	}
	if len(p.marks) == 2*KeptMarks {
		p.marks = append(p.marks[:0], p.marks[KeptMarks:]...)
	}
	p.marks = append(p.marks, engine.Mark{At: at, Frames: frames})
}

// latest returns the marks that are kept.
func (p *progress) latest() []engine.Mark {
	return slices.Clone(p.marks[max(0, len(p.marks)-KeptMarks):])
}

// Arrived is what a stream, a queue or a port has counted: its marks, and all its frames.
type Arrived struct {
	Marks  []engine.Mark
	Frames uint64
}

func (c Arrived) last() unit.Instant { return c.Marks[len(c.Marks)-1].At }

// MergeMarks returns the marks of several streams, queues or ports as one: the sum of
// their frames at the instants of all marks, between which each is interpolated.
// It begins where all that had begun before are known, and ends with the earliest
// of the last marks of those that were still receiving. Of the others it has all frames,
// those behind their last mark too.
func MergeMarks(all ...Arrived) []engine.Mark {
	all = slices.DeleteFunc(slices.Clone(all), func(c Arrived) bool { return len(c.Marks) == 0 })
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0].Marks
	}
	var begin, end, last unit.Instant
	var at []unit.Instant
	for _, c := range all {
		last = max(last, c.last())
		if c.Marks[0].Frames > 0 { // older marks are lost
			begin = max(begin, c.Marks[0].At)
		}
		for _, m := range c.Marks {
			at = append(at, m.At)
		}
	}
	end = last
	for i, c := range all {
		if t := c.last(); last-t < idleAfter {
			end = min(end, t)
		} else if c.Frames > c.Marks[len(c.Marks)-1].Frames {
			all[i].Marks = append(slices.Clone(c.Marks), engine.Mark{At: t + catchUp, Frames: c.Frames})
		}
	}
	slices.Sort(at)
	var out []engine.Mark
	for _, t := range at {
		if n := len(out); t < begin || t > end || n > 0 && t-out[n-1].At < markEvery {
			continue
		}
		sum := 0.0
		for _, c := range all {
			sum += framesAt(c.Marks, t)
		}
		out = append(out, engine.Mark{At: t, Frames: uint64(sum + 0.5)})
	}
	return out
}

// framesAt interpolates how many frames had arrived at t: 0 before the first mark,
// and those of the last mark after it.
func framesAt(l []engine.Mark, t unit.Instant) float64 {
	i, found := slices.BinarySearchFunc(l, t, func(m engine.Mark, t unit.Instant) int { return cmp.Compare(m.At, t) })
	switch {
	case found:
		return float64(l[i].Frames)
	case i == 0:
		return 0
	case i == len(l):
		return float64(l[i-1].Frames)
	}
	a, b := l[i-1], l[i]
	share := min(1, float64(t-a.At)/float64(min(b.At-a.At, catchUp)))
	return float64(a.Frames) + float64(int64(b.Frames-a.Frames))*share
}
