// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/bucket"
	"boxdyno/engine/internal/pace"
	"boxdyno/frame"
	"boxdyno/result"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
)

// Patterns of ../internal/bpf/pace.h.
const (
	paceConstant = iota
	pacePoisson
	paceBursts
	paceOctets
	paceCaptured
)

const poissonGaps = 4096

// A Pace is what the schedule in a program is specialized for.
type Pace struct {
	paced, shift, gaps bool
	pattern, burst     uint32
	slip               uint64
	scripted           bool // tests: the clock is the variable script_now
}

// A Schedule is that of a load, as the programs keep it (../internal/bpf/pace.h).
type Schedule struct {
	Pace
	start senderSchedule
	rate  float64 // frame/s of each stream in the mean; 0: flat out, or not known
	load  engine.Load
	batch int // program runs between two flushes of the port's queue
}

// flatFlush is flushFor flat out.
const flatFlush = 128

// unevenFlush is flushFor of frames at uneven gaps, where a lone flush for each of a
// cluster would fall behind: at 300 kframe/s it does while the receiver's CPU is busy,
// on a virtual machine in every cluster.
const (
	unevenFlush = 16
	unevenRate  = 100e3 // of each stream, above which even frames that leave alone share one
)

// slip is what frames that leave alone may fall behind without losing it, where several
// share a flush; others may fall behind by moderation.
const slip = 5 * time.Microsecond

func slipFor(l engine.Load) uint64 {
	if l.Alone {
		return uint64(slip) << 16
	}
	return uint64(pace.Moderation) << 16
}

// flushFor is how many program runs one flush may wait for where frames leave
// when they are due: a run that sends nothing takes 60 ns, a flush 150.
func flushFor(rate float64) int {
	switch {
	case rate <= 1.5e6:
		return 1
	case rate <= 4e6:
		return 16
	}
	return 64
}

// NewSchedule is that of l for n streams, the first of which is id. size is the mean frame, octets with
// FCS; own is the rate of a timed source's frames by its own times; either is 0
// where it is not known.
func NewSchedule(l engine.Load, n int, id uint16, size, own float64) (*Schedule, error) {
	sc := &Schedule{
		load:  l,
		Pace:  Pace{paced: l.Paced(), shift: l.Late == engine.Shift, gaps: l.Gaps, burst: 1},
		start: senderSchedule{Duration: uint64(l.Duration), Count: l.Count * uint64(n), Chance: frame.DrawState(l.Seed, id, -1)},
		batch: flatFlush,
	}
	lanes := float64(n)
	switch {
	case !sc.paced:
		return sc, nil
	case l.Bits > 0:
		sc.pattern = paceOctets
		octet := 8e9 * 65536 / (float64(l.Bits) * lanes)
		sc.start.Down = uint64(max(0, min(24, 49-math.Ilogb(octet))))
		sc.start.Factor = uint64(math.Round(math.Ldexp(octet, int(sc.start.Down))))
		if size > 0 {
			sc.rate = float64(l.Bits) / 8 / size
		}
	case l.Speed > 0:
		sc.pattern = paceCaptured
		factor := 65536 / l.Speed
		sc.start.Down = uint64(31 - math.Ilogb(factor))
		sc.start.Factor = uint64(math.Round(math.Ldexp(factor, int(sc.start.Down))))
		sc.rate = own * l.Speed
	default:
		sc.rate = float64(l.Rate)
		sc.start.Interval = uint64(math.Round(1e9 * 65536 / (sc.rate * lanes)))
	}
	if l.Then > 0 {
		sc.start.Then = uint64(math.Round(1e9 * 65536 / (float64(l.Then) * lanes)))
		sc.start.ThenAt = uint64(l.After) << 16
	}
	uneven := sc.pattern == paceCaptured || sc.pattern == paceOctets
	if sc.batch = flushFor(sc.rate * lanes); uneven && (!l.Alone || sc.rate > unevenRate) {
		sc.batch = max(sc.batch, unevenFlush)
	}
	if sc.batch > 1 && !sc.shift {
		sc.slip = slipFor(l)
	}
	switch {
	case l.Pattern == engine.Bursts:
		sc.pattern, sc.burst = paceBursts, uint32(l.Burst*n)
		sc.batch, sc.slip = min(l.Burst*n, 64), 0
	case l.Pattern == engine.Poisson && n > 1:
		return nil, errors.New("transmit: pattern poisson needs a transmitter of its own for each stream on backend xdp")
	case l.Pattern == engine.Poisson:
		sc.pattern = pacePoisson
	case sc.pattern == paceConstant && !l.Alone:
		sc.burst = uint32(pace.Burst(l, n))
		sc.batch, sc.slip = int(sc.burst), 0
		sc.start.Due = sc.start.Interval * uint64(sc.burst-1)
	}
	return sc, nil
}

