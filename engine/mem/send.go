// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/crew"
	"boxdyno/engine/internal/feed"
	"boxdyno/engine/internal/pace"
	"boxdyno/frame"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Transmitter sends from lanes.
type Transmitter struct {
	m       *Backend
	lanes   []*wireEnd
	senders int
}

func (t *Transmitter) Close() error { return nil }

// A sender is one Transmit under way, or its share of one. Its times are those of the
// trial, from its first frame.
type sender struct {
	*Backend
	load    engine.Load
	streams []outgoing
	pace    *pace.Pace
	origin  unit.Instant
	cost    uint64 // of a frame to the sender, 1/65536 ns
	ready   uint64 // when the sender can send again, 1/65536 ns
	next    int    // the stream whose turn it is, and when its frame may leave
	may     unit.Instant
	end     unit.Instant // with a duration
}

// An outgoing makes its frames from a spec, or takes them from a feed.
type outgoing struct {
	engine.Stream
	end         *wireEnd
	frames      *frame.Builder
	feed        *feed.Feed
	buf         []byte
	sent        uint64
	octets      uint64 // with FCS
	first, last unit.Instant
}

const (
	// trialPause is the virtual time between loads of two trials: a policer's
	// bucket fills meanwhile, as between trials in real time. Loads of one trial
	// follow without a pause.
	trialPause = unit.Instant(10 * time.Millisecond)
	// doze is the pause after which a DUT has fallen asleep (Config.Wake).
	doze = unit.Instant(5 * time.Millisecond)
)

// each is one frame's share of a rate, 1/65536 ns; 0: none.
func each(rate unit.FrameRate) uint64 {
	if rate == 0 {
		return 0
	}
	return max(uint64(math.Round(65536e9/float64(rate))), 1)
}

func (t *Transmitter) Transmit(ctx context.Context, l engine.Load, streams ...engine.Stream) ([]engine.TxReport, error) {
	if len(streams) == 0 {
		return nil, errors.New("transmit: no streams are given")
	}
	if err := l.Check(streams...); err != nil {
		return nil, err
	}
	shares, err := crew.Split(l, streams, t.senders)
	if err != nil {
		return nil, err
	}
	var all []*sender
	defer func() {
		for _, s := range all {
			s.close()
		}
	}()
	for _, share := range shares {
		s, err := t.sender(share.Load, share.Streams)
		all = append(all, s)
		if err != nil {
			return nil, err
		}
	}

	t.m.sending.Lock()
	defer t.m.sending.Unlock()
	origin := t.m.begin()
	for i, s := range all {
		s.origin = origin
		s.pace = pace.New(s.load, len(s.streams), 1, origin+unit.Instant(shares[i].Load.Phase))
	}
	t.m.free = 0
	for more := true; more && err == nil && ctx.Err() == nil; {
		for _, s := range all {
			err = errors.Join(err, s.feed(ctx))
		}
		if err == nil {
			more = t.m.batch(all, 4096)
		}
	}
	t.m.finish(all)
	var reports [][]engine.TxReport
	for _, s := range all {
		reports = append(reports, s.reports())
	}
	return crew.Join(streams, reports), errors.Join(err, ctx.Err())
}

// sender makes ready to offer streams; it is to be closed even if it failed.
func (t *Transmitter) sender(l engine.Load, streams []engine.Stream) (*sender, error) {
	s := &sender{Backend: t.m, load: l, cost: each(t.m.cfg.Ceiling), end: unit.Instant(l.Phase + l.Duration)}
	for _, st := range streams {
		if st.Lane < 0 || st.Lane >= len(t.lanes) {
			return s, fmt.Errorf("transmit: stream %d is for lane %d of %d", st.ID, st.Lane, len(t.lanes))
		}
		m := outgoing{Stream: st, end: t.lanes[st.Lane]}
		if st.Source != nil {
			m.feed = feed.New(st, l, nil)
			m.buf = make([]byte, st.Source.Shape().Longest)
		} else {
			b, err := frame.NewBuilder(st.Frames, st.ID)
			if err != nil {
				return s, fmt.Errorf("transmit stream %d: %w", st.ID, err)
			}
			m.frames, m.buf = b, make([]byte, frame.MaxSize)
		}
		s.streams = append(s.streams, m)
	}
	return s, nil
}

