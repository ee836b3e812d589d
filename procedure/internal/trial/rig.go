// SPDX-License-Identifier: Apache-2.0

// Package trial is one trial of frames, and the points whose trials they are.
//
//	Point, Suite       what a box forwards: fill -> overload -> search -> the room's own trials
//	   |
//	Rig                one trial: meters armed -> books begun -> load -> settle -> account
//	   |
//	WatchTraffic       what the CPUs do meanwhile
//
// Beside them stand Traffic (parameters of frames and of the box's service), TesterCeiling
// (the tester alone), Filling (what a box without a course of arrivals does without end),
// and Came, LateFor, KeptOff (what a trial's record means to a search). Every room that
// offers frames is built of these.
package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/crew"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/ledger"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Rig is what the trials of one point share: streams, an open transmitter,
// meters and paths. One trial goes
//
//	meters armed -> Book.Begin -> Transmit -> settle, Book.Balance (reads the meters) -> Outcome
type Rig struct {
	env     *procedure.Env
	backend string
	mean    float64 // frame size, octets with FCS
	Streams []engine.Stream
	TX      engine.Transmitter
	Meters  []engine.Meter // one a receiving port
	to      []int          // the ports they are on
	Arms    [][]uint16     // streams that each meter counts
	Paths   []ledger.Path
	book    *ledger.Book
	Foreign bool         // frames without a signature are the load's, too
	Called  frame.Called // with RigSpec.Roll, what became of the last trial's frames
	roll    *frame.Roll
	lead    []engine.TxReport // of the trial's ramp
	cpus    []int             // that send
	alone   bool              // RigSpec.Alone
	box     bool              // RigSpec.Box
}

// A Way is one stream's: from one port to another.
type Way struct {
	From, To int
	Frames   frame.Spec
}

// A RigSpec is what a rig is opened for.
type RigSpec struct {
	Ports  []lab.Port // bed.Ports or bed.Loop
	Loop   bool       // it is bed.Loop
	Mix    frame.Mix
	Ways   []Way         // stream i+1 goes way i
	Settle time.Duration // least wait after traffic before counters are read
	Drops  bool          // the DUT is told to throw frames away
	Roll   *frame.Roll   // the frames are a capture's, that go one way; nil: they are signed
	Box    bool          // with Roll: the box counts them at its port behind the first of Ports, where they end

	Senders int  // CPUs that send together, as far as there are so many; 0 is 1
	Alone   bool // of several senders the first alone sends signed frames
}

