// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// drafted is a source of given frames; known says whether it knows their number.
type drafted struct {
	all   []draft
	next  int
	known bool
}

func (l *drafted) Shape() Shape {
	s := Shape{Longest: 1514, Classes: []string{"drafted"}}
	if l.known {
		s.Frames, s.Octets = uint64(len(l.all)), 1<<20
	}
	return s
}
func (l *drafted) Notes() []string { return nil }
func (l *drafted) Close() error    { return nil }

func (l *drafted) Fill(w *Window) error {
	for ; l.next < len(l.all); l.next++ {
		e, b := w.Next(len(l.all[l.next].octets))
		if e == nil {
			return nil
		}
		copy(b, l.all[l.next].octets)
		off := e.Off
		*e = l.all[l.next].entry
		e.Off = off
	}
	l.next = 0
	return io.EOF
}

// draftedFlows are frames of flows in both directions, each frame with a number
// in its last octets.
func draftedFlows(v6 bool) []draft {
	r := rand.New(rand.NewPCG(1, 2))
	var all []draft
	for k := range 12_000 {
		flow := r.IntN(500)
		s := synthetic(v6)
		s.Unsigned = true
		s.Protocol = protocols[flow%3]
		s.SrcPort = FirstPort + uint16(flow)
		s.Src = s.Src.Next()
		if flow%3 == 2 { // echoes are told apart by address
			a := s.Src.AsSlice()
			a[len(a)-1], a[len(a)-2] = byte(flow), byte(flow>>8)
			s.Src, _ = netip.AddrFromSlice(a)
		}
		if r.IntN(2) == 0 {
			s.Src, s.Dst, s.SrcPort, s.DstPort = s.Dst, s.Src, s.DstPort, s.SrcPort
		}
		d := s.draft(128)
		copy(d.octets[len(d.octets)-6:], fmt.Sprintf("%06d", k))
		d.seal()
		all = append(all, d)
	}
	return all
}

func flowOf(e Entry, b []byte) string {
	at, n := int(e.L3)+12, 4
	if e.Flags&IPv6 != 0 {
		at, n = int(e.L3)+8, 16
	}
	ends := []string{string(b[at : at+n]), string(b[at+n : at+2*n])}
	if e.Sum != e.L4+2 {
		ends[0] += string(b[e.L4 : e.L4+2])
		ends[1] += string(b[e.L4+2 : e.L4+4])
	}
	if ends[0] > ends[1] {
		ends[0], ends[1] = ends[1], ends[0]
	}
	return strings.Join(ends, "|")
}

// TestShards checks that parts are disjoint, complete, in order, and whole in
// their flows, over two passes.
func TestShards(t *testing.T) {
	for _, known := range []bool{false, true} {
		for _, v6 := range []bool{false, true} {
			all := draftedFlows(v6)
			const parts = 3
			owner := map[string]int{}
			total := 0
			for part := range parts {
				source, err := Shard(&drafted{all: all, known: known}, part, parts)
				if err != nil {
					t.Fatal(err)
				}
				var passes [2][]byte
				for pass := range passes {
					frames := 0
					w := &Window{Blob: make([]byte, 100_000), Entries: make([]Entry, 300)}
					last := ""
					for err = nil; err == nil; {
						w.Reset()
						err = source.Fill(w)
						for i := range w.Len() {
							b := w.Frame(i)
							flow := flowOf(w.Entries[i], b)
							if o, ok := owner[flow]; ok && o != part {
								t.Fatalf("a flow is in parts %d and %d", o, part)
							}
							owner[flow] = part
							if number := string(b[len(b)-6:]); number <= last {
								t.Fatalf("frame %s comes behind %s", number, last)
							} else {
								last = number
							}
							passes[pass] = append(passes[pass], b...)
							frames++
						}
					}
					if err != io.EOF {
						t.Fatal(err)
					}
					if s := source.Shape(); known && (s.Frames != uint64(frames) || s.Octets < uint64(len(passes[pass]))) || !known && s.Frames != 0 {
						t.Errorf("part %d has %d frames, its shape says %d", part, frames, s.Frames)
					}
					if frames < len(all)/parts/2 {
						t.Errorf("part %d of %d has %d of %d frames", part, parts, frames, len(all))
					}
					if pass == 0 {
						total += frames
					}
				}
				if !bytes.Equal(passes[0], passes[1]) {
					t.Errorf("part %d: the second pass differs", part)
				}
			}
			if total != len(all) {
				t.Errorf("%d frames in all parts, want %d", total, len(all))
			}
		}
	}
}

func TestFragmentsStayTogether(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		source := must(NewFlood(flood("fragments", v6)))
		w := window(t, source)
		first := w.Entries[0]
		b := bytes.Clone(w.Frame(0)) // a first fragment, with ports
		later := first
		later.L4 = 0
		c := bytes.Clone(b)
		if v6 {
			c[57] |= 8
		} else {
			c[21] = 185
		}
		if flowHash(b, &first) != flowHash(c, &later) {
			t.Errorf("IPv6 %v: fragments of a datagram have different hashes", v6)
		}
	}
}

func TestShardOfDrawnFrames(t *testing.T) {
	source := must(NewFlood(flood("syn", false)))
	part, err := Shard(source, 1, 2)
	if err != nil || part.Shape().Frames != source.Shape().Frames {
		t.Errorf("%v, %d frames", err, part.Shape().Frames)
	}
	if same, err := Shard(source, 0, 1); err != nil || same != source {
		t.Errorf("the only part is not the source (%v)", err)
	}
	for want, err := range map[string]error{
		"0 to 1":      second2(Shard(source, 2, 2)),
		"fewer parts": second2(Shard(&drafted{all: draftedFlows(false)[:1], known: true}, 1-int(flowHash(draftedFlows(false)[0].octets, &draftedFlows(false)[0].entry)%2), 2)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a sentence with %q", err, want)
		}
	}
}

// TestShardOfBlend checks that every part has its share of a flood, whose frames
// have no flows before they leave.
func TestShardOfBlend(t *testing.T) {
	const parts, share = 2, 0.25
	total := 0
	for part := range parts {
		whole, err := Blend(&drafted{all: draftedFlows(false), known: true}, must(NewFlood(flood("syn", false))), share, 1)
		if err != nil {
			t.Fatal(err)
		}
		source, err := Shard(whole, part, parts)
		if err != nil {
			t.Fatal(err)
		}
		w := &Window{Blob: make([]byte, 4<<20), Entries: make([]Entry, 1<<16)}
		if err := source.Fill(w); err != io.EOF {
			t.Fatal(err)
		}
		floods := 0
		for i := range w.Len() {
			floods += int(w.Entries[i].Class)
		}
		if want := whole.Shape().Frames / 4 / parts; floods < int(want)-2 || floods > int(want)+2 {
			t.Errorf("part %d has %d frames of the flood, want %d", part, floods, want)
		}
		total += w.Len()
		if part == parts-1 && total != int(whole.Shape().Frames) {
			t.Errorf("%d frames in all parts, want %d", total, whole.Shape().Frames)
		}
	}
}
