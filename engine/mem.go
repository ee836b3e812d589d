// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/unit"
)

// The memory backend's ports: lan and wan with a DUT between them, and two that
// are wired to each other by a wire that carries everything.
const (
	MemLAN   = "lan"
	MemWAN   = "wan"
	MemLoopA = "loop-a"
	MemLoopB = "loop-b"
)

// A MemConfig is how the DUT and the wires to it behave; zero is no limit and no
// fault.
type MemConfig struct {
	Capacity unit.FrameRate // frames that the DUT forwards, both directions together
	Queue    int            // frames that may be in the DUT at once; 0: 256, with a capacity only
	Ceiling  unit.FrameRate // frames that a transmitter can send, all streams; 0: 1 M
	Delay    time.Duration  // from the DUT to the meter

	Loss      unit.LossRatio // of frames on their way to the DUT, at random
	Seed      uint64         // of that chance
	LoseEvery uint64         // each Nth frame towards the DUT is lost

	DuplicateEvery uint64 // each Nth frame behind the DUT arrives twice
	ReorderEvery   uint64 // each Nth frame behind the DUT lets others pass
	ReorderDepth   int    // so many; 0: 1
}

// Check says what is wrong with c, in a sentence.
func (c MemConfig) Check() error {
	switch {
	case c.Capacity < 0 || c.Capacity > 1e9 || c.Ceiling < 0 || c.Ceiling > 1e9:
		return fmt.Errorf("capacity %v and ceiling %v: want 0 (no capacity limit, 1 M ceiling) to 1e9 frame/s", float64(c.Capacity), float64(c.Ceiling))
	case !(c.Loss >= 0 && c.Loss <= 1):
		return fmt.Errorf("loss %v: want a ratio from 0 to 1", float64(c.Loss))
	case c.Queue < 0 || c.ReorderDepth < 0 || c.ReorderDepth > 1<<16:
		return fmt.Errorf("queue %d and reorder depth %d: want at least 0, and a depth of at most 65536", c.Queue, c.ReorderDepth)
	case c.Delay < 0 || c.Delay > time.Minute:
		return fmt.Errorf("delay %v: want 0 to 1m", c.Delay)
	}
	return nil
}

// A Memory is the memory backend: real frames over wires in memory, in virtual
// time, so that a second of load takes as long as its frames take to make.
//
//	Transmit (the caller's goroutine) builds and stamps a frame when it is due
//	  -> wire to the DUT   lost on purpose
//	  -> DUT               queue full; capacity; the service's drop
//	  -> wire to the meter delay, reordering, duplication
//	  -> meter             parses and counts
//
// It needs no privilege, is safe for concurrent use, and carries one Transmit at
// a time; another waits.
type Memory struct {
	cfg     MemConfig
	service uint64 // one frame's share of the DUT, 1/65536 ns

	sending sync.Mutex // held for a Transmit
	mu      sync.Mutex // guards what follows, for a batch at a time
	clock   unit.Instant
	chance  *rand.Rand
	free    uint64 // when the DUT is done with what it has, 1/65536 ns of the trial
	drop    result.Place
	ends    []*memEnd
}

// A memEnd is a port and the way of frames that are sent from it.
type memEnd struct {
	name  string
	peer  *memEnd
	ideal bool
	meter *memMeter

	in, out    uint64 // frames towards the DUT, and behind it
	lost, full int64
	duplicated int64
	dropped    map[result.Place]int64
	held       []heldFrame
}

type heldFrame struct {
	buf  []byte
	pass int // frames that it still lets pass
}

// Mem makes the memory backend, with its ports MemLAN, MemWAN, MemLoopA and
// MemLoopB.
func Mem(cfg MemConfig) (*Memory, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("memory backend: %w", err)
	}
	if cfg.Queue == 0 {
		cfg.Queue = 256
	}
	if cfg.Ceiling == 0 {
		cfg.Ceiling = 1e6
	}
	if cfg.ReorderDepth == 0 {
		cfg.ReorderDepth = 1
	}
	m := &Memory{cfg: cfg, chance: rand.New(rand.NewPCG(cfg.Seed, 0)), service: newPace(cfg.Capacity, 0).interval}
	for _, names := range [][2]string{{MemLAN, MemWAN}, {MemLoopA, MemLoopB}} {
		a := &memEnd{name: names[0], ideal: names[0] == MemLoopA, dropped: map[result.Place]int64{}}
		b := &memEnd{name: names[1], ideal: a.ideal, peer: a, dropped: map[result.Place]int64{}}
		a.peer = b
		m.ends = append(m.ends, a, b)
	}
	return m, nil
}

