// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/guard"
	"boxdyno/internal/netns"
	"boxdyno/result"
	"boxdyno/unit"
)

// The rates of a Sampler, Hz.
const (
	MinRate     = 1
	MaxRate     = 50
	DefaultRate = 10
)

const (
	gapAfter  = 2           // intervals late
	refresh   = time.Second // after which values are written though they have not changed
	failedFor = time.Second // that a collector is not read after it failed
	maxHeld   = 4 << 20     // octets of lines that wait for a slow writer
	turn      = 100 * time.Microsecond
)

// Options say how a machine is watched; zero is the default.
type Options struct {
	Specs  []Spec          // nil: All
	Names  []string        // of collectors; nil: those by default
	Beside []Spec          // read besides, whatever Names says: collectors of another machine
	Any    bool            // collectors of Names may be absent: another machine may have them
	Of     string          // value of the label machine of all series but those of Beside and Given; "": no label
	Rate   float64         // Hz, MinRate to MaxRate; 0: DefaultRate
	CPUs   []int           // that the sampler's threads keep to; nil: any
	Origin unit.Instant    // instants of samples count from here
	Start  time.Time       // wall clock at Origin
	Known  []result.Series // of earlier parts of the run, which keep their indexes

	// Write is given lines, a result.TelemetryHead first and then result.Batch, in a
	// thread of its own; the slice is good during the call. After an error it is not
	// called again. nil: nobody keeps them.
	Write func(lines []byte) error
	Every time.Duration // between two calls of Write; 0: at each sample
	// Warn is told once of each collector that fails, and of Write's error; from
	// another goroutine. nil: nobody listens.
	Warn func(text string)
}

// A Sampler reads collectors at a constant rate, counted from the last sample on
// demand, in one thread of its own:
//
//	sampler thread   waits until due -> each collector's Read -> tallies, lines
//	writer thread    lines, about once a second -> Options.Write (compresses, writes)
//
// What it reads may wait for nothing but the kernel; a disk that stalls holds up the
// writer alone. Its methods may be called from any goroutine, up to Close.
type Sampler struct {
	o        Options
	interval unit.Instant
	names    []string
	absent   []string
	series   []result.Series
	parts    []*part

	sampler, writer *netns.Thread
	ask             chan func()
	warn            func(string) // of a collector, from another goroutine
	full, empty     chan []byte  // lines to write, and buffers that are written

	mu      sync.Mutex // of what follows, and of the parts' at
	latest  []float64
	at      unit.Instant
	gaps    int
	longest unit.Instant

	writerCPU atomic.Int64 // ns
	told      atomic.Bool  // that Write failed

	// Of the sampler's thread alone.
	due       unit.Instant
	stop      bool
	lines     []byte
	handed    unit.Instant // when lines were last handed over
	fresh     bool         // every part is written, changed or not
	refreshed unit.Instant
	own       *observer
	use       result.Telemetry
	tallies   tallies
	meters    []*powerMeter
}

// Start watches m until Close. A collector that has nothing to read, or may not, is
// left out (Absent); it is an error where the user asked for it by name or in m.Ask,
// a *host.Missing among them. So is an unknown name, and a rate out of range. ctx is
// that of collectors' own goroutines, too.
func Start(ctx context.Context, m *Machine, o Options) (*Sampler, error) {
	if o.Rate == 0 {
		o.Rate = DefaultRate
	}
	if !(o.Rate >= MinRate && o.Rate <= MaxRate) {
		return nil, fmt.Errorf("%g Hz: a rate of samples is from %d to %d Hz", o.Rate, MinRate, MaxRate)
	}
	if o.Specs == nil {
		o.Specs = All()
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	s := &Sampler{o: o, interval: unit.Instant(1e9 / o.Rate), series: slices.Clone(o.Known), fresh: true}
	s.own = &observer{other: s.writerCPU.Load, last: math.NaN()}
	s.ask = make(chan func())
	s.warn = func(text string) { guard.Go(func() { o.Warn(text) }) }
	var places []Spec
	for _, p := range m.Ask.Places {
		places = append(places, p.spec())
	}
	all, absent, err := collectors(ctx, m, o, places...)
	if err != nil {
		return nil, err
	}
	s.absent = absent
	for _, x := range append(all, collecting{Spec{Name: "observer", Every: 1}, s.own}) {
		s.add(x.spec, x.c)
	}
	s.latest = make([]float64, len(s.series))
	fill(s.latest, math.NaN())
	s.tallies.init(s.series, s.interval/2)
	if err := s.start(); err != nil {
		return nil, errors.Join(err, s.closeParts())
	}
	s.do(func() { s.sample(everything) })
	return s, nil
}

// Series are those of earlier parts of the run and then the new ones.
func (s *Sampler) Series() []result.Series { return s.series }

// Names are the collectors that are read.
func (s *Sampler) Names() []string { return s.names }

// Absent are the collectors that are not, each with why.
func (s *Sampler) Absent() []string { return s.absent }

// Latest copies the last value of each series into dst and says when the last sample
// was taken. dst is as long as Series.
func (s *Sampler) Latest(dst []float64) unit.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(dst, s.latest)
	return s.at
}

