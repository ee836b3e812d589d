// SPDX-License-Identifier: Apache-2.0

// Package crew has several senders, each on a CPU of its own, offer one load together.
//
//	Load, Streams --Split--> a share each --> Transmit of each sender --Join--> a report a stream
//	                                            begin at one instant (engine.Start)
//	  meter: armed for every share of a stream --> one report a stream
//
// A share has its part of the stream's flows, and the part of the load that belongs to them.
// So every flow keeps its rate, and the order of its frames. Of a stream with fewer flows
// than senders, some flows come from several senders. A source is divided beforehand
// (Stream.Parts): each sender has a part of its own, and what belongs to that of the load.
package crew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/pace"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/result"
	"boxdyno/unit"
)

// Most senders offer a load together: a meter tells the shares of two streams of each apart.
const Most = engine.MaxStreams / 2

// step is between the numbers of a stream's shares. Streams of a load are less than that.
const step = 1 << 8

// shareID is the number that share i of stream id has on the wire.
func shareID(id uint16, i int) uint16 { return id + uint16(i*step) }

// A Share is what one sender offers of a load.
type Share struct {
	Sender  int
	Load    engine.Load
	Streams []engine.Stream
	first   time.Duration // engine.Part.First
}

// Split divides a load of streams among n senders. One whose share is no frame is left out.
// Several senders cannot send a source but in parts, of which the first stream's divide the
// load.
func Split(l engine.Load, streams []engine.Stream, n int) (shares []Share, err error) {
	if n == 1 {
		return []Share{{Load: l, Streams: streams}}, nil
	}
	for i := range n {
		s := Share{Sender: i, Load: l}
		for k, st := range streams {
			if st.Source != nil || len(st.Parts) > 0 && len(st.Parts) != n {
				return nil, fmt.Errorf("transmit: stream %d has a source, which %d senders cannot share but in as many parts", st.ID, n)
			}
			var of weight
			if len(st.Parts) > 0 {
				of, st.Source, s.first = ofPart(st.Parts, i, l.Bits > 0), st.Parts[i].Source, st.Parts[i].First
				st.Parts = nil
			} else {
				st.Frames, of = cut(st.Frames, i, n)
			}
			st.ID = shareID(st.ID, i)
			s.Streams = append(s.Streams, st)
			if k == 0 {
				s.Load = weigh(l, of)
			}
		}
		if l.Count == 0 || s.Load.Count > 0 {
			shares = append(shares, s)
		}
	}
	for i := range shares {
		l := &shares[i].Load
		l.Phase = phase(*l, i, len(shares))
		if l.Speed > 0 { // a part begins when the first of its frames is due
			l.Phase = time.Duration(float64(shares[i].first) / l.Speed)
		}
		if l.Duration > 0 { // all end together
			l.Duration = max(l.Duration-l.Phase, 0)
		}
	}
	late := func(s Share) bool { return l.Duration > 0 && s.Load.Duration == 0 }
	return slices.DeleteFunc(shares, late), nil
}

// A weight is the part from one fraction of a whole to another.
type weight struct{ from, to, of uint64 }

func (w weight) of64() float64 { return float64(w.to-w.from) / float64(w.of) }

// times is the weight's part of n. The parts of all shares together are n.
func (w weight) times(n uint64) uint64 {
	upTo := func(k uint64) uint64 { // without overflow up to 4e9 flows or frames
		whole, rest := n/w.of, n%w.of
		return whole*k + rest*k/w.of
	}
	return upTo(w.to) - upTo(w.from)
}

// cut is part i of n of a spec's flows.
func cut(s frame.Spec, i, n int) (frame.Spec, weight) {
	flows := s.Flows
	if flows < n { // some come from several senders, beside each other: so times deals each its part of a count
		s.First, s.Flows = s.First+i*flows/n, 1
		return s, share(i, n)
	}
	from, to := i*flows/n, (i+1)*flows/n
	s.First, s.Flows = s.First+from, to-from
	return s, weight{uint64(from), uint64(to), uint64(flows)}
}

