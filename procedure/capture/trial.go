// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/internal/limit"
	"boxdyno/lab"
	"boxdyno/ledger"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/subject"
	"boxdyno/unit"
)

// A capturePoint is one subject at one load, or whose limit is searched. One trial:
//
//	p0 ====== lan | XDP > backlog > the subject's socket | IP: another host's, ended
//	          <- counters before the socket -> <- its own -> <- not the subject's loss ->
//
//	start -> ready -> probe frames until it counts -> Book.Begin
//	      -> traffic, its count read at 10 Hz -> drain: the count stands still
//	      -> Book.Balance -> stopped, its own drop counters -> account
//
// Frames carry the MAC address of nobody, as they do behind a mirror port: the DUT's IP
// layer ends each one, after the subject's socket has had its copy.
type capturePoint struct {
	*Capture
	env     *procedure.Env
	effort  captureEffort
	ceiling unit.FrameRate
	tx      engine.Transmitter
	iperf3  generator // in tx's place for a load; nil: tx sends it
	book    *ledger.Book
	dut     host.Port // that the subject listens to
	stream  engine.Stream
	emptied float64                    // CPU seconds a frame of the empty box at the load to come; below 0: not known
	around  around                     // of the latest trials
	lows    limit.Lows                 // by the trials of the search
	flooded []unit.FrameRate           // loads that lost a twentieth or more beyond doubt
	before  []search.Seen              // the descent's trials
	peak    unit.FrameRate             // the most that was counted in them
	made    map[engine.Load]overloaded // valid ones of the descent, and those that fill buffers
	failed  string                     // why no trial of the subject came about
	over    *overloading               // nil: not begun
	longer  *captureLonger             // nil: the search is not over
	out     procedure.Outcome
	opened  bool
	pause   func(ctx context.Context, found procedure.Outcome) error // rest

	mean     float64                                                                    // frame size, octets with FCS; 0: the mix's
	intended unit.FrameRate                                                             // of a load that gives no frame rate
	words    []result.Pair                                                              // the load in a trial's identity; nil: loadWords
	more     func(ctx context.Context, o *procedure.Outcome, run subject.Running) error // what else is known of a trial whose subject has ended; nil: nothing
}

// nobody is a MAC address that no port of the testbed has.
var nobody = [6]byte{0x02, 0xbd, 0, 0, 0, 0xff}

const (
	captureStream = 1
	probeStream   = 0xffff

	readyPatience = 90 * time.Second // subjects have less of their own
	probePause    = 100 * time.Millisecond
	readingPause  = 20 * time.Millisecond // subjects tell at 10 Hz
	drainMost     = 30 * time.Second
)

// A generator sends in the engine's place: iperf3.
type generator interface {
	transmit(ctx context.Context, l engine.Load) (engine.TxReport, error)
	beside(a *result.Account) int64 // frames of its own beside the load
	close() error
}

