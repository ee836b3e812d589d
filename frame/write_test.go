// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"boxdyno/unit"

	"pgregory.net/rapid"
)

// naive recomputes every checksum of a frame and says whether each is right as it
// stands; it knows nothing of entries.
func naive(f []byte) (ip, l4 bool) {
	at := 14
	for binary.BigEndian.Uint16(f[at-2:]) == 0x8100 || binary.BigEndian.Uint16(f[at-2:]) == 0x88a8 {
		at += 4
	}
	var pseudo, payload []byte
	var protocol byte
	ip = true
	if f[at]>>4 == 4 {
		header := int(f[at]&15) * 4
		total := int(binary.BigEndian.Uint16(f[at+2:]))
		ip = onesComplement(f[at:at+header]) == 0
		protocol, payload = f[at+9], f[at+header:at+total]
		pseudo = append(pseudo, f[at+12:at+20]...)
	} else {
		protocol, payload = f[at+6], f[at+40:at+40+int(binary.BigEndian.Uint16(f[at+4:]))]
		pseudo = append(pseudo, f[at+8:at+40]...)
	}
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(payload)))
	pseudo = append(pseudo, 0, 0, 0, protocol)
	if protocol == 1 {
		pseudo = nil
	}
	if protocol == 17 && payload[6] == 0 && payload[7] == 0 {
		return ip, false
	}
	return ip, onesComplement(append(pseudo, payload...)) == 0
}

// window fills a window with a whole pass.
func window(t rapid.TB, s Source) *Window {
	w := &Window{Blob: make([]byte, s.Shape().Octets), Entries: make([]Entry, s.Shape().Frames)}
	if err := s.Fill(w); err != io.EOF {
		t.Fatalf("a window for a pass is not enough: %v", err)
	}
	if w.Len() != int(s.Shape().Frames) || w.Used() > int(s.Shape().Octets) {
		t.Fatalf("%d entries and %d octets, the shape says %d and %d", w.Len(), w.Used(), s.Shape().Frames, s.Shape().Octets)
	}
	return w
}

func synthetic(v6 bool, mutate ...func(*Synthetic)) Synthetic {
	s := Synthetic{
		Mix: Mix{Sizes: []unit.FrameSize{128}}, SrcMAC: [6]byte{2, 1}, DstMAC: [6]byte{2, 2},
		Src: netip.MustParseAddr("198.18.0.2"), Dst: netip.MustParseAddr("198.19.255.250"),
		SrcPort: FirstPort, DstPort: Port,
	}
	if v6 {
		s.Src, s.Dst = netip.MustParseAddr("2001:2:0:1::2"), netip.MustParseAddr("2001:2:0:2::ffff:fffa")
	}
	for _, m := range mutate {
		m(&s)
	}
	return s
}