// Name is "mem".
func (m *Memory) Name() string { return "mem" }

// Probe knows the four ports.
func (m *Memory) Probe(_ context.Context, ports ...host.Port) error {
	for _, p := range ports {
		if _, err := m.end(p); err != nil {
			return fmt.Errorf("%w: %w", err, host.ErrNotSupported)
		}
	}
	return nil
}

func (m *Memory) end(p host.Port) (*memEnd, error) {
	for _, e := range m.ends {
		if e.name == p.Name {
			return e, nil
		}
	}
	return nil, fmt.Errorf("the memory backend has no port %q, but lan, wan, loop-a and loop-b", p.Name)
}

// Drop makes the DUT throw every frame away at place, which Count then names;
// "" makes it forward again.
func (m *Memory) Drop(place result.Place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop = place
}

// Count is where frames ended, since the beginning: a ledger's source. A frame
// that came twice counts below zero, for one more was received than was sent.
func (m *Memory) Count(context.Context) ([]result.Term, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var terms []result.Term
	for _, e := range m.ends {
		if e.ideal {
			continue
		}
		add := func(p result.Place, name, from string, n int64) {
			terms = append(terms, result.Term{Place: p, Host: "dut", Name: name, From: e.name + " " + from, N: n, Link: e.name})
		}
		add(result.Link, "lost on purpose", "lost", e.lost)
		add(result.DUTNIC, "queue full", "queue_full", e.full)
		for _, p := range result.Places {
			if n, ok := e.dropped[p]; ok {
				add(p, "dropped by the service", "service_drops", n)
			}
		}
		add(result.Link, "duplicated on purpose", "duplicated", -e.duplicated)
	}
	return terms, nil
}

// OpenTransmitter opens lanes; cpu means nothing here.
func (m *Memory) OpenTransmitter(_ context.Context, lanes []host.Port, _ int) (Transmitter, error) {
	t := &memTransmitter{m: m}
	for _, p := range lanes {
		e, err := m.end(p)
		if err != nil {
			return nil, err
		}
		t.lanes = append(t.lanes, e)
	}
	return t, nil
}

// OpenMeter opens the meter of p, which has at most one.
func (m *Memory) OpenMeter(_ context.Context, p host.Port) (Meter, error) {
	e, err := m.end(p)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.meter != nil {
		return nil, fmt.Errorf("port %s of the memory backend has a meter already", p.Name)
	}
	e.meter = &memMeter{m: m, end: e, tally: newTally(false, nil)}
	return e.meter, nil
}

// A memMeter counts what arrives at a port.
type memMeter struct {
	m     *Memory
	end   *memEnd
	tally *tally
}

func (r *memMeter) Arm(_ context.Context, timing bool, streams ...uint16) error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.tally = newTally(timing, slices.Clone(streams))
	return nil
}

func (r *memMeter) Read(context.Context) (MeterReport, error) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	return r.tally.report(0), nil
}

func (r *memMeter) Close() error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if r.end.meter == r {
		r.end.meter = nil
	}
	return nil
}

// A memTransmitter sends from lanes.
type memTransmitter struct {
	m     *Memory
	lanes []*memEnd
}

func (t *memTransmitter) Close() error { return nil }

// A memSender is one Transmit under way. Its times are those of the trial, from
// its first frame.
type memSender struct {
	*Memory
	load    Load
	streams []memStream
	pace    *pace
	origin  unit.Instant
	total   uint64 // frames of all streams; 0: until the duration is over
	cost    uint64 // of a frame to the sender, 1/65536 ns
	ready   uint64 // when the sender can send again, 1/65536 ns
}

type memStream struct {
	end    *memEnd
	frames *frame.Builder
	buf    []byte
	sent   uint64
	first  unit.Instant
	last   unit.Instant
}

func (t *memTransmitter) Transmit(ctx context.Context, l Load, streams ...Stream) ([]TxReport, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	n := len(streams)
	if n == 0 {
		return nil, errors.New("transmit: no streams are given")
	}
	s := &memSender{Memory: t.m, load: l, total: l.intended() * uint64(n), cost: newPace(t.m.cfg.Ceiling, 0).interval}
	for _, st := range streams {
		if st.Lane < 0 || st.Lane >= len(t.lanes) {
			return nil, fmt.Errorf("transmit: stream %d is for lane %d of %d", st.ID, st.Lane, len(t.lanes))
		}
		b, err := frame.NewBuilder(st.Frames, st.ID)
		if err != nil {
			return nil, fmt.Errorf("transmit stream %d: %w", st.ID, err)
		}
		s.streams = append(s.streams, memStream{end: t.lanes[st.Lane], frames: b, buf: make([]byte, frame.MaxSize)})
	}

	t.m.sending.Lock()
	defer t.m.sending.Unlock()
	s.origin = max(unit.Now(), t.m.clock)
	s.pace = newPace(l.Rate*unit.FrameRate(n), s.origin)
	s.free = 0
	for more := true; more && ctx.Err() == nil; {
		more = s.batch(4096)
	}
	s.finish()
	return s.reports(streams), ctx.Err()
}