// open is closed by close.
func (m *capturePoint) open(ctx context.Context) (err error) {
	bed := m.env.Bed
	path := bed.Path(0, min(1, len(bed.Ports)-1), false)
	if len(path.Hops) < 2 || path.Hops[1].Place != result.DUTNIC {
		return fmt.Errorf("topology %s: there is no port of the DUT behind the tester's", bed.Topology)
	}
	if err := bed.Serve(ctx, lab.Service{Kind: m.service, Flows: 1}); err != nil {
		return err
	}
	path.Hops = path.Hops[:2]
	path.Name = path.Hops[0].Port.Name + "-to-" + path.Hops[1].Port.Name
	m.dut, m.opened = path.Hops[1].Port, true
	to := bed.Ports[0]
	if len(bed.Ports) > 1 {
		to = bed.Ports[1]
	}
	m.stream = engine.Stream{ID: captureStream, Frames: trial.Between(bed.Ports[0], to, m.mix(), 1, false)}
	m.stream.Frames.DstMAC, m.stream.Frames.VLAN = nobody, uint16(m.vlan.Value)
	if bed.Station != ([6]byte{}) {
		m.stream.Frames.DstMAC = bed.Station
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if m.tx, err = m.opens(ctx, bed, m.cpus()); err != nil {
		return err
	}
	if m.sender.Value == generatorIperf3 {
		if m.iperf3, err = m.other(ctx, bed, m.payload.Value); err != nil {
			return err
		}
	}
	// Bare: the tracepoint would see every frame that ends after the subject.
	if m.book, err = ledger.OpenBare([]ledger.Path{path}, bed.Sources...); err == nil {
		m.book.Settle = trial.EffortOf(m.preset.Value).Settle
		err = bed.Precede(lab.AtOnce)
	}
	return err
}

func (m *capturePoint) close() (err error) {
	if !m.opened {
		return nil
	}
	if m.book != nil {
		m.book.Close()
	}
	if m.tx != nil {
		err = m.tx.Close()
	}
	if m.iperf3 != nil {
		err = errors.Join(err, m.iperf3.close())
	}
	m.book, m.tx, m.iperf3, m.opened = nil, nil, nil, false
	bed := m.env.Bed // is left as it was
	err = errors.Join(err, bed.Serve(context.Background(), lab.Service{Kind: "route", Flows: 1}))
	return errors.Join(err, bed.Precede(lab.First))
}

// cpus are those that send.
func (m *capturePoint) cpus() []int { return m.env.Bed.SenderCPUs(max(m.senders.Value, 1)) }

func (m *capturePoint) meanSize() float64 {
	if m.mean > 0 {
		return m.mean
	}
	return m.mix().Mean()
}

// loadWords are l's part of a trial's identity.
func (m *capturePoint) loadWords(l engine.Load) []result.Pair {
	if m.words != nil {
		return m.words
	}
	cfg := []result.Pair{{Key: "rate", Value: strconv.FormatFloat(float64(l.Rate), 'f', 0, 64)}}
	if l.Count > 0 {
		return append(cfg, result.Pair{Key: "frames", Value: strconv.FormatUint(l.Count, 10)})
	}
	return append(cfg, result.Pair{Key: "duration", Value: l.Duration.String()})
}

// empty measures once a run what the load costs the box while nobody listens.
func (m *capturePoint) empty(ctx context.Context, l engine.Load) error {
	cfg := append([]result.Pair{{Key: "frame_size", Value: m.mix().Name}, {Key: "burst", Value: strconv.Itoa(l.Burst)}}, m.loadWords(l)...)
	if m.iperf3 != nil {
		cfg = append(cfg, result.Pair{Key: "generator", Value: generatorIperf3})
	}
	if m.vlan.Value > 0 {
		cfg = append(cfg, result.Pair{Key: "vlan", Value: strconv.Itoa(m.vlan.Value)})
	}
	return m.emptyAs(ctx, cfg, l)
}

// emptyAs is empty of a load that cfg identifies in the run.
func (m *capturePoint) emptyAs(ctx context.Context, cfg []result.Pair, l engine.Load) error {
	m.emptied = -1
	if len(m.env.Bed.Threads) == 0 {
		return nil // its work cannot be told from the tester's
	}
	if n := len(m.cpus()); n > 1 {
		cfg = append(cfg, result.Pair{Key: "senders", Value: strconv.Itoa(n)})
	}
	key := "empty-box"
	for _, p := range cfg {
		key += "/" + p.Value
	}
	rec, err := m.env.Once(ctx, key, cfg, func(ctx context.Context) (procedure.Outcome, error) {
		o, _, err := m.send(ctx, l, func(context.Context, unit.Instant, int64) error { return nil })
		if err != nil {
			return o, err
		}
		a := o.Account
		for _, t := range a.Passed {
			if t.Place == result.DUTNIC && t.Link == m.dut.Name && strings.HasSuffix(t.From, " rx_packets") {
				a.Received = t.N
			}
		}
		if m.iperf3 != nil {
			a.Received -= m.iperf3.beside(a)
		}
		settleAccount(a, nil)
		o.Status, o.Ceiling = result.Passed, m.ceiling
		if o.DUT != nil {
			o.Values = append(o.Values, figures.Value("receive_cpu_s", o.DUT.Ran*o.Phases[0].Seconds()))
		}
		return o, nil
	})
	if err != nil {
		return err
	}
	if v := rec.Value("receive_cpu_s"); v != nil && rec.Status == result.Passed && rec.Account != nil && rec.Account.Accepted > 0 {
		m.emptied = v.Value / float64(rec.Account.Accepted)
	}
	return nil
}

// send offers l and closes the box's own books; after is called as soon as the last
// frame has left, before they are.
func (m *capturePoint) send(ctx context.Context, l engine.Load, after func(ctx context.Context, end unit.Instant, accepted int64) error) (o procedure.Outcome, sent engine.TxReport, err error) {
	if err := m.book.Begin(ctx); err != nil {
		return o, sent, err
	}
	if err := m.env.Await(ctx); err != nil {
		return o, sent, err
	}
	watch := trial.WatchTraffic(m.env, m.cpus()...)
	sent, err = m.transmit(ctx, l)
	watch.Stop()
	if err != nil {
		return o, sent, err
	}
	if err := after(ctx, sent.Last, int64(sent.Accepted)); err != nil {
		return o, sent, err
	}
	a, err := m.book.Balance(ctx, func(context.Context) (ledger.Ends, error) {
		// Where frames went in the end is not asked here: the box's counters are.
		return ledger.Ends{Intended: sent.Intended, Accepted: sent.Accepted, Refused: sent.Refused, NotSent: sent.NotSent, Received: sent.Accepted}, nil
	})
	if err != nil {
		return o, sent, err
	}
	a.Received = 0
	o = procedure.Outcome{Account: &a, Load: &result.Load{
		MeanSize: m.meanSize(), Streams: 1, Backend: m.env.Bed.Engine.Name(),
		Intended: max(l.Mean(), m.intended), Offered: sent.Offered, Peak: sent.Peak, Batch: sent.Batch,
		Late: int64(sent.Late), Stalls: int64(sent.Stalls), LongestStall: int64(sent.LongestStall),
	}}
	o.Phases = []result.Phase{{Name: "traffic", Begin: sent.First, End: max(sent.Last, sent.First+1)}}
	watch.Tell(ctx, &o, sent.First, o.Phases[0].End)
	return o, sent, nil
}

func (m *capturePoint) transmit(ctx context.Context, l engine.Load) (engine.TxReport, error) {
	if m.iperf3 != nil {
		return m.iperf3.transmit(ctx, l)
	}
	reports, err := m.tx.Transmit(ctx, l, m.stream)
	if err != nil {
		return engine.TxReport{}, err
	}
	return reports[0], nil
}

// settleAccount makes a the subject's account: what ended before its socket is lost to
// it, what the stack did with the frames after it is a checkpoint, and own are its
// drops.
func settleAccount(a *result.Account, own []result.Term) {
	trial.EndAt(a, result.Softnet, "the subject's socket")
	a.Drops = append(a.Drops, own...)
	a.Unexplained = a.Accepted - a.Received - a.Dropped() - a.InFlight
}

// onTheWay names the frames that neither came to the box's port nor are lost by a counter of
// it: a cable or a switch has them. The stack counts the test frames that came to it, as their
// MAC address is no port's. Where it did not get those that were counted, or its kernel counts
// none, all frames of the port are taken for them, so that some may stay without a name.
func onTheWay(a *result.Account, port string) {
	var came result.Term
	last := result.DUTNIC // of the places before which they came
	for _, t := range a.Passed {
		switch {
		case t.Link != port:
		case t.Place == result.Routing && strings.HasSuffix(t.From, " rx_otherhost_dropped") && t.N >= a.Received:
			came, last = t, result.Softnet
		case t.Place == result.DUTNIC && strings.HasSuffix(t.From, " rx_packets") && came.From == "":
			came = t
		}
	}
	if came.From == "" {
		return
	}
	missing := a.Accepted - came.N
	for _, d := range a.Drops {
		if slices.Index(result.Places, d.Place) <= slices.Index(result.Places, last) {
			missing -= d.N
		}
	}
	if n := min(missing, a.Unexplained); n > 0 {
		a.Drops = append([]result.Term{{Place: result.Link, Host: came.Host, Name: "lost between the boards", From: "sent - " + came.From, N: n, Link: port}}, a.Drops...)
		a.Unexplained -= n
	}
}

// countOnce leaves frames that a socket of XDP had no room for to its own counter.
func countOnce(a *result.Account, own []result.Term) {
	var again int64
	for _, t := range own {
		if t.Place == result.Socket {
			again += t.N
		}
	}
	leaveOut(a, ledger.ReceiveFailed, again)
}

// leaveOut takes n frames that are in the books elsewhere out of the drops of that name, as
// far as there are so many.
func leaveOut(a *result.Account, name string, n int64) {
	for i := range a.Drops {
		if t := &a.Drops[i]; t.Name == name {
			both := min(t.N, n)
			t.N, n = t.N-both, n-both
		}
	}
	a.Drops = slices.DeleteFunc(a.Drops, func(t result.Term) bool { return t.Name == name && t.N == 0 })
}

// trial carries out one load with the subject; more is what else identifies it. m.failed
// says why the subject gave no figures.
func (m *capturePoint) trial(ctx context.Context, kind string, n int, l engine.Load, more ...result.Pair) (result.Record, error) {
	cfg := slices.Concat([]result.Pair{{Key: "trial", Value: kind}, {Key: "n", Value: strconv.Itoa(n)}}, m.loadWords(l), more)
	rec, err := m.env.Trial(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) {
		return m.carryOut(ctx, l)
	})
	if err == nil && rec.Load == nil && rec.Status == result.Failed {
		m.failed = rec.Reason
		m.out.Status, m.out.Reason = rec.Status, rec.Reason
	}
	if load := procedure.LoadPhase(rec.Phases); load != nil {
		took := time.Duration((rec.End - rec.Begin) - (load.End - load.Begin))
		m.around = append(m.around[max(0, len(m.around)-2):], took)
	}
	return rec, err
}