func (s *sender) close() {
	for i := range s.streams {
		if f := s.streams[i].feed; f != nil {
			f.Close()
		}
	}
}

// begin is when the next load begins. The machine's own time decides nothing but the
// first: how long it takes to make frames, or stands still, changes no bucket.
func (m *Backend) begin() unit.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	armed := m.armed
	m.armed = false
	switch {
	case m.clock == 0:
		return unit.Now()
	case armed:
		return m.clock + trialPause
	}
	return m.clock
}

// feed turns the windows that are empty.
func (s *sender) feed(ctx context.Context) error {
	for i := range s.streams {
		st := &s.streams[i]
		if st.feed == nil || st.feed.Have() || s.pace.Lines[i].Over {
			continue
		}
		if err := s.pace.Turn(i, st.feed, ctx.Done(), 0); err != nil {
			return fmt.Errorf("transmit stream %d: %w", st.ID, err)
		}
	}
	return nil
}

// batch has the senders send at most n frames, fewer where a window ends, each when its
// turn comes, and says whether there are more.
func (m *Backend) batch(all []*sender, n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range n {
		var next *sender
		var first unit.Instant
		for _, s := range all {
			if at, ok := s.due(); ok && (next == nil || at < first) {
				next, first = s, at
			}
		}
		if next == nil {
			return false
		}
		if !next.send(first) {
			return true
		}
	}
	return true
}

// due is when the sender's next frame can leave; false where there is none.
func (s *sender) due() (at unit.Instant, ok bool) {
	if s.next, s.may = s.pace.Next(); s.next < 0 {
		return 0, false
	}
	s.may -= s.origin
	at = max(s.may, unit.Instant(s.ready>>16))
	return at, s.load.Duration == 0 || at < s.end
}

// send has the frame that is due leave at that instant; false where its window is over.
func (s *sender) send(at unit.Instant) bool {
	st := &s.streams[s.next]
	if st.feed != nil && !st.feed.Have() {
		return false
	}
	s.ready = max(s.ready, uint64(s.may)<<16) + s.cost
	buf := st.make(s.origin+at, s.pace.Stamp(s.next, s.origin+at))
	s.pace.Take(s.next, s.origin+at, len(buf)+unit.FCS)
	if st.feed != nil && st.feed.Have() {
		s.pace.Captured(s.next, st.feed.Entry().At)
	}
	s.toDUT(st.end, buf, uint64(at)<<16)
	return true
}

// make makes the stream's next frame, which leaves at now and is stamped so.
func (st *outgoing) make(now, stamp unit.Instant) []byte {
	buf := st.buf
	if st.feed != nil {
		buf = st.feed.Take(buf, stamp)
	} else {
		buf = buf[:st.frames.Build(st.sent, buf)]
		st.frames.Stamp(buf, stamp)
	}
	if st.sent == 0 {
		st.first = now
	}
	st.last = now
	st.sent++
	st.octets += uint64(len(buf) + unit.FCS)
	return buf
}

// toDUT carries a frame that is sent from e at an instant of the trial, in
// 1/65536 ns, over the wire and through the DUT.
func (s *sender) toDUT(e *wireEnd, buf []byte, at uint64) {
	n := e.in
	e.in++
	if e.ideal {
		s.arrive(e, buf, n, at)
		return
	}
	if s.cfg.LoseEvery != 0 && e.in%s.cfg.LoseEvery == 0 || s.chanceOf(float64(s.cfg.Loss)) {
		e.lost++
		return
	}
	if s.cfg.Policer != 0 && !s.police(e, s.origin+unit.Instant(at>>16)) {
		e.policed++
		return
	}
	if s.service != 0 {
		service := s.service
		now := s.origin + unit.Instant(at>>16)
		if now-s.last >= doze {
			s.woken = now
		}
		if s.last = now; now-s.woken < unit.Instant(s.cfg.Wake) {
			service = s.asleep
		}
		s.free = max(s.free, at)
		if (s.free-at+service-1)/service >= uint64(s.cfg.Queue) {
			e.full++
			return
		}
		s.free += service
		at = s.free
	}
	if s.drop != "" {
		e.dropped[s.drop]++
		return
	}
	if s.block != nil && s.block(buf) {
		e.dropped[result.NFT]++
		return
	}
	s.fromDUT(e, buf, n, at+uint64(s.cfg.Delay)<<16)
}

