// SPDX-License-Identifier: Apache-2.0

package afxdp

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/bpf"
	"boxdyno/engine/internal/clock"
	"boxdyno/engine/internal/tally"
	"boxdyno/engine/roll"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/xsk"
	"boxdyno/result"
	"boxdyno/unit"

	"golang.org/x/sys/unix"
)

// A Meter has an XDP program stamp frames of the armed stream and give them to the
// queue's socket, which a thread a queue reads. Arrival is when the XDP program ran; without
// metadata from the driver, when the thread read the ring. Each queue judges sequences for
// itself: between queues there is no order. While it hashes, all frames but those of
// neighbours go to the sockets, and not to the stack.
type Meter struct {
	backend *Backend
	port    *openPort
	queues  []*queueMeter

	mu     sync.Mutex
	closed bool
	armed  bool
	hash   bool // from the next Arm on
}

// A queueMeter empties one queue.
type queueMeter struct {
	*queueSocket
	number int
	port   string
	spares bool // it lets frames gather, unless it is timed
	clock  clock.Clock
	thread *netns.Thread
	stop   atomic.Bool

	mu      sync.Mutex   // guards the rings RX and Fill, and what follows
	tally   *tally.Tally // nil: not armed
	timed   bool
	since   unit.Instant
	before  uint64 // drops when it was armed
	stamped uint64 // frames that the XDP program stamped
	read    uint64 // frames that it did not
}

// idle is how long a queue without frames is not looked at while its socket
// sends: poll(2) would send in the sender's place. A sparing meter's queue is left
// alone for so long once there is a frame: its ring has room for what 10 Gbit/s of the
// smallest bring meanwhile.
const idle = 200 * time.Microsecond

// OpenRoll opens a meter of package roll behind the driver.
func (b *Backend) OpenRoll(_ context.Context, p host.Port, r *frame.Roll) (engine.Meter, error) {
	return roll.Open(p, r, false)
}

// OpenMeter opens a socket on every queue that p receives by, has a program ready
// to redirect to them, and starts their threads.
func (b *Backend) OpenMeter(_ context.Context, p host.Port) (engine.Meter, error) {
	return b.openMeter(p, false)
}

// OpenSparing implements engine.Sparer.
func (b *Backend) OpenSparing(_ context.Context, p host.Port) (engine.Meter, error) {
	return b.openMeter(p, true)
}

