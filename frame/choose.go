// SPDX-License-Identifier: Apache-2.0

package frame

import "io"

// chosen is a source of those frames of another that keep chooses, a window at a time.
type chosen struct {
	source Source
	shape  Shape                             // Frames and Octets are the chosen ones', or 0
	window Window                            // of the source's octets, with the chosen entries
	next   int                               // the entry to go on with
	end    error                             // what Fill answered to the window
	keep   func(frame []byte, e *Entry) bool // called once for every frame of a pass, in order
	over   func()                            // a pass ends
}

// choose reads one pass where the source knows how many frames that has, for the shape.
func choose(source Source, keep func([]byte, *Entry) bool, over func()) (*chosen, error) {
	c := &chosen{source: source, shape: source.Shape(), keep: keep, over: over}
	c.window = Window{Blob: make([]byte, max(1<<20, c.shape.Longest)), Entries: make([]Entry, 4096)}
	known := c.shape.Frames > 0
	c.shape.Frames, c.shape.Octets = 0, 0
	if !known {
		return c, nil
	}
	for c.end == nil {
		c.refill()
		c.shape.Frames += uint64(c.window.Len())
		for _, e := range c.window.Entries[:c.window.Len()] {
			c.shape.Octets += (uint64(e.Len) + 7) &^ 7
		}
	}
	if c.end != io.EOF {
		return nil, c.end
	}
	c.window.Reset()
	c.next, c.end = 0, nil
	return c, nil
}

// refill reads a window of the source and keeps the chosen entries.
func (c *chosen) refill() {
	c.window.Reset()
	c.next = 0
	c.end = c.source.Fill(&c.window)
	kept := c.window.Entries[:0]
	for k := range c.window.Len() {
		e := c.window.Entries[k]
		if c.keep(c.window.Frame(k), &e) {
			kept = append(kept, e)
		}
	}
	c.window.count = len(kept)
	if c.end == io.EOF {
		c.over()
	}
}

func (c *chosen) Shape() Shape    { return c.shape }
func (c *chosen) Notes() []string { return c.source.Notes() }
func (c *chosen) Close() error    { return c.source.Close() }

func (c *chosen) Fill(w *Window) error {
	for {
		for ; c.next < c.window.Len(); c.next++ {
			b := c.window.Frame(c.next)
			e, to := w.Next(len(b))
			if e == nil {
				return full(w, len(b))
			}
			copy(to, b)
			off := e.Off
			*e = c.window.Entries[c.next]
			e.Off = off
		}
		if end := c.end; end != nil {
			c.window.Reset()
			c.next = 0
			if end == io.EOF { // the next pass follows
				c.end = nil
			}
			return end
		}
		c.refill()
	}
}
