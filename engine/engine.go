// SPDX-License-Identifier: Apache-2.0

// Package engine offers streams to ports and meters what comes back. It holds what a
// caller needs of every backend: loads, reports, interfaces. The backends are rooms:
//
//	catalog    the table of backends, and the best one for some ports
//	crew       several senders, each on a CPU of its own, offer one load
//	xdp        BPF with live frames sends, an XDP program meters
//	packet     sendmmsg sends, a ring meters
//	afxdp      AF_XDP rings; up to the flush it sends as packet does
//	mem        wires in memory, in virtual time
//	conn       both ends of TCP connections; SYNs leave as xdp's frames do
//	internal   what rooms share: schedules, feeds, tallies, clocks, ports, BPF
//
// The way of a frame, and who works on it:
//
//	Load, Streams                                                     MeterReport
//	  | Transmit                                                           ^ Read
//	internal/pace   when is it due?           whose is it, in order?   internal/tally
//	internal/feed   frame.Builder: octets     when did it come?        internal/clock
//	  | flush                                                              ^
//	packet, afxdp, mem: out of a port ---- box under test ---- into a port, a ring
//
// In backend xdp both ends are programs in the kernel, from the first frame to the last:
// xdp/bpf/sender.c (schedule: internal/bpf/pace.h) and xdp/bpf/meter.c.
package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Stream is one direction's load, from one port: frames of one Spec, or those
// of a source.
type Stream struct {
	ID     uint16       // in every signature; unique among the streams of a trial. Signed frames of a source carry ID + their class
	Frames frame.Spec   // sizes, flows, addresses; without a Source
	Source frame.Source // Transmit fills windows from it, ahead of what it sends, so that where it stands afterwards is not known; the caller closes it
	Lane   int          // index of the transmitter's port
	Parts  []Part       // in place of Source, for as many senders together: what each sends
}

// A Part is what one of several senders sends of a source, a source in itself (frame.Shard).
type Part struct {
	Source frame.Source
	Frames uint64        // of a pass, as many as all parts' tell the load among them; 0: each has as much of it
	Octets uint64        // theirs, with FCS
	First  time.Duration // from the whole pass's first frame to the part's
}

// A Load is how the streams of a Transmit are offered: all at one rate, frame
// by frame in turn, on one open-loop schedule.
type Load struct {
	Rate     unit.FrameRate // each stream's; 0: flat out
	Duration time.Duration  // 0: until Count
	Count    uint64         // each stream's frames; 0: until Duration
	Alone    bool           // each paced frame leaves as soon as it is made: for latency

	Then  unit.FrameRate // each stream's rate once After is over, without a pause between; 0: Rate stays
	After time.Duration  // within Duration; with Then only

	Bits    unit.BitRate // each stream's layer-2 rate with FCS, in place of Rate: frames are due by their octets
	Speed   float64      // a timed source's frames are due at its own times, this many times as fast; in place of Rate
	Pattern Pattern      // how frames are spread about Rate
	Burst   int          // frames of a burst, for pattern Bursts
	Passes  uint64       // over a source; 0: as many as Duration or Count take
	Unique  bool         // each pass over a source has addresses of its own (frame.Rewrite)
	Late    Late         // what becomes of frames that were held up
	Seed    uint64       // of random fields and of pattern Poisson
	Gaps    bool         // TxReport has histograms of gaps; costs the sender a few ns a frame

	Start *Start        // of senders that offer a load together, on which each waits; nil: it begins at once
	Phase time.Duration // with Start: this sender begins so much later
}

// A Pattern is how the frames of a load are spread about its mean rate.
type Pattern uint8

const (
	Constant Pattern = iota // equal gaps
	Poisson                 // exponential gaps: arrivals independent of each other. Their number in a duration is the mean on every run, but on backend xdp, where it varies as such arrivals do (by its square root)
	Bursts                  // Load.Burst frames back to back, bursts at equal gaps
)

// Late is what becomes of frames that could not leave when they were due.
type Late uint8

const (
	// MakeUp sends them as soon as it can without a burst, so that the mean stays
	// exact: for load.
	MakeUp Late = iota
	// Shift moves the rest of the schedule, so that no gap is shorter than asked;
	// what was offered is less than what was asked: for searches.
	Shift
)

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
	Stalls       uint64 // times that the sender stood still for more than StallFloor
	LongestStall time.Duration
	First, Last  unit.Instant   // of the first and last frame issued
	Tail         time.Duration  // with Load.Bits, what the last frame's octets take by the schedule: the load ends that much after Last
	Offered      unit.FrameRate // accepted over the load's duration, or over last - first where a count ended it; with Load.Bits as far as Tail goes beyond
	Changed      unit.Instant   // when the first frame at Load.Then left; 0: none did
	Peak         unit.FrameRate // the highest rate on the way: Offered, or that at which delayed frames were made up
	Batch        int            // most frames between two flushes of the port's queue

	Octets    uint64            // accepted, with FCS
	Passes    uint64            // over a source that were completed
	Shares    []uint64          // issued, by sender, where several sent Parts; else nil
	Starved   uint64            // times that the sender waited for its source
	Gaps      *result.Histogram // between frames as they left, s; nil unless Load.Gaps
	GapErrors *result.Histogram // |gap - the schedule's gap|, s; nil unless Load.Gaps and paced
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
	Late        uint64 // of Frames: those that left behind their schedule
	Broken      uint64 // our magic, but lengths that do not fit
	Span        uint64 // sequence numbers from 0, where a sender begins, to the highest seen, of all runs together; what is missing of them are Span - (Frames - Duplicate)
	First, Last unit.Instant
	Gap         unit.Instant      // arrival of the last frame that came while numbers before it were missing; 0: none, or without timing
	Rate        unit.FrameRate    // frames over last - first
	Latency     *result.Histogram // nil unless timing
	Gaps        *result.Histogram // nil unless timing
	IPDV        *result.Histogram // |delay - the delay of the frame before| of frames in sequence (RFC 3393, RFC 5481 4.1), s; no clocks need agree; nil unless timing
	Bursts      *result.Histogram // lengths in frames of runs with gaps below BurstGap; Upper is frames, not s; nil unless timing
	Runs        []RxRun           // of the sender, at most MaxRuns, in order; more than one where it was started anew since Arm
}

