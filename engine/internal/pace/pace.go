// SPDX-License-Identifier: Apache-2.0

// Package pace is the open-loop schedule of senders in Go: when the next frame is due, and what
// became of the schedule.
package pace

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/bucket"
	"boxdyno/engine/internal/feed"
	"boxdyno/frame"
	"boxdyno/unit"
)

// A Pace is the open-loop schedule of a load's streams, and what became of it. Frame k of a
// stream is due at origin + due(k), whatever happened to the frames before. Frames that are
// due together, or that the sender's moderation puts together, are a group, which leaves as
// one. A group that is held up has the next one wait for 8/9 of the schedule's gap (MakeUp:
// no burst, and the mean comes right again) or for all of it (Shift: the origin moves).
// It reads no clock and is not safe for concurrent use. The programs in BPF keep a schedule
// of their own (../bpf/pace.h).
type Pace struct {
	load   engine.Load
	Flat   bool
	Origin unit.Instant
	step   period  // between frames of a stream; Bits: between octets
	then   period  // with Load.Then: between frames from frame turns on
	turns  uint64  // 0: none
	mean   float64 // ns: of Poisson's gaps
	group  uint64  // frames of a stream that leave as one
	Lines  []line
	turn   int // flat out, the line that is next

	changed      unit.Instant
	late         uint64
	stalls       uint64
	longestStall time.Duration
	Seen         unit.Instant // the clock at the last tick
}

// A line is one stream's schedule. Its times count from the origin.
type line struct {
	k     uint64 // next frame
	total uint64 // 0: until time is up, or the source over
	Over  bool
	phase unit.Instant
	due   unit.Instant // of frame k
	gap   unit.Instant // from frame k-1, by the schedule

	release unit.Instant // when the group of frame k is to leave
	spacing unit.Instant // from the group before, by the schedule
	went    unit.Instant // when that left, by the clock
	left    uint64       // frames of the group under way
	behind  bool         // the group under way

	octets uint64     // Bits: of the frames before k, with FCS
	tail   uint64     // Bits: of frame k-1
	chance *rand.Rand // Poisson
	at     float64    // Poisson, Speed: due, with its fraction
	start  float64    // Speed: of the pass
	passed uint64     // Speed: frames of the passes before

	Gaps *gapCounts // nil: not asked for
}

type gapCounts struct {
	left         unit.Instant // frame k-1, by the clock
	gaps, errors [bucket.Count]uint64
}

// A period is a time in ns and 2^-32 ns.
type period struct {
	ns   uint64
	frac uint32
}

func periodOf(ns float64) period {
	whole := math.Floor(ns)
	return period{uint64(whole), uint32((ns - whole) * (1 << 32))}
}

// times is n periods, in whole ns.
func (s period) times(n uint64) unit.Instant {
	hi, lo := bits.Mul64(uint64(s.frac), n)
	return unit.Instant(s.ns*n + hi<<32 + lo>>32)
}

// lateFloor is how far behind a frame counts as late where the schedule's own
// gaps may be shorter.
const lateFloor = unit.Instant(time.Microsecond)

// New is the schedule of l for n streams, whose frames leave in groups of
// group where nothing in l says otherwise.
func New(l engine.Load, n, group int, origin unit.Instant) *Pace {
	p := &Pace{load: l, Flat: !l.Paced(), Origin: origin, Seen: origin, group: 1, Lines: make([]line, n)}
	interval := 0.0
	switch {
	case l.Rate > 0:
		interval = 1e9 / float64(l.Rate)
		p.step, p.mean = periodOf(interval), interval
	case l.Bits > 0:
		p.step = periodOf(8e9 / float64(l.Bits))
	}
	if l.Then > 0 {
		p.then = periodOf(1e9 / float64(l.Then))
		p.turns = uint64(math.Ceil(float64(l.After) / interval))
	}
	switch {
	case l.Pattern == engine.Bursts:
		p.group = uint64(l.Burst)
	case l.Rate > 0 && l.Pattern == engine.Constant:
		p.group = uint64(max(group, 1))
	}
	for i := range p.Lines {
		ln := &p.Lines[i]
		ln.total = l.Intended()
		if l.Rate > 0 && l.Pattern == engine.Constant || l.Pattern == engine.Bursts {
			ln.phase = unit.Instant(interval * float64(i) / float64(n))
		}
		if l.Pattern == engine.Poisson {
			ln.chance = rand.New(rand.NewPCG(l.Seed, uint64(i)))
		}
		if l.Gaps {
			ln.Gaps = new(gapCounts)
		}
		p.plan(ln)
		ln.gap = 0
	}
	return p
}

