// SPDX-License-Identifier: Apache-2.0

// Package mem is the memory backend: wires in memory, in virtual time, with a DUT that loses,
// delays, reorders and doubles frames as it is told. Tests need no privilege with it.
package mem

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/tally"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/unit"
)

// The memory backend's ports: lan and wan with a DUT between them, and two that
// are wired to each other by a wire that carries everything.
const (
	LAN   = "lan"
	WAN   = "wan"
	LoopA = "loop-a"
	LoopB = "loop-b"
)

// A Config is how the DUT and the wires to it behave; zero is no limit and no
// fault.
type Config struct {
	Capacity unit.FrameRate // frames that the DUT forwards, both directions together
	Queue    int            // frames that may be in the DUT at once; 0: 256, with a capacity only
	Wake     time.Duration  // after 5 ms without a frame the DUT forwards Asleep, not Capacity, for so long
	Asleep   unit.FrameRate // below Capacity; with Wake only
	Ceiling  unit.FrameRate // frames that a transmitter can send, all streams; 0: 1 M
	Delay    time.Duration  // from the DUT to the meter

	Policer      unit.FrameRate // token bucket on what each of the DUT's ports receives, before its queue; whole frame/s
	PolicerBurst int            // frames that the bucket holds; 0: 1

	Loss      unit.LossRatio // of frames on their way to the DUT, at random
	Seed      uint64         // of all chances
	LoseEvery uint64         // each Nth frame towards the DUT is lost

	DuplicateEvery uint64 // each Nth frame behind the DUT arrives twice
	AlterEvery     uint64 // each Nth frame behind the DUT arrives with a bit of its 16th octet changed, IP's type of service
	ReorderEvery   uint64 // each Nth frame behind the DUT lets others pass
	ReorderDepth   int    // so many; 0: 1

	Duplicate float64 // ratio of frames behind the DUT that arrive twice, at random; the second lets 0 to ReorderDepth others pass
	Reorder   float64 // ratio of frames behind the DUT that let 1 to ReorderDepth others pass, at random
	Trace     bool    // Arrivals keeps what arrived, in order
}

const (
	usualQueue   = 256
	longestQueue = time.Hour
)

// Check says what is wrong with c, in a sentence.
func (c Config) Check() error {
	switch {
	case c.Capacity < 0 || c.Capacity > 1e9 || c.Ceiling < 0 || c.Ceiling > 1e9:
		return fmt.Errorf("capacity %v and ceiling %v: want 0 (no capacity limit, 1 M ceiling) to 1e9 frame/s", float64(c.Capacity), float64(c.Ceiling))
	case !(c.Loss >= 0 && c.Loss <= 1) || !(c.Duplicate >= 0 && c.Duplicate <= 1) || !(c.Reorder >= 0 && c.Reorder <= 1):
		return fmt.Errorf("loss %v, duplicate %v, reorder %v: want ratios from 0 to 1", float64(c.Loss), c.Duplicate, c.Reorder)
	case !(c.Policer >= 0 && c.Policer <= 1e9) || c.PolicerBurst < 0 || c.PolicerBurst > 1e9:
		return fmt.Errorf("policer %v with a burst of %d: want 0 to 1e9 of each", float64(c.Policer), c.PolicerBurst)
	case c.Queue < 0 || c.Queue > 1e9:
		return fmt.Errorf("queue %d: want 0 to 1e9 frames", c.Queue)
	case c.ReorderDepth < 0 || c.ReorderDepth > 1<<16:
		return fmt.Errorf("reorder depth %d: want 0 to 65536", c.ReorderDepth)
	case c.Wake < 0 || c.Wake > time.Minute || (c.Wake > 0) != (c.Asleep > 0) || c.Asleep > c.Capacity:
		return fmt.Errorf("wake %v with asleep %v: want both or none, up to 1m and up to the capacity of %v frame/s", c.Wake, float64(c.Asleep), float64(c.Capacity))
	case c.Capacity > 0 && float64(cmp.Or(c.Queue, usualQueue)) > longestQueue.Seconds()*float64(cmp.Or(c.Asleep, c.Capacity)):
		return fmt.Errorf("queue %d: at %v frame/s it holds frames for more than %v: want a shorter one", cmp.Or(c.Queue, usualQueue), float64(cmp.Or(c.Asleep, c.Capacity)), longestQueue)
	case c.Delay < 0 || c.Delay > time.Minute:
		return fmt.Errorf("delay %v: want 0 to 1m", c.Delay)
	}
	return nil
}

