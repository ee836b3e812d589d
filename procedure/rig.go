// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"errors"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

// A rig is what the trials of one point share: streams, an open transmitter,
// meters and paths. One trial goes
//
//	meters armed -> Book.Begin -> Transmit -> settle, Book.Balance (reads the meters) -> Outcome
type rig struct {
	bed     *lab.Testbed
	backend string
	mean    float64 // frame size, octets with FCS
	streams []engine.Stream
	tx      engine.Transmitter
	meters  []engine.Meter // one a receiving port
	to      []int          // the ports they are on
	arms    [][]uint16     // streams that each meter counts
	paths   []ledger.Path
	book    *ledger.Book
	foreign bool              // frames without a signature are the load's, too
	lead    []engine.TxReport // of the trial's ramp
}

// A way is one stream's: from one port to another.
type way struct {
	from, to int
	frames   frame.Spec
}

// A rigSpec is what a rig is opened for.
type rigSpec struct {
	ports  []lab.Port // bed.Ports or bed.Loop
	loop   bool       // it is bed.Loop
	mix    frame.Mix
	ways   []way         // stream i+1 goes way i
	settle time.Duration // least wait after traffic before counters are read
	drops  bool          // the DUT is told to throw frames away
}

func newRig(ctx context.Context, bed *lab.Testbed, s rigSpec) (_ *rig, err error) {
	r := &rig{bed: bed, backend: bed.Engine.Name(), mean: s.mix.Mean()}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	// A lane for every port, so that answers' flows can be opened from the other side.
	lanes := make([]host.Port, len(s.ports))
	for i, p := range s.ports {
		lanes[i] = p.Port
	}
	for i, w := range s.ways {
		id := uint16(i + 1)
		r.streams = append(r.streams, engine.Stream{ID: id, Frames: w.frames, Lane: w.from})
		if j := slices.Index(r.to, w.to); j >= 0 { // from the same port: there are two
			r.arms[j] = append(r.arms[j], id)
			continue
		}
		r.paths = append(r.paths, bed.Path(w.from, w.to, s.loop))
		m, err := bed.Engine.OpenMeter(ctx, s.ports[w.to].Port)
		if err != nil {
			return nil, err
		}
		r.meters, r.to = append(r.meters, m), append(r.to, w.to)
		r.arms = append(r.arms, []uint16{id})
	}
	if r.tx, err = bed.Engine.OpenTransmitter(ctx, lanes, bed.TesterCPU); err != nil {
		return nil, err
	}
	open := ledger.Open
	if s.drops {
		open = ledger.OpenBare
	}
	if r.book, err = open(r.paths, bed.Sources...); err == nil {
		r.book.Settle, r.book.Virtual = s.settle, bed.Kind == "memory"
	}
	return r, err
}

// meterAt is the meter on port i, nil where the rig has none.
func (r *rig) meterAt(i int) engine.Meter {
	if n := slices.Index(r.to, i); n >= 0 {
		return r.meters[n]
	}
	return nil
}

// Close may be called more than once.
func (r *rig) Close() error {
	var err error
	defer func() { *r = rig{} }()
	if r.book != nil {
		r.book.Close()
	}
	if r.tx != nil {
		err = r.tx.Close()
	}
	for _, m := range r.meters {
		err = errors.Join(err, m.Close())
	}
	return err
}

// trial offers l and accounts for every frame of it. The verdict is left to
// verdict.Validity.
func (r *rig) trial(ctx context.Context, l engine.Load, timing bool) (Outcome, error) {
	o, _, _, err := r.offer(ctx, l, timing)
	return o, err
}

// offer is trial with what the tester's ends reported.
func (r *rig) offer(ctx context.Context, l engine.Load, timing bool) (Outcome, []engine.TxReport, []engine.MeterReport, error) {
	return r.account(ctx, timing, func(ctx context.Context) (engine.Load, []engine.TxReport, error) {
		sent, err := r.tx.Transmit(ctx, l, r.streams...)
		return l, sent, err
	})
}

