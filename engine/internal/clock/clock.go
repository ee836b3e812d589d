// SPDX-License-Identifier: Apache-2.0

// Package clock reads the clock that frames are stamped by, and says how fine it is.
package clock

import (
	"time"

	"boxdyno/unit"
)

// A Clock is CLOCK_MONOTONIC without a system call: Go's own clock, set by it.
type Clock struct {
	base time.Time
	at   unit.Instant // of base
}

// New is off by less than it takes to read the clock: some 100 ns.
func New() Clock {
	c := Clock{base: time.Now()}
	best := time.Duration(1 << 62)
	for range 16 {
		before := time.Since(c.base)
		at := unit.Now()
		after := time.Since(c.base)
		if d := after - before; d < best {
			best = d
			c.at = at - unit.Instant(before+d/2)
		}
	}
	return c
}

// Now is the time.
func (c Clock) Now() unit.Instant { return c.at + unit.Instant(time.Since(c.base)) }

// Offset is what CLOCK_REALTIME is ahead of CLOCK_MONOTONIC.
func (c Clock) Offset() int64 {
	t := time.Now()
	return t.UnixNano() - int64(c.at) - int64(t.Sub(c.base))
}
