// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"net"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

const maxStreams = 4

// An xdpMeter is two programs of which one is attached: counting alone, or with
// timing. Detaching takes a veth's NAPI down, so they replace each other.
type xdpMeter struct {
	plain, timed *meterProgram
	link         link.Link
	armed        *meterProgram
	streams      []uint16
}

type meterProgram struct {
	coll             *ebpf.Collection
	streams, foreign *ebpf.Map
}

func loadMeterFor(timing bool) (*meterProgram, error) {
	spec, err := loadMeter()
	if err != nil {
		return nil, fmt.Errorf("read the meter's program: %w", err)
	}
	if err := spec.Variables[meterVarTiming].Set(timing); err != nil {
		return nil, fmt.Errorf("set the meter's timing: %w", err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, refused("load the meter", err)
	}
	return &meterProgram{coll: coll, streams: coll.Maps[meterMapStreams], foreign: coll.Maps[meterMapForeign]}, nil
}

func (x *xdp) OpenMeter(ctx context.Context, p host.Port) (_ Meter, err error) {
	m := &xdpMeter{}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if m.plain, err = loadMeterFor(false); err != nil {
		return nil, err
	}
	if m.timed, err = loadMeterFor(true); err != nil {
		return nil, err
	}
	m.armed = m.plain
	err = netns.Do(p.Netns, func() error {
		iface, err := net.InterfaceByName(p.Name)
		if err != nil {
			return fmt.Errorf("open a meter on %s: %w", p.Name, err)
		}
		m.link, err = link.AttachXDP(link.XDPOptions{
			Program: m.plain.coll.Programs[meterProgMeter], Interface: iface.Index, Flags: link.XDPDriverMode,
		})
		if err != nil {
			return refused("attach the meter to "+p.Name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *xdpMeter) Arm(ctx context.Context, timing bool, streams ...uint16) error {
	if len(streams) == 0 || len(streams) > maxStreams {
		return fmt.Errorf("arm the meter: %d streams, want 1 to %d", len(streams), maxStreams)
	}
	p := m.plain
	if timing {
		p = m.timed
	}
	var armed [maxStreams]uint32
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("arm the meter: %w", err)
	}
	zero := make([]meterStream, cpus)
	err = errors.Join(
		p.coll.Variables[meterVarArmedCount].Set(uint32(0)),
		p.foreign.Put(uint32(0), make([]uint64, cpus)),
	)
	for i, s := range streams {
		armed[i] = uint32(s)
		err = errors.Join(err, p.streams.Put(uint32(i), zero))
	}
	err = errors.Join(err,
		p.coll.Variables[meterVarArmed].Set(&armed),
		p.coll.Variables[meterVarArmedCount].Set(uint32(len(streams))),
	)
	if err == nil && p != m.armed {
		err = m.link.Update(p.coll.Programs[meterProgMeter])
	}
	if err != nil {
		return fmt.Errorf("arm the meter: %w", err)
	}
	m.armed, m.streams = p, append([]uint16(nil), streams...)
	return nil
}

func (m *xdpMeter) Read(ctx context.Context) (MeterReport, error) {
	var rep MeterReport
	var foreign []uint64
	if err := m.armed.foreign.Lookup(uint32(0), &foreign); err != nil {
		return rep, fmt.Errorf("read the meter: %w", err)
	}
	for _, n := range foreign {
		rep.Foreign += n
	}
	var perCPU []meterStream
	for i, id := range m.streams {
		if err := m.armed.streams.Lookup(uint32(i), &perCPU); err != nil {
			return rep, fmt.Errorf("read the meter's stream %d: %w", id, err)
		}
		rep.Streams = append(rep.Streams, sumStream(id, perCPU, m.armed == m.timed))
	}
	return rep, nil
}

func sumStream(id uint16, perCPU []meterStream, timed bool) RxReport {
	r := RxReport{Stream: id}
	var latency, gaps [len(meterStream{}.Latency)]uint64
	var timedFrames uint64 // up to each CPU's last reading of the clock
	for i := range perCPU {
		s := &perCPU[i]
		r.Frames += s.Frames
		r.Octets += s.Octets
		r.Reordered += s.Reordered
		r.Duplicate += s.Duplicate
		r.Broken += s.Broken
		for b := range latency {
			latency[b] += s.Latency[b]
			gaps[b] += s.Gaps[b]
		}
		if s.First == 0 {
			continue
		}
		if r.First == 0 || unit.Instant(s.First) < r.First {
			r.First = unit.Instant(s.First)
		}
		r.Last = max(r.Last, unit.Instant(s.Last))
		timedFrames += s.LastFrames
	}
	if d := r.Last - r.First; d > 0 {
		r.Rate = unit.FrameRate(float64(timedFrames) * 1e9 / float64(d))
	}
	if timed {
		r.Latency, r.Gaps = histogram(latency[:]), histogram(gaps[:])
	}
	return r
}

func (m *xdpMeter) Close() error {
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