// Next is whose frame is next, and when it may leave; -1: all are done.
func (p *Pace) Next() (which int, at unit.Instant) {
	which = -1
	if p.Flat {
		for range p.Lines {
			i := p.turn
			if !p.Lines[i].Over {
				return i, p.Seen
			}
			p.turn = (i + 1) % len(p.Lines)
		}
		return -1, 0
	}
	for i := range p.Lines {
		ln := &p.Lines[i]
		if ln.Over {
			continue
		}
		if may := p.may(ln); which < 0 || may < at {
			which, at = i, may
		}
	}
	return which, at
}

// may is when a line's next frame may leave.
func (p *Pace) may(ln *line) unit.Instant {
	if ln.left > 0 {
		return ln.went
	}
	at := p.Origin + ln.release
	if ln.k > 0 && p.load.Late == engine.MakeUp {
		at = max(at, ln.went+ln.spacing-ln.spacing/9)
	}
	return at
}

// Take lets the next frame of line i, of octets with FCS, leave at now.
func (p *Pace) Take(i int, now unit.Instant, octets int) {
	ln := &p.Lines[i]
	if ln.Gaps != nil {
		ln.Gaps.count(ln, now, !p.Flat)
	}
	if p.turns > 0 && ln.k == p.turns && p.changed == 0 {
		p.changed = now
	}
	ln.k++
	ln.Over = ln.k == ln.total
	if p.Flat {
		if p.turn++; p.turn == len(p.Lines) {
			p.turn = 0
		}
		return
	}
	if ln.left == 0 {
		p.begin(ln, now)
	}
	ln.left--
	if ln.behind {
		p.late++
	}
	ln.octets, ln.tail = ln.octets+uint64(octets), uint64(octets)
	if !ln.Over {
		p.plan(ln)
	}
}

// Room is how many frames, at most n, the only line of a flat load still has;
// Skip takes n of them.
func (p *Pace) Room(n int) int {
	ln := &p.Lines[0]
	switch {
	case ln.Over:
		return 0
	case ln.total != 0:
		return int(min(uint64(n), ln.total-ln.k))
	}
	return n
}

// Skip takes n frames of the only line.
func (p *Pace) Skip(n int) {
	ln := &p.Lines[0]
	ln.k += uint64(n)
	ln.Over = ln.Over || ln.total != 0 && ln.k == ln.total
}

// behind says whether the line's next group is late if it begins at now.
func (p *Pace) behind(ln *line, now unit.Instant) bool {
	usual := p.step.times(p.group)
	if p.load.Rate == 0 {
		usual = max(ln.spacing, lateFloor)
	}
	return now-p.Origin-ln.release >= usual
}

// Stamp is what line i's next frame says of when it leaves, at now.
func (p *Pace) Stamp(i int, now unit.Instant) unit.Instant {
	ln := &p.Lines[i]
	if !p.Flat && (ln.left > 0 && ln.behind || ln.left == 0 && p.behind(ln, now)) {
		return frame.Late(now)
	}
	return now
}

// begin starts the line's next group at now.
func (p *Pace) begin(ln *line, now unit.Instant) {
	ln.behind = p.behind(ln, now)
	if behind := now - p.Origin - ln.release; behind > 0 && p.load.Late == engine.Shift {
		p.Origin += behind
	}
	if p.load.Speed == 0 || ln.spacing > 0 || ln.k == 1 { // else due with the one before it: what sending takes is no gap
		ln.went = now
	}
	ln.left = p.group
}

// plan finds when frame k is due. With Speed, Captured says so.
func (p *Pace) plan(ln *line) {
	if p.Flat || p.load.Speed > 0 {
		return
	}
	due := ln.phase
	switch {
	case p.load.Bits > 0:
		due += p.step.times(ln.octets)
	case p.load.Pattern == engine.Poisson:
		ln.at += p.arrival(ln)
		due += unit.Instant(ln.at)
	case p.load.Pattern == engine.Bursts:
		due += p.step.times(ln.k / p.group * p.group)
	default:
		due += p.constant(ln.k)
	}
	p.set(ln, due)
}

func (p *Pace) set(ln *line, due unit.Instant) {
	ln.gap, ln.due = due-ln.due, due
	if ln.left > 0 {
		return
	}
	release := due
	if p.group > 1 && p.load.Pattern == engine.Constant { // with its last frame
		last := ln.k + p.group - 1
		if ln.total > 0 {
			last = min(last, ln.total-1)
		}
		release = ln.phase + p.constant(last)
	}
	ln.spacing, ln.release = release-ln.release, release
}

// constant is when frame k of a constant rate is due, or of two.
func (p *Pace) constant(k uint64) unit.Instant {
	if p.turns > 0 && k > p.turns {
		return p.step.times(p.turns) + p.then.times(k-p.turns)
	}
	return p.step.times(k)
}

