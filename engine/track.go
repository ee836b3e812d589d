// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

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
	broken, late         uint64
	first, last          unit.Instant
	gap                  unit.Instant

	begun bool
	next  uint64            // the sequence number expected, extended past 32 bit
	seen  [seenWords]uint64 // bit n % 8192: n arrived, for n in [next-8192, next)

	book     runBook
	progress progress
	timing   *timing // nil: none
}

// A timing is the histograms of one stream.
type timing struct {
	latency, gaps, ipdv [buckets]uint64
	bursts              [burstBuckets]uint64
	run                 uint64 // frames of the burst under way

	// Of the frame before.
	stamped  bool
	sequence uint32
	delay    unit.Instant
}

// burstBuckets hold bursts of up to 2^32 frames; longer ones are in the last.
const burstBuckets = 464

func (m *timing) frame(s frame.Signature, at unit.Instant) {
	m.run++
	if s.Time != 0 {
		delay := at - s.Time
		m.latency[bucket(uint64(max(delay, 0)))]++
		if m.stamped && s.Sequence == m.sequence+1 {
			d := delay - m.delay
			m.ipdv[bucket(uint64(max(d, -d)))]++
		}
		m.delay, m.sequence = delay, s.Sequence
	}
	m.stamped = s.Time != 0
}

func (m *timing) gap(d unit.Instant) {
	m.gaps[bucket(uint64(max(d, 0)))]++
	if d >= unit.Instant(BurstGap) {
		m.bursts[burst(m.run)]++
		m.run = 0
	}
}

func burst(frames uint64) int { return min(bucket(frames), burstBuckets-1) }

// whole counts a frame of octets, FCS included, that arrived at an instant of
// the clock that stamped it. A latency below zero, which two software clocks
// can show of a very short way, is counted as zero.
func (t *tracker) whole(s frame.Signature, octets int, at unit.Instant) {
	if t.timing != nil {
		if t.frames != 0 {
			t.timing.gap(at - t.last)
		}
		t.timing.frame(s, at)
	}
	if t.frames == 0 {
		t.first = at
	}
	if s.Late {
		t.late++
	}
	t.order(s.Sequence, s.Time, at)
	t.progress.note(t.frames, at)
	t.last = at
	t.frames++
	t.octets += uint64(octets)
}

// firstSequence is a sender's first sequence number, extended past 32 bit: there
// is room below for what looks as if it came before.
const firstSequence = 1 << 32

// order judges one sequence number by RFC 4737: reordered where a later one came
// before it and it did not. Whether one that is more than 8,192 late came before
// cannot be checked; it counts as reordered. The frame was sent at an instant of
// the sender's clock (0: not known), and may begin a run.
func (t *tracker) order(sequence uint32, sent, at unit.Instant) {
	n := t.next + uint64(int64(int32(sequence-uint32(t.next))))
	if t.begun && t.book.anew(n, t.next, sent) {
		t.book.past = append(t.book.past, t.mark())
		clear(t.seen[:])
		t.begun = false
	}
	if !t.begun {
		t.begun = true
		n = firstSequence + uint64(sequence)
		t.next = n
		t.book.arrived, t.book.begin, t.book.lowest = at, sent, n
	}
	word, bit := &t.seen[n/64%seenWords], uint64(1)<<(n%64)
	switch {
	case n == t.next: // its bit was that of the number which leaves the window
		t.next++
		t.book.top = sent
	case n > t.next:
		if t.timing != nil {
			t.gap = at
		}
		t.forget(t.next, n)
		t.next = n + 1
		t.book.top = sent
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
		Reordered: t.reordered, Duplicate: t.duplicate, Broken: t.broken, Late: t.late,
		First: t.first, Last: t.last, Gap: t.gap, Rate: unit.RateOver(t.frames, t.first, t.last),
	}
	if t.begun {
		r.Runs = runsOf(append(slices.Clone(t.book.past), t.mark()))
		r.Span = spanOf(r.Runs)
	}
	if t.timing != nil {
		sum := *t.timing
		if sum.run != 0 {
			sum.bursts[burst(sum.run)]++
		}
		sum.into(&r)
	}
	return r
}

// into puts the histograms into r.
func (m *timing) into(r *RxReport) {
	r.Latency, r.Gaps, r.IPDV = histogram(m.latency[:]), histogram(m.gaps[:]), histogram(m.ipdv[:])
	r.Bursts = lengths(m.bursts[:])
}

// A tally is what a meter in Go counts: trackers of the streams that it is armed
// with, and the rest.
type tally struct {
	ids      []uint16
	trackers []tracker

	foreign, foreignOctets uint64
	any                    bool
	first, last            unit.Instant
	hash                   *Digest // nil: none
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
	if !t.any {
		t.any, t.first = true, at
	}
	t.last = at
	if t.hash != nil {
		t.hash.Add(buf)
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
	t.count(len(buf), at)
}

// count counts a foreign frame of so many octets without FCS.
func (t *tally) count(octets int, at unit.Instant) {
	if !t.any {
		t.any, t.first = true, at
	}
	t.last = at
	t.foreign++
	t.foreignOctets += uint64(octets + unit.FCS)
}

func (t *tally) report(drops uint64, stamps string) MeterReport {
	r := MeterReport{Foreign: t.foreign, ForeignOctets: t.foreignOctets, Drops: drops, First: t.first, Last: t.last, Stamps: stamps}
	var all []arrived
	for i := range t.trackers {
		s := t.trackers[i].report(t.ids[i])
		r.Streams = append(r.Streams, s)
		all = append(all, arrived{t.trackers[i].progress.latest(), s.Frames})
	}
	r.Marks = mergeMarks(all...)
	if t.hash != nil {
		r.Hash = t.hash.Sum()
	}
	return r
}