// flushTogether has n frames that are due at once share a flush: one by one each may
// wake the receiver's CPU, which takes a sender some us where that CPU is busy.
func (sc *Schedule) flushTogether(l engine.Load, n int) {
	const most = 64
	if n = min(n, most); n <= sc.batch {
		return
	}
	sc.batch = n
	if !sc.shift {
		sc.slip = slipFor(l)
	}
}

// poissonTable is the quantiles of exponential gaps; their mean is the interval,
// exactly.
func poissonTable(interval uint64) *[poissonGaps]uint64 {
	var t [poissonGaps]uint64
	sum := 0.0
	for i := range t {
		sum += -math.Log1p(-(float64(i) + 0.5) / poissonGaps)
	}
	left := interval * poissonGaps
	for i := range t {
		t[i] = uint64(-math.Log1p(-(float64(i)+0.5)/poissonGaps) / sum * float64(interval) * poissonGaps)
		t[i] = min(t[i], left)
		left -= t[i]
	}
	t[poissonGaps-1] += left
	return &t
}

// Specialize sets the schedule's constants before a program is loaded.
func (k Pace) Specialize(spec *ebpf.CollectionSpec) error {
	return setVariables(spec, map[string]any{
		senderVarPaced: k.paced, senderVarPattern: k.pattern, senderVarBurst: k.burst,
		senderVarShift: k.shift, senderVarSlip: k.slip, senderVarGaps: k.gaps, senderVarScripted: k.scripted,
	})
}

func setVariables(spec *ebpf.CollectionSpec, values map[string]any) error {
	for name, v := range values {
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("set the sender's %s: %w", name, err)
		}
	}
	return nil
}

// set writes the schedule into a loaded program.
func (sc *Schedule) set(coll *ebpf.Collection) error {
	err := coll.Variables[senderVarSched].Set(&sc.start)
	if sc.pattern == pacePoisson {
		err = errors.Join(err, coll.Variables[senderVarPoissonGaps].Set(poissonTable(sc.start.Interval)))
	}
	if sc.gaps {
		err = errors.Join(err,
			coll.Variables[senderVarGapCounts].Set(&[bucket.Count]uint64{}),
			coll.Variables[senderVarGapErrors].Set(&[bucket.Count]uint64{}))
	}
	if err != nil {
		return fmt.Errorf("set up the sender's schedule: %w", err)
	}
	return nil
}

// Expected is about how long the load takes where each stream has so many
// frames (0: not known); 0: not known.
func (sc *Schedule) Expected(l engine.Load, frames uint64) time.Duration {
	if frames == 0 || l.Then > 0 {
		return l.Duration
	}
	if sc.rate == 0 {
		return 0
	}
	d := time.Duration(min(float64(frames)/sc.rate, engine.MaxDuration.Seconds()) * float64(time.Second))
	if l.Duration > 0 {
		d = min(d, l.Duration)
	}
	return d
}

