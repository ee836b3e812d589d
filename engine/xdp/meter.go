// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"

	"boxdyno/engine"
	"boxdyno/engine/internal/bpf"
	"boxdyno/engine/internal/clock"
	"boxdyno/engine/internal/tally"
	"boxdyno/engine/packet"
	"boxdyno/engine/roll"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

// A Meter is two programs of which one is attached: counting alone, or with
// timing. Detaching takes a veth's NAPI down, so they replace each other.
//
// The programs see every frame before anything buffers it, so the meter loses
// none: what the port's own ring lost is in the port's counters. They do not see
// VLAN tags that the port strips (ethtool -K PORT rxvlan off keeps them).
type Meter struct {
	plain, timed *meterProgram // timed is loaded once it is asked for
	sink         uint32
	link         link.Link
	port         string
	armed        *meterProgram // nil before the first Arm
	streams      []uint16
	stamps       string
}

type meterProgram struct {
	coll                   *ebpf.Collection
	streams, times, others *ebpf.Map
	progress               *ebpf.Map
	timed                  bool
}

func loadMeterFor(timing, scripted bool) (*meterProgram, error) {
	spec, err := loadMeter()
	if err != nil {
		return nil, fmt.Errorf("read the meter's program: %w", err)
	}
	err = errors.Join(spec.Variables[meterVarTiming].Set(timing), spec.Variables[meterVarScripted].Set(scripted))
	if err != nil {
		return nil, fmt.Errorf("set up the meter's program: %w", err)
	}
	if !timing {
		spec.Maps[meterMapStreamTimes].MaxEntries = 1
	}
	coll, err := bpf.Load(spec, nil)
	if err != nil {
		return nil, bpf.Refused("load the meter", err)
	}
	return &meterProgram{
		coll: coll, timed: timing,
		streams: coll.Maps[meterMapStreams], times: coll.Maps[meterMapStreamTimes], others: coll.Maps[meterMapOthers],
		progress: coll.Maps[meterMapStreamProgress],
	}, nil
}

// OpenRoll opens a meter in the driver.
func (x *Backend) OpenRoll(_ context.Context, p host.Port, r *frame.Roll) (engine.Meter, error) {
	return roll.Open(p, r, true)
}

func (x *Backend) OpenMeter(_ context.Context, p host.Port) (engine.Meter, error) {
	return openMeter(p, link.XDPDriverMode, "XDP program")
}

// Generic is xdp/generic: an XDP program in the kernel's receive path, behind the
// driver, meters on every port; packet's sockets send. It needs Linux 5.7 and
// what xdp and packet need. Frames that tc redirected on this very machine (BPF,
// act_mirred) and a veth carried here go past it: the kernel's rule.
type Generic struct{ packet.Backend }

// NewGeneric makes the generic backend.
func NewGeneric() engine.Backend { return Generic{} }

func (Generic) Name() string { return "xdp/generic" }

// Probe opens a meter on every port, and sends as packet does.
func (g Generic) Probe(ctx context.Context, ports ...host.Port) error {
	for _, p := range ports {
		m, err := g.OpenMeter(ctx, p)
		if err != nil {
			return err
		}
		m.Close()
	}
	return g.Backend.Probe(ctx, ports...)
}

func (Generic) OpenMeter(_ context.Context, p host.Port) (engine.Meter, error) {
	return openMeter(p, link.XDPGenericMode, "generic XDP program behind the driver")
}

