// SPDX-License-Identifier: Apache-2.0

package afxdp

import (
	"context"
	"io"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/unit"
)

// A listed source yields its frames, pass by pass.
type listed struct {
	frames [][]byte
	next   int
}

func (s *listed) Shape() frame.Shape {
	var shape frame.Shape
	for _, f := range s.frames {
		shape.Frames++
		shape.Octets += uint64(len(f)+7) &^ 7
		shape.Longest = max(shape.Longest, len(f))
	}
	return shape
}

func (s *listed) Fill(w *frame.Window) error {
	for ; s.next < len(s.frames); s.next++ {
		_, buf := w.Next(len(s.frames[s.next]))
		if buf == nil {
			return nil
		}
		copy(buf, s.frames[s.next])
	}
	s.next = 0
	return io.EOF
}

func (s *listed) Notes() []string { return nil }

func (s *listed) Close() error { return nil }

// Frames of a source arrive octet by octet and in order.
func TestAFXDPSource(t *testing.T) {
	a, b := enginetest.Quiet(t)
	tx, m := enginetest.Open(t, New(), []host.Port{a}, b)
	s := &listed{}
	for n := 60; n <= 1514; n++ {
		f := make([]byte, n)
		for i := range f {
			f[i] = byte(n + i*7)
		}
		copy(f[12:], []byte{0x88, 0xb5})
		s.frames = append(s.frames, f)
	}
	want := engine.NewDigest()
	octets := uint64(0)
	const passes = 3
	for range passes {
		for _, f := range s.frames {
			want.Add(f)
			octets += uint64(len(f) + unit.FCS)
		}
	}
	m[0].(engine.Hasher).Hash(true)
	enginetest.Arm(t, m[0], false)
	reps, err := tx.Transmit(context.Background(), engine.Load{Rate: 50e3, Passes: passes}, engine.Stream{ID: 1, Source: s})
	if err != nil {
		t.Fatal(err)
	}
	r := enginetest.Read(t, m[0])
	if n := passes * uint64(len(s.frames)); reps[0].Accepted != n || r.Foreign != n || r.Drops != 0 || reps[0].Octets != octets || r.ForeignOctets != octets {
		t.Errorf("want %d frames: %+v, %+v", n, reps[0], r)
	}
	if r.Hash != want.Sum() {
		t.Errorf("received frames hash to %s, sent ones to %s", r.Hash, want.Sum())
	}
}
