// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"boxdyno/frame"
	"boxdyno/unit"
)

// seenWords is the tracker's memory of sequence numbers, in words of 64: the
// last 8,192.
const (
	seenWords = 128
	seenSpan  = seenWords * 64
)

// A tracker counts the frames of one stream as they arrive at a meter. Its
// zero value has seen nothing; it is not safe for concurrent use.
type tracker struct {
	frames, octets       uint64
	reordered, duplicate uint64
	broken               uint64
	first, last          unit.Instant

	begun bool
	next  uint64            // the sequence number expected, extended past 32 bit
	seen  [seenWords]uint64 // bit n % 8192: n arrived, for n in [next-8192, next)

	timing *timing // nil: none
}

type timing struct{ latency, gaps [buckets]uint64 }

// whole counts a frame of octets, FCS included, that arrived at an instant of
// the clock that stamped it. A latency below zero, which two software clocks
// can show of a very short way, is counted as zero.
func (t *tracker) whole(s frame.Signature, octets int, at unit.Instant) {
	if t.timing != nil {
		if s.Time != 0 {
			t.timing.latency[bucket(uint64(max(at-s.Time, 0)))]++
		}
		if t.frames != 0 {
			t.timing.gaps[bucket(uint64(max(at-t.last, 0)))]++
		}
	}
	if t.frames == 0 {
		t.first = at
	}
	t.last = at
	t.frames++
	t.octets += uint64(octets)
	t.order(s.Sequence)
}

// order judges one sequence number by RFC 4737: reordered where a later one came
// before it and it did not. Whether one that is more than 8,192 late came before
// cannot be checked; it counts as reordered.
func (t *tracker) order(sequence uint32) {
	if !t.begun {
		t.begun = true
		t.next = 1<<32 + uint64(sequence) // room for those that it overtook
	}
	n := t.next + uint64(int64(int32(sequence-uint32(t.next))))
	word, bit := &t.seen[n/64%seenWords], uint64(1)<<(n%64)
	switch {
	case n == t.next: // its bit was that of the number which leaves the window
		t.next++
	case n > t.next:
		t.forget(t.next, n)
		t.next = n + 1
	case t.next-n > seenSpan:
		t.reordered++
		return
	case *word&bit != 0:
		t.duplicate++
	default:
		t.reordered++
	}
	*word |= bit
}

// forget clears the bits of [from, to).
func (t *tracker) forget(from, to uint64) {
	if to-from >= seenSpan {
		clear(t.seen[:])
		return
	}
	for from < to {
		n := min(64-from%64, to-from)
		t.seen[from/64%seenWords] &^= (1<<n - 1) << (from % 64)
		from += n
	}
}

func (t *tracker) report(stream uint16) RxReport {
	r := RxReport{
		Stream: stream, Frames: t.frames, Octets: t.octets,
		Reordered: t.reordered, Duplicate: t.duplicate, Broken: t.broken,
		First: t.first, Last: t.last, Rate: rateOver(t.frames, t.first, t.last),
	}
	if t.timing != nil {
		r.Latency = histogram(t.timing.latency[:])
		r.Gaps = histogram(t.timing.gaps[:])
	}
	return r
}

// rateOver is the rate of n frames from the first to the last: n-1 intervals.
func rateOver(n uint64, first, last unit.Instant) unit.FrameRate {
	if n < 2 || last <= first {
		return 0
	}
	return unit.FrameRate(float64(n-1) / (float64(last-first) / 1e9))
}

// A tally is the trackers of the streams that a meter in Go is armed with.
type tally struct {
	ids      []uint16
	trackers []tracker
	foreign  uint64
}

func newTally(timed bool, streams []uint16) *tally {
	t := &tally{ids: streams, trackers: make([]tracker, len(streams))}
	for i := range t.trackers {
		if timed {
			t.trackers[i].timing = new(timing)
		}
	}
	return t
}

// arrive counts a frame as Linux handed it over, without FCS.
func (t *tally) arrive(buf []byte, at unit.Instant) {
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
	t.foreign++
}

func (t *tally) report(drops uint64) MeterReport {
	r := MeterReport{Foreign: t.foreign, Drops: drops}
	for i := range t.trackers {
		r.Streams = append(r.Streams, t.trackers[i].report(t.ids[i]))
	}
	return r
}