func openMeter(p host.Port, mode link.XDPAttachFlags, what string) (_ engine.Meter, err error) {
	_ = rlimit.RemoveMemlock() // kernels before 5.11 account BPF memory there
	m := &Meter{port: p.Name, stamps: clock.Stamps(what)}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if m.plain, err = loadMeterFor(false, false); err != nil {
		return nil, err
	}
	err = netns.Do(p.Netns, func() error {
		iface, err := net.InterfaceByName(p.Name)
		if err != nil {
			return fmt.Errorf("open a meter on %s: %w", p.Name, err)
		}
		m.link, err = bpf.Attach(p.Name, iface.Index, m.plain.coll.Programs[meterProgMeter], mode)
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Meter) Arm(_ context.Context, timing bool, streams ...uint16) error {
	if err := tally.Armable(streams); err != nil {
		return err
	}
	p, err := m.program(timing)
	if err != nil {
		return err
	}
	if err := p.reset(streams); err != nil {
		return fmt.Errorf("arm the meter: %w", err)
	}
	if p != m.armed && m.link != nil {
		if err := m.link.Update(p.coll.Programs[meterProgMeter]); err != nil {
			return fmt.Errorf("arm the meter: %w", err)
		}
	}
	m.armed, m.streams = p, slices.Clone(streams)
	return nil
}

func (m *Meter) program(timing bool) (_ *meterProgram, err error) {
	if !timing {
		return m.plain, nil
	}
	if m.timed == nil {
		if m.timed, err = loadMeterFor(true, false); err == nil {
			err = m.timed.coll.Variables[meterVarSink].Set(m.sink)
		}
	}
	return m.timed, err
}

// reset forgets all, then arms streams.
func (p *meterProgram) reset(streams []uint16) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	slots := make([]uint8, 1<<16)
	err = p.coll.Variables[meterVarSlots].Set(slots)
	stream, times := make([]meterStream, cpus), make([]meterTimes, cpus)
	for i, id := range streams {
		slots[id] = uint8(i + 1)
		err = errors.Join(err, p.streams.Put(uint32(i), stream))
		if p.timed {
			err = errors.Join(err, p.times.Put(uint32(i), times))
		}
	}
	return errors.Join(err,
		p.others.Put(uint32(0), make([]meterRest, cpus)),
		p.coll.Variables[meterVarSlots].Set(slots),
	)
}

// Sink serves both programs, so that it outlives Arm.
func (m *Meter) Sink(on bool) error { return m.keep(bpf.Sink(on)) }

// Screen implements Screener.
func (m *Meter) Screen() error { return m.keep(bpf.Screens) }

func (m *Meter) keep(what uint32) error {
	m.sink = what
	err := m.plain.coll.Variables[meterVarSink].Set(m.sink)
	if m.timed != nil {
		err = errors.Join(err, m.timed.coll.Variables[meterVarSink].Set(m.sink))
	}
	if err != nil {
		return fmt.Errorf("make the meter a sink: %w", err)
	}
	return nil
}

func (m *Meter) Read(context.Context) (engine.MeterReport, error) {
	rep := engine.MeterReport{Stamps: m.stamps}
	p := m.armed
	if p == nil {
		return rep, errors.New("read the meter: it is not armed")
	}
	var rest []meterRest
	if err := p.others.Lookup(uint32(0), &rest); err != nil {
		return rep, fmt.Errorf("read the meter: %w", err)
	}
	for _, r := range rest {
		rep.Foreign += r.Foreign
		rep.ForeignOctets += r.ForeignOctets
		if r.Frames != 0 {
			tally.Span(&rep.First, &rep.Last, r.First, r.Last)
		}
	}
	all, err := p.marks(rest)
	if err != nil {
		return rep, fmt.Errorf("read the meter's marks: %w", err)
	}
	var perCPU []meterStream
	for i, id := range m.streams {
		if err := p.streams.Lookup(uint32(i), &perCPU); err != nil {
			return rep, fmt.Errorf("read the meter's stream %d: %w", id, err)
		}
		for cpu := range perCPU {
			all[cpu*engine.MaxStreams+i].Frames = perCPU[cpu].Frames
		}
		r := sumStream(id, perCPU)
		if r.Frames != 0 {
			tally.Span(&rep.First, &rep.Last, uint64(r.First), uint64(r.Last))
		}
		if p.timed {
			var times []meterTimes
			if r.Frames != 0 {
				if err := p.times.Lookup(uint32(i), &times); err != nil {
					return rep, fmt.Errorf("read the times of the meter's stream %d: %w", id, err)
				}
			}
			sumTimes(&r, times)
		}
		rep.Streams = append(rep.Streams, r)
	}
	rep.Marks = tally.MergeMarks(all...)
	return rep, bpf.Gone(m.link, m.port)
}

// marks returns what the CPUs noted, MaxStreams of each; rest is theirs.
func (p *meterProgram) marks(rest []meterRest) ([]tally.Arrived, error) {
	var most uint64
	for _, r := range rest {
		most = max(most, r.Marks)
	}
	const page = uint64(len(meterProgress{}.Marks))
	pages := make([][]meterProgress, min((most+page-1)/page, tally.KeptMarks/page))
	for i := range pages {
		if err := p.progress.Lookup(uint32(i), &pages[i]); err != nil {
			return nil, err
		}
	}
	all := make([]tally.Arrived, len(rest)*engine.MaxStreams)
	for cpu, r := range rest {
		for n := r.Marks - min(r.Marks, tally.KeptMarks); n < r.Marks; n++ {
			m := &pages[n/page%uint64(len(pages))][cpu].Marks[n%page]
			if i := m.Frames >> 56; i < engine.MaxStreams && m.At != 0 {
				c := &all[cpu*engine.MaxStreams+int(i)]
				c.Marks = append(c.Marks, engine.Mark{At: unit.Instant(m.At), Frames: m.Frames & (1<<56 - 1)})
			}
		}
	}
	return all, nil
}

func sumStream(id uint16, perCPU []meterStream) engine.RxReport {
	r := engine.RxReport{Stream: id}
	var timedFrames uint64 // up to each CPU's last reading of the clock
	var runs [][]engine.RxRun
	for i := range perCPU {
		s := &perCPU[i]
		r.Frames += s.Frames
		r.Octets += s.Octets
		r.Reordered += s.Reordered
		r.Duplicate += s.Duplicate
		r.Broken += s.Broken
		r.Late += s.Late
		if s.Frames != 0 {
			tally.Span(&r.First, &r.Last, s.First, s.Last)
			r.Gap = max(r.Gap, unit.Instant(s.Gap))
			timedFrames += s.LastFrames
			runs = append(runs, tally.RunsOf(s.marks()))
		}
	}
	r.Runs = tally.JoinRuns(runs...)
	r.Span = tally.SpanOf(r.Runs)
	if d := r.Last - r.First; d > 0 {
		r.Rate = unit.FrameRate(float64(timedFrames) * 1e9 / float64(d))
	}
	return r
}

// marks are those of a CPU's runs, with the one under way.
func (s *meterStream) marks() (all []tally.RunMark) {
	for _, m := range s.Past[:min(s.Runs, engine.MaxRuns-1)] {
		all = append(all, tally.RunMark{
			Frames: m.Frames, Octets: m.Octets, Reordered: m.Reordered, Duplicate: m.Duplicate,
			First: unit.Instant(m.First), Last: unit.Instant(m.Last), Begin: unit.Instant(m.Begin), Top: unit.Instant(m.Top),
			Lowest: m.Lowest, Next: m.Next,
		})
	}
	return append(all, tally.RunMark{
		Frames: s.Frames, Octets: s.Octets, Reordered: s.Reordered, Duplicate: s.Duplicate,
		First: unit.Instant(s.Arrived), Last: unit.Instant(s.Last), Begin: networkOrder(s.Begin), Top: networkOrder(s.Top),
		Lowest: s.Lowest, Next: s.Next,
	})
}

// networkOrder is an instant that the program keeps as the frame has it.
func networkOrder(v uint64) unit.Instant {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return unit.Instant(binary.BigEndian.Uint64(b[:]))
}

func sumTimes(r *engine.RxReport, perCPU []meterTimes) {
	var sum tally.Timing
	add := func(to, from []uint64) {
		for i, n := range from {
			to[i] += n
		}
	}
	for i := range perCPU {
		t := &perCPU[i]
		add(sum.Latency[:], t.Latency[:])
		add(sum.Gaps[:], t.Gaps[:])
		add(sum.Ipdv[:], t.Ipdv[:])
		add(sum.Bursts[:], t.Bursts[:])
		if t.Run != 0 {
			sum.Bursts[tally.Burst(t.Run)]++
		}
	}
	sum.Into(r)
}

func (m *Meter) Close() error {
	var err error
	if m.link != nil {
		err = m.link.Close()
	}
	for _, p := range []*meterProgram{m.plain, m.timed} {
		if p != nil {
			p.coll.Close()
		}
	}
	return err
}