// due is how many frames of stream i of n the schedule had within the duration;
// 0 where no time was set. With patterns whose gaps vary, those that were never
// reached are estimated by the mean gap so far.
func (sc *Schedule) due(s *senderSchedule, i, n int) uint64 {
	if !sc.paced || s.Duration == 0 {
		return 0
	}
	var all uint64
	switch sc.pattern {
	case paceConstant:
		all = ceilTime(s.Duration, sc.start.Interval)
		if sc.start.Then > 0 {
			first := sc.start.ThenAt >> 16 // ns
			all = ceilTime(first, sc.start.Interval) + ceilTime(s.Duration-first, sc.start.Then)
		}
	case paceBursts:
		all = uint64(sc.burst) * ceilTime(s.Duration, s.Interval*uint64(sc.burst))
	default:
		all = s.Sent
		// How far the schedule as it was asked for had come; all of these wrap.
		behind := float64(int64(s.Duration<<16 - (s.Due - s.Moved)))
		if reached := float64(s.Duration)*65536 - behind; s.Sent > 0 && reached > 0 && behind > 0 {
			all += 1 + uint64(behind/reached*float64(s.Sent))
		}
	}
	streams := uint64(n)
	return (all + streams - 1 - uint64(i)) / streams
}

// ceilTime is how many intervals of 1/65536 ns begin within ns.
func ceilTime(ns, interval uint64) uint64 {
	hi, lo := bits.Mul64(ns, 1<<16)
	lo, carry := bits.Add64(lo, interval-1, 0)
	if hi += carry; hi >= interval {
		return math.MaxUint64
	}
	n, _ := bits.Div64(hi, lo, interval)
	return n
}

// Sent is what a program did for one stream.
type Sent struct {
	Issued, Refused, Octets uint64 // octets of those issued, with FCS
	passes, starved         uint64
	First, Last             unit.Instant
}

// Report is that of stream i of n, once p has sent. Standstills, late frames and gaps
// are the whole sender's.
func (sc *Schedule) Report(p *Program, l engine.Load, stream engine.Stream, i, n int, did Sent) (engine.TxReport, error) {
	s, err := p.state()
	if err != nil {
		return engine.TxReport{Stream: stream.ID}, err
	}
	if did.Refused > did.Issued {
		return engine.TxReport{Stream: stream.ID}, fmt.Errorf("%d frames of stream %d were sent and %d were refused: how many the port accepted is not known", did.Issued, stream.ID, did.Refused)
	}
	r := engine.TxReport{
		Stream: stream.ID, Refused: did.Refused, Accepted: did.Issued - did.Refused, Batch: sc.batch,
		First: did.First, Last: did.Last,
		Changed: unit.Instant(s.Changed),
		Late:    s.Late, Stalls: s.Stalls, LongestStall: time.Duration(s.LongestStall),
		Passes: did.passes, Starved: did.starved,
	}
	if did.Issued > 0 {
		// Refused frames are taken to be as long as the others: their lengths are not known.
		r.Octets = uint64(math.Round(float64(did.Octets) / float64(did.Issued) * float64(r.Accepted)))
	}
	if did.Refused == 0 {
		r.Octets = did.Octets
	}
	l2 := l
	l2.Duration = 0
	r.Intended = l2.Frames(stream)
	if due := sc.due(&s, i, n); due > 0 && (r.Intended == 0 || due < r.Intended) {
		r.Intended = due
	}
	if l.Passes > 0 && did.passes >= l.Passes {
		r.Intended = did.Issued
	}
	if r.Intended > did.Issued {
		r.NotSent = r.Intended - did.Issued
	}
	if sc.pattern == paceOctets {
		r.Tail = time.Duration(s.Gap >> 16 * uint64(n)) // the schedule is that of n streams together
	}
	if sc.paced {
		r.Offered = pace.Offered(l, r)
	} else {
		// The clock is read every 64 frames only: lanes have the load's span.
		r.First, r.Last = unit.Instant(s.Origin), unit.Instant(s.Now)
		r.Offered = unit.RateOver(r.Accepted+1, r.First, r.Last)
	}
	r.Peak = pace.Peak(l, r)
	if !sc.gaps {
		return r, nil
	}
	if r.Gaps, err = readHistogram(p.Coll, senderVarGapCounts); err == nil && sc.paced {
		r.GapErrors, err = readHistogram(p.Coll, senderVarGapErrors)
	}
	return r, err
}

func readHistogram(coll *ebpf.Collection, name string) (*result.Histogram, error) {
	var counts [bucket.Count]uint64
	if err := coll.Variables[name].Get(&counts); err != nil {
		return nil, fmt.Errorf("read the sender's %s: %w", name, err)
	}
	return bucket.Histogram(counts[:]), nil
}
