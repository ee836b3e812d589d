// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Tagged is a source whose frames all have the 802.1Q tag of a VLAN, 1 to MaxVLAN: one that
// has a tag keeps the rest of it. Frames must not vary. Close closes the source.
func Tagged(source Source, vlan uint16) (Source, error) {
	shape := source.Shape()
	switch {
	case vlan < 1 || vlan > MaxVLAN:
		return nil, fmt.Errorf("vlan %d: want 1 to %d", vlan, MaxVLAN)
	case len(shape.Draws) > 0:
		return nil, errors.New("frames of the source vary, so that it can have no tags")
	}
	shape.Longest += tagLen
	shape.Octets += tagLen * shape.Frames
	return &tagger{Source: source, shape: shape, vlan: vlan, window: Window{Blob: make([]byte, max(1<<20, shape.Longest)), Entries: make([]Entry, 4096)}}, nil
}

// A tagger copies a window of its source at a time.
type tagger struct {
	Source
	shape  Shape
	vlan   uint16
	window Window
	next   int
	end    error // what Fill answered to the window
}

func (t *tagger) Shape() Shape { return t.shape }

func (t *tagger) Fill(w *Window) error {
	for {
		for ; t.next < t.window.Len(); t.next++ {
			if !t.put(w, t.window.Frame(t.next), t.window.Entries[t.next]) {
				return full(w, len(t.window.Frame(t.next))+tagLen)
			}
		}
		end := t.end
		t.window.Reset()
		t.next, t.end = 0, nil
		if end != nil {
			return end
		}
		if t.end = t.Source.Fill(&t.window); t.end != nil && t.end != io.EOF {
			return t.end
		}
	}
}

// put appends a frame with its tag, if there is room.
func (t *tagger) put(w *Window, b []byte, from Entry) bool {
	grown := tagLen
	if len(b) < ethLen {
		grown = 0
	} else if kind := binary.BigEndian.Uint16(b[12:]); (kind == 0x8100 || kind == 0x88a8) && len(b) >= ethLen+tagLen {
		grown = 0
	}
	e, to := w.Next(len(b) + grown)
	if e == nil {
		return false
	}
	off, n := e.Off, e.Len
	*e = from
	e.Off, e.Len = off, n
	if grown == 0 {
		copy(to, b)
		if len(b) >= ethLen+tagLen {
			binary.BigEndian.PutUint16(to[14:], binary.BigEndian.Uint16(b[14:])&^0xfff|t.vlan)
		}
		return true
	}
	copy(to, b[:12])
	binary.BigEndian.PutUint16(to[12:], 0x8100)
	binary.BigEndian.PutUint16(to[14:], t.vlan)
	copy(to[16:], b[12:])
	for _, at := range []*uint16{&e.L3, &e.L4, &e.Sum, &e.Sig} {
		if *at != 0 {
			*at += tagLen
		}
	}
	return true
}
