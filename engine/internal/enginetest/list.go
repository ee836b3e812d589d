// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"boxdyno/frame"
)

// A ListSource yields frames of a list, pass after pass.
type ListSource struct {
	Declared frame.Shape
	Entries  []frame.Entry
	Frames   [][]byte
	Silent   bool // the shape does not say how many frames there are
	FailAt   int  // frame of all passes together at which it fails; 0: none
	i, sent  int
}

// ErrListSource is how a ListSource fails.
var ErrListSource = errors.New("the list is torn")

// Shape implements frame.Source.
func (s *ListSource) Shape() frame.Shape {
	sh := s.Declared
	for _, f := range s.Frames {
		sh.Longest = max(sh.Longest, len(f))
		if !s.Silent {
			sh.Frames++
			sh.Octets += uint64(len(f)+7) &^ 7
		}
	}
	return sh
}

// Fill implements frame.Source.
func (s *ListSource) Fill(w *frame.Window) error {
	for {
		if s.FailAt > 0 && s.sent == s.FailAt {
			return ErrListSource
		}
		if s.i == len(s.Frames) {
			s.i = 0
			return io.EOF
		}
		e, b := w.Next(len(s.Frames[s.i]))
		if e == nil {
			return nil
		}
		copy(b, s.Frames[s.i])
		off, n := e.Off, e.Len
		*e = s.Entries[s.i]
		e.Off, e.Len = off, n
		s.i++
		s.sent++
	}
}

// Notes implements frame.Source.
func (s *ListSource) Notes() []string { return nil }
func (s *ListSource) Close() error    { return nil }

// PlainSource has n frames of the sizes in turn, gap ns apart; each begins with
// its number.
func PlainSource(n int, gap uint64, sizes ...int) *ListSource {
	s := &ListSource{Declared: frame.Shape{Timed: gap > 0}}
	for i := range n {
		f := bytes.Repeat([]byte{byte(i)}, sizes[i%len(sizes)])
		copy(f, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
		binary.BigEndian.PutUint32(f[14:], uint32(i))
		s.Frames = append(s.Frames, f)
		s.Entries = append(s.Entries, frame.Entry{At: uint64(i) * gap})
	}
	return s
}
