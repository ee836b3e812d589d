// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/frame"
	"boxdyno/internal/testutil"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"pgregory.net/rapid"
)

// anySource is what the contract of frame.Source allows, and more: offsets are
// anywhere, checksums are wrong.
func anySource(t *rapid.T) *enginetest.ListSource {
	even := func(most int) *rapid.Generator[uint16] {
		return rapid.Custom(func(t *rapid.T) uint16 { return uint16(rapid.IntRange(0, most/2).Draw(t, "half") * 2) })
	}
	classes := rapid.IntRange(1, 3).Draw(t, "classes")
	class := rapid.Custom(func(t *rapid.T) uint8 { return uint8(rapid.IntRange(0, classes-1).Draw(t, "class")) })
	s := &enginetest.ListSource{Silent: rapid.Bool().Draw(t, "silent"), Declared: frame.Shape{Classes: make([]string, classes)}}
	for range rapid.IntRange(0, frame.MaxDraws).Draw(t, "draws") {
		d := frame.Draw{Class: class.Draw(t, "draw's class"), Kind: frame.DrawKind(rapid.IntRange(0, 2).Draw(t, "kind")), Count: rapid.Uint32().Draw(t, "count")}
		if rapid.Bool().Draw(t, "few") {
			d.Count %= 5
		}
		if d.Kind == frame.List {
			d.List = rapid.SliceOfN(rapid.Uint32(), 1, 9).Draw(t, "list")
		}
		s.Declared.Draws = append(s.Declared.Draws, d)
	}
	if len(s.Declared.Draws) > 0 {
		for range rapid.IntRange(0, frame.MaxFields).Draw(t, "fields") {
			draw := rapid.IntRange(0, len(s.Declared.Draws)-1).Draw(t, "field's draw")
			f := frame.Field{
				Class: s.Declared.Draws[draw].Class, Draw: uint8(draw), Base: frame.FieldBase(rapid.IntRange(0, 2).Draw(t, "base")),
				Width: rapid.SampledFrom([]uint8{1, 2, 4}).Draw(t, "width"), Offset: even(80).Draw(t, "offset"),
				From: rapid.Uint32().Draw(t, "from"), Div: rapid.Uint32Range(0, 4).Draw(t, "div"), Mod: rapid.Uint32Range(0, 9).Draw(t, "mod"),
				Step: rapid.Uint32Range(0, 300).Draw(t, "step"), Sums: frame.FieldSums(rapid.IntRange(0, 3).Draw(t, "sums")),
			}
			if f.Width == 1 && rapid.Bool().Draw(t, "odd") {
				f.Offset++
			}
			s.Declared.Fields = append(s.Declared.Fields, f)
		}
	}
	signed := rapid.Bool().Draw(t, "signed")
	for range rapid.IntRange(1, 12).Draw(t, "frames") {
		n := rapid.IntRange(60, 300).Draw(t, "octets")
		s.Frames = append(s.Frames, rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "frame"))
		e := frame.Entry{Class: class.Draw(t, "frame's class")}
		switch rapid.IntRange(0, 2).Draw(t, "version") {
		case 0:
			e.Flags, e.L3, e.L4 = frame.IPv4, 14, 34
		case 1:
			e.Flags, e.L3, e.L4 = frame.IPv6, 14, 54
		}
		e.Flags |= frame.EntryFlags(rapid.IntRange(0, 3).Draw(t, "flags")) << 2
		if e.L3 == 0 {
			e.Flags &^= frame.Rewrite
		} else {
			e.Sum = rapid.SampledFrom([]uint16{0, e.L4 + 2, e.L4 + 4}).Draw(t, "sum")
			if signed && rapid.Bool().Draw(t, "has a signature") {
				if e.Sig = e.L4 + 8; int(e.Sig)+frame.SignatureLen > n {
					e.Sig = 0
				} else {
					clear(s.Frames[len(s.Frames)-1][e.Sig:][:frame.SignatureLen])
					s.Frames[len(s.Frames)-1][e.Sig+5] = e.Class
				}
			}
		}
		s.Entries = append(s.Entries, e)
	}
	return s
}

// The replay in the kernel writes the octets that the writer in Go writes, from a
// pass in memory and from windows that are filled again and again.
func TestReplayProgramWritesTheWritersFrames(t *testing.T) {
	testutil.Privileged(t)
	rapid.Check(t, func(t *rapid.T) {
		s := anySource(t)
		twin := *s
		l := engine.Load{Unique: rapid.Bool().Draw(t, "unique"), Seed: rapid.Uint64().Draw(t, "seed")}
		id := rapid.Uint16().Draw(t, "stream")
		room := reelRoom{whole: 1 << 20, value: rapid.IntRange(500, 5000).Draw(t, "value"), ring: rapid.IntRange(700, 3000).Draw(t, "ring")}
		if rapid.Bool().Draw(t, "ring only") {
			room.whole = 0
		}
		r, err := newReel(context.Background(), s, 0, room)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		p, err := r.sender(r.kindOf(l, engine.Stream{ID: id}, Pace{burst: 1}, 1))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.begin(p, l, id), p.sched.Set(&senderSchedule{})); err != nil {
			t.Fatal(err)
		}

		longest := s.Shape().Longest
		w := &frame.Window{Blob: make([]byte, 1<<13), Entries: make([]frame.Entry, len(s.Frames)+1)}
		if err := twin.Fill(w); err != io.EOF {
			t.Fatal(err)
		}
		writer := frame.NewWriter(s.Shape(), id, l.Seed, l.Unique)
		dirty, want := bytes.Repeat([]byte{0xee}, int(r.kind.longest)), make([]byte, longest)
		for pass := range uint64(3) {
			for i := range w.Len() {
				var opts ebpf.RunOptions
				for code, tries := uint32(0), 0; code != 4; tries++ {
					if !r.whole {
						r.tend()
					}
					opts = ebpf.RunOptions{Data: dirty, DataOut: make([]byte, 2000)}
					if code, err = p.prog.Run(&opts); err != nil || tries > 3 {
						t.Fatalf("pass %d, frame %d: verdict %d, %v", pass, i, code, err)
					}
				}
				e := w.Entries[i]
				n := writer.Write(w, i, pass, want)
				if e.Sig != 0 {
					at := binary.BigEndian.Uint64(opts.DataOut[e.Sig+10:])
					if at == 0 {
						t.Fatalf("pass %d, frame %d has no time", pass, i)
					}
					frame.Stamp(want, e, unit.Instant(at))
				}
				if !bytes.Equal(opts.DataOut, want[:n]) {
					t.Fatalf("pass %d, frame %d is\n% x, want\n% x", pass, i, opts.DataOut, want[:n])
				}
			}
		}
	})
}