// A Backend is the memory backend: real frames over wires in memory, in virtual time, so that
// a second of load takes as long as its frames take to make. Transmit builds a frame when it
// is due; the wire to the DUT, the DUT and the wire to the meter lose, delay, reorder and
// double it as Config says. It needs no privilege, is safe for concurrent use, and carries
// one Transmit at a time; another waits.
type Backend struct {
	cfg     Config
	service uint64 // one frame's share of the DUT, 1/65536 ns
	asleep  uint64 // that before it is awake

	sending sync.Mutex // held for a Transmit
	mu      sync.Mutex // guards what follows, for a batch at a time
	clock   unit.Instant
	armed   bool         // a meter was, since the last load: another trial begins
	last    unit.Instant // when the last frame came to the DUT
	woken   unit.Instant // when the first one came after a pause of doze
	chance  *rand.Rand
	free    uint64 // when the DUT is done with what it has, 1/65536 ns of the trial
	drop    result.Place
	block   func(frame []byte) bool // nil: nothing
	ends    []*wireEnd
}

// A wireEnd is a port and the way of frames that are sent from it.
type wireEnd struct {
	name  string
	peer  *wireEnd
	ideal bool
	meter *Meter

	in, out    uint64 // frames towards the DUT, and behind it
	lost, full int64
	policed    int64
	filled     unit.Instant // when credit was counted last
	credit     uint64       // of the policer, in frames / 1e9
	duplicated int64
	dropped    map[result.Place]int64
	held       []heldFrame
	arrived    []Arrival // with Config.Trace
}

type heldFrame struct {
	buf  []byte
	n    uint64
	pass int // frames that it still lets pass
}

// An Arrival is one frame at the end of a wire: the truth that a meter's counts
// can be held against.
type Arrival struct {
	N      uint64 // of the frames sent into the wire, from 0
	Octets int    // without FCS
}

// Arrivals is what arrived of the frames sent from port p, in order, since the
// beginning; nil without Config.Trace.
func (m *Backend) Arrivals(p host.Port) ([]Arrival, error) {
	e, err := m.end(p)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(e.arrived), nil
}

// New makes the memory backend, with its ports LAN, WAN, LoopA and
// LoopB.
func New(cfg Config) (*Backend, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("memory backend: %w", err)
	}
	if cfg.Queue == 0 {
		cfg.Queue = usualQueue
	}
	if cfg.Ceiling == 0 {
		cfg.Ceiling = 1e6
	}
	if cfg.PolicerBurst == 0 {
		cfg.PolicerBurst = 1
	}
	if cfg.ReorderDepth == 0 {
		cfg.ReorderDepth = 1
	}
	m := &Backend{cfg: cfg, last: -doze, chance: rand.New(rand.NewPCG(cfg.Seed, 0)), service: each(cfg.Capacity), asleep: each(cfg.Asleep)}
	for _, names := range [][2]string{{LAN, WAN}, {LoopA, LoopB}} {
		a := &wireEnd{name: names[0], ideal: names[0] == LoopA, dropped: map[result.Place]int64{}}
		b := &wireEnd{name: names[1], ideal: a.ideal, peer: a, dropped: map[result.Place]int64{}}
		a.peer = b
		m.ends = append(m.ends, a, b)
	}
	return m, nil
}

// Name is "mem".
func (m *Backend) Name() string { return "mem" }

// Probe knows the four ports.
func (m *Backend) Probe(_ context.Context, ports ...host.Port) error {
	for _, p := range ports {
		if _, err := m.end(p); err != nil {
			return fmt.Errorf("%w: %w", err, host.ErrNotSupported)
		}
	}
	return nil
}

func (m *Backend) end(p host.Port) (*wireEnd, error) {
	for _, e := range m.ends {
		if e.name == p.Name {
			return e, nil
		}
	}
	return nil, fmt.Errorf("the memory backend has no port %q, but lan, wan, loop-a and loop-b", p.Name)
}

// Rest lets virtual time pass before the next load: buckets fill.
func (m *Backend) Rest(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock = cmp.Or(m.clock, unit.Now()) + unit.Instant(d)
}

