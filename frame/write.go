// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"fmt"

	"boxdyno/unit"
)

// A Writer makes the frames of a source as they leave: octets of the entry, draws of its
// class, fields, addresses of the pass, signature, checksums. It is the backends' sender in
// Go, and the twin that engine/xdp/bpf/replay.c is compared with, octet by octet. All draws of a
// class advance once for every frame of it, used or not. A field whose base the entry lacks,
// or that would end behind the frame, is left out. Checksums change by RFC 1624, equation 3:
// one that was wrong stays wrong. A checksum at L4+2 is ICMP's, and over IPv4 does not cover
// the addresses that Unique changes. It serves one stream, and one goroutine at a time.
type Writer struct {
	stream  uint16
	unique  bool
	classes [MaxClasses]classWriter
	states  [MaxDraws]uint64
	values  [MaxDraws]uint32
}

type classWriter struct {
	sequence uint32
	draws    []numberedDraw
	fields   []Field // Div and Step are not 0
}

type numberedDraw struct {
	Draw
	index int
}

// NewWriter begins the stream of a source of this shape, which must be in order
// (Shape.Check). Seed is Load.Seed, unique Load.Unique.
func NewWriter(shape Shape, stream uint16, seed uint64, unique bool) *Writer {
	w := &Writer{stream: stream, unique: unique}
	for i, d := range shape.Draws {
		if d.Kind != Counter {
			w.states[i] = DrawState(seed, stream, i)
		}
		c := &w.classes[d.Class]
		c.draws = append(c.draws, numberedDraw{d, i})
	}
	for _, f := range shape.Fields {
		f.Div, f.Step = max(f.Div, 1), max(f.Step, 1)
		c := &w.classes[f.Class]
		c.fields = append(c.fields, f)
	}
	return w
}

// Write puts entry i of w, as it leaves in this pass over the source, into buf,
// which must hold Shape.Longest octets, and returns its length. The frame has no
// transmit time yet (Stamp). Every call is the next frame of its class.
func (wr *Writer) Write(w *Window, i int, pass uint64, buf []byte) int {
	e := &w.Entries[i]
	b := buf[:e.Len]
	copy(b, w.Frame(i))
	c := &wr.classes[e.Class]
	var ip, l4 uint64 // what the checksums' data grew by

	for j := range c.draws {
		d := &c.draws[j]
		wr.values[d.index] = wr.draw(d)
	}
	for j := range c.fields {
		f := &c.fields[j]
		at, ok := f.place(e)
		if !ok {
			continue
		}
		v := wr.values[f.Draw]
		if f.Div > 1 {
			v /= f.Div
		}
		if f.Mod > 0 {
			v %= f.Mod
		}
		grown := put(b, at, f.Width, f.From+v*f.Step)
		if f.Sums&SumsIP != 0 {
			ip += grown
		}
		if f.Sums&SumsL4 != 0 {
			l4 += grown
		}
	}
	if wr.unique && e.Flags&Rewrite != 0 {
		grown := addPass(b, e, uint32(pass))
		ip += grown
		if e.Flags&IPv6 != 0 || e.Sum != e.L4+2 {
			l4 += grown
		}
	}
	if e.Sig != 0 {
		at := int(e.Sig)
		l4 += put(b, at+4, 2, uint32(e.Class)+uint32(wr.stream))
		l4 += put(b, at+6, 4, c.sequence)
		c.sequence++
	}
	if ip != 0 && e.Flags&IPv4 != 0 {
		at := e.L3 + 10
		binary.BigEndian.PutUint16(b[at:], grow(binary.BigEndian.Uint16(b[at:]), ip))
	}
	e.growSum(b, l4)
	return len(b)
}

// Stamp writes the transmit time into a signed frame that Write made of e; it
// leaves a frame that is not signed alone.
func Stamp(buf []byte, e Entry, at unit.Instant) {
	if e.Sig == 0 {
		return
	}
	i := int(e.Sig) + 10
	e.growSum(buf, put(buf, i, 4, uint32(uint64(at)>>32))+put(buf, i+4, 4, uint32(at)))
}

// growSum keeps the layer-4 checksum right.
func (e *Entry) growSum(b []byte, grown uint64) {
	if grown == 0 || e.Sum == 0 {
		return
	}
	s := grow(binary.BigEndian.Uint16(b[e.Sum:]), grown)
	if s == 0 && e.Flags&SumUDP != 0 {
		s = 0xffff
	}
	binary.BigEndian.PutUint16(b[e.Sum:], s)
}

func (wr *Writer) draw(d *numberedDraw) uint32 {
	s := &wr.states[d.index]
	switch d.Kind {
	case Counter:
		v := uint32(*s)
		if *s++; *s == uint64(d.Count) {
			*s = 0
		}
		return v
	case List:
		return d.List[below(next(s), uint32(len(d.List)))]
	}
	if d.Count == 0 {
		return next(s)
	}
	return below(next(s), d.Count)
}