// account accounts for every frame that transmit sends, which says what load that
// was.
func (r *rig) account(ctx context.Context, timing bool, transmit func(context.Context) (engine.Load, []engine.TxReport, error)) (o Outcome, sent []engine.TxReport, seen []engine.MeterReport, err error) {
	r.lead = nil
	for i, m := range r.meters {
		if err := m.Arm(ctx, timing, r.arms[i]...); err != nil {
			return o, nil, nil, err
		}
	}
	if err := r.book.Begin(ctx); err != nil {
		return o, nil, nil, err
	}
	watch := watchTraffic(r.bed)
	l, sent, err := transmit(ctx)
	if err != nil {
		return o, nil, nil, err
	}
	watch.stop()
	books, err := r.book.Balance(ctx, func(ctx context.Context) (e ledger.Ends, err error) {
		seen = seen[:0]
		for _, m := range r.meters {
			rep, err := m.Read(ctx)
			if err != nil {
				return e, err
			}
			seen = append(seen, rep)
			e.LocalDrops += rep.Drops
			e.Unhanded += rep.Unhanded
			if r.foreign {
				e.Received += rep.Foreign
			}
			for _, s := range rep.Streams {
				e.Received += s.Frames + s.Broken
				e.Duplicate += s.Duplicate
			}
		}
		for _, t := range slices.Concat(r.lead, sent) {
			e.Intended += t.Intended
			e.Accepted += t.Accepted
			e.Refused += t.Refused
			e.NotSent += t.NotSent
		}
		return e, nil
	})
	if err != nil {
		return o, nil, nil, err
	}
	own, ramp := r.afterRamp(sent, seen)
	o = Outcome{Account: &books, Load: r.load(l, sent, own)}
	begin, end := span(sent)
	o.Load.Ramp = ramp
	o.Phases = []result.Phase{{Name: "traffic", Begin: begin, End: end}, {Name: "settle", Begin: end, End: unit.Now()}}
	watch.tell(ctx, &o, begin, end)
	return o, sent, seen, nil
}

func span(sent []engine.TxReport) (begin, end unit.Instant) {
	for i, t := range sent {
		if i == 0 || t.First < begin {
			begin = t.First
		}
		end = max(end, t.Last)
	}
	return begin, end
}

// leastFrames are the fewest of a stream that make a rate.
const leastFrames = 2

func (r *rig) load(l engine.Load, sent []engine.TxReport, seen []engine.MeterReport) *result.Load {
	out := &result.Load{
		MeanSize: r.mean, Streams: len(r.streams), Backend: r.backend,
		Intended: l.Mean() * unit.FrameRate(len(r.streams)),
	}
	few := false
	for _, t := range sent {
		few = few || t.Accepted < leastFrames
		out.Offered += t.Offered
		out.Peak += t.Peak
		out.Batch = t.Batch
		// Lanes share a schedule and a thread: each reports the same stalls.
		out.Late = max(out.Late, int64(t.Late))
		out.Stalls = max(out.Stalls, int64(t.Stalls))
		out.LongestStall = max(out.LongestStall, int64(t.LongestStall))
	}
	begin, end := span(sent)
	var frames uint64
	var late int64
	for _, m := range seen {
		if r.foreign {
			frames += m.Foreign
			end = max(end, m.Last)
		} else {
			out.Foreign += int64(m.Foreign)
		}
		out.MeterDrops += int64(m.Drops)
		for _, s := range m.Streams {
			frames += s.Frames - s.Duplicate
			end = max(end, s.Last)
			out.Reordered += int64(s.Reordered)
			out.Duplicate += int64(s.Duplicate)
			out.Broken += int64(s.Broken)
			late += int64(s.Late)
			out.Latency = merge(out.Latency, s.Latency)
			out.Gaps = merge(out.Gaps, s.Gaps)
		}
	}
	out.LateLost = max(0, out.Late-late) // a duplicate arrives twice
	if d := end - begin; d > 0 && !few {
		out.Forwarded = unit.FrameRate(float64(frames) * 1e9 / float64(d))
	}
	if rate, a := arrivals(l, sent, seen); a != nil && !r.foreign {
		out.Forwarded, out.Arrivals = rate, a
	}
	return out
}
