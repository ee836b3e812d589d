// SPDX-License-Identifier: Apache-2.0

// Package tally counts frames as they arrive at a meter: sequences, runs of a sender, times and
// marks. The program xdp/bpf/meter.c counts alike, and borrows what joins the counts of CPUs.
package tally

import (
	"fmt"
	"slices"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/unit"
)

// Armable checks what Arm is given.
func Armable(streams []uint16) error {
	if len(streams) > engine.MaxStreams {
		return fmt.Errorf("arm the meter: %d streams, want at most %d", len(streams), engine.MaxStreams)
	}
	for i, s := range streams {
		if slices.Contains(streams[:i], s) {
			return fmt.Errorf("arm the meter: stream %d is given twice", s)
		}
	}
	return nil
}

// A Tally is what a meter in Go counts: trackers of the streams that it is armed
// with, and the rest.
type Tally struct {
	ids      []uint16
	trackers []tracker

	Foreign, foreignOctets uint64
	any                    bool
	first, last            unit.Instant
	Hash                   *engine.Digest // nil: none
}

// New counts streams, and all others as foreign; timed adds histograms.
func New(timed bool, streams []uint16) *Tally {
	t := &Tally{ids: streams, trackers: make([]tracker, len(streams))}
	for i := range t.trackers {
		if timed {
			t.trackers[i].timing = new(Timing)
		}
	}
	return t
}

// Arrive counts a frame as Linux handed it over, without FCS.
func (t *Tally) Arrive(buf []byte, at unit.Instant) {
	if !t.any {
		t.any, t.first = true, at
	}
	t.last = at
	if t.Hash != nil {
		t.Hash.Add(buf)
	}
	s, class := frame.Parse(buf)
	if class != frame.Foreign {
		for i, id := range t.ids {
			if id != s.Stream {
				continue
			}
			if class == frame.Broken {
				t.trackers[i].broken++
			} else {
				t.trackers[i].whole(s, len(buf)+unit.FCS, at)
			}
			return
		}
	}
	t.Count(len(buf), at)
}

// Count counts a foreign frame of so many octets without FCS.
func (t *Tally) Count(octets int, at unit.Instant) {
	if !t.any {
		t.any, t.first = true, at
	}
	t.last = at
	t.Foreign++
	t.foreignOctets += uint64(octets + unit.FCS)
}

// Report is what was counted; drops and stamps are the meter's.
func (t *Tally) Report(drops uint64, stamps string) engine.MeterReport {
	r := engine.MeterReport{Foreign: t.Foreign, ForeignOctets: t.foreignOctets, Drops: drops, First: t.first, Last: t.last, Stamps: stamps}
	var all []Arrived
	for i := range t.trackers {
		s := t.trackers[i].report(t.ids[i])
		r.Streams = append(r.Streams, s)
		all = append(all, Arrived{t.trackers[i].progress.latest(), s.Frames})
	}
	r.Marks = MergeMarks(all...)
	if t.Hash != nil {
		r.Hash = t.Hash.Sum()
	}
	return r
}

// Span widens [first, last], which is empty while both are 0.
func Span(first, last *unit.Instant, from, to uint64) {
	if *first == 0 || unit.Instant(from) < *first {
		*first = unit.Instant(from)
	}
	*last = max(*last, unit.Instant(to))
}