// place is where the field begins in the entry's frame, if it has one there.
func (f *Field) place(e *Entry) (int, bool) {
	base := 0
	switch f.Base {
	case AtL3:
		base = int(e.L3)
	case AtL4:
		base = int(e.L4)
	}
	at := base + int(f.Offset)
	return at, (base > 0 || f.Base == FrameStart) && at+int(f.Width) <= int(e.Len)
}

// put writes v, in network byte order and width octets, and returns what the sum
// of the 16-bit words grew by, modulo 0xffff; 0 where nothing changed.
func put(b []byte, at int, width uint8, v uint32) uint64 {
	var old uint32
	shift := uint(0)
	switch width {
	case 1:
		old, v = uint32(b[at]), v&0xff
		b[at] = byte(v)
		if at&1 == 0 {
			shift = 8
		}
	case 2:
		old, v = uint32(binary.BigEndian.Uint16(b[at:])), v&0xffff
		binary.BigEndian.PutUint16(b[at:], uint16(v))
	default:
		old = binary.BigEndian.Uint32(b[at:])
		binary.BigEndian.PutUint32(b[at:], v)
	}
	if old == v {
		return 0
	}
	old, v = old<<shift, v<<shift
	return uint64(^uint16(old>>16)) + uint64(^uint16(old)) + uint64(v>>16) + uint64(v&0xffff)
}

// addPass adds to the last 4 octets of both addresses and returns what the words
// grew by.
func addPass(b []byte, e *Entry, pass uint32) uint64 {
	var src, dst int
	switch {
	case e.Flags&IPv4 != 0:
		src, dst = int(e.L3)+12, int(e.L3)+16
	case e.Flags&IPv6 != 0:
		src, dst = int(e.L3)+20, int(e.L3)+36
	default:
		return 0
	}
	return put(b, src, 4, binary.BigEndian.Uint32(b[src:])+pass) +
		put(b, dst, 4, binary.BigEndian.Uint32(b[dst:])+pass)
}

// grow is the checksum c after its data's words grew (RFC 1624, equation 3).
func grow(c uint16, grown uint64) uint16 {
	s := uint64(^c) + grown
	s = s>>16 + s&0xffff
	return fold(uint32(s))
}

// DrawState is the state in which draw i of a stream begins, never 0: one step of
// splitmix64. Streams with one seed draw different numbers.
func DrawState(seed uint64, stream uint16, i int) uint64 {
	return max(scramble(seed+uint64(stream)*0xd1342543de82ef95+uint64(i+1)*0x9e3779b97f4a7c15), 1)
}

// next is the next 32-bit number of a generator xorshift64*.
func next(s *uint64) uint32 {
	x := *s
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	*s = x
	return uint32(x * 0x2545f4914f6cdd1d >> 32)
}

// below maps a 32-bit number to 0 to n-1.
func below(number, n uint32) uint32 { return uint32(uint64(number) * uint64(n) >> 32) }

// Check says what a backend could not carry out in a shape, in a sentence.
func (s Shape) Check() error {
	classes := max(len(s.Classes), 1)
	if classes > MaxClasses || len(s.Draws) > MaxDraws || len(s.Fields) > MaxFields {
		return fmt.Errorf("source: %d classes, %d draws and %d fields: at most %d, %d and %d are possible",
			classes, len(s.Draws), len(s.Fields), MaxClasses, MaxDraws, MaxFields)
	}
	listed := 0
	for i, d := range s.Draws {
		listed += len(d.List)
		switch {
		case int(d.Class) >= classes:
			return fmt.Errorf("source: draw %d is of class %d, and there are %d", i, d.Class, classes)
		case d.Kind > List:
			return fmt.Errorf("source: draw %d has the unknown kind %d", i, d.Kind)
		case d.Kind == List && len(d.List) == 0:
			return fmt.Errorf("source: draw %d takes values of a list without any", i)
		}
	}
	if listed > MaxList {
		return fmt.Errorf("source: lists of %d values together: at most %d are possible", listed, MaxList)
	}
	for i, f := range s.Fields {
		switch {
		case int(f.Draw) >= len(s.Draws) || s.Draws[f.Draw].Class != f.Class:
			return fmt.Errorf("source: field %d of class %d has no draw %d in its class", i, f.Class, f.Draw)
		case f.Base > AtL4:
			return fmt.Errorf("source: field %d has the unknown base %d", i, f.Base)
		case f.Width != 1 && f.Width != 2 && f.Width != 4:
			return fmt.Errorf("source: field %d is %d octets wide: want 1, 2 or 4", i, f.Width)
		case f.Width > 1 && f.Offset&1 != 0:
			return fmt.Errorf("source: field %d of %d octets begins at the odd offset %d", i, f.Width, f.Offset)
		}
	}
	return nil
}