// Drop makes the DUT throw every frame away at place, which Count then names;
// "" makes it forward again.
func (m *Backend) Drop(place result.Place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop = place
}

// Block makes the DUT throw away at place nft those frames of which bad is true;
// nil: none. bad must not keep the frame.
func (m *Backend) Block(bad func(frame []byte) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.block = bad
}

// Count is where frames ended, since the beginning: a ledger's source. A frame
// that came twice counts below zero, for one more was received than was sent.
func (m *Backend) Count(context.Context) ([]result.Term, error) {
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
		add(result.XDP, "policer", "policed", e.policed)
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
func (m *Backend) OpenTransmitter(_ context.Context, lanes []host.Port, _ int) (engine.Transmitter, error) {
	return m.open(lanes, 1)
}

// OpenCrew implements engine.Crewing: each of n senders has the ceiling.
func (m *Backend) OpenCrew(_ context.Context, lanes []host.Port, n int) (engine.Transmitter, error) {
	return m.open(lanes, n)
}

func (m *Backend) open(lanes []host.Port, senders int) (*Transmitter, error) {
	t := &Transmitter{m: m, senders: senders}
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
func (m *Backend) OpenMeter(_ context.Context, p host.Port) (engine.Meter, error) {
	return m.openMeter(p, nil)
}

// OpenRoll takes the place of OpenMeter: a port has one meter.
func (m *Backend) OpenRoll(_ context.Context, p host.Port, r *frame.Roll) (engine.Meter, error) {
	return m.openMeter(p, r)
}

func (m *Backend) openMeter(p host.Port, roll *frame.Roll) (*Meter, error) {
	e, err := m.end(p)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.meter != nil {
		return nil, fmt.Errorf("port %s of the memory backend has a meter already", p.Name)
	}
	e.meter = &Meter{m: m, end: e, roll: roll}
	e.meter.forget(false, nil)
	return e.meter, nil
}

// A Meter counts what arrives at a port.
type Meter struct {
	m     *Backend
	end   *wireEnd
	tally *tally.Tally
	hash  bool        // from the next Arm on
	roll  *frame.Roll // nil: streams are counted
	came  *frame.Arrivals

	foreign, foreignOctets uint64 // with roll; the tally has the roll's frames as foreign
}

// Hash implements engine.Hasher.
func (r *Meter) Hash(on bool) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.hash = on
}

func (r *Meter) Arm(_ context.Context, timing bool, streams ...uint16) error {
	if err := tally.Armable(streams); err != nil {
		return err
	}
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.armed = true
	r.forget(timing, streams)
	if r.hash {
		r.tally.Hash = engine.NewDigest()
	}
	return nil
}

func (r *Meter) forget(timing bool, streams []uint16) {
	r.tally = tally.New(timing, slices.Clone(streams))
	if r.roll != nil {
		r.foreign, r.foreignOctets = 0, 0
		r.came = &frame.Arrivals{Seen: make([]uint64, len(r.roll.Marks)), Strange: map[frame.Mark]uint64{}}
	}
}

// arrive counts a frame.
func (r *Meter) arrive(buf []byte, at unit.Instant) {
	if r.roll == nil {
		r.tally.Arrive(buf, at)
		return
	}
	mark := frame.MarkOf(buf, r.roll.Same)
	t := r.tally
	if i, ok := r.roll.Find(mark); ok {
		r.came.Seen[i]++
		t.Count(len(buf), at)
		return
	}
	r.foreign, r.foreignOctets = r.foreign+1, r.foreignOctets+uint64(len(buf)+unit.FCS)
	if r.came.Strange[mark] > 0 || len(r.came.Strange) < frame.MostStrange {
		r.came.Strange[mark]++
	} else {
		r.came.More++
	}
}

func (r *Meter) Read(context.Context) (engine.MeterReport, error) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	rep := r.tally.Report(0, "virtual time")
	if r.roll != nil {
		rep.Foreign, rep.ForeignOctets = r.foreign, r.foreignOctets
		rep.Roll = &frame.Arrivals{Seen: slices.Clone(r.came.Seen), Strange: maps.Clone(r.came.Strange), More: r.came.More}
	}
	return rep, nil
}

func (r *Meter) Close() error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if r.end.meter == r {
		r.end.meter = nil
	}
	return nil
}
