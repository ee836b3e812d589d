// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"boxdyno/frame"
)

// A FakeSource counts: frame k of a pass has the pass's and its own number in it.
type FakeSource struct {
	Frames int  // of a pass
	Each   int  // most frames that a call fills; 0: as many as there is room for
	Apart  bool // the end of a pass comes by itself
	Timed  bool
	Known  bool // the shape says how many
	Draws  []frame.Draw
	Fails  int           // the call that fails; 0: none
	Slow   time.Duration // of each call

	K, Calls int
}

// ErrFake is how a FakeSource fails.
var ErrFake = errors.New("broken off")

// Shape implements frame.Source.
func (s *FakeSource) Shape() frame.Shape {
	shape := frame.Shape{Longest: 60, Timed: s.Timed, Draws: s.Draws, Frames: uint64(s.Frames)}
	if s.Known {
		shape.Octets = uint64(s.Frames) * 64
	}
	return shape
}

// Fill implements frame.Source.
func (s *FakeSource) Fill(w *frame.Window) error {
	time.Sleep(s.Slow)
	if s.Calls++; s.Calls == s.Fails {
		return ErrFake
	}
	for n := 0; s.K < s.Frames; n++ {
		if s.Each > 0 && n == s.Each {
			return nil
		}
		e, b := w.Next(60)
		if e == nil {
			return nil
		}
		clear(b)
		copy(b, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
		binary.BigEndian.PutUint32(b[14:], uint32(s.K))
		e.At = uint64(s.K) * 1000
		if s.K++; s.K == s.Frames && s.Apart {
			return nil
		}
	}
	s.K = 0
	return io.EOF
}

// Notes implements frame.Source.
func (*FakeSource) Notes() []string { return nil }
func (*FakeSource) Close() error    { return nil }