// share is part i of n equal ones.
func share(i, n int) weight { return weight{uint64(i), uint64(i + 1), uint64(n)} }

// ofPart is the weight of part i by its frames or octets, where they are known.
func ofPart(parts []engine.Part, i int, octets bool) weight {
	var w weight
	for k, p := range parts {
		n := p.Frames
		if octets {
			n = p.Octets
		}
		if n == 0 {
			return share(i, len(parts))
		}
		if k == i {
			w.from, w.to = w.of, w.of+n
		}
		w.of += n
	}
	return w
}

// PartEvenness is Evenness of parts of a source.
func PartEvenness(parts []engine.Part) float64 {
	most := 0.0
	for i := range parts {
		most = max(most, ofPart(parts, i, false).of64())
	}
	if most == 0 {
		return 1
	}
	return 1 / (float64(len(parts)) * most)
}

// Evenness is the part of n senders' ceilings together that they reach with flows: the one
// with the most flows is at its own first. 1: each has as many.
func Evenness(flows, n int) float64 {
	most := 0.0
	for i := range n {
		_, w := cut(frame.Spec{Flows: flows}, i, n)
		most = max(most, w.of64())
	}
	return 1 / (float64(n) * most)
}

func weigh(l engine.Load, w weight) engine.Load {
	part := w.of64()
	l.Rate *= unit.FrameRate(part)
	l.Then *= unit.FrameRate(part)
	l.Bits *= unit.BitRate(part)
	l.Count = w.times(l.Count)
	return l
}

// phase spreads the times at which n senders send over what is between two of one's own.
func phase(l engine.Load, i, n int) time.Duration {
	if l.Rate == 0 || l.Then > 0 { // whose rates change at one instant
		return 0
	}
	group := 1
	switch l.Pattern {
	case engine.Bursts:
		group = l.Burst
	case engine.Constant:
		group = pace.Burst(l, 1)
	}
	return time.Duration(float64(group) / float64(l.Rate) * 1e9 * float64(i) / float64(n))
}

// Join is what the senders of each stream reported together: reports[i][k] is of stream k.
func Join(streams []engine.Stream, reports [][]engine.TxReport) []engine.TxReport {
	if len(reports) == 1 && len(reports[0]) == len(streams) && (len(streams) == 0 || reports[0][0].Stream == streams[0].ID && len(streams[0].Parts) == 0) {
		return reports[0] // not of a share with a number of its own
	}
	var all []engine.TxReport
	for k, st := range streams {
		sum := engine.TxReport{Stream: st.ID}
		if len(st.Parts) > 0 {
			sum.Shares = make([]uint64, len(st.Parts))
		}
		for _, of := range reports {
			if k < len(of) {
				join(&sum, of[k])
			}
		}
		if sum.Shares != nil { // they end one by one
			sum.Offered = unit.RateOver(sum.Accepted, sum.First, sum.Last+unit.Instant(sum.Tail))
		}
		all = append(all, sum)
	}
	return all
}

func join(sum *engine.TxReport, t engine.TxReport) {
	if sum.Shares != nil {
		sum.Shares[int(t.Stream-sum.Stream)/step] = t.Accepted + t.Refused
		if t.Stream == sum.Stream || t.Passes < sum.Passes {
			sum.Passes = t.Passes
		}
	}
	sum.Intended += t.Intended
	sum.Accepted += t.Accepted
	sum.Refused += t.Refused
	sum.NotSent += t.NotSent
	sum.Octets += t.Octets
	sum.Late += t.Late
	sum.Stalls += t.Stalls
	sum.Starved += t.Starved
	sum.Offered += t.Offered
	sum.Peak += t.Peak
	sum.LongestStall = max(sum.LongestStall, t.LongestStall)
	sum.First, sum.Last = unit.Earlier(sum.First, t.First), max(sum.Last, t.Last)
	sum.Tail = max(sum.Tail, t.Tail)
	sum.Changed = max(sum.Changed, t.Changed)
	sum.Batch = max(sum.Batch, t.Batch)
	sum.GapErrors = result.Merge(sum.GapErrors, t.GapErrors) // Gaps are between frames of one sender
}