// batch sends at most n frames, and says whether there are more.
func (s *memSender) batch(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		k := s.pace.k
		if s.total != 0 && k == s.total {
			return false
		}
		due := s.pace.due(k) - s.origin
		at := max(due, unit.Instant(s.ready>>16))
		if s.load.Duration != 0 && at >= unit.Instant(s.load.Duration) {
			return false
		}
		s.pace.take(s.origin + at)
		s.ready = max(s.ready, uint64(due)<<16) + s.cost

		st := &s.streams[k%uint64(len(s.streams))]
		buf := st.buf[:st.frames.Build(st.sent, st.buf)]
		st.frames.Stamp(buf, s.origin+at)
		if st.sent == 0 {
			st.first = s.origin + at
		}
		st.last = s.origin + at
		st.sent++
		s.toDUT(st.end, buf, uint64(at)<<16)
	}
	return true
}

// toDUT carries a frame that is sent from e at an instant of the trial, in
// 1/65536 ns, over the wire and through the DUT.
func (s *memSender) toDUT(e *memEnd, buf []byte, at uint64) {
	if e.ideal {
		s.arrive(e, buf, at)
		return
	}
	e.in++
	if s.cfg.LoseEvery != 0 && e.in%s.cfg.LoseEvery == 0 || s.cfg.Loss > 0 && s.chance.Float64() < float64(s.cfg.Loss) {
		e.lost++
		return
	}
	if s.service != 0 {
		s.free = max(s.free, at)
		if (s.free-at+s.service-1)/s.service >= uint64(s.cfg.Queue) {
			e.full++
			return
		}
		s.free += s.service
		at = s.free
	}
	if s.drop != "" {
		e.dropped[s.drop]++
		return
	}
	s.fromDUT(e, buf, at+uint64(s.cfg.Delay)<<16)
}

// fromDUT carries a frame on to the meter. Those that are held back let it pass.
func (s *memSender) fromDUT(e *memEnd, buf []byte, at uint64) {
	e.out++
	if s.cfg.ReorderEvery != 0 && e.out%s.cfg.ReorderEvery == 0 {
		e.held = append(e.held, heldFrame{slices.Clone(buf), s.cfg.ReorderDepth})
		return
	}
	s.arrive(e, buf, at)
	if s.cfg.DuplicateEvery != 0 && e.out%s.cfg.DuplicateEvery == 0 {
		e.duplicated++
		s.arrive(e, buf, at)
	}
	for i := range e.held {
		e.held[i].pass--
	}
	for len(e.held) > 0 && e.held[0].pass <= 0 {
		s.arrive(e, e.held[0].buf, at)
		e.held = e.held[1:]
	}
}

func (s *memSender) arrive(e *memEnd, buf []byte, at uint64) {
	if r := e.peer.meter; r != nil {
		r.tally.arrive(buf, s.origin+unit.Instant(at>>16))
	}
	s.clock = max(s.clock, s.origin+unit.Instant(at>>16)+1)
}

// finish lets what is held back go, and time pass to the load's end.
func (s *memSender) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := max(s.clock, s.origin+unit.Instant(s.ready>>16))
	for _, e := range s.ends {
		for _, h := range e.held {
			s.arrive(e, h.buf, uint64(now-s.origin)<<16)
		}
		e.held = nil
	}
	s.clock = max(s.clock, now)
}

func (s *memSender) reports(streams []Stream) []TxReport {
	reports := make([]TxReport, len(streams))
	for i := range reports {
		st := &s.streams[i]
		reports[i] = TxReport{
			Stream: streams[i].ID, Intended: s.load.intended(), Accepted: st.sent,
			Late: s.pace.late, CatchUp: s.pace.catchUp,
			First: st.first, Last: st.last, Batch: 1,
		}
		r := &reports[i]
		r.Offered = offered(s.load, *r)
		r.Peak = r.Offered
		if r.Intended > st.sent {
			r.NotSent = r.Intended - st.sent
		}
	}
	return reports
}