// An around is what the latest three trials took beside their traffic.
type around []time.Duration

// next is what the next one takes, and what the run does before it; usual before the first.
func (a around) next(usual time.Duration) time.Duration {
	if len(a) == 0 {
		return usual
	}
	return slices.Max(a) + 500*time.Millisecond
}

// carryOut is capture whose subject's faults are in its outcome.
func (m *capturePoint) carryOut(ctx context.Context, l engine.Load) (procedure.Outcome, error) {
	o, err := m.capture(ctx, l)
	var broken *subjectError
	if errors.As(err, &broken) && !errors.Is(err, subject.ErrLost) && ctx.Err() == nil {
		o.Status, o.Reason, o.Load, o.Account, o.Values = result.Failed, m.said(broken.err), nil, nil, nil
		return o, nil
	}
	o.Ceiling = m.ceiling
	return o, err
}

// A subjectError is the subject's fault, in a sentence.
type subjectError struct{ err error }

func (e *subjectError) Error() string { return e.err.Error() }
func (e *subjectError) Unwrap() error { return e.err }

func fault(format string, args ...any) error { return &subjectError{fmt.Errorf(format, args...)} }

// capture is one trial. A *subjectError is the subject's fault.
func (m *capturePoint) capture(ctx context.Context, l engine.Load) (o procedure.Outcome, err error) {
	c, err := m.begin(ctx, l)
	if err != nil {
		return o, err
	}
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, m.end(ctx, c))
		}
	}()
	main := mainOf(c.run)
	reader := c.follow(ctx)
	var d drained
	var alone mainUse
	o, sent, err := m.send(ctx, l, func(ctx context.Context, end unit.Instant, accepted int64) (err error) {
		reader()
		if d, err = c.drain(ctx, end, accepted, m.still(c), m.drainLimit(c, l)); err != nil {
			return err
		}
		if w := m.watched(); w > 0 {
			alone, err = main.over(ctx, c, w-lasts(l)-time.Duration(unit.Now()-end))
		}
		return err
	})
	reader()
	if err != nil {
		return o, err
	}
	if err := c.gone(); err != nil {
		return o, err
	}
	if r, ok := c.run.(socketReader); ok && (r.Untold() || !d.still) { // it has too much left to do to tell
		if err := r.ReadSockets(); err != nil {
			o.Warnings = append(o.Warnings, m.said(fmt.Errorf("what the kernel dropped is not known: %w", err)))
		}
	}
	stopped = true
	if err := m.end(ctx, c); err != nil {
		return o, fault("it did not end: %w", err)
	}
	o.Warnings = append(o.Warnings, c.left()...)
	if err := c.gone(); err != nil { // killed, for it did not obey
		if d.still {
			return o, err
		}
		o.Warnings = append(o.Warnings, m.said(err)) // it had too much left to do: what it had said by then holds
	}
	m.settle(ctx, &o, c, d)
	m.figures(&o, c, d, sent)
	if m.more != nil {
		if err := m.more(ctx, &o, c.run); err != nil {
			return o, err
		}
	}
	if w := m.watched(); w > 0 {
		o.Values = append(o.Values, alone.values()...)
		if alone.window > w+100*time.Millisecond {
			o.Warnings = append(o.Warnings, fmt.Sprintf("the main process was watched for %v, not for %v: it still counted", alone.window.Round(100*time.Millisecond), w))
		}
		if !alone.known {
			o.Warnings = append(o.Warnings, "the main process alone could not be watched")
		}
	}
	return o, nil
}
