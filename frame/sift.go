// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Routable is a source without the frames that a router does not hand on, whoever makes it:
// its loss would be no fault. Notes say how many those are, and why. Frames must not vary.
// It reads one pass where the source knows how many frames that has, and closes it.
func Routable(source Source) (Source, error) {
	s := &sifter{source: source, shape: source.Shape(), left: map[string]uint64{}}
	if len(s.shape.Draws) > 0 {
		return nil, errors.New("frames of the source vary, so that a receiver cannot tell them apart")
	}
	s.window = Window{Blob: make([]byte, max(1<<20, s.shape.Longest)), Entries: make([]Entry, 4096)}
	known := s.shape.Frames > 0
	s.shape.Frames, s.shape.Octets = 0, 0
	if !known {
		return s, nil
	}
	for s.end == nil {
		s.refill()
		s.shape.Frames += uint64(s.window.Len())
		for _, e := range s.window.Entries[:s.window.Len()] {
			s.shape.Octets += (uint64(e.Len) + 7) &^ 7
		}
	}
	if s.end != io.EOF {
		return nil, s.end
	}
	if s.shape.Frames == 0 {
		return nil, fmt.Errorf("no frame of it would be handed on by a router: %s", s.leftOut())
	}
	s.begin()
	return s, nil
}

// A sifter keeps the frames of a source that pass the check of unroutable.
type sifter struct {
	source Source
	shape  Shape
	window Window // of the source's octets, with the entries kept
	next   int
	end    error // what Fill answered to the window

	passed bool // a pass is over: left is complete
	left   map[string]uint64
}

// begin makes ready for the next pass.
func (s *sifter) begin() {
	s.window.Reset()
	s.next, s.end = 0, nil
}

func (s *sifter) refill() {
	s.window.Reset()
	s.next = 0
	s.end = s.source.Fill(&s.window)
	kept := s.window.Entries[:0]
	for k := range s.window.Len() {
		e := s.window.Entries[k]
		why := unroutable(s.window.Frame(k), &e)
		if why == "" {
			kept = append(kept, e)
		} else if !s.passed {
			s.left[why]++
		}
	}
	s.window.count = len(kept)
	s.passed = s.passed || s.end == io.EOF
}

func (s *sifter) Shape() Shape { return s.shape }
func (s *sifter) Close() error { return s.source.Close() }

func (s *sifter) Notes() []string {
	notes := s.source.Notes()
	if len(s.left) > 0 {
		notes = append(slices.Clip(notes), "left out, because a router does not hand them on: "+s.leftOut())
	}
	return notes
}

func (s *sifter) leftOut() (text string) {
	for _, why := range []string{noIPFrame, taggedFrame, localFrame, oldFrame, partFrame, brokenFrame} {
		if n := s.left[why]; n > 0 {
			if text != "" {
				text += ", "
			}
			text += packets(n) + " " + why
		}
	}
	return text
}

func (s *sifter) Fill(w *Window) error {
	for {
		for ; s.next < s.window.Len(); s.next++ {
			b := s.window.Frame(s.next)
			e, to := w.Next(len(b))
			if e == nil {
				return full(w, len(b))
			}
			copy(to, b)
			off := e.Off
			*e = s.window.Entries[s.next]
			e.Off = off
		}
		if end := s.end; end != nil {
			s.window.Reset()
			s.next = 0
			if end == io.EOF { // the next pass follows
				s.end = nil
			}
			return end
		}
		s.refill()
	}
}

// Why a router does not hand a frame on.
const (
	noIPFrame   = "that are not IP"
	taggedFrame = "with a VLAN tag"
	localFrame  = "from or to addresses that are not unicast, or local ones"
	oldFrame    = "at the end of their time to live"
	partFrame   = "without the whole packet"
	brokenFrame = "with a wrong IP header checksum"
)

// unroutable says why; "" if a router hands the frame on.
func unroutable(b []byte, e *Entry) string {
	switch {
	case len(b) >= ethLen && (binary.BigEndian.Uint16(b[12:]) == 0x8100 || binary.BigEndian.Uint16(b[12:]) == 0x88a8):
		return taggedFrame
	case e.L3 == 0:
		return noIPFrame
	case e.Flags&Rewrite == 0:
		return localFrame
	}
	ip := b[e.L3:]
	if e.Flags&IPv4 != 0 {
		total := int(binary.BigEndian.Uint16(ip[2:]))
		switch {
		case ip[8] <= 1:
			return oldFrame
		case total == 0 || total > len(ip):
			return partFrame
		case fold(sum(ip[:int(ip[0]&15)*4])) != 0:
			return brokenFrame
		}
		return ""
	}
	switch {
	case ip[7] <= 1:
		return oldFrame
	case ip6Len+int(binary.BigEndian.Uint16(ip[4:])) > len(ip):
		return partFrame
	}
	return ""
}
