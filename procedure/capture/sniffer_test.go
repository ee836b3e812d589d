// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// A fakeSniffer is a subject in this process: a packet socket in the DUT's namespace,
// with one planted fault.
type fakeSniffer struct {
	sleep  time.Duration // after each frame: a slow subject
	skip   int64         // of so many frames it drops one itself, and says so
	early  int64         // of the first frames it drops so many itself, and says so
	hide   int64         // of so many frames it drops one, and says nothing
	absent bool          // it is not installed
	broken error         // of Check
	deaf   bool          // it is ready and never counts
	stuck  bool          // it is never ready
	dies   int64         // after so many frames
	stop   *int          // how often it was stopped
	look   func([]byte)  // at each frame that it counts
	rare   time.Duration // it tells its count only so often; 0: whenever asked
	buffer uint64
}

func (s *fakeSniffer) Flags(fs *flag.FlagSet) {
	fs.Uint64Var(&s.buffer, "buffer", s.buffer, "`octets`")
}

func (s *fakeSniffer) Check(context.Context, *host.Local) error {
	if s.absent {
		return &host.Missing{What: "the program sniffer", Remedy: [][]string{{"apt-get", "install", "-y", "sniffer"}}}
	}
	return s.broken
}

func (s *fakeSniffer) Start(_ context.Context, e subject.Env) (subject.Running, error) {
	r := &fakeRunning{fakeSniffer: s, done: make(chan struct{}), over: make(chan struct{})}
	err := e.Host.View(func(fs.FS) (err error) {
		protocol := binary.NativeEndian.Uint16([]byte{8, 0}) // ETH_P_IP
		if r.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(protocol)); err != nil {
			return err
		}
		size := cmp.Or(int(s.buffer), 8<<20)
		tv := unix.NsecToTimeval(int64(20 * time.Millisecond))
		return errors.Join(unix.SetsockoptInt(r.socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size), unix.SetsockoptTimeval(r.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv))
	})
	if err != nil {
		return nil, err
	}
	go r.work()
	return r, nil
}

type fakeRunning struct {
	*fakeSniffer
	socket     int
	done, over chan struct{}
	once       sync.Once

	mu           sync.Mutex
	seen, n, own int64
	kernel       int64
	gone         error
	said         int64 // the count that it last told, and when
	at           unit.Instant
}

func (r *fakeRunning) Rare() time.Duration { return r.rare + r.rare/4 }

func (r *fakeRunning) work() {
	defer close(r.over)
	buf := make([]byte, 2048)
	for {
		select {
		case <-r.done:
			if st, err := unix.GetsockoptTpacketStats(r.socket, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
				r.kernel = int64(st.Drops)
			}
			unix.Close(r.socket)
			return
		default:
		}
		n, _, err := unix.Recvfrom(r.socket, buf, 0)
		if err != nil || n < 42 || !bytes.Equal(buf[12:14], []byte{8, 0}) || r.deaf {
			continue
		}
		r.mu.Lock()
		r.seen++
		switch {
		case r.seen <= r.early, r.skip > 0 && r.seen%r.skip == 0:
			r.own++
		case r.hide > 0 && r.seen%r.hide == 0:
		default:
			r.n++
			if r.look != nil {
				r.look(buf[:n])
			}
		}
		if r.dies > 0 && r.seen == r.dies {
			r.gone = errors.New("sniffer was ended by signal killed")
		}
		r.mu.Unlock()
		time.Sleep(r.sleep)
	}
}

func (r *fakeRunning) Ready(ctx context.Context) error {
	if !r.stuck {
		return nil
	}
	return errors.New("sniffer was not ready within 1s: no packet socket of it listens")
}

func (r *fakeRunning) Usage() (result.Usage, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return result.Usage{Subject: "sniffer", CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()), PeakMemory: 5 << 20, Processes: 1, Source: "getrusage"}, err
}

func (r *fakeRunning) Stop(context.Context) error {
	r.once.Do(func() {
		close(r.done)
		if r.stop != nil {
			*r.stop++
		}
	})
	<-r.over
	return nil
}

