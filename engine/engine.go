// SPDX-License-Identifier: Apache-2.0

// Package engine offers streams to ports and meters what comes back.
package engine

import (
	"context"
	"time"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Stream is one direction's load: frames of one Spec, from one port.
type Stream struct {
	ID     uint16     // in every signature; unique among the streams of a trial
	Frames frame.Spec // sizes, flows, addresses
	Lane   int        // index of the transmitter's port
}

// A Load is how the streams of a Transmit are offered: all at one rate, frame
// by frame in turn, on one open-loop schedule.
type Load struct {
	Rate     unit.FrameRate // each stream's; 0: flat out
	Duration time.Duration  // 0: until Count
	Count    uint64         // each stream's frames; 0: until Duration
	Alone    bool           // each paced frame leaves as soon as it is made: for latency
}

// A TxReport is what one stream's sender did. Issued frames were handed to the
// port; Refused ones it did not take; accepted = Issued - Refused is in
// TxReport.Accepted as read from counters.
type TxReport struct {
	Stream       uint16
	Intended     uint64 // rate x duration or Count; 0 for flat out by duration
	Accepted     uint64
	Refused      uint64
	NotSent      uint64 // due by the schedule and not sent when time was up
	Late         uint64 // frames sent behind the schedule by an interval (backend xdp: by a burst's) or more
	CatchUp      uint64 // longest burst sent to catch up, frames; 0: it was made up without bursts
	Stalls       uint64 // times that the sender stood still for more than StallFloor
	LongestStall time.Duration
	First, Last  unit.Instant   // of the first and last frame issued
	Offered      unit.FrameRate // accepted over the load's duration, or over last - first where a count ended it
	Peak         unit.FrameRate // the highest rate on the way: Offered, or that at which delayed frames were made up
	Batch        int            // most frames between two flushes of the port's queue
}

// StallFloor is the shortest standstill of a sender that counts as a stall.
const StallFloor = 50 * time.Microsecond

// An RxReport is what a meter saw of one stream, since Arm.
type RxReport struct {
	Stream      uint16
	Frames      uint64 // signed and whole, duplicates included
	Octets      uint64 // with FCS
	Reordered   uint64 // RFC 4737: sequence below one that came before, not seen yet
	Duplicate   uint64 // sequence seen before, in the window of the last 8,192
	Broken      uint64 // our magic, but lengths that do not fit
	First, Last unit.Instant
	Rate        unit.FrameRate    // frames over last - first
	Latency     *result.Histogram // nil unless timing
	Gaps        *result.Histogram // nil unless timing
}

// A MeterReport is what one port's meter saw.
type MeterReport struct {
	Streams []RxReport // one for each stream armed, in that order
	Foreign uint64     // frames that are not of the armed streams
	Drops   uint64     // frames that the meter itself lost
}

// A Transmitter offers streams through its lanes. One Transmit at a time.
type Transmitter interface {
	// Transmit returns when the load is done or ctx ends (then with ctx's error
	// and the reports so far). One report a stream, in order.
	Transmit(ctx context.Context, l Load, streams ...Stream) ([]TxReport, error)
	Close() error
}

// A Meter counts frames that arrive at a port.
type Meter interface {
	// Arm forgets everything and counts streams from now on. timing adds the
	// latency and gap histograms, which cost the meter about a third of its speed.
	Arm(ctx context.Context, timing bool, streams ...uint16) error
	Read(ctx context.Context) (MeterReport, error)
	Close() error
}

// A Backend is one way to send and receive. Ports that are opened together may
// stand in one namespace only.
type Backend interface {
	// Name is the table's, with the mode: "xdp/native".
	Name() string
	// Probe says whether the backend sends and meters on all of ports, by doing:
	// nil, host.ErrNotSupported (wrapped, with why), or another error for "don't
	// know". It takes all ports at once, because two may be each other's peer.
	Probe(ctx context.Context, ports ...host.Port) error
	// OpenTransmitter opens the lanes of one sender thread on cpu (-1: any).
	OpenTransmitter(ctx context.Context, lanes []host.Port, cpu int) (Transmitter, error)
	OpenMeter(ctx context.Context, p host.Port) (Meter, error)
}

// A Spec is a row of All.
type Spec struct {
	Name, Doc string
	New       func() Backend
}
