// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Routable is a source without the frames that a router does not hand on, whoever makes it:
// its loss would be no fault. Notes say how many those are, and why. Frames must not vary.
// It reads one pass where the source knows how many frames that has, and closes it.
func Routable(source Source) (Source, error) {
	if len(source.Shape().Draws) > 0 {
		return nil, errors.New("frames of the source vary, so that a receiver cannot tell them apart")
	}
	s := &sifter{left: map[string]uint64{}}
	var err error
	if s.chosen, err = choose(source, s.keep, func() { s.passed = true }); err != nil {
		return nil, err
	}
	if source.Shape().Frames > 0 && s.shape.Frames == 0 {
		return nil, fmt.Errorf("no frame of it would be handed on by a router: %s", s.leftOut())
	}
	return s, nil
}

// A sifter keeps the frames of a source that pass the check of unroutable.
type sifter struct {
	*chosen
	passed bool // a pass is over: left is complete
	left   map[string]uint64
}

func (s *sifter) keep(frm []byte, e *Entry) bool {
	why := unroutable(frm, e)
	if why != "" && !s.passed {
		s.left[why]++
	}
	return why == ""
}

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