func (r *fakeRunning) Progress() (int64, unit.Instant, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := unit.Now(); time.Duration(now-r.at) >= r.rare {
		r.said, r.at = r.n, now
	}
	return r.said, r.at, true
}

func (r *fakeRunning) Ended() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone
}

func (r *fakeRunning) Dropped() (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.own, true
}

func (r *fakeRunning) Count(context.Context) ([]result.Term, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return []result.Term{
		{Place: result.Socket, Host: "dut", Name: "capture buffer full", From: "PACKET_STATISTICS", N: r.kernel},
		{Place: result.SubjectAt, Host: "dut", Name: "dropped by the subject", From: "sniffer's own", N: r.own},
	}, nil
}

// captureBench has a fake listen in the sandbox.
func captureBench(t *testing.T, s *fakeSniffer, set map[string]string) (procedure.Outcome, []result.Record) {
	t.Helper()
	o, recs, err := captureRun(t, roomtest.Build(t, "sandbox", nil), s, set)
	if err != nil {
		t.Fatal(err)
	}
	return o, recs
}

type trialFunc = func(context.Context, []result.Pair, func(context.Context) (procedure.Outcome, error)) (result.Record, error)

// onceTrials are what a testbed's points share: its self-test, and loads into its empty box.
var onceTrials = map[onceKey]result.Record{}

// A onceKey keeps its testbed, so that no other one has its address.
type onceKey struct {
	bed   *lab.Testbed
	trial string
}

// judging carries out trials of a procedure, or of what a run does once, judges them as the
// runner does, and appends their records to recs.
func judging(recs *[]result.Record, of string) trialFunc {
	return func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		o, err := f(ctx)
		if err != nil {
			return result.Record{}, err
		}
		r := result.Record{Parent: of, Procedure: of, Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Load: o.Load, Account: o.Account, Phases: o.Phases, CPUs: o.CPUs, DUT: o.DUT, Usage: o.Usage, Alerts: o.Alerts, Warnings: o.Warnings}
		r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
		*recs = append(*recs, r)
		return r, nil
	}
}

// onceOn carries a trial out, or appends the record of the same one on that testbed to recs.
func onceOn(bed *lab.Testbed, recs *[]result.Record) func(context.Context, string, []result.Pair, func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
	return func(ctx context.Context, name string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		key := onceKey{bed, fmt.Sprint(name, cfg)}
		if r, ok := onceTrials[key]; ok && r.Status != result.Invalid {
			*recs = append(*recs, r)
			return r, nil
		}
		what, _, _ := strings.Cut(name, "/")
		r, err := judging(recs, what)(ctx, cfg, f)
		onceTrials[key] = r
		return r, err
	}
}

func captureRun(t *testing.T, bed *lab.Testbed, s *fakeSniffer, set map[string]string) (procedure.Outcome, []result.Record, error) {
	t.Helper()
	p := newCaptureOf([]subject.Spec{{Name: "sniffer", Work: "count", New: func() subject.Subject { c := *s; return &c }}})
	p.standing, p.patience = 300*time.Millisecond, time.Second // it tells its count at once
	roomtest.Assign(t, p.Flags, map[string]string{"subject": "sniffer"})
	roomtest.Assign(t, p.Flags, set)
	return captureAs(t, bed, p)
}

func captureAs(t *testing.T, bed *lab.Testbed, p *Capture) (procedure.Outcome, []result.Record, error) {
	t.Helper()
	return captureVisited(t, bed, p, math.MaxInt)
}

// captureVisited comes to the point so many times at most, as a run with a budget does.
func captureVisited(t *testing.T, bed *lab.Testbed, p *Capture, visits int) (procedure.Outcome, []result.Record, error) {
	t.Helper()
	if err := p.Check(bed); err != nil {
		t.Fatal(err)
	}
	var recs []result.Record
	n := 1
	pause := func(procedure.Outcome) bool { n++; return n <= visits }
	o, err := p.Run(t.Context(), &procedure.Env{Bed: bed, Pause: pause, Trial: judging(&recs, "capture"), Once: onceOn(bed, &recs)})
	return o, recs, err
}
