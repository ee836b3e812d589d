// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"io"
	"testing"
)

// Every frame has the tag once, and is the same frame behind it.
func TestTagged(t *testing.T) {
	kinds := marked(t)
	var all [][]byte
	var names []string
	for name, b := range kinds {
		names, all = append(names, name), append(all, b)
	}
	s, err := Tagged(&frames{all: all}, 4094)
	if err != nil || s.Shape().Longest != 1518 {
		t.Fatal(s, err)
	}
	for range 2 { // passes
		n := 0
		for end := error(nil); end == nil; {
			w := Window{Blob: make([]byte, 256), Entries: make([]Entry, 3)} // a few at a time
			if end = s.Fill(&w); end != nil && end != io.EOF {
				t.Fatal(end)
			}
			for i := range w.Len() {
				b, was := w.Frame(i), all[n]
				grown := tagLen
				if names[n] == "tagged" {
					grown = 0
				}
				if len(b) != len(was)+grown || binary.BigEndian.Uint16(b[12:]) != 0x8100 || binary.BigEndian.Uint16(b[14:])&0xfff != 4094 {
					t.Errorf("%s: % x", names[n], b)
				}
				if same := MarkOf(b, SameRouted) == MarkOf(was, SameRouted); same != (names[n] != "arp") || MarkOf(b, SameBridged) == MarkOf(was, SameBridged) {
					t.Errorf("%s: without what a router changes the marks are the same: %v", names[n], same)
				}
				n++
			}
		}
		if n != len(all) {
			t.Errorf("%d frames of %d", n, len(all))
		}
	}
	for _, vlan := range []uint16{0, 4095} {
		if _, err := Tagged(&frames{all: all}, vlan); err == nil {
			t.Errorf("VLAN %d is taken", vlan)
		}
	}
}