// An RxRun is what a meter saw of one run of a stream's sender, which numbers its
// frames from 0.
type RxRun struct {
	Frames, Octets       uint64 // as in RxReport
	Reordered, Duplicate uint64
	Span                 uint64 // sequence numbers from 0 to the highest seen
	Lowest               uint64 // sequence number of the first frame that came
	First, Last          unit.Instant
	Begin, End           unit.Instant // by the sender's clock: its first frame that came, and that with the highest number; 0: not stamped
}

// BurstGap is the gap between two frames that ends a burst; shorter ones do not.
const BurstGap = 2 * time.Microsecond

// MaxStreams is the most streams that a meter can be armed for.
const MaxStreams = 16

// A MeterReport is what one port's meter saw.
type MeterReport struct {
	Streams       []RxReport      // one for each stream armed, in that order
	Foreign       uint64          // frames that are not of the armed streams
	ForeignOctets uint64          // theirs, with FCS
	Drops         uint64          // frames that the meter itself lost; 0 for xdp, which has no buffer to overflow
	Unhanded      uint64          // of Drops, frames that a driver's XDP could not hand to the meter's full socket: the driver may count them, too
	First, Last   unit.Instant    // of any frame; without timing, xdp's Last (each stream's, too) may be up to 63 frames early
	Marks         []Mark          // of all armed streams' frames, in the order of time, at most 10 ms apart while frames arrive; the latest 16,384 of a receive CPU
	Stamps        string          // what took the times, and the floor of its clock: "software, XDP program (floor 50 ns)"...
	Roll          *frame.Arrivals // frames that are on the meter's roll, and strange ones, all of which are foreign; nil unless OpenRoll opened the meter
	Hash          string          // Digest.Sum of every frame since Arm, in order of arrival; "" unless Hasher was asked for it
}

// A Sparer is a backend whose meters can take less CPU time where frames are few; what
// they tell is up to 0.1 s old.
type Sparer interface {
	OpenSparing(ctx context.Context, p host.Port) (Meter, error)
}

// A Transmitter offers streams through its lanes. One Transmit at a time.
type Transmitter interface {
	// Transmit returns when the load is done or ctx ends (then with ctx's error
	// and the reports so far). One report a stream, in order.
	Transmit(ctx context.Context, l Load, streams ...Stream) ([]TxReport, error)
	Close() error
}

// A Meter counts frames that arrive at a port. Those of xdp and afxdp keep the
// frames of the streams that they are armed for from the stack.
type Meter interface {
	// Arm forgets everything and counts streams, at most MaxStreams, from now on;
	// with none, every frame is foreign. timing adds the histograms, which cost the
	// meter about 40 ns a frame.
	Arm(ctx context.Context, timing bool, streams ...uint16) error
	// Read does not disturb the counting. While frames arrive, the counters of a
	// report may be some frames apart. Once the port is gone, the error wraps
	// ErrPortGone, and the report beside it has all that came until then.
	Read(ctx context.Context) (MeterReport, error)
	Close() error
}

// A Crewing backend has no CPUs: it opens n senders that offer loads together by itself.
type Crewing interface {
	OpenCrew(ctx context.Context, lanes []host.Port, n int) (Transmitter, error)
}

// A Limited backend gives each sender a queue of its own of every lane.
type Limited interface {
	// SendQueues is how many p has.
	SendQueues(p host.Port) (int, error)
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
	// OpenRoll opens a meter that tells the frames of a capture apart: it counts those of
	// a roll, each by its mark, and no streams. It keeps all frames from the stack, but for
	// those by which neighbours find each other and that are not on the roll. Its First
	// and Last are of the roll's frames, and Foreign counts the others.
	OpenRoll(ctx context.Context, p host.Port, r *frame.Roll) (Meter, error)
}

// ErrPortGone is wrapped by the errors of senders and meters whose port has
// vanished from its namespace.
var ErrPortGone = errors.New("the port is gone")

// A Mark is how many frames had arrived before the one that arrived at At.
// Between two marks a.Frames - b.Frames frames arrived in a.At - b.At.
type Mark struct {
	At     unit.Instant
	Frames uint64
}

// MaxRuns is how many runs of a restarted sender are told apart; frames of later ones
// count as duplicates and as reordered. A new run is known by its times: within a run
// no frame with a lower number was sent later than one with a higher number.
const MaxRuns = 16

// An Asker is a backend that finds out whether it sends from a port without metering
// there. Of the other backends OpenTransmitter is the proof.
type Asker interface {
	// AskTransmit returns nil where the backend sends from p, host.ErrNotSupported
	// (wrapped, with why) where it does not, or another error for "don't know". It
	// attaches nothing to the port. frames is how many probe frames left the port:
	// 0 wherever the kernel answers (Linux 6.3), else 1.
	AskTransmit(ctx context.Context, p host.Port) (frames uint64, err error)
}

// A TooLongError is a source with frames that a backend cannot send.
type TooLongError struct {
	Longest, Limit int // octets without FCS
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("transmit: the source's longest frame has %d octets, and the backend takes at most %d: leave such frames out, or cut them (--cut)", e.Longest, e.Limit)
}
