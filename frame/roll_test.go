// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// marked is a frame of each kind that a mark reads in a way of its own.
func marked(t testing.TB) map[string][]byte {
	ip4 := func(protocol byte, l4 []byte, options ...byte) []byte {
		b := append([]byte("\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x08\x00"), 0x45+byte(len(options)/4), 0, 0, 0, 0x12, 0x34, 0, 0, 64, protocol, 0, 0, 10, 1, 2, 3, 10, 9, 8, 7)
		b = append(append(b, options...), l4...)
		binary.BigEndian.PutUint16(b[ethLen+2:], uint16(len(b)-ethLen))
		binary.BigEndian.PutUint16(b[ethLen+10:], fold(sum(b[ethLen:ethLen+20+len(options)])))
		return b
	}
	ip6 := func(protocol byte, l4 []byte) []byte {
		b := append([]byte("\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x86\xdd"), 0x60, 0, 0, 7, 0, byte(len(l4)), protocol, 64)
		b = append(append(b, netip.MustParseAddr("2001:db8::1").AsSlice()...), netip.MustParseAddr("2001:db8::2").AsSlice()...)
		return append(b, l4...)
	}
	tcp := append([]byte{0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 0xff, 0xff, 0xab, 0xcd, 0, 0}, "GET / HTTP/1.1\r\n\r\n!"...)
	udp := append([]byte{0x30, 0x39, 0, 53, 0, 21, 0xab, 0xcd}, "thirteen more"...)
	echo := []byte{8, 0, 0xab, 0xcd, 0, 7, 0, 1, 'p', 'i', 'n', 'g'}
	failed := append([]byte{3, 1, 0xab, 0xcd, 0, 0, 0, 0}, ip4(protoUDP, udp)[ethLen:]...)
	tagged := slices.Concat(ip4(protoTCP, tcp)[:12], []byte{0x81, 0, 0, 5}, ip4(protoTCP, tcp)[12:])
	later := ip4(protoUDP, udp)
	later[ethLen+7] = 3
	return map[string][]byte{
		"tcp": ip4(protoTCP, tcp), "udp": ip4(protoUDP, udp), "echo": ip4(protoICMP, echo), "error": ip4(protoICMP, failed), "gre": ip4(47, udp),
		"options": ip4(protoTCP, tcp, 7, 3, 0, 0), "fragment": later, "tagged": tagged, "tcp6": ip6(protoTCP, tcp), "udp6": ip6(protoUDP, udp),
		"echo6": ip6(protoICMPv6, slices.Concat([]byte{128}, echo[1:])), "arp": append([]byte("\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x08\x06"), make([]byte, 46)...),
	}
}

// What a box changes by being what it is changes no mark, and every other octet does.
func TestMarkOf(t *testing.T) {
	for name, b := range marked(t) {
		at, l4 := ethLen, 0
		if name == "tagged" {
			at += 4
		}
		link, ends := []int{}, []int{}
		add := func(to *[]int, from, n int) {
			for i := range n {
				*to = append(*to, from+i)
			}
		}
		switch {
		case name == "arp":
		case b[at]>>4 == 4:
			l4 = at + int(b[at]&15)*4
			add(&link, at+8, 1)
			add(&link, at+10, 2)
			add(&ends, at+12, 8)
		default:
			l4 = at + ip6Len
			add(&link, at+7, 1)
			add(&ends, at+8, 32)
		}
		if l4 > 0 { // MAC addresses and the tag's number: another EtherType is another frame
			add(&link, 0, 12)
			add(&link, 14, (at-ethLen)/2)
		}
		switch name {
		case "tcp", "options", "tagged", "tcp6":
			add(&ends, l4, 4)
			add(&ends, l4+16, 2)
		case "udp", "udp6":
			add(&ends, l4, 4)
			add(&ends, l4+6, 2)
		case "echo", "echo6":
			add(&ends, l4+2, 4)
		case "error":
			add(&ends, l4+2, len(b)-l4-2)
		}
		for same, free := range map[Sameness][]int{SameTranslated: append(slices.Clone(link), ends...), SameRouted: link, SameBridged: nil} {
			was := MarkOf(b, same)
			for i := range b {
				c := slices.Clone(b)
				c[i] ^= 0x10
				if kept := MarkOf(c, same) == was; kept != slices.Contains(free, i) {
					t.Errorf("%s, sameness %d: with octet %d changed the mark is the same: %v", name, same, i, kept)
				}
			}
		}
	}
}

