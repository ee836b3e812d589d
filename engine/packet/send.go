// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"boxdyno/engine"
	"boxdyno/engine/internal/clock"
	"boxdyno/engine/internal/feed"
	"boxdyno/engine/internal/pace"
	"boxdyno/engine/internal/ports"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A Transmitter feeds, paces, builds and stamps frames on the sender's thread, and has
// sendmmsg(2) hand a lane's to the driver at once, past the qdisc. A port that drops a frame
// answers ENOBUFS. Where its driver has counted it in tx_dropped (a veth whose peer's ring or
// backlog is full) the port did take it: only what failed beyond tx_dropped's growth was
// refused. sendmmsg hides the error of a frame that fails behind others, so such a frame is
// not tried again: it may have been dropped already.
type Transmitter struct {
	Lanes []*Lane
	Netns string
	CPUs  []int
}

const (
	// flatBatch is the frames of a system call flat out: beyond it the call is no
	// faster, and its stalls are harder to see.
	flatBatch = 64
	// spinBefore is how long before a frame is due the sender is awake.
	spinBefore = 100 * time.Microsecond
	// longestSleep bounds how long a sender does not look whether to stop.
	longestSleep = 10 * time.Millisecond
)

// OpenTransmitter opens a socket on each lane.
func (Backend) OpenTransmitter(_ context.Context, lanes []host.Port, cpu int) (_ engine.Transmitter, err error) {
	if len(lanes) == 0 {
		return nil, errors.New("open a packet transmitter: no lanes are given")
	}
	t := &Transmitter{Netns: lanes[0].Netns}
	if cpu >= 0 {
		t.CPUs = []int{cpu}
	}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	for _, p := range lanes {
		if p.Netns != t.Netns {
			return nil, fmt.Errorf("open a packet transmitter: %s and %s stand in two namespaces", lanes[0].Name, p.Name)
		}
		if err := netns.Do(p.Netns, func() error {
			l, err := openLane(p)
			if err == nil {
				t.Lanes = append(t.Lanes, l)
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Transmitter) Close() (err error) {
	for _, l := range t.Lanes {
		err = errors.Join(err, l.close())
	}
	t.Lanes = nil
	return err
}

// A Sender is one Transmit under way.
type Sender struct {
	load    engine.Load
	streams []Stream
	queues  []Queue // one a lane
	pace    *pace.Pace
	Clock   clock.Clock
	burst   int          // most frames of a round
	end     unit.Instant // 0: with the last frame
	done    <-chan struct{}
	stop    atomic.Bool
	cost    float64 // ns that a frame takes, as of late
}

// A Stream makes its frames from a spec, or takes them from a feed.
type Stream struct {
	engine.Stream
	queue        *Queue
	frames       *frame.Builder
	feed         *feed.Feed
	Bufs         [][]byte // one for each frame of a flush
	same         bool     // frames differ in sequence and time alone, and bufs hold the rest
	sent         uint64   // tried
	octets       uint64   // of those, with FCS
	Failed       uint64
	FailedOctets uint64
	first, last  unit.Instant
}

// open makes ready to send st by q; a source is then the feed's until it is closed.
func (q *Queue) open(st engine.Stream, l engine.Load) (Stream, error) {
	s := Stream{Stream: st, queue: q}
	longest := int(frame.MaxSize)
	if st.Source != nil {
		shape := st.Source.Shape()
		if err := q.fits(shape.Longest, etherTag); err != nil {
			return s, err
		}
		s.feed = feed.New(st, l, q.fitsAll)
		longest = shape.Longest
	} else {
		b, err := frame.NewBuilder(st.Frames, st.ID)
		if err != nil {
			return s, err
		}
		for _, v := range b.Variants {
			if err := q.fits(v.Len, 0); err != nil {
				return s, err
			}
		}
		s.frames = b
	}
	stride := (longest + 63) &^ 63
	all := make([]byte, flatBatch*stride)
	for i := range flatBatch {
		s.Bufs = append(s.Bufs, all[i*stride:(i+1)*stride])
	}
	if b := s.frames; b != nil && len(b.Variants) == 1 && b.Spec.Flows == 1 && b.Layout.Network == 0 && !b.Layout.IPv6 {
		s.same = true
		for i, buf := range s.Bufs {
			s.Bufs[i] = buf[:b.Build(0, buf)]
		}
	}
	return s, nil
}

func (t *Transmitter) Transmit(ctx context.Context, l engine.Load, streams ...engine.Stream) ([]engine.TxReport, error) {
	if len(streams) == 0 {
		return nil, errors.New("transmit: no streams are given")
	}
	if err := l.Check(streams...); err != nil {
		return nil, err
	}
	s := &Sender{load: l, Clock: clock.New(), done: ctx.Done()}
	for _, lane := range t.Lanes {
		s.queues = append(s.queues, newQueue(lane, flatBatch))
	}
	defer func() {
		for i := range s.streams {
			if f := s.streams[i].feed; f != nil {
				f.Close()
			}
		}
	}()
	for _, st := range streams {
		if st.Lane < 0 || st.Lane >= len(t.Lanes) {
			return nil, fmt.Errorf("transmit: stream %d is for lane %d of %d", st.ID, st.Lane, len(t.Lanes))
		}
		opened, err := s.queues[st.Lane].open(st, l)
		if err != nil {
			return nil, fmt.Errorf("transmit stream %d: %w", st.ID, err)
		}
		s.streams = append(s.streams, opened)
	}

	before := make([]uint64, len(t.Lanes))
	for i, lane := range t.Lanes {
		var err error
		if before[i], err = lane.dropped(); err != nil {
			return nil, err
		}
	}
	cancel := guard.AfterDone(ctx, func() { s.stop.Store(true) })
	defer cancel()
	thread, err := netns.Go(t.Netns, t.CPUs, s.run)
	if err != nil {
		return nil, fmt.Errorf("start the sender: %w", err)
	}
	err = thread.Wait()
	gone := ""
	for i := range s.queues {
		q := &s.queues[i]
		if q.Out != nil {
			err = errors.Join(err, q.Out.Finish(q))
		}
		after, statErr := q.dropped()
		if errors.As(statErr, new(netlink.LinkNotFoundError)) {
			gone = q.Port.Name
			continue
		}
		err = errors.Join(err, statErr)
		q.dropsAreAccepted(s.streams, after-before[i])
	}
	reports := s.reports()
	if gone != "" {
		return reports, ports.GoneError(gone, reports)
	}
	return reports, errors.Join(err, ctx.Err())
}

// dropsAreAccepted takes frames that the driver counted as dropped off those that
// failed: each stream's share of what failed on the lane.
func (q *Queue) dropsAreAccepted(streams []Stream, dropped uint64) {
	left := min(dropped, q.Failed)
	for i := range streams {
		if st := &streams[i]; st.queue == q && q.Failed > 0 {
			share := left * st.Failed / q.Failed
			q.Failed -= st.Failed
			if st.Failed > 0 {
				st.FailedOctets -= uint64(float64(st.FailedOctets) / float64(st.Failed) * float64(share))
			}
			st.Failed -= share
			left -= share
		}
	}
}

// run is the sender's thread.
func (s *Sender) run() error {
	// A sleep is to end when asked, not 50 us later. The thread dies with its work.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set the sender's timer slack: %w", err)
	}
	group := 1
	if s.load.Rate > 0 {
		group = pace.Burst(s.load, 1)
	}
	s.burst = flatBatch
	if s.load.Paced() && s.load.Alone {
		s.burst = 1
	}
	s.pace = pace.New(s.load, len(s.streams), group, s.Clock.Now())
	if err := s.feed(); err != nil { // the first windows are filled before time begins
		return err
	}
	begin := s.Clock.Now()
	if at := s.load.Start.Ready(s.done); at != 0 {
		begin = at + unit.Instant(s.load.Phase)
	}
	for now := s.Clock.Now(); now < begin && !s.stop.Load(); now = s.Clock.Now() {
		s.wait(begin)
	}
	s.pace.Origin, s.pace.Seen = begin, s.Clock.Now()
	if s.load.Duration != 0 {
		s.end = begin + unit.Instant(s.load.Duration)
	}
	for done := 0; ; {
		now := s.Clock.Now()
		s.account(now, done)
		if s.Over(now) {
			break
		}
		var at unit.Instant // when the frame that ends the round is due
		var left bool
		if done, at, left = s.round(now); done == 0 && !left {
			break
		}
		if done == 0 {
			s.wait(at)
			continue
		}
		for i := range s.queues {
			if err := s.Flush(&s.queues[i]); err != nil {
				return err
			}
		}
		if err := s.feed(); err != nil {
			return err
		}
	}
	if !s.load.Paced() { // the last batch has taken its time too
		now := s.Clock.Now()
		for i := range s.streams {
			s.streams[i].last = now
		}
	}
	return nil
}

// round queues the frames that are due at now, up to a flush's. It ends early with
// a window. Otherwise at is when the next one may leave; left is false where there
// is none.
func (s *Sender) round(now unit.Instant) (done int, at unit.Instant, left bool) {
	if st := &s.streams[0]; s.pace.Flat && len(s.streams) == 1 && s.pace.Lines[0].Gaps == nil {
		n := s.pace.Room(s.burst)
		for done < n && (st.feed == nil || st.feed.Have()) {
			st.add(now, now)
			done++
		}
		s.pace.Skip(done)
		return done, now, n > 0
	}
	for done < s.burst {
		var i int
		if i, at = s.pace.Next(); i < 0 {
			return done, 0, false
		}
		st := &s.streams[i]
		if at > now || st.feed != nil && !st.feed.Have() {
			break
		}
		s.pace.Take(i, now, st.add(now, s.pace.Stamp(i, now)))
		if st.feed != nil && st.feed.Have() {
			s.pace.Captured(i, st.feed.Entry().At)
		}
		done++
	}
	return done, at, true
}

// feed turns the windows that are empty, once all of their frames have left.
func (s *Sender) feed() error {
	for i := range s.streams {
		st := &s.streams[i]
		if st.feed == nil || st.feed.Have() || s.pace.Lines[i].Over {
			continue
		}
		most := time.Duration(0)
		if s.end != 0 {
			most = max(time.Duration(s.end-s.Clock.Now()), 1)
		}
		starved := st.feed.Starved
		err := s.pace.Turn(i, st.feed, s.done, most)
		if st.feed.Starved > starved { // which is no stall
			s.pace.Seen = s.Clock.Now()
		}
		if err != nil {
			return fmt.Errorf("transmit stream %d: %w", st.ID, err)
		}
	}
	return nil
}

// Over says whether no more is to be sent at now.
func (s *Sender) Over(now unit.Instant) bool {
	return s.stop.Load() || s.end != 0 && now >= s.end
}

// account looks for a stall in a round of done frames, which began at the last
// tick: what it took beyond the usual cost of its frames.
func (s *Sender) account(now unit.Instant, done int) {
	if done == 0 {
		s.pace.Tick(now, 0)
		return
	}
	each := float64(now-s.pace.Seen) / float64(done)
	if s.cost == 0 {
		s.cost = each
	}
	s.pace.Tick(now, time.Duration(s.cost*float64(done)))
	s.cost += (min(each, 4*s.cost) - s.cost) / 16
}

// add puts the stream's next frame, stamped so, into its lane's queue and returns
// its octets, with FCS.
func (st *Stream) add(now, stamp unit.Instant) int {
	q := st.queue
	buf := st.Bufs[q.Len]
	switch {
	case st.same:
		binary.BigEndian.PutUint32(buf[st.frames.Layout.Sequence:], uint32(st.sent))
		binary.BigEndian.PutUint64(buf[st.frames.Layout.Time:], uint64(stamp))
	case st.feed != nil:
		buf = st.feed.Take(buf, stamp)
	default:
		buf = buf[:st.frames.Build(st.sent, buf)]
		st.frames.Stamp(buf, stamp)
	}
	q.Iovs[q.Len].Base = &buf[0]
	q.Iovs[q.Len].SetLen(len(buf))
	q.Streams[q.Len] = st
	q.Len++
	if st.sent == 0 {
		st.first = now
	}
	st.last = now
	st.sent++
	octets := len(buf) + unit.FCS
	st.octets += uint64(octets)
	return octets
}

// Flush hands the queue's frames to the port. Flat out, it waits for room in the
// socket's buffer, and what has found none by the end was not sent; paced, a frame
// that finds none has failed.
func (s *Sender) Flush(q *Queue) error {
	if q.Out != nil {
		return q.Out.Flush(s, q)
	}
	left := 0
	for i := 0; i < q.Len; {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(q.FD), uintptr(unsafe.Pointer(&q.msgs[i])), uintptr(q.Len-i), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == 0:
			i += int(n)
			left += int(n)
			if i == q.Len {
				continue
			}
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN && !s.load.Paced():
			// A port that pause frames hold may never have room.
			if s.Over(s.Clock.Now()) {
				q.forget(i)
				i = q.Len
				continue
			}
			if _, err := unix.Poll(q.room[:], 1); err != nil && err != unix.EINTR {
				return fmt.Errorf("wait for %s to send: %w", q.Port.Name, err)
			}
			continue
		case errno == unix.EAGAIN || errno == unix.ENOBUFS:
		case errno == unix.EMSGSIZE:
			q.forget(i)
			return fmt.Errorf("send from %s: a frame of %d octets is longer than the port's MTU allows now: %w", q.Port.Name, int(q.Iovs[i].Len)+unit.FCS, errno)
		default:
			q.forget(i)
			return refused("send from "+q.Port.Name, errno)
		}
		q.Streams[i].Failed++
		q.Streams[i].FailedOctets += uint64(q.Iovs[i].Len) + unit.FCS
		q.Failed++
		i++
	}
	q.Batch = max(q.Batch, left)
	q.Len = 0
	return nil
}

// forget takes the queue's frames from i on for not sent.
func (q *Queue) forget(i int) {
	for ; i < q.Len; i++ {
		q.Streams[i].sent--
		q.Streams[i].octets -= uint64(q.Iovs[i].Len) + unit.FCS
	}
}

// wait returns when the clock shows at, or after longestSleep.
func (s *Sender) wait(at unit.Instant) {
	now := s.Clock.Now()
	if d := time.Duration(at - now); d > spinBefore {
		wake := unix.NsecToTimespec(int64(now) + int64(min(d-spinBefore, longestSleep)))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &wake, nil) // EINTR: looks again
		s.pace.Seen = max(s.pace.Seen, unit.Instant(wake.Nano()))
		return
	}
	for s.Clock.Now() < at {
	}
	s.pace.Seen = at
}

func (s *Sender) reports() []engine.TxReport {
	reports := make([]engine.TxReport, len(s.streams))
	for i := range reports {
		st := &s.streams[i]
		r := &reports[i]
		*r = engine.TxReport{
			Stream: st.ID, Accepted: st.sent - st.Failed, Refused: st.Failed, Octets: st.octets - st.FailedOctets,
			First: st.first, Last: st.last, Batch: st.queue.Batch,
		}
		if st.feed != nil {
			r.Passes, r.Starved = st.feed.Passes, st.feed.Starved
		}
		if s.pace != nil {
			s.pace.Settle(i, st.Stream, r)
		}
	}
	return reports
}

// Unsent takes a frame of so many octets back that was counted as sent.
func (st *Stream) Unsent(octets int) {
	st.sent--
	st.octets -= uint64(octets) + unit.FCS
}
