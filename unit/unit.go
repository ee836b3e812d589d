// SPDX-License-Identifier: Apache-2.0

// Package unit holds quantities in base units, their text forms and line-rate
// arithmetic. Prefixes exist only in text: 200k frame/s is FrameRate(200000).
package unit

import "golang.org/x/sys/unix"

type (
	// FrameSize is a frame's octets from destination MAC to FCS inclusive (RFC
	// 1242); 64 is the least. A buffer handed to Linux is FCS octets shorter.
	FrameSize int

	// BitRate is in bit/s. Which layer it counts is said by its name.
	BitRate float64

	// FrameRate is in frame/s.
	FrameRate float64

	// LossRatio is lost/offered, in [0, 1] (RFC 1242 frame loss rate / 100 %).
	LossRatio float64

	// Instant is nanoseconds of CLOCK_MONOTONIC: absolute inside a process, from
	// the run's origin in a record. It is not time.Time, whose JSON drops the
	// monotonic reading; a board without an RTC steps its wall clock in mid-run.
	Instant int64

	// Symbol names the unit of a value: "frame/s", "bit/s", "s", "1".
	Symbol string
)

// The octets that a frame has besides its buffer in Linux.
const (
	FCS      = 4  // frame check sequence, added by the NIC
	Overhead = 20 // preamble 7, start of frame 1, least gap 12: on the wire only
	MinFrame = FrameSize(64)
)

// Buffer is the length of the frame as Linux handles it, without FCS.
func (s FrameSize) Buffer() int { return int(s) - FCS }

// LineRate is the most frames of mean size octets (with FCS) that a link carries
// in a second: link / (8 * (size + 20)). 1 Gbit/s at 64 is 1,488,095.
func LineRate(link BitRate, size float64) FrameRate {
	return FrameRate(float64(link) / (8 * (size + Overhead)))
}

// RateOver is the rate of n frames from the first to the last: n-1 intervals.
func RateOver(n uint64, first, last Instant) FrameRate {
	if n < 2 || last <= first {
		return 0
	}
	return FrameRate(float64(n-1) / (float64(last-first) / 1e9))
}

// L2 is the layer-2 bit rate of r frames of mean size octets, FCS included.
func L2(r FrameRate, size float64) BitRate { return BitRate(float64(r) * 8 * size) }

// L1 is the same with preamble and gap: what the link is busy with.
func L1(r FrameRate, size float64) BitRate { return BitRate(float64(r) * 8 * (size + Overhead)) }

// Earlier is the earlier of two instants, of which 0 is none.
func Earlier(a, b Instant) Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Now reads CLOCK_MONOTONIC, the clock that BPF programs stamp frames with.
func Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock_gettime(CLOCK_MONOTONIC): " + err.Error()) // no Linux lacks it
	}
	return Instant(ts.Nano())
}
