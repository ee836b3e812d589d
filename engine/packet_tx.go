// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/unit"
)

// The way of a frame, all of it on the sender's thread:
//
//	pace         due? else sleep, and spin the last 100 us    NotSent, Late, CatchUp
//	build, stamp into the lane's next buffer
//	sendmmsg     a lane's buffers at once, past the qdisc     failed: ENOBUFS, EAGAIN
//	port         driver, in the same call                     tx_dropped
//
// A port that drops a frame answers ENOBUFS. Where its driver has counted it in
// tx_dropped (a veth whose peer's ring or backlog is full) the port did take it,
// and the ledger finds it there: only what failed beyond tx_dropped's growth was
// refused. sendmmsg hides the error of a frame that fails behind others, so such
// a frame is not tried again: it may have been dropped already.
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
	total   uint64       // frames of all streams; 0: until the duration is over
	end     unit.Instant // 0: with the last frame
	stop    atomic.Bool
	cost    float64 // ns that a frame takes, as of late
}

type packetStream struct {
	id          uint16
	queue       *sendQueue
	frames      *frame.Builder
	sent        uint64 // tried
	failed      uint64
	first, last unit.Instant
}

// A sendQueue is a lane's buffers for one system call.
type sendQueue struct {
	*packetLane
	n      int
	msgs   []mmsghdr
	bufs   [][]byte
	iovs   []unix.Iovec
	stream []*packetStream // whose frame it is
	room   [1]unix.PollFd  // to wait for
	failed uint64
	batch  int // most frames that left in one flush
}

// mmsghdr is the kernel's struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

func newSendQueue(l *packetLane, n int) sendQueue {
	q := sendQueue{packetLane: l, msgs: make([]mmsghdr, n), bufs: make([][]byte, n), iovs: make([]unix.Iovec, n), stream: make([]*packetStream, n)}
	q.room[0] = unix.PollFd{Fd: int32(l.fd), Events: unix.POLLOUT}
	const stride = (int(frame.MaxSize) + 63) &^ 63
	all := make([]byte, n*stride)
	for i := range n {
		q.bufs[i] = all[i*stride : (i+1)*stride]
		q.iovs[i].Base = &q.bufs[i][0]
		q.msgs[i].hdr.Iov = &q.iovs[i]
		q.msgs[i].hdr.SetIovlen(1)
	}
	return q
}

func (t *packetTransmitter) Transmit(ctx context.Context, l Load, streams ...Stream) ([]TxReport, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	if len(streams) == 0 {
		return nil, errors.New("transmit: no streams are given")
	}
	s := &packetSender{load: l, total: l.intended() * uint64(len(streams)), clock: newClock()}
	for _, lane := range t.lanes {
		s.queues = append(s.queues, newSendQueue(lane, flatBatch))
	}
	for _, st := range streams {
		if st.Lane < 0 || st.Lane >= len(t.lanes) {
			return nil, fmt.Errorf("transmit: stream %d is for lane %d of %d", st.ID, st.Lane, len(t.lanes))
		}
		b, err := frame.NewBuilder(st.Frames, st.ID)
		if err == nil {
			err = t.lanes[st.Lane].fits(b)
		}
		if err != nil {
			return nil, fmt.Errorf("transmit stream %d: %w", st.ID, err)
		}
		s.streams = append(s.streams, packetStream{id: st.ID, queue: &s.queues[st.Lane], frames: b})
	}

	before := make([]uint64, len(t.lanes))
	for i, lane := range t.lanes {
		var err error
		if before[i], err = lane.dropped(); err != nil {
			return nil, err
		}
	}
	cancel := context.AfterFunc(ctx, func() { s.stop.Store(true) })
	defer cancel()
	thread, err := netns.Go(t.netns, t.cpus, s.run)
	if err != nil {
		return nil, fmt.Errorf("start the sender: %w", err)
	}
	err = thread.Wait()
	for i := range s.queues {
		q := &s.queues[i]
		after, statErr := q.dropped()
		err = errors.Join(err, statErr)
		q.dropsAreAccepted(s.streams, after-before[i])
	}
	return s.reports(), errors.Join(err, ctx.Err())
}