// NewRig opens a rig, which needs the testbed's privileges. The caller closes it.
func NewRig(ctx context.Context, env *procedure.Env, s RigSpec) (_ *Rig, err error) {
	bed := env.Bed
	r := &Rig{env: env, backend: bed.Engine.Name(), roll: s.Roll, cpus: bed.SenderCPUs(max(s.Senders, 1)), alone: s.Alone, box: s.Box}
	if r.roll == nil {
		r.mean = s.Mix.Mean()
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	// A lane for every port, so that answers' flows can be opened from the other side.
	lanes := make([]host.Port, len(s.Ports))
	for i, p := range s.Ports {
		lanes[i] = p.Port
	}
	for i, w := range s.Ways {
		id := uint16(i + 1)
		r.Streams = append(r.Streams, engine.Stream{ID: id, Frames: w.Frames, Lane: w.From})
		if j := slices.Index(r.to, w.To); j >= 0 { // from the same port: there are two
			r.Arms[j] = append(r.Arms[j], id)
			continue
		}
		path := bed.Path(w.From, w.To, s.Loop)
		if r.box {
			if path, err = ToBox(bed); err != nil {
				return nil, err
			}
		}
		r.Paths = append(r.Paths, path)
		m, arms, err := r.openMeter(ctx, s.Ports[w.To].Port, id)
		if err != nil {
			return nil, err
		}
		r.Meters, r.to = append(r.Meters, m), append(r.to, w.To)
		r.Arms = append(r.Arms, arms)
	}
	if r.TX, err = crew.Open(ctx, bed.Engine, lanes, r.cpus); err != nil {
		return nil, err
	}
	open := ledger.Open
	if s.Drops {
		open = ledger.OpenBare
	}
	if r.book, err = open(r.Paths, bed.Sources...); err == nil {
		r.book.Settle, r.book.Virtual = s.Settle, bed.Kind == result.KindMemory
	}
	return r, err
}

// openMeter opens the meter of a port, which counts stream id, or a roll's frames.
func (r *Rig) openMeter(ctx context.Context, p host.Port, id uint16) (m engine.Meter, arms []uint16, err error) {
	if r.box {
		c, ok := r.env.Bed.Means.(lab.Caller)
		if !ok {
			return nil, nil, fmt.Errorf("topology %s: its box cannot tell frames of a capture apart", r.env.Bed.Topology)
		}
		m, err = c.OpenRoll(ctx, r.roll)
		return m, nil, err
	}
	if r.roll != nil {
		m, err = r.env.Bed.Engine.OpenRoll(ctx, p, r.roll)
		return m, nil, err
	}
	m, err = r.signed(ctx, p)
	return m, []uint16{id}, err
}

// signed opens a meter of signed frames.
func (r *Rig) signed(ctx context.Context, p host.Port) (engine.Meter, error) {
	m, err := r.env.Bed.Engine.OpenMeter(ctx, p)
	if err != nil {
		return nil, err
	}
	if r.alone {
		return m, nil
	}
	return crew.Meter(m, len(r.cpus)), nil
}

// meterAt is the meter on port i, nil where the rig has none.
func (r *Rig) meterAt(i int) engine.Meter {
	if n := slices.Index(r.to, i); n >= 0 {
		return r.Meters[n]
	}
	return nil
}

// Close may be called more than once.
func (r *Rig) Close() error {
	var err error
	defer func() { *r = Rig{} }()
	if r.book != nil {
		r.book.Close()
	}
	if r.TX != nil {
		err = r.TX.Close()
	}
	for _, m := range r.Meters {
		err = errors.Join(err, m.Close())
	}
	return err
}

// trial offers l and accounts for every frame of it. The verdict is left to
// verdict.Validity.
func (r *Rig) trial(ctx context.Context, l engine.Load, timing bool) (procedure.Outcome, error) {
	o, _, _, err := r.Offer(ctx, l, timing)
	return o, err
}

// Offer is trial with what the tester's ends reported.
func (r *Rig) Offer(ctx context.Context, l engine.Load, timing bool) (procedure.Outcome, []engine.TxReport, []engine.MeterReport, error) {
	return r.Account(ctx, timing, func(ctx context.Context) (engine.Load, []engine.TxReport, error) {
		sent, err := r.TX.Transmit(ctx, l, r.Streams...)
		return l, sent, err
	})
}

// Account accounts for every frame that transmit sends, which says what load that
// was.
func (r *Rig) Account(ctx context.Context, timing bool, transmit func(context.Context) (engine.Load, []engine.TxReport, error)) (o procedure.Outcome, sent []engine.TxReport, seen []engine.MeterReport, err error) {
	r.lead = nil
	for i, m := range r.Meters {
		if err := m.Arm(ctx, timing, r.Arms[i]...); err != nil {
			return o, nil, nil, err
		}
	}
	before, err := r.taken()
	if err != nil {
		return o, nil, nil, err
	}
	if err := r.book.Begin(ctx); err != nil {
		return o, nil, nil, err
	}
	if err := r.env.Await(ctx); err != nil {
		return o, nil, nil, err
	}
	watch := WatchTraffic(r.env, r.cpus...)
	l, sent, err := transmit(ctx)
	watch.Stop()
	if err != nil {
		return o, nil, nil, err
	}
	books, err := r.book.Balance(ctx, func(ctx context.Context) (e ledger.Ends, err error) {
		seen = seen[:0]
		for _, m := range r.Meters {
			rep, err := m.Read(ctx)
			if err != nil {
				return e, err
			}
			seen = append(seen, rep)
			e.LocalDrops += rep.Drops
			e.Unhanded += rep.Unhanded
			if r.Foreign {
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
		if r.roll != nil {
			shares := []uint64{e.Accepted}
			if len(sent) == 1 && sent[0].Shares != nil {
				shares = sent[0].Shares
			}
			r.Called = r.roll.Call(*seen[0].Roll, shares...)
			e.Received += r.Called.Received + r.Called.Altered + r.Called.Duplicated
			e.Duplicate += r.Called.Duplicated
		}
		return e, nil
	})
	if err != nil {
		return o, nil, nil, err
	}
	if taken, err := r.taken(); err != nil {
		return o, nil, nil, err
	} else if r.box {
		lessXDP(&books, int64(taken-before))
	}
	if r.box { // a program that counts behind the driver is behind its backlog, too
		EndAt(&books, result.Softnet, "the box's port")
	}
	if r.env.Bed.Arm {
		betweenBoards(&books)
	}
	own, ramp := r.afterRamp(sent, seen)
	o = procedure.Outcome{Account: &books, Load: r.load(l, sent, own)}
	begin, end := span(sent)
	o.Load.Ramp = ramp
	o.Phases = []result.Phase{{Name: "traffic", Begin: begin, End: end}, {Name: "settle", Begin: end, End: unit.Now()}}
	watch.Tell(ctx, &o, begin, end)
	return o, sent, seen, nil
}

// ToBox is the path from the tester's first port to the box's port behind it.
func ToBox(bed *lab.Testbed) (ledger.Path, error) {
	path := bed.Path(0, min(1, len(bed.Ports)-1), false)
	if len(path.Hops) < 2 || path.Hops[1].Place != result.DUTNIC {
		return path, fmt.Errorf("topology %s: there is no port of the DUT behind the tester's", bed.Topology)
	}
	path.Hops = path.Hops[:2]
	path.Name = path.Hops[0].Port.Name + "-to-" + path.Hops[1].Port.Name
	return path, nil
}

// taken is how many frames the program of a meter on this machine has taken off its port.
func (r *Rig) taken() (n uint64, err error) {
	if len(r.Meters) > 0 {
		if m, ok := r.Meters[0].(interface{ Taken() (uint64, error) }); ok {
			return m.Taken()
		}
	}
	return 0, nil
}

// lessXDP takes n frames that a meter's program took out of what the driver's XDP has dropped,
// if it counts them.
func lessXDP(a *result.Account, n int64) {
	i := slices.IndexFunc(a.Drops, func(t result.Term) bool { return t.Place == result.XDP && t.Name == ledger.XDPDrop })
	if i < 0 {
		return
	}
	if a.Drops[i].N -= n; a.Drops[i].N == 0 {
		a.Drops = slices.Delete(a.Drops, i, i+1)
	}
}

// EndAt makes a the account as far as a place of the box, where frames were counted: what ended
// behind it is a checkpoint.
func EndAt(a *result.Account, last result.Place, where string) {
	var before []result.Term
	for _, t := range a.Drops {
		if slices.Index(result.Places, t.Place) <= slices.Index(result.Places, last) {
			before = append(before, t)
		} else {
			t.Name = "after " + where + ": " + t.Name
			a.Passed = append(a.Passed, t)
		}
	}
	a.Drops = before
	a.Unexplained = a.Accepted - a.Received - a.Dropped() - a.InFlight
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

// sure is how many times the error of a box's clock a time is at least that is told by it and
// by the tester's.
const sure = 10

// vague says whether a time from the tester's clock to the meter's is not known well enough.
func (r *Rig) vague(d unit.Instant) bool {
	m, ok := r.Meters[0].(interface{ ClockError() time.Duration })
	return ok && time.Duration(d) < sure*m.ClockError()
}

// leastFrames are the fewest of a stream that make a rate.
const leastFrames = 2

func (r *Rig) load(l engine.Load, sent []engine.TxReport, seen []engine.MeterReport) *result.Load {
	out := &result.Load{
		MeanSize: r.mean, Streams: len(r.Streams), Backend: r.backend,
		Intended: l.Mean() * unit.FrameRate(len(r.Streams)),
	}
	few, octets, accepted := false, uint64(0), uint64(0)
	for _, t := range sent {
		octets, accepted = octets+t.Octets, accepted+t.Accepted
		few = few || t.Accepted < leastFrames
		out.Offered += t.Offered
		out.Peak += t.Peak
		out.Batch = t.Batch
		// Lanes share a schedule and a thread: each reports the same stalls.
		out.Late = max(out.Late, int64(t.Late))
		out.Stalls = max(out.Stalls, int64(t.Stalls))
		out.LongestStall = max(out.LongestStall, int64(t.LongestStall))
	}
	if r.roll != nil {
		out.MeanSize = float64(octets) / float64(max(accepted, 1))
	}
	begin, end := span(sent)
	var frames uint64
	var late int64
	for _, m := range seen {
		if r.Foreign {
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
			out.Latency = result.Merge(out.Latency, s.Latency)
			out.Gaps = result.Merge(out.Gaps, s.Gaps)
		}
	}
	if r.roll != nil {
		c := r.Called
		frames, out.Duplicate, out.Broken, out.Foreign = c.Received+c.Altered, int64(c.Duplicated), int64(c.Altered), int64(c.Foreign)
		end = max(end, seen[0].Last)
		few = few || r.vague(end-begin)
	} else {
		out.LateLost = max(0, out.Late-late) // a duplicate arrives twice
	}
	if d := end - begin; d > 0 && !few {
		out.Forwarded = unit.FrameRate(float64(frames) * 1e9 / float64(d))
	}
	if rate, a := arrivals(l, sent, seen); a != nil && !r.Foreign {
		out.Forwarded, out.Arrivals = rate, a
	}
	return out
}
