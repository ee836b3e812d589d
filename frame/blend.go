// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
)

// blendPeriod is after how many frames the order of a blend's sources comes again.
const blendPeriod = 1000

// A blend puts frames of a flood between those of a base:
//
//	base -> window of its own, one frame ahead -> copied |
//	                                flood, so many frames -> Window
type blend struct {
	base, flood Source
	shape       Shape
	shift       uint8             // what the flood's classes are numbered from
	flooded     [blendPeriod]bool // whose turn it is
	turn        int
	ahead       Window // of the base
	next        int    // its frame that is next
	ended       error  // what the base's last Fill said
	last        uint64 // At of the last frame
	run         int    // frames of the flood before the base's next
	ran         int    // of them, already in a window
}

// Blend is a source of base's frames at their times, with frames of flood spread evenly
// between them. In any 1000 frames of a pass exactly the share (0.001 to 0.999 in steps
// of 0.001) is the flood's; seed decides where. Classes, draws and fields are base's,
// then flood's, and must fit together (MaxClasses, MaxDraws, MaxFields). A pass is one
// over base; the flood goes on from pass to pass. Close closes both.
func Blend(base, flood Source, share float64, seed uint64) (Source, error) {
	k := int(math.Round(share * blendPeriod))
	if !(math.Abs(share*blendPeriod-float64(k)) < 1e-6) || k < 1 || k >= blendPeriod {
		return nil, fmt.Errorf("share of flood %v: want 0.001 to 0.999 in steps of 0.001", share)
	}
	b := &blend{base: base, flood: flood}
	for i := range k {
		b.flooded[i] = true
	}
	rand.New(rand.NewPCG(seed, 0x626c656e64)).Shuffle(blendPeriod, func(i, j int) {
		b.flooded[i], b.flooded[j] = b.flooded[j], b.flooded[i]
	})
	one, two := base.Shape(), flood.Shape()
	name := func(classes []string, name string) []string {
		if len(classes) == 0 {
			return []string{name}
		}
		return classes
	}
	one.Classes, two.Classes = name(one.Classes, "base"), name(two.Classes, "flood")
	b.shift = uint8(len(one.Classes))
	b.shape = Shape{
		Longest: max(one.Longest, two.Longest), Timed: one.Timed,
		Classes: slices.Concat(one.Classes, two.Classes),
		Draws:   slices.Concat(one.Draws, two.Draws), Fields: slices.Concat(one.Fields, two.Fields),
	}
	for i := range two.Draws {
		b.shape.Draws[len(one.Draws)+i].Class += b.shift
	}
	for i := range two.Fields {
		f := &b.shape.Fields[len(one.Fields)+i]
		f.Class += b.shift
		f.Draw += uint8(len(one.Draws))
	}
	if err := b.shape.Check(); err != nil {
		return nil, fmt.Errorf("blend: %w", err)
	}
	b.shape.Frames = b.total(one.Frames)
	if b.shape.Frames > 0 && one.Octets > 0 {
		mean := float64(two.Longest)
		if two.Frames > 0 && two.Octets > 0 {
			mean = float64(two.Octets) / float64(two.Frames)
		}
		b.shape.Octets = one.Octets + uint64(mean*float64(b.shape.Frames-one.Frames))
	}
	b.ahead = Window{Blob: make([]byte, max(256<<10, one.Longest+8)), Entries: make([]Entry, 1024)}
	b.begin()
	return b, nil
}

// total is how many frames a pass with n of the base's has.
func (b *blend) total(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	var places []uint64
	for i, flooded := range b.flooded {
		if !flooded {
			places = append(places, uint64(i))
		}
	}
	k := uint64(len(places))
	return (n-1)/k*blendPeriod + places[(n-1)%k] + 1
}

func (b *blend) Shape() Shape { return b.shape }

func (b *blend) Notes() []string { return slices.Concat(b.base.Notes(), b.flood.Notes()) }

func (b *blend) Close() error { return errors.Join(b.base.Close(), b.flood.Close()) }

// begin begins a pass.
func (b *blend) begin() {
	b.turn, b.last, b.ended, b.next = 0, 0, nil, 0
	b.ahead.Reset()
	b.count()
}

// count finds how many frames of the flood come before the base's next.
func (b *blend) count() {
	b.run, b.ran = 0, 0
	for b.flooded[b.turn] {
		b.run++
		b.turn = (b.turn + 1) % blendPeriod
	}
	b.turn = (b.turn + 1) % blendPeriod
}

// Fill is as Source says.
func (b *blend) Fill(w *Window) error {
	for {
		for b.next == b.ahead.Len() {
			if b.ended != nil {
				b.begin()
				return io.EOF
			}
			b.ahead.Reset()
			b.next = 0
			if b.ended = b.base.Fill(&b.ahead); b.ended != nil && b.ended != io.EOF {
				return b.ended
			}
			if b.ended == nil && b.ahead.Len() == 0 {
				return errors.New("blend: the base yields no frames")
			}
		}
		from := b.ahead.Entries[b.next]
		if b.ran < b.run {
			if err := b.fillFlood(w, from.At); err != nil || b.ran < b.run {
				return err
			}
		}
		octets := b.ahead.Frame(b.next)
		e, to := w.Next(len(octets))
		if e == nil {
			return full(w, len(octets))
		}
		copy(to, octets)
		off := e.Off
		*e = from
		e.Off = off
		b.last = from.At
		b.next++
		b.count()
	}
}

// fillFlood adds what is left of the run before the base's frame at until, as far
// as there is room.
func (b *blend) fillFlood(w *Window, until uint64) error {
	entries := w.Entries
	defer func() { w.Entries = entries }()
	for tries := 0; b.ran < b.run && w.Len() < len(entries); {
		first := w.Len()
		w.Entries = entries[:min(len(entries), first+b.run-b.ran)]
		err := b.flood.Fill(w)
		if err != nil && err != io.EOF {
			return err
		}
		if w.Len() == first {
			if err == nil { // no more room
				return nil
			}
			if tries++; tries > 1 {
				return errors.New("blend: the flood yields no frames")
			}
			continue
		}
		tries = 0
		for i := first; i < w.Len(); i++ {
			e := &w.Entries[i]
			if e.Sig != 0 {
				e.growSum(w.Frame(i), put(w.Frame(i), int(e.Sig)+4, 2, uint32(e.Class+b.shift)))
			}
			e.Class += b.shift
			b.ran++
			e.At = 0
			if b.shape.Timed {
				e.At = b.last + (until-min(until, b.last))/uint64(b.run+1)*uint64(b.ran)
			}
		}
	}
	return nil
}
