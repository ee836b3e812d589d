// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A numbered source yields frames that hold their number, and a signature.
type numbered struct {
	n      int
	shape  Shape
	gap    uint64
	i      int
	closed bool
}

func (l *numbered) Shape() Shape    { return l.shape }
func (l *numbered) Notes() []string { return []string{"note"} }
func (l *numbered) Close() error    { l.closed = true; return nil }
func (l *numbered) Fill(w *Window) error {
	for ; l.i < l.n; l.i++ {
		e, b := w.Next(60 + l.i%7)
		if e == nil {
			return nil
		}
		clear(b)
		e.At, e.Sig, e.Class = uint64(l.i)*l.gap, 40, uint8(l.i%len(l.shape.Classes))
		e.L4, e.Sum = 34, 36
		binary.BigEndian.PutUint32(b[:], uint32(l.i))
		binary.BigEndian.PutUint16(b[44:], uint16(e.Class))
		binary.BigEndian.PutUint16(b[36:], foldWords(addWords(0, b[34:])))
	}
	l.i = 0
	return io.EOF
}

func TestBlend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 999).Draw(t, "k")
		n := 1 + rapid.IntRange(0, 4000).Draw(t, "frames")*(1000-k)/1000
		base := &numbered{n: n, gap: 5000, shape: Shape{Classes: []string{"a", "b"}, Timed: true, Longest: 66, Frames: uint64(n), Octets: uint64(n) * 64, Draws: []Draw{{}}, Fields: []Field{{Width: 1}}}}
		flood := &numbered{n: rapid.IntRange(1, 700).Draw(t, "flood"), shape: Shape{Classes: []string{"x", "y", "z"}, Longest: 66,
			Draws: []Draw{{Class: 1}, {Class: 2}}, Fields: []Field{{Class: 2, Draw: 1, Width: 1}}}}
		s, err := Blend(base, flood, float64(k)/1000, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		sh := s.Shape()
		if strings.Join(sh.Classes, "") != "abxyz" || !sh.Timed || len(sh.Draws) != 3 || sh.Draws[2].Class != 4 || len(sh.Fields) != 2 ||
			sh.Fields[1].Class != 4 || sh.Fields[1].Draw != 2 || flood.shape.Draws[1].Class != 2 {
			t.Fatalf("shape %+v", sh)
		}
		var marks []int // 1 where a frame is the flood's
		var orders [2][]byte
		nextFlood := 0
		w := Window{Blob: make([]byte, rapid.IntRange(80, 40_000).Draw(t, "blob")), Entries: make([]Entry, rapid.IntRange(1, 900).Draw(t, "entries"))}
		for pass := range orders {
			nextBase, last := 0, uint64(0)
			marks = marks[:0]
			for end := false; !end; {
				w.Reset()
				err := s.Fill(&w)
				if end = err == io.EOF; err != nil && !end {
					t.Fatal(err)
				}
				if !end && w.Len() == 0 {
					t.Fatal("an empty window")
				}
				for i := range w.Len() {
					e, b := w.Entries[i], w.Frame(i)
					if e.At < last {
						t.Fatalf("time goes from %d to %d", last, e.At)
					}
					last = e.At
					number := int(binary.BigEndian.Uint32(b))
					if got := binary.BigEndian.Uint16(b[44:]); got != uint16(e.Class) || onesComplement(b[34:]) != 0 {
						t.Fatalf("class %d is signed %d, its sum is off by %#x", e.Class, got, onesComplement(b[34:]))
					}
					if e.Class < 2 {
						if number != nextBase || e.At != uint64(number)*5000 || int(e.Class) != number%2 {
							t.Fatalf("frame %d of the base is %d at %d, class %d", nextBase, number, e.At, e.Class)
						}
						nextBase++
						marks = append(marks, 0)
						orders[pass] = append(orders[pass], 'b')
						continue
					}
					if number != nextFlood || int(e.Class) != 2+number%3 {
						t.Fatalf("frame %d of the flood is %d, class %d", nextFlood, number, e.Class)
					}
					nextFlood = (nextFlood + 1) % flood.n
					marks = append(marks, 1)
					orders[pass] = append(orders[pass], 'f')
				}
			}
			if nextBase != n || uint64(len(marks)) != sh.Frames || marks[len(marks)-1] != 0 {
				t.Fatalf("%d frames of the base's %d; %d of all, the shape says %d", nextBase, n, len(marks), sh.Frames)
			}
		}
		if !bytes.Equal(orders[0], orders[1]) {
			t.Fatal("two passes differ in their order")
		}
		in := 0
		for i, m := range marks {
			in += m
			if i >= 1000 {
				in -= marks[i-1000]
			}
			if i >= 999 && in != k {
				t.Fatalf("frames %d to %d hold %d of the flood, want %d", i-999, i, in, k)
			}
		}
		if err := s.Close(); err != nil || !base.closed || !flood.closed || len(s.Notes()) != 2 {
			t.Fatal("closing")
		}
	})
}

func TestBlendRefusals(t *testing.T) {
	two := func(frames int) *numbered {
		return &numbered{n: frames, shape: Shape{Classes: []string{"a"}, Longest: 66}}
	}
	for _, share := range []float64{0, 1, -0.1, 0.0005, 0.1234567, math.NaN()} {
		if _, err := Blend(two(1), two(1), share, 1); err == nil || !strings.Contains(err.Error(), "0.001") {
			t.Errorf("share %v: %v", share, err)
		}
	}
	many := &numbered{n: 1, shape: Shape{Classes: make([]string, MaxClasses)}}
	if _, err := Blend(many, two(1), 0.5, 1); err == nil {
		t.Error("too many classes were taken")
	}
	s, err := Blend(two(10), two(0), 0.5, 1)
	if err != nil {
		t.Fatal(err)
	}
	w := Window{Blob: make([]byte, 1<<16), Entries: make([]Entry, 100)}
	for err == nil {
		w.Reset()
		err = s.Fill(&w)
	}
	if errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "no frames") {
		t.Errorf("a flood without frames: %v", err)
	}
}