// A crew is senders that offer loads together.
type crew []engine.Transmitter

// Open opens a sender on each of cpus (-1: any), with the same lanes.
func Open(ctx context.Context, b engine.Backend, lanes []host.Port, cpus []int) (engine.Transmitter, error) {
	if len(cpus) == 1 {
		return b.OpenTransmitter(ctx, lanes, cpus[0])
	}
	if len(cpus) == 0 || len(cpus) > Most {
		return nil, fmt.Errorf("open a transmitter: %d senders, want 1 to %d", len(cpus), Most)
	}
	if own, ok := b.(engine.Crewing); ok {
		return own.OpenCrew(ctx, lanes, len(cpus))
	}
	var c crew
	for _, cpu := range cpus {
		t, err := b.OpenTransmitter(ctx, lanes, cpu)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c = append(c, t)
	}
	return c, nil
}

func (c crew) Close() (err error) {
	for _, t := range c {
		err = errors.Join(err, t.Close())
	}
	return err
}

// Transmit implements engine.Transmitter. A sender that fails ends the others.
func (c crew) Transmit(ctx context.Context, l engine.Load, streams ...engine.Stream) ([]engine.TxReport, error) {
	shares, err := Split(l, streams, len(c))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := engine.NewStart(len(shares))
	reports := make([][]engine.TxReport, len(shares))
	var all guard.Group
	for i, s := range shares {
		s.Load.Start = start
		all.Go(func() {
			var err error
			if reports[i], err = c[s.Sender].Transmit(ctx, s.Load, s.Streams...); err != nil {
				cancel(err) // the first counts
			}
		})
	}
	all.Wait()
	return Join(streams, reports), context.Cause(ctx)
}

// Meter is m where n senders share each stream.
func Meter(m engine.Meter, n int) engine.Meter {
	if n == 1 {
		return m
	}
	return &meter{m, n}
}

type meter struct {
	engine.Meter
	n int
}

func (m *meter) Arm(ctx context.Context, timing bool, streams ...uint16) error {
	var shares []uint16
	for _, id := range streams {
		for i := range m.n {
			shares = append(shares, shareID(id, i))
		}
	}
	return m.Meter.Arm(ctx, timing, shares...)
}

func (m *meter) Read(ctx context.Context) (engine.MeterReport, error) {
	rep, err := m.Meter.Read(ctx)
	var all []engine.RxReport
	for shares := range slices.Chunk(rep.Streams, m.n) {
		all = append(all, seen(shares))
	}
	rep.Streams = all
	return rep, err
}

// seen is what a meter saw of a stream's shares. Gaps and bursts of one share say nothing of
// the stream, for frames of others come between.
func seen(shares []engine.RxReport) engine.RxReport {
	sum := engine.RxReport{Stream: shares[0].Stream}
	for _, r := range shares {
		sum.Frames += r.Frames
		sum.Octets += r.Octets
		sum.Reordered += r.Reordered
		sum.Duplicate += r.Duplicate
		sum.Late += r.Late
		sum.Broken += r.Broken
		sum.Span += r.Span
		sum.First, sum.Last = unit.Earlier(sum.First, r.First), max(sum.Last, r.Last)
		sum.Gap = max(sum.Gap, r.Gap)
		sum.Latency = result.Merge(sum.Latency, r.Latency)
		sum.IPDV = result.Merge(sum.IPDV, r.IPDV)
		sum.Runs = append(sum.Runs, r.Runs...)
	}
	sum.Rate = unit.RateOver(sum.Frames, sum.First, sum.Last)
	return sum
}