// police says whether a port's bucket, full at first, has a frame left at now.
func (s *sender) police(e *wireEnd, now unit.Instant) bool {
	const frame = 1_000_000_000
	most := uint64(s.cfg.PolicerBurst) * frame
	if past := uint64(now - e.filled); past > most/uint64(s.cfg.Policer) {
		e.credit = most
	} else {
		e.credit = min(most, e.credit+past*uint64(s.cfg.Policer))
	}
	e.filled = now
	if e.credit < frame {
		return false
	}
	e.credit -= frame
	return true
}

func (s *sender) chanceOf(ratio float64) bool { return ratio > 0 && s.chance.Float64() < ratio }

// fromDUT carries a frame on to the meter. Those that are held back let it pass.
func (s *sender) fromDUT(e *wireEnd, buf []byte, n, at uint64) {
	e.out++
	if s.cfg.AlterEvery != 0 && e.out%s.cfg.AlterEvery == 0 {
		buf = slices.Clone(buf) // it may be the source's own memory
		buf[15] ^= 4            // of IPv4 the type of service
	}
	if s.cfg.ReorderEvery != 0 && e.out%s.cfg.ReorderEvery == 0 {
		e.hold(buf, n, s.cfg.ReorderDepth)
		return
	}
	if s.chanceOf(s.cfg.Reorder) {
		e.hold(buf, n, 1+s.chance.IntN(s.cfg.ReorderDepth))
		return
	}
	s.arrive(e, buf, n, at)
	if s.cfg.DuplicateEvery != 0 && e.out%s.cfg.DuplicateEvery == 0 {
		e.duplicated++
		s.arrive(e, buf, n, at)
	}
	for i := range e.held {
		e.held[i].pass--
	}
	if s.chanceOf(s.cfg.Duplicate) {
		e.duplicated++
		e.hold(buf, n, s.chance.IntN(s.cfg.ReorderDepth+1))
	}
	e.held = slices.DeleteFunc(e.held, func(h heldFrame) bool {
		if h.pass <= 0 {
			s.arrive(e, h.buf, h.n, at)
		}
		return h.pass <= 0
	})
}

func (e *wireEnd) hold(buf []byte, n uint64, pass int) {
	e.held = append(e.held, heldFrame{slices.Clone(buf), n, pass})
}

func (s *sender) arrive(e *wireEnd, buf []byte, n, at uint64) {
	if s.cfg.Trace {
		e.arrived = append(e.arrived, Arrival{n, len(buf)})
	}
	if r := e.peer.meter; r != nil {
		r.arrive(buf, s.origin+unit.Instant(at>>16))
	}
	s.clock = max(s.clock, s.origin+unit.Instant(at>>16)+1)
}

// finish lets what is held back go, and time pass to the load's end.
func (m *Backend) finish(all []*sender) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock
	for _, s := range all {
		now = max(now, s.origin+unit.Instant(s.ready>>16))
	}
	s := all[0]
	for _, e := range m.ends {
		for _, h := range e.held {
			s.arrive(e, h.buf, h.n, uint64(now-s.origin)<<16)
		}
		e.held = nil
	}
	m.clock = max(m.clock, now)
}

func (s *sender) reports() []engine.TxReport {
	reports := make([]engine.TxReport, len(s.streams))
	for i := range reports {
		st := &s.streams[i]
		r := &reports[i]
		*r = engine.TxReport{Stream: st.ID, Accepted: st.sent, Octets: st.octets, First: st.first, Last: st.last, Batch: 1}
		if st.feed != nil {
			r.Passes = st.feed.Passes
		}
		s.pace.Settle(i, st.Stream, r)
	}
	return reports
}