// dropsAreAccepted takes frames that the driver counted as dropped off those that
// failed: each stream's share of what failed on the lane.
func (q *sendQueue) dropsAreAccepted(streams []packetStream, dropped uint64) {
	left := min(dropped, q.failed)
	for i := range streams {
		if st := &streams[i]; st.queue == q && q.failed > 0 {
			share := left * st.failed / q.failed
			q.failed -= st.failed
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
	flat, burst := s.load.Rate == 0, flatBatch
	if !flat {
		burst = burstFor(s.load, len(s.streams))
	}
	begin := s.clock.now()
	s.pace = newPace(s.load.Rate*unit.FrameRate(len(s.streams)), begin)
	if s.load.Duration != 0 {
		s.end = begin + unit.Instant(s.load.Duration)
	}
	done := 0 // frames of the last round
	for !s.stop.Load() {
		now := s.clock.now()
		s.account(now, done)
		if s.over(now) || s.total != 0 && s.pace.k == s.total {
			break
		}
		for done = 0; done < burst && (s.total == 0 || s.pace.k < s.total); done++ {
			st := &s.streams[s.pace.k%uint64(len(s.streams))]
			if !s.pace.take(now) {
				break
			}
			st.add(now)
		}
		if done == 0 {
			s.wait(s.pace.due(s.pace.k))
			continue
		}
		for i := range s.queues {
			if err := s.flush(&s.queues[i]); err != nil {
				return err
			}
		}
	}
	if flat { // the last batch has taken its time too
		now := s.clock.now()
		for i := range s.streams {
			s.streams[i].last = now
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

// add builds the stream's next frame in its lane's queue.
func (st *packetStream) add(now unit.Instant) {
	q := st.queue
	buf := q.bufs[q.n]
	length := st.frames.Build(st.sent, buf)
	st.frames.Stamp(buf, now)
	q.iovs[q.n].SetLen(length)
	q.stream[q.n] = st
	q.n++
	if st.sent == 0 {
		st.first = now
	}
	st.last = now
	st.sent++
}

// flush hands the queue's frames to the port. Flat out, it waits for room in the
// socket's buffer, and what has found none by the end was not sent; paced, a frame
// that finds none has failed.
func (s *packetSender) flush(q *sendQueue) error {
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
		case errno == unix.EAGAIN && s.load.Rate == 0:
			// A port that pause frames hold may never have room.
			if s.over(s.clock.now()) {
				for ; i < q.n; i++ {
					q.stream[i].sent--
				}
				continue
			}
			if _, err := unix.Poll(q.room[:], 1); err != nil && err != unix.EINTR {
				return fmt.Errorf("wait for %s to send: %w", q.port.Name, err)
			}
			continue
		case errno == unix.EAGAIN || errno == unix.ENOBUFS:
		case errno == unix.EMSGSIZE:
			return fmt.Errorf("send from %s: a frame of %d octets is longer than the port's MTU allows now: %w", q.port.Name, int(q.iovs[i].Len)+unit.FCS, errno)
		default:
			return packetError("send from "+q.port.Name, errno)
		}
		q.stream[i].failed++
		q.failed++
		i++
	}
	q.batch = max(q.batch, left)
	q.n = 0
	return nil
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
	intended := s.load.intended()
	for i := range reports {
		st := &s.streams[i]
		reports[i] = TxReport{
			Stream: st.id, Intended: intended, Accepted: st.sent - st.failed, Refused: st.failed,
			First: st.first, Last: st.last, Batch: st.queue.batch,
		}
		r := &reports[i]
		r.Offered = offered(s.load, *r)
		r.Peak = r.Offered
		if intended > st.sent {
			r.NotSent = intended - st.sent
		}
		if s.pace != nil {
			r.Late, r.CatchUp, r.Stalls, r.LongestStall = s.pace.late, s.pace.catchUp, s.pace.stalls, s.pace.longestStall
		}
	}
	return reports
}

// A clock is CLOCK_MONOTONIC without a system call: Go's own clock, set by it.
type clock struct {
	base time.Time
	at   unit.Instant // of base
}

// newClock is off by less than it takes to read the clock: some 100 ns.
func newClock() clock {
	c := clock{base: time.Now()}
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

func (c clock) now() unit.Instant { return c.at + unit.Instant(time.Since(c.base)) }

// offset is what CLOCK_REALTIME is ahead of CLOCK_MONOTONIC.
func (c clock) offset() int64 {
	t := time.Now()
	return t.UnixNano() - int64(c.at) - int64(t.Sub(c.base))
}
