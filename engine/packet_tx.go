// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"github.com/vishvananda/netlink"
)

// A packetTransmitter feeds, paces, builds and stamps frames on the sender's thread, and has
// sendmmsg(2) hand a lane's to the driver at once, past the qdisc. A port that drops a frame
// answers ENOBUFS. Where its driver has counted it in tx_dropped (a veth whose peer's ring or
// backlog is full) the port did take it: only what failed beyond tx_dropped's growth was
// refused. sendmmsg hides the error of a frame that fails behind others, so such a frame is
// not tried again: it may have been dropped already.
type packetTransmitter struct {
	lanes []*packetLane
	netns string
	cpus  []int
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
func (packet) OpenTransmitter(_ context.Context, lanes []host.Port, cpu int) (_ Transmitter, err error) {
	if len(lanes) == 0 {
		return nil, errors.New("open a packet transmitter: no lanes are given")
	}
	t := &packetTransmitter{netns: lanes[0].Netns}
	if cpu >= 0 {
		t.cpus = []int{cpu}
	}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	for _, p := range lanes {
		if p.Netns != t.netns {
			return nil, fmt.Errorf("open a packet transmitter: %s and %s stand in two namespaces", lanes[0].Name, p.Name)
		}
		if err := netns.Do(p.Netns, func() error {
			l, err := openLane(p)
			if err == nil {
				t.lanes = append(t.lanes, l)
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *packetTransmitter) Close() (err error) {
	for _, l := range t.lanes {
		err = errors.Join(err, l.close())
	}
	t.lanes = nil
	return err
}

// A packetSender is one Transmit under way.
type packetSender struct {
	load    Load
	streams []packetStream
	queues  []sendQueue // one a lane
	pace    *pace
	clock   clock
	burst   int          // most frames of a round
	end     unit.Instant // 0: with the last frame
	done    <-chan struct{}
	stop    atomic.Bool
	cost    float64 // ns that a frame takes, as of late
}

// A packetStream makes its frames from a spec, or takes them from a feed.
type packetStream struct {
	Stream
	queue       *sendQueue
	frames      *frame.Builder
	feed        *feed
	bufs        [][]byte // one for each frame of a flush
	same        bool     // frames differ in sequence and time alone, and bufs hold the rest
	sent        uint64   // tried
	octets      uint64   // of those, with FCS
	failed      uint64
	failedOct   uint64
	first, last unit.Instant
}

// open makes ready to send st by q; a source is then the feed's until it is closed.
func (q *sendQueue) open(st Stream, l Load) (packetStream, error) {
	s := packetStream{Stream: st, queue: q}
	longest := int(frame.MaxSize)
	if st.Source != nil {
		shape := st.Source.Shape()
		if err := q.fits(shape.Longest, etherTag); err != nil {
			return s, err
		}
		s.feed = newFeed(st, l, q.fitsAll)
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
		s.bufs = append(s.bufs, all[i*stride:(i+1)*stride])
	}
	if b := s.frames; b != nil && len(b.Variants) == 1 && b.Spec.Flows == 1 && b.Layout.Network == 0 && !b.Layout.IPv6 {
		s.same = true
		for i, buf := range s.bufs {
			s.bufs[i] = buf[:b.Build(0, buf)]
		}
	}
	return s, nil
}

func (t *packetTransmitter) Transmit(ctx context.Context, l Load, streams ...Stream) ([]TxReport, error) {
	if len(streams) == 0 {
		return nil, errors.New("transmit: no streams are given")
	}
	if err := l.check(streams...); err != nil {
		return nil, err
	}
	s := &packetSender{load: l, clock: newClock(), done: ctx.Done()}
	for _, lane := range t.lanes {
		s.queues = append(s.queues, newSendQueue(lane, flatBatch))
	}
	defer func() {
		for i := range s.streams {
			if f := s.streams[i].feed; f != nil {
				f.close()
			}
		}
	}()
	for _, st := range streams {
		if st.Lane < 0 || st.Lane >= len(t.lanes) {
			return nil, fmt.Errorf("transmit: stream %d is for lane %d of %d", st.ID, st.Lane, len(t.lanes))
		}
		opened, err := s.queues[st.Lane].open(st, l)
		if err != nil {
			return nil, fmt.Errorf("transmit stream %d: %w", st.ID, err)
		}
		s.streams = append(s.streams, opened)
	}

	before := make([]uint64, len(t.lanes))
	for i, lane := range t.lanes {
		var err error
		if before[i], err = lane.dropped(); err != nil {
			return nil, err
		}
	}
	cancel := guard.AfterDone(ctx, func() { s.stop.Store(true) })
	defer cancel()
	thread, err := netns.Go(t.netns, t.cpus, s.run)
	if err != nil {
		return nil, fmt.Errorf("start the sender: %w", err)
	}
	err = thread.Wait()
	gone := ""
	for i := range s.queues {
		q := &s.queues[i]
		if q.out != nil {
			err = errors.Join(err, q.out.finish(q))
		}
		after, statErr := q.dropped()
		if errors.As(statErr, new(netlink.LinkNotFoundError)) {
			gone = q.port.Name
			continue
		}
		err = errors.Join(err, statErr)
		q.dropsAreAccepted(s.streams, after-before[i])
	}
	reports := s.reports()
	if gone != "" {
		return reports, goneError(gone, reports)
	}
	return reports, errors.Join(err, ctx.Err())
}

// dropsAreAccepted takes frames that the driver counted as dropped off those that
// failed: each stream's share of what failed on the lane.
func (q *sendQueue) dropsAreAccepted(streams []packetStream, dropped uint64) {
	left := min(dropped, q.failed)
	for i := range streams {
		if st := &streams[i]; st.queue == q && q.failed > 0 {
			share := left * st.failed / q.failed
			q.failed -= st.failed
			if st.failed > 0 {
				st.failedOct -= uint64(float64(st.failedOct) / float64(st.failed) * float64(share))
			}
			st.failed -= share
			left -= share
		}
	}
}

// run is the sender's thread.
func (s *packetSender) run() error {
	// A sleep is to end when asked, not 50 us later. The thread dies with its work.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set the sender's timer slack: %w", err)
	}
	group := 1
	if s.load.Rate > 0 {
		group = burstFor(s.load, 1)
	}
	s.burst = flatBatch
	if s.load.paced() && s.load.Alone {
		s.burst = 1
	}
	s.pace = newPace(s.load, len(s.streams), group, s.clock.now())
	if err := s.feed(); err != nil { // the first windows are filled before time begins
		return err
	}
	begin := s.clock.now()
	s.pace.origin, s.pace.seen = begin, begin
	if s.load.Duration != 0 {
		s.end = begin + unit.Instant(s.load.Duration)
	}
	for done := 0; ; {
		now := s.clock.now()
		s.account(now, done)
		if s.over(now) {
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
			if err := s.flush(&s.queues[i]); err != nil {
				return err
			}
		}
		if err := s.feed(); err != nil {
			return err
		}
	}
	if !s.load.paced() { // the last batch has taken its time too
		now := s.clock.now()
		for i := range s.streams {
			s.streams[i].last = now
		}
	}
	return nil
}

// round queues the frames that are due at now, up to a flush's. It ends early with
// a window. Otherwise at is when the next one may leave; left is false where there
// is none.
func (s *packetSender) round(now unit.Instant) (done int, at unit.Instant, left bool) {
	if st := &s.streams[0]; s.pace.flat && len(s.streams) == 1 && s.pace.lines[0].gaps == nil {
		n := s.pace.room(s.burst)
		for done < n && (st.feed == nil || st.feed.have()) {
			st.add(now, now)
			done++
		}
		s.pace.skip(done)
		return done, now, n > 0
	}
	for done < s.burst {
		var i int
		if i, at = s.pace.next(); i < 0 {
			return done, 0, false
		}
		st := &s.streams[i]
		if at > now || st.feed != nil && !st.feed.have() {
			break
		}
		s.pace.take(i, now, st.add(now, s.pace.stamp(i, now)))
		if st.feed != nil && st.feed.have() {
			s.pace.captured(i, st.feed.entry().At)
		}
		done++
	}
	return done, at, true
}

// feed turns the windows that are empty, once all of their frames have left.
func (s *packetSender) feed() error {
	for i := range s.streams {
		st := &s.streams[i]
		if st.feed == nil || st.feed.have() || s.pace.lines[i].over {
			continue
		}
		most := time.Duration(0)
		if s.end != 0 {
			most = max(time.Duration(s.end-s.clock.now()), 1)
		}
		starved := st.feed.starved
		turned, wraps, err := st.feed.turn(s.done, most)
		if st.feed.starved > starved { // which is no stall
			s.pace.seen = s.clock.now()
		}
		if err != nil {
			return fmt.Errorf("transmit stream %d: %w", st.ID, err)
		}
		if wraps {
			s.pace.wrap(i)
		}
		switch turned {
		case feedOver:
			s.pace.finish(i)
		case feedMore:
			s.pace.captured(i, st.feed.entry().At)
		}
	}
	return nil
}

// over says whether no more is to be sent at now.
func (s *packetSender) over(now unit.Instant) bool {
	return s.stop.Load() || s.end != 0 && now >= s.end
}

// account looks for a stall in a round of done frames, which began at the last
// tick: what it took beyond the usual cost of its frames.
func (s *packetSender) account(now unit.Instant, done int) {
	if done == 0 {
		s.pace.tick(now, 0)
		return
	}
	each := float64(now-s.pace.seen) / float64(done)
	if s.cost == 0 {
		s.cost = each
	}
	s.pace.tick(now, time.Duration(s.cost*float64(done)))
	s.cost += (min(each, 4*s.cost) - s.cost) / 16
}

// add puts the stream's next frame, stamped so, into its lane's queue and returns
// its octets, with FCS.
func (st *packetStream) add(now, stamp unit.Instant) int {
	q := st.queue
	buf := st.bufs[q.n]
	switch {
	case st.same:
		binary.BigEndian.PutUint32(buf[st.frames.Layout.Sequence:], uint32(st.sent))
		binary.BigEndian.PutUint64(buf[st.frames.Layout.Time:], uint64(stamp))
	case st.feed != nil:
		buf = st.feed.take(buf, stamp)
	default:
		buf = buf[:st.frames.Build(st.sent, buf)]
		st.frames.Stamp(buf, stamp)
	}
	q.iovs[q.n].Base = &buf[0]
	q.iovs[q.n].SetLen(len(buf))
	q.stream[q.n] = st
	q.n++
	if st.sent == 0 {
		st.first = now
	}
	st.last = now
	st.sent++
	octets := len(buf) + unit.FCS
	st.octets += uint64(octets)
	return octets
}

// flush hands the queue's frames to the port. Flat out, it waits for room in the
// socket's buffer, and what has found none by the end was not sent; paced, a frame
// that finds none has failed.
func (s *packetSender) flush(q *sendQueue) error {
	if q.out != nil {
		return q.out.flush(s, q)
	}
	left := 0
	for i := 0; i < q.n; {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(q.fd), uintptr(unsafe.Pointer(&q.msgs[i])), uintptr(q.n-i), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == 0:
			i += int(n)
			left += int(n)
			if i == q.n {
				continue
			}
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN && !s.load.paced():
			// A port that pause frames hold may never have room.
			if s.over(s.clock.now()) {
				q.forget(i)
				i = q.n
				continue
			}
			if _, err := unix.Poll(q.room[:], 1); err != nil && err != unix.EINTR {
				return fmt.Errorf("wait for %s to send: %w", q.port.Name, err)
			}
			continue
		case errno == unix.EAGAIN || errno == unix.ENOBUFS:
		case errno == unix.EMSGSIZE:
			q.forget(i)
			return fmt.Errorf("send from %s: a frame of %d octets is longer than the port's MTU allows now: %w", q.port.Name, int(q.iovs[i].Len)+unit.FCS, errno)
		default:
			q.forget(i)
			return packetError("send from "+q.port.Name, errno)
		}
		q.stream[i].failed++
		q.stream[i].failedOct += uint64(q.iovs[i].Len) + unit.FCS
		q.failed++
		i++
	}
	q.batch = max(q.batch, left)
	q.n = 0
	return nil
}

// forget takes the queue's frames from i on for not sent.
func (q *sendQueue) forget(i int) {
	for ; i < q.n; i++ {
		q.stream[i].sent--
		q.stream[i].octets -= uint64(q.iovs[i].Len) + unit.FCS
	}
}

// wait returns when the clock shows at, or after longestSleep.
func (s *packetSender) wait(at unit.Instant) {
	now := s.clock.now()
	if d := time.Duration(at - now); d > spinBefore {
		wake := unix.NsecToTimespec(int64(now) + int64(min(d-spinBefore, longestSleep)))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &wake, nil) // EINTR: looks again
		s.pace.seen = max(s.pace.seen, unit.Instant(wake.Nano()))
		return
	}
	for s.clock.now() < at {
	}
	s.pace.seen = at
}

func (s *packetSender) reports() []TxReport {
	reports := make([]TxReport, len(s.streams))
	for i := range reports {
		st := &s.streams[i]
		r := &reports[i]
		*r = TxReport{
			Stream: st.ID, Accepted: st.sent - st.failed, Refused: st.failed, Octets: st.octets - st.failedOct,
			First: st.first, Last: st.last, Batch: st.queue.batch,
		}
		if st.feed != nil {
			r.Passes, r.Starved = st.feed.passes, st.feed.starved
		}
		if s.pace != nil {
			s.pace.settle(i, st.Stream, r)
		}
	}
	return reports
}