// anySynthetic draws header stacks, flows and fields that go together.
func anySynthetic(t *rapid.T) Synthetic {
	s := synthetic(rapid.Bool().Draw(t, "v6"))
	s.Protocol = rapid.SampledFrom(protocols).Draw(t, "protocol")
	s.VLANs = []VLAN{{200, 3}, {4095, 7}}[:rapid.IntRange(0, 2).Draw(t, "tags")]
	s.Unsigned = rapid.Bool().Draw(t, "unsigned")
	s.Flows = rapid.SampledFrom([]int{0, 1, 2, 1000, FlowPorts, FlowPorts + 1, MaxFlows}).Draw(t, "flows")
	s.Popularity = rapid.SampledFrom([]Popularity{{}, {Random: true}}).Draw(t, "popularity")
	s.Answer = s.Protocol != ICMP && rapid.Bool().Draw(t, "answer")
	if s.Answer {
		s.SrcPort, s.DstPort = Port, FirstPort
	}
	s.Mix.Sizes = nil
	for range rapid.IntRange(1, 5).Draw(t, "sizes") {
		s.Mix.Sizes = append(s.Mix.Sizes, unit.FrameSize(rapid.IntRange(int(s.Smallest()), int(MaxJumbo)).Draw(t, "size")))
	}
	sample := s.draft(s.Smallest())
	for _, r := range fieldRows {
		_, has := r.place(s, sample.entry)
		if !has || len(s.Fields) == 6 || !rapid.Bool().Draw(t, r.name) || slices.Contains(s.vary(&Shape{}), r.name) {
			continue
		}
		kind := rapid.SampledFrom(fieldKinds).Draw(t, "kind")
		values := map[string]string{"fixed": "7", "counter": "", "random": "1-60", "list": "1,2,50"}[kind]
		switch v4 := s.Src.Is4(); {
		case r.values == macs:
			values = map[string]string{"fixed": "02:00:00:00:00:07", "counter": "02:00:00:00:00:00-02:00:ff:ff:ff:ff", "random": "02:00:00:00:00:00-02:00:00:00:00:09", "list": "06:00:00:00:00:00,06:00:01:02:03:04"}[kind]
		case r.values == addresses && v4:
			values = map[string]string{"fixed": "255.255.255.255", "counter": "198.18.0.0/15", "random": "0.0.0.0/0", "list": "1.2.3.4,255.255.0.0"}[kind]
		case r.values == addresses:
			values = map[string]string{"fixed": "::", "counter": "2001:2::/96", "random": "2001:2::1-2001:2::9", "list": "2001:2::1,2001:2::ffff:ffff"}[kind]
		}
		f, err := ParseField(r.name + "=" + kind + ":" + values)
		if values == "" {
			f, err = ParseField(r.name + "=" + kind)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Fields = append(s.Fields, f)
	}
	return s
}

func TestWrittenFramesAreRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySynthetic(t)
		source, err := NewSynthetic(s)
		if err != nil {
			t.Fatal(err)
		}
		seed, id := rapid.Uint64().Draw(t, "seed"), rapid.Uint16().Draw(t, "stream")
		unique, pass := rapid.Bool().Draw(t, "unique"), rapid.Uint64().Draw(t, "pass")
		w := window(t, source)
		for i := range w.Entries { // as a capture's
			w.Entries[i].Flags |= Rewrite
		}
		one, two := NewWriter(source.Shape(), id, seed, unique), NewWriter(source.Shape(), id, seed, unique)
		buf, same := make([]byte, source.Shape().Longest), make([]byte, source.Shape().Longest)
		for i := range min(w.Len(), 40) {
			n := one.Write(w, i, pass, buf)
			if want := s.Mix.Sizes[i%len(s.Mix.Sizes)].Buffer(); n != want {
				t.Fatalf("frame %d has %d octets, want %d", i, n, want)
			}
			if m := two.Write(w, i, pass, same); !bytes.Equal(buf[:n], same[:m]) {
				t.Fatalf("frame %d differs from its twin with the same seed", i)
			}
			if ip, l4 := naive(buf[:n]); !ip || !l4 {
				t.Fatalf("frame %d: IP checksum right: %v, layer 4: %v\n% x", i, ip, l4, buf[:min(n, 100)])
			}
			at := unit.Instant(rapid.Int64Range(0, 1<<62).Draw(t, "at"))
			for range 2 { // again over a time that is there
				Stamp(buf[:n], w.Entries[i], at)
			}
			if ip, l4 := naive(buf[:n]); !ip || !l4 {
				t.Fatalf("stamped frame %d: IP checksum right: %v, layer 4: %v", i, ip, l4)
			}
			sig, class := Parse(buf[:n])
			if s.Unsigned {
				if class != Foreign {
					t.Fatalf("frame %d without a signature is of class %v", i, class)
				}
			} else if class != Whole || sig != (Signature{Stream: id, Sequence: uint32(i), Time: at}) {
				t.Fatalf("frame %d: %+v, class %v", i, sig, class)
			}
		}
	})
}

