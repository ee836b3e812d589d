// SPDX-License-Identifier: Apache-2.0

package telemetry

import "math"

// A counter follows one of the kernel's counters and never falls: one of 32 bit
// goes on where it wraps, one that began anew (its driver was loaded again, its
// rings were made again, the interface came back) goes on from where it stood. So
// growth is what the kernel counted, and a little less where it began anew
// between two reads.
type counter struct {
	last, base uint64
	narrow     bool // it has 16 bit, and nobody sets it back
}

// leap is the most that a counter of 32 bit grows between two reads. Beyond it, a
// smaller value is a new start. At 1 Gbit/s octets take two seconds for it.
const leap = 1 << 28

func (c *counter) next(v uint64) float64 {
	switch {
	case v >= c.last:
	case c.narrow:
		c.base += 1 << 16
	case c.last <= math.MaxUint32 && uint32(v)-uint32(c.last) < leap:
		c.base += 1 << 32
	default:
		c.base += c.last
	}
	c.last = v
	return float64(c.base + v)
}

// total is what next said last; 0 if never.
func (c *counter) total() float64 { return float64(c.base + c.last) }

// anew says that the next value belongs to a counter that began at zero, whatever
// it is.
func (c *counter) anew() { c.base, c.last = c.base+c.last, 0 }

// A clock is CPU time of /proc/stat. Idle and waiting time can fall by some ticks,
// because the kernel estimates them for a sleeping CPU, and can be anything after
// a CPU was off. It stands still until it is overtaken, and goes on from there after
// a longer fall: there is no other truth.
type clock struct {
	last   uint64
	offset uint64 // modulo 2^64
}

const clockFall = 3 * userHz // as node_exporter has it

func (c *clock) next(v uint64) float64 {
	if v < c.last {
		if c.last-v <= clockFall {
			return float64(c.last + c.offset)
		}
		c.offset += c.last - v
	}
	c.last = v
	return float64(v + c.offset)
}