// arrival is the time from the last arrival to the next, ns: of m that are still
// to come at random in the time that is left, the earliest.
func (p *Pace) arrival(ln *line) float64 {
	e := ln.chance.ExpFloat64()
	if ln.total == 0 {
		return e * p.mean
	}
	end := float64(ln.total) * p.mean
	if p.load.Duration > 0 {
		end = min(end, float64(p.load.Duration))
	}
	return -math.Expm1(-e/float64(ln.total-ln.k)) * (end - ln.at)
}

// Captured says that the next frame of line i, which a source of Load.Speed has
// at ns after the first of the pass, is due then.
func (p *Pace) Captured(i int, at uint64) {
	if p.load.Speed == 0 {
		return
	}
	ln := &p.Lines[i]
	after := min(float64(at)/p.load.Speed, 1<<62)
	if ln.k == 0 { // a source may begin in the middle of a pass
		ln.start = -after
	}
	ln.at = max(ln.start+after, ln.at)
	p.set(ln, unit.Instant(ln.at))
}

// Turn has the source of line i go on to its next window, as feed.Turn does, and the
// schedule follow it.
func (p *Pace) Turn(i int, f *feed.Feed, stop <-chan struct{}, most time.Duration) error {
	turned, wraps, err := f.Turn(stop, most)
	if err != nil {
		return err
	}
	if wraps {
		p.wrap(i)
	}
	switch turned {
	case feed.Over:
		p.Lines[i].Over = true
	case feed.More:
		p.Captured(i, f.Entry().At)
	}
	return nil
}

// wrap says that the source of line i begins its next pass.
func (p *Pace) wrap(i int) {
	ln := &p.Lines[i]
	ln.start = ln.at + passGap(ln.at-ln.start, ln.k-ln.passed)
	ln.passed = ln.k
}

// passGap is the time from the last frame of a pass to the first of the next, ns:
// the mean gap of the n frames, which took so long. A pass that took no time has
// none and is followed after a millisecond.
func passGap(took float64, n uint64) float64 {
	if took <= 0 || n < 2 {
		return float64(time.Millisecond)
	}
	return took / float64(n-1)
}

func (c *gapCounts) count(ln *line, now unit.Instant, paced bool) {
	if ln.k > 0 {
		gap := now - c.left
		c.gaps[bucket.Of(uint64(max(gap, 0)))]++
		if paced {
			c.errors[bucket.Of(uint64(max(gap-ln.gap, ln.gap-gap)))]++
		}
	}
	c.left = now
}

// Tick tells of the clock after work that should have taken busy: more than
// StallFloor beyond it was a stall, and tick says so.
func (p *Pace) Tick(now unit.Instant, busy time.Duration) bool {
	stood := time.Duration(now-p.Seen) - busy
	p.Seen = now
	if stood <= engine.StallFloor {
		return false
	}
	p.stalls++
	p.longestStall = max(p.longestStall, stood)
	return true
}

// Settle fills in what the schedule knows of stream i's report, which has
// Accepted, Refused, Passes, First and Last.
func (p *Pace) Settle(i int, s engine.Stream, r *engine.TxReport) {
	ln := &p.Lines[i]
	l := p.load
	r.Intended = l.Frames(s)
	switch {
	case ln.Over:
		r.Intended = ln.k
	case l.Duration > 0 && (l.Bits > 0 || l.Speed > 0):
		due := ln.k + ln.missing(unit.Instant(l.Duration))
		if r.Intended == 0 || due < r.Intended {
			r.Intended = due
		}
	}
	if sent := r.Accepted + r.Refused; r.Intended > sent {
		r.NotSent = r.Intended - sent
	}
	r.Changed = p.changed
	r.Late, r.Stalls, r.LongestStall = p.late, p.stalls, p.longestStall
	if l.Bits > 0 {
		r.Tail = time.Duration(p.step.times(ln.tail))
	}
	r.Offered = Offered(l, *r)
	r.Peak = Peak(l, *r)
	if ln.Gaps != nil {
		r.Gaps = bucket.Histogram(ln.Gaps.gaps[:])
		if !p.Flat {
			r.GapErrors = bucket.Histogram(ln.Gaps.errors[:])
		}
	}
}

// missing is how many frames from k on were due before end, if they come as
// those before did.
func (ln *line) missing(end unit.Instant) uint64 {
	if ln.due >= end {
		return 0
	}
	if ln.k == 0 || ln.due == 0 {
		return 1
	}
	mean := float64(ln.due) / float64(ln.k)
	return uint64(math.Ceil(float64(end-ln.due) / mean))
}