// TestFieldValues holds written values against their definition.
func TestFieldValues(t *testing.T) {
	shape := Shape{
		Longest: 64, Classes: []string{"a", "b"},
		Draws: []Draw{{Count: 3}, {Kind: Random, Count: 10}, {Kind: Random}, {Kind: List, List: []uint32{5, 500, 70000}}, {Class: 1, Count: 1 << 20}},
		Fields: []Field{
			{Draw: 0, Width: 1, Offset: 1, From: 254},
			{Draw: 1, Width: 2, Offset: 2, From: 100, Step: 2},
			{Draw: 2, Width: 4, Offset: 4},
			{Draw: 2, Width: 2, Offset: 8, From: 1, Div: 1 << 16, Mod: 1000, Step: 3},
			{Draw: 3, Width: 4, Offset: 10},
			{Draw: 0, Base: AtL4, Width: 4, Offset: 0},  // no L4
			{Draw: 0, Base: AtL3, Width: 2, Offset: 11}, // ends behind the frame of 24
			{Class: 1, Draw: 4, Width: 4, Offset: 4},    // the other class
			{Draw: 0, Base: AtL3, Width: 1, Offset: 3},  // at 17
			{Class: 1, Draw: 4, Width: 1, Offset: 18},   // low octet
			{Class: 1, Draw: 4, Width: 2, Offset: 20, From: 7, Mod: 2},
		},
	}
	shape.Fields[6].Offset = 10
	if err := shape.Check(); err != nil {
		t.Fatal(err)
	}
	w := &Window{Blob: make([]byte, 64), Entries: make([]Entry, 2)}
	for class := range uint8(2) {
		e, b := w.Next(24)
		e.Class, e.L3 = class, 14
		for i := range b {
			b[i] = 0xee
		}
	}
	w.Entries[0].L3 = 14
	wr := NewWriter(shape, 9, 12345, false)
	two, any, list := DrawState(12345, 9, 1), DrawState(12345, 9, 2), DrawState(12345, 9, 3)
	buf := make([]byte, 64)
	for k := range uint32(1000) {
		wr.Write(w, 0, 0, buf)
		r, l := next(&any), []uint32{5, 500, 70000}[uint64(next(&list))*3>>32]
		want := []byte{0xee, byte(254 + k%3)}
		want = binary.BigEndian.AppendUint16(want, uint16(100+2*(uint64(next(&two))*10>>32)))
		want = binary.BigEndian.AppendUint32(want, r)
		want = binary.BigEndian.AppendUint16(want, uint16(1+r>>16%1000*3))
		want = binary.BigEndian.AppendUint32(want, l)
		want = append(want, 0xee, 0xee, 0xee, byte(k%3), 0xee, 0xee, 0xee, 0xee, 0xee, 0xee)
		if !bytes.Equal(buf[:24], want) {
			t.Fatalf("frame %d:\n% x, want\n% x", k, buf[:24], want)
		}
		if k%2 == 1 { // the other class counts apart
			wr.Write(w, 1, 0, buf)
			if got := binary.BigEndian.Uint32(buf[4:]); got != k/2 {
				t.Fatalf("class 1 has number %d, want %d", got, k/2)
			}
			if buf[18] != byte(k/2) || buf[21] != byte(7+k/2%2) || buf[0] != 0xee {
				t.Fatalf("class 1: % x", buf[:24])
			}
		}
	}
}

// TestGenerator pins the generator, which engine/xdp/bpf/replay.c has as well.
func TestGenerator(t *testing.T) {
	s := uint64(1)
	for i, want := range []uint32{0x47e4ce4b, 0xabcfa6a8, 0xb9d10d8f} {
		if got := next(&s); got != want {
			t.Errorf("number %d from state 1 is %#x, want %#x", i, got, want)
		}
	}
	seen := map[uint64]bool{}
	for stream := range uint16(16) {
		for i := range MaxDraws {
			s := DrawState(0, stream, i)
			if s == 0 || seen[s] {
				t.Errorf("stream %d, draw %d: state %#x", stream, i, s)
			}
			seen[s] = true
		}
	}
}

