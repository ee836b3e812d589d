// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"
	"time"

	"boxdyno/unit"
)

// A Mark is how many frames had arrived before the one that arrived at At.
// Between two marks a.Frames - b.Frames frames arrived in a.At - b.At.
type Mark struct {
	At     unit.Instant
	Frames uint64
}

const (
	// markEvery is the least time between two marks of a stream. The kernel's
	// meter looks at the clock once a tick, so that its marks lie up to a tick
	// further apart: at most 10 ms.
	markEvery = unit.Instant(3 * time.Millisecond)
	// catchUp is the time from a mark within which all frames came that are in no later
	// mark but the next: markEvery, and the longest tick.
	catchUp = markEvery + unit.Instant(10*time.Millisecond)
	// keptMarks is how many of the latest marks a receive CPU keeps, those of all
	// its streams together.
	keptMarks = 8 * 2048
	// idleAfter is the time without a mark after which nothing more is expected.
	idleAfter = unit.Instant(30 * time.Millisecond)
)

// A progress collects the marks of one stream.
type progress struct{ marks []Mark }

// note marks a frame that arrived at an instant, behind so many others, if it is time.
func (p *progress) note(frames uint64, at unit.Instant) {
	if n := len(p.marks); frames != 0 && n != 0 && at-p.marks[n-1].At < markEvery {
		return
	}
	if len(p.marks) == 2*keptMarks {
		p.marks = append(p.marks[:0], p.marks[keptMarks:]...)
	}
	p.marks = append(p.marks, Mark{At: at, Frames: frames})
}

// latest returns the marks that are kept.
func (p *progress) latest() []Mark {
	return slices.Clone(p.marks[max(0, len(p.marks)-keptMarks):])
}

// arrived is what a stream, a queue or a port has counted: its marks, and all its frames.
type arrived struct {
	marks  []Mark
	frames uint64
}

func (c arrived) last() unit.Instant { return c.marks[len(c.marks)-1].At }

// mergeMarks returns the marks of several streams, queues or ports as one: the sum of
// their frames at the instants of all marks, between which each is interpolated.
// It begins where all that had begun before are known, and ends with the earliest
// of the last marks of those that were still receiving. Of the others it has all frames,
// those behind their last mark too.
func mergeMarks(all ...arrived) []Mark {
	all = slices.DeleteFunc(slices.Clone(all), func(c arrived) bool { return len(c.marks) == 0 })
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0].marks
	}
	var begin, end, last unit.Instant
	var at []unit.Instant
	for _, c := range all {
		last = max(last, c.last())
		if c.marks[0].Frames > 0 { // older marks are lost
			begin = max(begin, c.marks[0].At)
		}
		for _, m := range c.marks {
			at = append(at, m.At)
		}
	}
	end = last
	for i, c := range all {
		if t := c.last(); last-t < idleAfter {
			end = min(end, t)
		} else if c.frames > c.marks[len(c.marks)-1].Frames {
			all[i].marks = append(slices.Clone(c.marks), Mark{At: t + catchUp, Frames: c.frames})
		}
	}
	slices.Sort(at)
	var out []Mark
	for _, t := range at {
		if n := len(out); t < begin || t > end || n > 0 && t-out[n-1].At < markEvery {
			continue
		}
		sum := 0.0
		for _, c := range all {
			sum += framesAt(c.marks, t)
		}
		out = append(out, Mark{At: t, Frames: uint64(sum + 0.5)})
	}
	return out
}

// framesAt interpolates how many frames had arrived at t: 0 before the first mark,
// and those of the last mark after it.
func framesAt(l []Mark, t unit.Instant) float64 {
	i, found := slices.BinarySearchFunc(l, t, func(m Mark, t unit.Instant) int { return cmp.Compare(m.At, t) })
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
