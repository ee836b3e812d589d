// SPDX-License-Identifier: Apache-2.0

package infer

import (
	"fmt"
	"slices"
	"strings"
)

// Kinds of windows, over all frames of a port, whoever sends them.
const (
	PerTen    = "10" // packets
	PerSecond = "1s"
)

// Kinds are all of them.
var Kinds = []string{PerTen, PerSecond}

const packetsOfTen = 10

// A Cutter cuts packets into windows, one after the other, without a gap between them.
type Cutter struct {
	seconds float64 // 0: by packets
	w       Window
}

// NewCutter cuts windows of a kind.
func NewCutter(kind string) (*Cutter, error) {
	switch {
	case kind == PerTen:
		return &Cutter{}, nil
	case kind == PerSecond:
		return &Cutter{seconds: 1}, nil
	}
	return nil, fmt.Errorf("there is no window %q: the windows are %s", kind, strings.Join(slices.Clone(Kinds), ", "))
}

// Add takes p in. done says that a window is complete, and x is it: of ten packets p is
// the last; a second ends with the first packet that arrives after it, which begins the
// next one.
func (c *Cutter) Add(p *Packet) (x Vector, done bool) {
	if c.seconds > 0 {
		if c.w.n > 0 && p.At-c.w.first >= c.seconds {
			x, done = c.w.Vector(), true
			c.w = Window{}
		}
		c.w.Add(p)
		return x, done
	}
	c.w.Add(p)
	if c.w.n < packetsOfTen {
		return x, false
	}
	x = c.w.Vector()
	c.w = Window{}
	return x, true
}