func TestUniqueAddresses(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		source, err := NewSynthetic(synthetic(v6))
		if err != nil {
			t.Fatal(err)
		}
		w := window(t, source)
		buf := make([]byte, source.Shape().Longest)
		at := map[bool]int{false: 26, true: 34}[v6]
		for _, c := range []struct {
			unique bool
			flags  EntryFlags
			by     uint32
		}{{false, Rewrite, 0}, {true, 0, 0}, {true, Rewrite, 300}} {
			w.Entries[0].Flags = w.Entries[0].Flags&^Rewrite | c.flags
			NewWriter(source.Shape(), 0, 0, c.unique).Write(w, 0, 300, buf)
			for _, o := range []int{at, at + map[bool]int{false: 4, true: 16}[v6]} {
				if got, want := binary.BigEndian.Uint32(buf[o:]), binary.BigEndian.Uint32(w.Frame(0)[o:])+c.by; got != want {
					t.Errorf("%+v, v6 %v: octets at %d are %#x, want %#x", c, v6, o, got, want)
				}
			}
		}
	}
}

func TestShapeRefusals(t *testing.T) {
	for want, s := range map[string]Shape{
		"17 classes":    {Classes: make([]string, 17)},
		"draw 0 is of":  {Draws: []Draw{{Class: 1}}},
		"kind 3":        {Draws: []Draw{{Kind: 3}}},
		"without any":   {Draws: []Draw{{Kind: List}}},
		"131073 values": {Draws: []Draw{{Kind: List, List: make([]uint32, MaxList+1)}}},
		"no draw 0":     {Fields: []Field{{Width: 1}}},
		"base 3":        {Draws: []Draw{{}}, Fields: []Field{{Width: 1, Base: 3}}},
		"3 octets":      {Draws: []Draw{{}}, Fields: []Field{{Width: 3}}},
		"odd offset":    {Draws: []Draw{{}}, Fields: []Field{{Width: 2, Offset: 1}}},
		"9 draws":       {Draws: make([]Draw, 9)},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a sentence with %q", err, want)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	for name, mutate := range map[string]func(*Synthetic){
		"64":    func(s *Synthetic) { s.Mix = Mix{Sizes: []unit.FrameSize{64}} },
		"flows": func(s *Synthetic) { s.Mix = Mix{Sizes: []unit.FrameSize{64}}; s.Flows = MaxFlows },
		"imix":  func(s *Synthetic) { s.Mix = IMIX; s.Flows = 1000 },
		"fields": func(s *Synthetic) {
			s.Flows = 1000
			s.Fields = []FieldSpec{must(ParseField("src=random:198.18.0.0/16")), must(ParseField("ttl=counter:1-9"))}
		},
	} {
		b.Run(name, func(b *testing.B) {
			source, err := NewSynthetic(synthetic(false, mutate))
			if err != nil {
				b.Fatal(err)
			}
			w := &Window{Blob: make([]byte, source.Shape().Octets), Entries: make([]Entry, source.Shape().Frames)}
			if err := source.Fill(w); err != io.EOF {
				b.Fatal(err)
			}
			wr := NewWriter(source.Shape(), 1, 1, false)
			buf := make([]byte, source.Shape().Longest)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k := i % w.Len()
				wr.Write(w, k, 0, buf)
				Stamp(buf, w.Entries[k], unit.Instant(i))
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestUDPChecksumIsNeverZero takes a frame through all checksums that it can
// have: 0 would mean that there is none.
func TestUDPChecksumIsNeverZero(t *testing.T) {
	source := must(NewSynthetic(synthetic(false, func(s *Synthetic) { s.Fields = []FieldSpec{must(ParseField("sport=counter"))} })))
	wr, w := NewWriter(source.Shape(), 0, 0, false), window(t, source)
	buf := make([]byte, source.Shape().Longest)
	avoided := false
	for k := range 1 << 16 {
		wr.Write(w, k%w.Len(), 0, buf)
		switch binary.BigEndian.Uint16(buf[40:]) {
		case 0:
			t.Fatalf("frame %d has no checksum", k)
		case 0xffff:
			avoided = true
			if _, ok := naive(buf); !ok {
				t.Fatalf("frame %d has a wrong checksum", k)
			}
		}
	}
	if !avoided {
		t.Error("no frame has the checksum 0xffff")
	}
}
