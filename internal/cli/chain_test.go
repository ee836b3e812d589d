// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"

	"boxdyno/frame"
)

// A stub is a source of one octet frames that are due a ms after each other.
type stub struct {
	n, at  int
	first  byte
	closed bool
}

func (s *stub) Shape() frame.Shape {
	return frame.Shape{Frames: uint64(s.n), Octets: uint64(8 * s.n), Longest: s.n, Timed: true, Classes: []string{"capture"}}
}

func (s *stub) Notes() []string { return []string{fmt.Sprint("note of ", s.first)} }

func (s *stub) Close() error { s.closed = true; return nil }

func (s *stub) Fill(w *frame.Window) error {
	for ; s.at < s.n; s.at++ {
		e, b := w.Next(1)
		if e == nil {
			return nil
		}
		b[0], e.At = s.first+byte(s.at), uint64(s.at)*1e6
	}
	s.at = 0
	return io.EOF
}

// Files follow each other in one pass, whatever the window, and again in the next.
func TestChain(t *testing.T) {
	for size := 1; size < 8; size++ {
		a, b := &stub{n: 3, first: 10}, &stub{n: 2, first: 20}
		c := &chain{all: []frame.Source{a, b}}
		w := frame.Window{Blob: make([]byte, 1024), Entries: make([]frame.Entry, size)}
		for pass := range 2 {
			var octets []byte
			var times []uint64
			for err := error(nil); err == nil; {
				w.Reset()
				if err = c.Fill(&w); err != nil && err != io.EOF {
					t.Fatal(err)
				}
				for i := range w.Len() {
					octets = append(octets, w.Frame(i)[0])
					times = append(times, w.Entries[i].At/1e6)
				}
			}
			if !slices.Equal(octets, []byte{10, 11, 12, 20, 21}) || !slices.Equal(times, []uint64{0, 1, 2, 2, 3}) {
				t.Errorf("window of %d, pass %d: %v at %v", size, pass, octets, times)
			}
		}
		if err := c.Close(); err != nil || !a.closed || !b.closed || !reflect.DeepEqual(c.Notes(), []string{"note of 10", "note of 20"}) {
			t.Errorf("%v %q", err, c.Notes())
		}
	}
}
