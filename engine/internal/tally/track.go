// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"slices"

	"boxdyno/engine"
	"boxdyno/engine/internal/bucket"
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
	timing   *Timing // nil: none
}

// A Timing is the histograms of one stream.
type Timing struct {
	Latency, Gaps, Ipdv [bucket.Count]uint64
	Bursts              [burstBuckets]uint64
	run                 uint64 // frames of the burst under way

	// Of the frame before.
	stamped  bool
	sequence uint32
	delay    unit.Instant
}

// burstBuckets hold bursts of up to 2^32 frames; longer ones are in the last.
const burstBuckets = 464

func (m *Timing) frame(s frame.Signature, at unit.Instant) {
	m.run++
	if s.Time != 0 {
		delay := at - s.Time
		m.Latency[bucket.Of(uint64(max(delay, 0)))]++
		if m.stamped && s.Sequence == m.sequence+1 {
			d := delay - m.delay
			m.Ipdv[bucket.Of(uint64(max(d, -d)))]++
		}
		m.delay, m.sequence = delay, s.Sequence
	}
	m.stamped = s.Time != 0
}

func (m *Timing) gap(d unit.Instant) {
	m.Gaps[bucket.Of(uint64(max(d, 0)))]++
	if d >= unit.Instant(engine.BurstGap) {
		m.Bursts[Burst(m.run)]++
		m.run = 0
	}
}

// Burst is the bucket of a burst of so many frames.
func Burst(frames uint64) int { return min(bucket.Of(frames), burstBuckets-1) }

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

func (t *tracker) report(stream uint16) engine.RxReport {
	r := engine.RxReport{
		Stream: stream, Frames: t.frames, Octets: t.octets,
		Reordered: t.reordered, Duplicate: t.duplicate, Broken: t.broken, Late: t.late,
		First: t.first, Last: t.last, Gap: t.gap, Rate: unit.RateOver(t.frames, t.first, t.last),
	}
	if t.begun {
		r.Runs = RunsOf(append(slices.Clone(t.book.past), t.mark()))
		r.Span = SpanOf(r.Runs)
	}
	if t.timing != nil {
		sum := *t.timing
		if sum.run != 0 {
			sum.Bursts[Burst(sum.run)]++
		}
		sum.Into(&r)
	}
	return r
}

// Into puts the histograms into r.
func (m *Timing) Into(r *engine.RxReport) {
	r.Latency, r.Gaps, r.IPDV = bucket.Histogram(m.Latency[:]), bucket.Histogram(m.Gaps[:]), bucket.Histogram(m.Ipdv[:])
	r.Bursts = bucket.Lengths(m.Bursts[:])
}