func (b *Backend) openMeter(p host.Port, spares bool) (_ engine.Meter, err error) {
	m := &Meter{backend: b}
	err = b.enter(p, func(open *openPort) error {
		m.port = open
		for _, q := range open.queues {
			if q != nil && q.meter {
				return fmt.Errorf("open a meter on %s: it has one already", p.Name)
			}
		}
		for i := range open.receiving {
			q, err := b.queue(open, i)
			if err != nil {
				m.letGo()
				return err
			}
			q.meter = true
			m.queues = append(m.queues, &queueMeter{queueSocket: q, number: i, port: p.Name, spares: spares, clock: clock.New()})
		}
		if err := b.redirect(open, true); err != nil {
			m.letGo()
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, q := range m.queues {
		if q.thread, err = netns.Go(p.Netns, nil, q.run); err == nil {
			err = m.port.redirect.add(q.number, q.Socket)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start the meter of %s: %w", p.Name, err), m.Close())
		}
	}
	return m, nil
}

func (m *Meter) letGo() {
	for _, q := range m.queues {
		q.meter = false
	}
}

// run is a queue's thread.
func (m *queueMeter) run() error {
	fds := []unix.PollFd{{Fd: int32(m.FD()), Events: unix.POLLIN}}
	nap := unix.NsecToTimespec(int64(idle))
	quiet := time.Duration(0)
	for !m.stop.Load() {
		n, err := m.drain()
		switch {
		case err != nil:
			return fmt.Errorf("meter frames on %s: %w", m.port, err)
		case n > 0:
			quiet = 0
			continue
		case m.sending.Load() && !m.zeroCopy:
			_ = unix.Nanosleep(&nap, nil)
			quiet += idle
		default:
			ready, err := unix.Poll(fds, 20)
			if err != nil && err != unix.EINTR {
				return fmt.Errorf("wait for frames on %s: %w", m.port, err)
			}
			if ready > 0 && m.gathers() {
				_ = unix.Nanosleep(&nap, nil)
			}
			quiet += 20 * time.Millisecond
		}
		if quiet < 20*time.Millisecond {
			continue
		}
		quiet = 0
		if err := m.Err(); err == unix.ENETDOWN { // as the kernel says it of a port that it has unregistered
			return fmt.Errorf("meter frames on %s: %w", m.port, engine.ErrPortGone)
		} else if err != nil {
			return fmt.Errorf("meter frames on %s: %w", m.port, err)
		}
	}
	return nil
}

// gathers says whether frames may wait: nobody asks when they came.
func (m *queueMeter) gathers() bool {
	if !m.spares {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.timed
}

// drain counts what is in the ring, a batch at a time.
func (m *queueMeter) drain() (n int, err error) {
	const batch = 256
	m.mu.Lock()
	defer m.mu.Unlock()
	n = min(m.RX.Ready(), batch)
	if n == 0 {
		return 0, m.Wake()
	}
	now := m.clock.Now()
	for range n {
		d, _ := m.RX.Take()
		at := now
		if stamp := m.UMEM[d.Addr-stampLen : d.Addr]; binary.NativeEndian.Uint64(stamp) != 0 {
			at = unit.Instant(binary.NativeEndian.Uint64(stamp))
			clear(stamp) // a later frame may have none
			m.stamped++
		} else {
			m.read++
		}
		if m.tally != nil && at >= m.since {
			m.tally.Arrive(m.UMEM[d.Addr:d.Addr+uint64(d.Len)], at)
		}
		m.Fill.Put(d.Addr &^ (xsk.Chunk - 1))
	}
	m.RX.Release()
	m.Fill.Publish()
	return n, m.Wake()
}

// flush counts all that is in the ring now.
func (m *queueMeter) flush() error {
	for left := m.Entries(); left > 0; {
		n, err := m.drain()
		if err != nil || n == 0 {
			return err
		}
		left -= n
	}
	return nil
}

// drops are the frames that found no memory, or no room on the ring.
func (m *queueMeter) drops() (uint64, error) {
	s, err := m.Statistics()
	return s.Rx_dropped + s.Rx_ring_full, err
}

// Arm forgets frames that arrived before it, also those still in the rings.
func (m *Meter) Arm(_ context.Context, timing bool, streams ...uint16) (err error) {
	if err := tally.Armable(streams); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failed(); err != nil {
		return err
	}
	hash := m.hash && len(m.queues) == 1
	for _, q := range m.queues {
		if err := q.arm(timing, hash, streams); err != nil {
			return err
		}
	}
	if err := m.port.redirect.arm(streams, hash); err != nil {
		return err
	}
	m.armed = true
	return nil
}

func (m *queueMeter) arm(timing, hash bool, streams []uint16) (err error) {
	if err := m.flush(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timed = timing
	m.tally, m.since, m.stamped, m.read = tally.New(timing, slices.Clone(streams)), m.clock.Now(), 0, 0
	if hash {
		m.tally.Hash = engine.NewDigest()
	}
	m.before, err = m.drops()
	return err
}

// Hash works for ports with one queue.
func (m *Meter) Hash(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hash = on
}

// Sink drops foreign frames before they reach the stack, those of neighbours too;
// while it hashes, it has only the latter to drop.
func (m *Meter) Sink(on bool) error { return m.keep(bpf.Sink(on)) }

// Screen implements Screener.
func (m *Meter) Screen() error { return m.keep(bpf.Screens) }

func (m *Meter) keep(what uint32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failed(); err != nil {
		return err
	}
	return m.port.redirect.keep(what)
}

func (m *Meter) Read(ctx context.Context) (engine.MeterReport, error) {
	if err := ctx.Err(); err != nil {
		return engine.MeterReport{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	failed := m.failed()
	if m.closed || !m.armed {
		return engine.MeterReport{}, cmp.Or(failed, errors.New("read the meter of "+m.port.port.Name+": it is not armed"))
	}
	var reports []engine.MeterReport
	var stamped, read uint64
	for _, q := range m.queues {
		if err := q.flush(); err != nil {
			return engine.MeterReport{}, cmp.Or(failed, err)
		}
		r, err := q.report()
		if err != nil {
			return engine.MeterReport{}, cmp.Or(failed, err)
		}
		reports = append(reports, r)
		q.mu.Lock()
		stamped, read = stamped+q.stamped, read+q.read
		q.mu.Unlock()
	}
	r := sumReports(reports)
	r.Stamps = stampedBy(stamped, read)
	if !m.port.redirect.generic {
		r.Unhanded = r.Drops
	}
	err := m.port.redirect.count(&r)
	return r, cmp.Or(failed, err)
}

// stampedBy names what took the times.
func stampedBy(stamped, read uint64) string {
	program, ring := clock.Stamps("XDP program"), clock.Stamps("reading of the AF_XDP ring")
	switch {
	case read == 0:
		return program
	case stamped == 0:
		return ring
	}
	return fmt.Sprintf("%s, %d of %d frames %s", program, read, stamped+read, ring)
}

func (m *queueMeter) report() (engine.MeterReport, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	drops, err := m.drops()
	if err != nil {
		return engine.MeterReport{}, err
	}
	return m.tally.Report(drops-m.before, ""), nil
}

// failed is why a thread ended, if one did.
func (m *Meter) failed() error {
	if m.closed {
		return fmt.Errorf("the meter of %s is closed", m.port.port.Name)
	}
	for _, q := range m.queues {
		select {
		case <-q.thread.Done():
			return q.thread.Wait()
		default:
		}
	}
	return nil
}

// Close leaves the port's frames to the kernel again.
func (m *Meter) Close() (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	for _, q := range m.queues {
		err = errors.Join(err, m.port.redirect.remove(q.number))
	}
	err = errors.Join(err, m.port.redirect.arm(nil, false), m.port.redirect.keep(bpf.KeepsNothing)) // it may stay for a sender
	for _, q := range m.queues {
		if q.stop.Store(true); q.thread != nil {
			_ = q.thread.Interrupt() // it may have ended
			_ = q.thread.Wait()      // Read has told why
		}
	}
	m.backend.mu.Lock()
	defer m.backend.mu.Unlock()
	m.letGo()
	return errors.Join(err, m.backend.sweep(m.port))
}

// sumReports is the report of a port whose queues have seen reports.
func sumReports(reports []engine.MeterReport) engine.MeterReport {
	var all []tally.Arrived
	for _, r := range reports {
		c := tally.Arrived{Marks: r.Marks}
		for _, s := range r.Streams {
			c.Frames += s.Frames
		}
		all = append(all, c)
	}
	sum := reports[0]
	for _, r := range reports[1:] {
		sum.Foreign += r.Foreign
		sum.ForeignOctets += r.ForeignOctets
		sum.Drops += r.Drops
		sum.First, sum.Last = unit.Earlier(sum.First, r.First), max(sum.Last, r.Last)
		for i := range r.Streams {
			sum.Streams[i] = sumStreams(sum.Streams[i], r.Streams[i])
		}
	}
	sum.Marks = tally.MergeMarks(all...)
	return sum
}

func sumStreams(a, b engine.RxReport) engine.RxReport {
	a.Frames += b.Frames
	a.Octets += b.Octets
	a.Reordered += b.Reordered
	a.Duplicate += b.Duplicate
	a.Broken += b.Broken
	a.Runs = tally.JoinRuns(a.Runs, b.Runs)
	a.Span = tally.SpanOf(a.Runs)
	a.First, a.Last = unit.Earlier(a.First, b.First), max(a.Last, b.Last)
	a.Rate = unit.RateOver(a.Frames, a.First, a.Last)
	a.Latency, a.Gaps = sumHistograms(a.Latency, b.Latency), sumHistograms(a.Gaps, b.Gaps)
	a.IPDV, a.Bursts = sumHistograms(a.IPDV, b.IPDV), sumHistograms(a.Bursts, b.Bursts)
	return a
}

// sumHistograms is a histogram with the counts of both; nil where either is.
func sumHistograms(a, b *result.Histogram) *result.Histogram {
	if a == nil || b == nil {
		return nil
	}
	return result.Merge(a, b)
}
