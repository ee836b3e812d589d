// SPDX-License-Identifier: Apache-2.0

// Package roll meters the frames of a capture, each told apart from the others by its mark:
// an XDP program on any port, whatever backend sends.
package roll

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"boxdyno/engine"
	"boxdyno/engine/internal/bpf"
	"boxdyno/engine/internal/clock"
	"boxdyno/engine/internal/tally"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
)

// A Meter is the program of bpf/roll.c with its table, which user space has filled:
//
//	Roll.Marks -> slots of the table, each at its key or at most rollProbes behind it
//	bpf/roll.c -> counts in the slots, and marks of strange frames in a map of their own
//	Read       -> counts of all entries, from the table's memory
//
// It sees every frame before anything buffers it, and so loses none itself.
type Meter struct {
	port   string
	stamps string
	link   link.Link
	roll   *frame.Roll
	coll   *ebpf.Collection
	mapped []byte
	slots  []rollSlot
	at     []uint32 // the slot of each entry
	taken  uint64   // frames before Arm
}

// rollProbes is how far from its key's place a slot may lie: PROBES in bpf/roll.c.
const rollProbes = 32

// Open opens a meter of r's frames on a port: in its driver, or else behind it. There it sees
// merged frames where the port merges some (GRO). See engine.Backend.OpenRoll.
func Open(p host.Port, r *frame.Roll, inDriver bool) (engine.Meter, error) {
	if inDriver {
		return open(p, r, link.XDPDriverMode, "XDP program")
	}
	return open(p, r, link.XDPGenericMode, "generic XDP program behind the driver")
}

func open(p host.Port, r *frame.Roll, mode link.XDPAttachFlags, what string) (_ engine.Meter, err error) {
	_ = rlimit.RemoveMemlock() // as package xdp does
	m := &Meter{port: p.Name, stamps: clock.Stamps(what), roll: r}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if err := m.load(); err != nil {
		return nil, err
	}
	err = netns.Do(p.Netns, func() error {
		iface, err := net.InterfaceByName(p.Name)
		if err != nil {
			return fmt.Errorf("open a meter on %s: %w", p.Name, err)
		}
		m.link, err = bpf.Attach(p.Name, iface.Index, m.coll.Programs[rollProgRoll], mode)
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// load makes the table and the program.
func (m *Meter) load() error {
	keys := make([]uint64, len(m.roll.Marks))
	for i, mark := range m.roll.Marks {
		keys[i] = mark.Key()
	}
	size := 1024
	for size < 2*len(keys) {
		size *= 2
	}
	for m.at = placeKeys(keys, size); m.at == nil; m.at = placeKeys(keys, size) {
		size *= 2
	}
	spec, err := loadRoll()
	if err != nil {
		return fmt.Errorf("read the replay meter's program: %w", err)
	}
	spec.Maps[rollMapTable].MaxEntries = uint32(size)
	err = errors.Join(spec.Variables[rollVarSame].Set(uint32(m.roll.Same)), spec.Variables[rollVarSlotMask].Set(uint32(size-1)))
	if err != nil {
		return fmt.Errorf("set up the replay meter's program: %w", err)
	}
	if m.coll, err = bpf.Load(spec, nil); err != nil {
		return bpf.Refused("load the replay's meter", err)
	}
	page := os.Getpagesize()
	octets := (size*int(unsafe.Sizeof(rollSlot{})) + page - 1) &^ (page - 1)
	m.mapped, err = unix.Mmap(m.coll.Maps[rollMapTable].FD(), 0, octets, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the replay meter's table into memory: %w", err)
	}
	m.slots = unsafe.Slice((*rollSlot)(unsafe.Pointer(&m.mapped[0])), size)
	for i, key := range keys {
		m.slots[m.at[i]].Key = key
	}
	return nil
}

// placeKeys finds the slot of each of keys, none of which is 0, in a table of a power of
// two; nil where one would lie too far from its place.
func placeKeys(keys []uint64, size int) []uint32 {
	at, taken, mask := make([]uint32, len(keys)), make([]bool, size), uint32(size-1)
	for i, key := range keys {
		at[i] = uint32(key) & mask
		for n := 0; taken[at[i]]; n++ {
			if n == rollProbes-1 {
				return nil
			}
			at[i] = (at[i] + 1) & mask
		}
		taken[at[i]] = true
	}
	return at
}

// Arm forgets what arrived. It takes no streams.
func (m *Meter) Arm(_ context.Context, _ bool, streams ...uint16) error {
	if len(streams) > 0 {
		return errors.New("arm the replay's meter: it counts no streams")
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	if m.taken, err = m.Taken(); err != nil {
		return err
	}
	for i := range m.slots {
		m.slots[i].Seen = 0
	}
	err = m.coll.Maps[rollMapTotals].Put(uint32(0), make([]rollSums, cpus))
	strange, count := m.coll.Maps[rollMapStrangers], uint64(0)
	var old []rollMark
	for all, key := strange.Iterate(), (rollMark{}); all.Next(&key, &count); {
		old = append(old, key)
	}
	for _, key := range old {
		if e := strange.Delete(key); !errors.Is(e, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return fmt.Errorf("arm the replay's meter: %w", err)
	}
	return nil
}

// Taken is how many frames the meter has taken off the port since it was opened.
func (m *Meter) Taken() (uint64, error) {
	var perCPU []rollSums
	if err := m.coll.Maps[rollMapTotals].Lookup(uint32(0), &perCPU); err != nil {
		return 0, fmt.Errorf("read the replay's meter: %w", err)
	}
	n := m.taken
	for _, s := range perCPU {
		n += s.Known + s.Strange
	}
	return n, nil
}

// Sink changes nothing: see engine.Backend.OpenRoll.
func (m *Meter) Sink(bool) error { return nil }

// Screen changes nothing: see engine.Backend.OpenRoll.
func (m *Meter) Screen() error { return nil }

func (m *Meter) Read(context.Context) (engine.MeterReport, error) {
	rep := engine.MeterReport{Stamps: m.stamps, Roll: &frame.Arrivals{Seen: make([]uint64, len(m.at)), Strange: map[frame.Mark]uint64{}}}
	var perCPU []rollSums
	if err := m.coll.Maps[rollMapTotals].Lookup(uint32(0), &perCPU); err != nil {
		return rep, fmt.Errorf("read the replay's meter: %w", err)
	}
	for _, s := range perCPU {
		rep.Foreign += s.Strange
		rep.ForeignOctets += s.StrangeOctets
		rep.Roll.More += s.More
		if s.Known != 0 {
			tally.Span(&rep.First, &rep.Last, s.First, s.Last)
		}
	}
	for i, at := range m.at {
		rep.Roll.Seen[i] = m.slots[at].Seen
	}
	if rep.Foreign > 0 {
		all, key, count := m.coll.Maps[rollMapStrangers].Iterate(), rollMark{}, uint64(0)
		for all.Next(&key, &count) {
			rep.Roll.Strange[frame.Mark{Head: key.Head, Body: key.Body}] = count
		}
		if err := all.Err(); err != nil {
			return rep, fmt.Errorf("read the replay meter's strange frames: %w", err)
		}
	}
	return rep, bpf.Gone(m.link, m.port)
}

func (m *Meter) Close() error {
	var errs []error
	if m.link != nil {
		errs = append(errs, m.link.Close())
	}
	if m.mapped != nil {
		errs = append(errs, unix.Munmap(m.mapped))
		m.mapped, m.slots = nil, nil
	}
	if m.coll != nil {
		m.coll.Close()
	}
	return errors.Join(errs...)
}
