// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"io"

	"boxdyno/frame"
)

// A chain is a source that yields one source after the other. The next one's
// first frame is due with the last one's last.
type chain struct {
	all   []frame.Source
	shape frame.Shape
	at    int    // of the one that is read
	begin uint64 // when it began, ns
	last  uint64 // when its last frame was due
}

// openCaptures opens capture files as one source. An error names the file, and is
// one of usage.
func openCaptures(names []string, o frame.CaptureOptions) (frame.Source, error) {
	c := &chain{}
	for _, name := range names {
		src, err := frame.OpenCapture(name, o)
		if err != nil {
			c.Close()
			return nil, usage(err)
		}
		c.all = append(c.all, src)
	}
	if len(c.all) == 1 {
		return c.all[0], nil
	}
	c.shape = c.all[0].Shape()
	for _, src := range c.all[1:] {
		s := src.Shape()
		c.shape.Longest = max(c.shape.Longest, s.Longest)
		c.shape.Timed = c.shape.Timed && s.Timed
		if s.Frames == 0 || c.shape.Frames == 0 {
			c.shape.Frames, c.shape.Octets = 0, 0
			continue
		}
		c.shape.Frames += s.Frames
		c.shape.Octets += s.Octets
	}
	return c, nil
}

func (c *chain) Shape() frame.Shape { return c.shape }

func (c *chain) Fill(w *frame.Window) error {
	for {
		from := w.Len()
		err := c.all[c.at].Fill(w)
		for i := from; i < w.Len(); i++ {
			w.Entries[i].At += c.begin
			c.last = w.Entries[i].At
		}
		if err != io.EOF {
			return err
		}
		c.begin = c.last
		if c.at++; c.at == len(c.all) {
			c.at, c.begin, c.last = 0, 0, 0
			return io.EOF
		}
	}
}

func (c *chain) Notes() (all []string) {
	for _, s := range c.all {
		all = append(all, s.Notes()...)
	}
	return all
}

func (c *chain) Close() (err error) {
	for _, s := range c.all {
		err = errors.Join(err, s.Close())
	}
	return err
}
