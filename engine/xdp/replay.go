// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sort"

	"boxdyno/engine"
	"boxdyno/engine/internal/bpf"
	"boxdyno/frame"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

const ethHeader = 14

// Live frames of so many octets exist everywhere; longer ones are tried.
const surelyLive = 2048

// checkLive says whether live frames can have n octets. The limit is the kernel's
// page less what it puts around a frame: 3408 with pages of 4 KiB.
func checkLive(n int) error {
	if n <= surelyLive {
		return nil
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.XDP,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}, // XDP_DROP
		License:      "Dual BSD/GPL",
	})
	if err != nil {
		return bpf.Refused("try long live frames", err)
	}
	defer prog.Close()
	var failed error
	fits := func(n int) bool {
		err := runLive(prog, make([]byte, n), 1, 1)
		if err != nil && !errors.Is(err, unix.EINVAL) {
			failed = bpf.Refused("try long live frames", err)
		}
		return err == nil
	}
	const most = 1<<14 - 1 // that bpf/replay.c can address
	if n <= most && fits(n) || failed != nil {
		return failed
	}
	above := surelyLive + sort.Search(min(n, most+1)-surelyLive, func(i int) bool { return !fits(surelyLive + i) })
	if failed != nil {
		return failed
	}
	return &engine.TooLongError{Longest: n, Limit: above - 1}
}

// replay offers a stream of a source, whose windows it has filled (reel.go), with one
// bpf(2) call for the whole load, which a signal ends; bpf/replay.c makes the frames. A source
// whose pass does not fit into memory has windows that were sent filled anew, and is left
// where its last one was filled to: as far as 64 MiB beyond the last frame sent.
func (t *Transmitter) replay(ctx context.Context, l engine.Load, s engine.Stream) ([]engine.TxReport, error) {
	r, err := t.load(ctx, s.Source, l.Passes)
	if err != nil {
		return nil, err
	}
	if !r.whole {
		defer func() { t.reel = nil; r.close() }()
	}
	if err := r.holds(l.Speed); err != nil {
		return nil, err
	}
	own := 0.0
	if r.at > 0 {
		own = float64(r.frames-1) / float64(r.at) * 1e9
	}
	sc, err := NewSchedule(l, 1, s.ID, float64(r.octets)/float64(r.frames), own)
	if err != nil {
		return nil, err
	}
	if l.Speed > 0 {
		sc.flushTogether(l, r.burst)
	}
	k := r.kindOf(l, s, sc.Pace, t.Indexes[s.Lane])
	p, err := r.sender(k)
	if err != nil {
		return nil, err
	}
	if err := r.begin(p, l, s.ID); err != nil {
		return nil, err
	}
	how := Run{Longest: int(k.longest), Most: sc.Expected(l, l.Frames(s))}
	if !r.whole {
		how.tend = r.tend
	}
	err = t.Run(ctx, p, sc, how)
	rep, readErr := t.replayReport(p, sc, l, s)
	if err == nil {
		err = readErr
	}
	if err == nil {
		err = r.failed
	}
	reports := []engine.TxReport{rep}
	if err == nil {
		err = cmp.Or(t.Gone(reports), ctx.Err())
	}
	return reports, err
}

// load makes the reel of a source, or takes the last one where it holds it whole.
func (t *Transmitter) load(ctx context.Context, source frame.Source, passes uint64) (*reel, error) {
	if r := t.reel; r != nil {
		if reflect.TypeOf(source).Comparable() && r.source == source {
			return r, nil
		}
		t.reel = nil
		if err := r.close(); err != nil {
			return nil, fmt.Errorf("transmit: forget the last source: %w", err)
		}
	}
	if err := checkLive(source.Shape().Longest); err != nil {
		return nil, err
	}
	room, err := roomFor()
	if err != nil {
		return nil, fmt.Errorf("transmit: %w", err)
	}
	t.reel, err = newReel(ctx, source, passes, room)
	return t.reel, err
}

// A replayKind is what a replay's program is specialized for.
type replayKind struct {
	Pace
	ifindex, stream, longest       uint32
	mixed, looping, unique, signed bool
	draws                          [frame.MaxDraws]replayDraw
	fields                         [frame.MaxFields]replayField
}