// Look is what each collector read last and when, how many samples were too late so
// far (result.Telemetry's Gaps), and by how much the latest of them.
func (s *Sampler) Look() (batches []result.Batch, gaps int, longest unit.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		batches = append(batches, result.Batch{At: p.at, First: p.first, Values: slices.Clone(s.latest[p.first : p.first+len(p.values)])})
	}
	return batches, s.gaps, s.longest
}

// Now takes a sample of all collectors, and returns once it is taken.
func (s *Sampler) Now() { s.do(func() { s.sample(everything) }) }

// do has the sampler's thread carry out f, if it still lives.
func (s *Sampler) do(f func()) {
	done := make(chan struct{})
	select {
	case s.ask <- func() { f(); close(done) }:
		<-done
	case <-s.sampler.Done():
	}
}

// start starts the threads.
func (s *Sampler) start() (err error) {
	if s.o.Write != nil {
		head, err := json.Marshal(result.TelemetryHead{Schema: result.Schema, Start: s.o.Start, Rate: s.o.Rate, Series: s.series})
		if err != nil {
			return fmt.Errorf("encode the series: %w", err)
		}
		s.lines = append(head, '\n')
		s.full, s.empty = make(chan []byte, 2), make(chan []byte, 3)
		if s.writer, err = netns.Go("", s.o.CPUs, s.write); err != nil {
			return fmt.Errorf("start the sampler's writer: %w", err)
		}
	}
	if s.sampler, err = netns.Go("", s.o.CPUs, s.run); err != nil {
		err = fmt.Errorf("start the sampler: %w", err)
		if s.writer != nil {
			close(s.full)
			err = errors.Join(err, s.writer.Wait())
		}
	}
	return err
}

// run is the sampler's thread.
func (s *Sampler) run() error {
	shortTurns()
	origin := unit.Now()
	s.use.From = origin - s.o.Origin
	s.due = origin + s.interval
	// A timer of the runtime, and no ppoll(2): a thread that blocks in a system call
	// keeps the runtime's monitor busy for 10 ms, which cost thrice the sampling.
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !s.stop {
		if now := unit.Now(); now >= s.due {
			s.tick(now)
			continue
		}
		timer.Reset(time.Duration(s.due - unit.Now()))
		select {
		case f := <-s.ask:
			f()
		case <-timer.C:
		}
	}
	return nil
}

// tick takes the sample that is due. Those that were missed are not made up.
func (s *Sampler) tick(now unit.Instant) {
	behind := s.late(now)
	s.use.Longest = max(s.use.Longest, int64(behind))
	if behind > gapAfter*s.interval {
		s.use.Gaps++
	}
	s.sample(whatIsDue)
	s.due += (behind/s.interval + 1) * s.interval
}

// late notes how late a tick is that is due, and not taken yet.
func (s *Sampler) late(now unit.Instant) unit.Instant {
	behind := max(now-s.due, 0)
	s.own.late = max(s.own.late, behind)
	s.tallies.late = max(s.tallies.late, behind)
	return behind
}