// Padding and what is cut off are no fault, and no frame is read beyond its end.
func TestMarkOfParts(t *testing.T) {
	for name, b := range marked(t) {
		for _, same := range []Sameness{SameTranslated, SameRouted, SameBridged} {
			if name != "arp" && MarkOf(append(slices.Clone(b), 0, 0, 0), same) != MarkOf(b, same) {
				t.Errorf("%s: padding changes its mark", name)
			}
			for n := range b {
				MarkOf(b[:n:n], same)
			}
		}
	}
}

func FuzzMarkOf(f *testing.F) {
	for _, b := range marked(f) {
		f.Add(b, uint8(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, same uint8) {
		if m := MarkOf(slices.Clone(b), Sameness(same&3)); m != MarkOf(b, Sameness(same&3)) || m.Key() == 0 {
			t.Error(m)
		}
	})
}

// frames is a source of its elements.
type frames struct {
	all []([]byte)
	at  int
}

func (f *frames) Shape() Shape {
	return Shape{Frames: uint64(len(f.all)), Longest: 1514, Classes: []string{""}}
}
func (f *frames) Notes() []string { return nil }
func (f *frames) Close() error    { return nil }
func (f *frames) Fill(w *Window) error {
	for ; f.at < len(f.all); f.at++ {
		_, b := w.Next(len(f.all[f.at]))
		if b == nil {
			return nil
		}
		copy(b, f.all[f.at])
	}
	f.at = 0
	return io.EOF
}

// A receiver that is given what a box did to frames finds what it did, by number.
func TestRoll(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	kinds := marked(t)
	var all [][]byte
	for i := range 3000 {
		b := slices.Clone(kinds[[]string{"tcp", "udp", "udp6", "echo"}[i%4]])
		binary.BigEndian.PutUint16(b[len(b)-2:], uint16(i))
		binary.BigEndian.PutUint16(b[ethLen+4:], uint16(len(b)-ethLen-ip6Len))
		if i%4 != 2 {
			binary.BigEndian.PutUint16(b[ethLen+4:], uint16(i))
		}
		all = append(all, b)
		if i%10 == 0 { // some are there twice
			all = append(all, b)
		}
	}
	roll, err := NewRoll(t.Context(), SameRouted, &frames{all: all})
	if err != nil || roll.Frames() != len(all) || len(roll.Marks) != 3000 {
		t.Fatalf("%d frames, %d of them distinct, %v", roll.Frames(), len(roll.Marks), err)
	}
	const passes = 2
	sent := uint64(passes*len(all) + 100)
	want := Called{Sent: sent}
	a := Arrivals{Seen: make([]uint64, len(roll.Marks)), Strange: map[Mark]uint64{}}
	seen := map[uint32]bool{}
	arrive := func(b []byte) {
		if i, ok := roll.Find(MarkOf(b, SameRouted)); ok {
			a.Seen[i]++
		} else {
			a.Strange[MarkOf(b, SameRouted)]++
		}
	}
	for n := range sent {
		b := slices.Clone(all[n%uint64(len(all))])
		b[0], b[ethLen+8] = 9, 63 // what a router does
		if b[ethLen]>>4 == 6 {
			b[ethLen+8] = 0x20
			b[ethLen+7] = 63
		}
		// Of equal frames the first alone has a fate: one that came twice would stand for one
		// that did not come, and no receiver could know.
		first := !seen[roll.orders[0][n%uint64(len(all))]]
		seen[roll.orders[0][n%uint64(len(all))]] = true
		fate := rng.IntN(20)
		if !first {
			fate = -1
		}
		switch fate {
		case 0:
			want.Missing++
		case 1:
			c := slices.Clone(b)
			if c[len(c)-3] ^= 1; b[ethLen]>>4 == 4 && rng.IntN(2) == 0 {
				c = slices.Clone(b)
				c[ethLen+13] ^= 1 // an address
			}
			want.Altered++
			arrive(c)
		case 2:
			arrive(b)
			arrive(b)
			want.Received++
			want.Duplicated++
		default:
			arrive(b)
			want.Received++
		}
	}
	for i := range 7 {
		a.Strange[Mark{uint64(i), 1}]++
	}
	want.Foreign = 7
	if got := roll.Call(a, sent); got != want {
		t.Errorf("seed %d: %+v, want %+v", seed, got, want)
	}
	if a.More = 5; roll.Call(a, sent).Unsure != 5 || roll.Call(a, sent).Foreign != 12 {
		t.Errorf("%+v", roll.Call(a, sent))
	}
	none := roll.Call(Arrivals{}, sent)
	if none.Missing != sent || none.Received+none.Altered != 0 {
		t.Errorf("of nothing that arrived: %+v", none)
	}
}

func TestRollRefuses(t *testing.T) {
	if _, err := NewRoll(t.Context(), SameRouted, &frames{}); err == nil {
		t.Error("a source without frames has a roll")
	}
	r := &Roll{index: map[uint64]uint32{}, Marks: make([]Mark, MostRoll)}
	if err := r.add(0, Mark{1, 2}); err == nil {
		t.Error("a roll is longer than may be")
	}
}

// What a router would not hand on is not sent, and each kind is named.
func TestRoutable(t *testing.T) {
	kinds := marked(t)
	change := func(name string, f func(b []byte) []byte) []byte { return f(slices.Clone(kinds[name])) }
	resum := func(b []byte) []byte {
		b[ethLen+10], b[ethLen+11] = 0, 0
		binary.BigEndian.PutUint16(b[ethLen+10:], fold(sum(b[ethLen:ethLen+20])))
		return b
	}
	good := [][]byte{kinds["tcp"], kinds["udp6"], kinds["gre"], kinds["options"]}
	bad := map[string][]byte{
		noIPFrame: kinds["arp"], taggedFrame: kinds["tagged"],
		oldFrame:    change("udp", func(b []byte) []byte { b[ethLen+8] = 1; return resum(b) }),
		localFrame:  change("udp", func(b []byte) []byte { copy(b[ethLen+16:], []byte{224, 0, 0, 1}); return resum(b) }),
		partFrame:   change("tcp", func(b []byte) []byte { return b[:len(b)-5] }),
		brokenFrame: change("tcp", func(b []byte) []byte { b[ethLen+10]++; return b }),
	}
	var file bytes.Buffer
	w := pcapgo.NewWriter(&file)
	if err := w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		if err := w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(b), Length: len(b)}, b); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		write(good[i])
	}
	for why, b := range bad {
		write(b)
		c, err := OpenCaptureReader(bytes.NewReader(file.Bytes()), "test", CaptureOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Routable(c)
		if err != nil {
			t.Fatal(err)
		}
		for pass := range 2 {
			roll, err := NewRoll(t.Context(), SameRouted, s)
			if err != nil || roll.Frames() != len(good) || s.Shape().Frames != uint64(len(good)) {
				t.Errorf("with one %s: pass %d has %d frames, %v", why, pass, roll.Frames(), err)
			}
		}
		if notes := fmt.Sprint(s.Notes()); !strings.Contains(notes, "1 packet "+why) {
			t.Errorf("%s: %s", why, notes)
		}
	}
	if _, err := Routable(&frames{all: [][]byte{kinds["arp"]}}); err == nil || !strings.Contains(err.Error(), "1 packet "+noIPFrame) {
		t.Error(err)
	}
}