func (r *reel) kindOf(l engine.Load, s engine.Stream, pace Pace, ifindex int) replayKind {
	k := replayKind{
		Pace: pace, ifindex: uint32(ifindex), stream: uint32(s.ID), longest: uint32(r.shape.Longest),
		mixed: true, looping: r.whole, unique: l.Unique, signed: true,
	}
	if r.whole {
		k.longest = uint32(r.longest)
		k.mixed, k.signed = r.least != r.longest, r.signed
	}
	list := 0
	for i, d := range r.shape.Draws {
		k.draws[i] = replayDraw{Count: uint64(d.Count), Kind: uint8(d.Kind), Class: d.Class, List: uint32(list)}
		if d.Kind == frame.List {
			k.draws[i].Count = uint64(len(d.List))
		}
		list += len(d.List)
	}
	for i, f := range r.shape.Fields {
		k.fields[i] = replayField{
			From: f.From, Div: f.Div, Mod: f.Mod, Step: max(f.Step, 1), Offset: f.Offset,
			Class: f.Class, Draw: f.Draw, Base: uint8(f.Base), Width: f.Width, Sums: uint8(f.Sums),
		}
	}
	return k
}

// sender loads the program, unless the last one will do.
func (r *reel) sender(k replayKind) (*Program, error) {
	if r.program != nil && r.kind == k {
		return r.program, nil
	}
	if r.program != nil {
		r.program.Coll.Close()
		r.program = nil
	}
	spec, err := loadReplay()
	if err != nil {
		return nil, fmt.Errorf("read the replay's program: %w", err)
	}
	err = errors.Join(k.Specialize(spec), setVariables(spec, map[string]any{
		replayVarIfindex: k.ifindex, replayVarStream: k.stream, replayVarLongest: k.longest,
		replayVarMixed: k.mixed, replayVarLooping: k.looping, replayVarUnique: k.unique, replayVarIsSigned: k.signed,
		replayVarValueSize: uint32(r.value), replayVarWindowsInUse: uint32(len(r.windows)),
		replayVarDrawCount: uint32(len(r.shape.Draws)), replayVarFieldCount: uint32(len(r.shape.Fields)),
		replayVarDraws: &k.draws, replayVarFields: &k.fields,
	}))
	if err != nil {
		return nil, err
	}
	for name, m := range r.maps {
		spec.Maps[name].MaxEntries, spec.Maps[name].ValueSize = m.MaxEntries(), m.ValueSize()
	}
	p, err := LoadProgram(spec, replayProgReplay, r.maps)
	if err != nil {
		return nil, err
	}
	r.program, r.kind = p, k
	return p, nil
}

// begin sets a loaded program's state for a load.
func (r *reel) begin(p *Program, l engine.Load, stream uint16) error {
	var states [frame.MaxDraws]uint64
	for i, d := range r.shape.Draws {
		if d.Kind != frame.Counter {
			states[i] = frame.DrawState(l.Seed, stream, i)
		}
	}
	if err := errors.Join(
		p.Coll.Variables[replayVarHere].Set(&replayCursor{Passes: l.Passes}),
		p.Coll.Variables[replayVarDrawStates].Set(&states),
		p.Coll.Variables[replayVarSequences].Set(&[frame.MaxClasses]uint32{}),
	); err != nil {
		return fmt.Errorf("set up the replay: %w", err)
	}
	return nil
}

func (t *Transmitter) replayReport(p *Program, sc *Schedule, l engine.Load, s engine.Stream) (engine.TxReport, error) {
	var here replayCursor
	refusals, err := t.Refusals.Read()
	state, stateErr := p.state()
	err = errors.Join(err, stateErr, p.Coll.Variables[replayVarHere].Get(&here))
	if err != nil {
		return engine.TxReport{Stream: s.ID}, fmt.Errorf("read the replay's counts: %w", err)
	}
	return sc.Report(p, l, s, 0, 1, Sent{
		Issued: state.Sent, Refused: refusals[0], Octets: here.Octets, passes: here.Pass, starved: here.Starved,
		First: unit.Instant(here.First), Last: unit.Instant(here.Last),
	})
}