// shortTurns lets the calling thread have its turn soon on a busy CPU, and not for
// long (Linux 6.12; older ones ignore it).
func shortTurns() {
	if attr, err := unix.SchedGetAttr(0, 0); err == nil && attr.Policy == unix.SCHED_NORMAL {
		attr.Size, attr.Runtime = unix.SizeofSchedAttr, uint64(turn)
		_ = unix.SchedSetAttr(0, attr, 0)
	}
}

// What sample reads beside what is due: collectors that were not read for so long.
const (
	everything = unit.Instant(0)
	whatIsDue  = unit.Instant(math.MaxInt64)
)

// sample reads the collectors that are due, or were last read longer ago than older.
func (s *Sampler) sample(older unit.Instant) {
	begin := unit.Now()
	write := s.o.Write != nil && !s.told.Load()
	for _, p := range s.parts {
		at := unit.Now()
		if at < p.due && at-p.read < older {
			continue
		}
		p.due, p.read = 0, at
		if p.every > 0 {
			p.due = at + p.every - s.interval/2
		}
		p.refresh(at, s.warn)
		for _, m := range p.meters {
			m.read(p, p.values[m.series-p.first], at)
		}
		at -= s.o.Origin
		s.mu.Lock()
		copy(s.latest[p.first:], p.values)
		s.at, p.at = at, at
		s.gaps, s.longest = s.use.Gaps, unit.Instant(s.use.Longest)
		s.mu.Unlock()
		s.tallies.add(p.first, p.values, at, p.every > 0)
		if write && (s.fresh || !same(p.values, p.written)) {
			s.lines = result.AppendBatch(s.lines, result.Batch{At: at, First: p.first, Values: p.values})
			copy(p.written, p.values)
		}
	}
	if s.fresh {
		s.fresh, s.refreshed = false, begin
	}
	s.use.Samples++
	s.use.To = begin - s.o.Origin
	if write && begin-s.handed >= s.patience() {
		s.handOver(begin)
	}
}

// patience is how long lines wait to be handed over: in a trial's traffic longer, for
// compressing them would take a millisecond of the box at once.
func (s *Sampler) patience() unit.Instant {
	if s.tallies.busy {
		return 2 * unit.Instant(s.o.Every)
	}
	return unit.Instant(s.o.Every)
}

// handOver gives the writer its lines, if it has time.
func (s *Sampler) handOver(now unit.Instant) {
	select {
	case s.full <- s.lines:
		s.lines = nil
		select {
		case b := <-s.empty:
			s.lines = b[:0]
		default:
		}
		s.handed, s.fresh = now, s.o.Every > 0 || now-s.refreshed >= unit.Instant(refresh)
	default:
		if len(s.lines) > maxHeld {
			s.use.Dropped += int64(len(s.lines))
			s.lines, s.fresh = s.lines[:0], true
		}
	}
}

// write is the writer's thread.
func (s *Sampler) write() error {
	var err error
	for lines := range s.full {
		if err == nil {
			if err = s.o.Write(lines); err != nil {
				s.told.Store(true)
				s.o.Warn(fmt.Sprintf("telemetry is no longer kept: %v", err))
			}
		}
		s.writerCPU.Store(threadCPU())
		select {
		case s.empty <- lines:
		default:
		}
	}
	return err
}

// Use is how the machine is watched, without what Close tells.
func (s *Sampler) Use() result.Telemetry {
	return result.Telemetry{Rate: s.o.Rate, Collectors: s.names, Absent: s.absent, CPUs: s.o.CPUs}
}

// Close takes a last sample, has all lines written, and lets go of the collectors.
// It returns what was done and what it cost, and Write's error. It may be called
// once.
func (s *Sampler) Close() (result.Telemetry, error) {
	s.do(func() { s.sample(everything); s.stop = true })
	err := s.sampler.Wait()
	if s.writer != nil {
		if len(s.lines) > 0 && !s.told.Load() {
			s.full <- s.lines
		}
		close(s.full)
		err = errors.Join(err, s.writer.Wait())
	}
	u, how := s.use, s.Use()
	u.Rate, u.Collectors, u.Absent, u.CPUs = how.Rate, how.Collectors, how.Absent, how.CPUs
	if d := u.To - u.From; d > 0 {
		u.CPUShare = float64(s.own.cpu) / float64(d)
	}
	u.Memory = s.own.memory
	return u, errors.Join(err, s.closeParts())
}
