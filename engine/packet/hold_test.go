// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/internal/pace"
	"boxdyno/frame"
	"boxdyno/host"

	"golang.org/x/sys/unix"
)

// held is a transmitter whose port keeps what it is given until the test reads
// it: a socket pair, which answers EAGAIN once its buffer is full, as a packet
// socket does whose port is held by pause frames.
func held(t *testing.T) (tx engine.Transmitter, received func() []frame.Signature) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	tx = &Transmitter{Lanes: []*Lane{{Port: host.Port{Name: "lo"}, FD: fds[0], MTU: 1500}}}
	t.Cleanup(func() {
		if err := errors.Join(tx.Close(), unix.Close(fds[1])); err != nil {
			t.Error(err)
		}
	})
	return tx, func() (all []frame.Signature) {
		for {
			buf := make([]byte, 60)
			switch n, err := unix.Read(fds[1], buf); {
			case err == unix.EAGAIN:
				return all
			case err != nil || n != len(buf):
				t.Fatalf("read %d octets: %v", n, err)
			}
			s, _ := frame.Parse(buf)
			all = append(all, s)
		}
	}
}

// Alone, each frame has a stamp and a flush of its own, however late it is; so
// have frames of a low rate.
func TestPacketAlone(t *testing.T) {
	for _, l := range []engine.Load{{Rate: 20e6, Count: 100, Alone: true}, {Rate: 20e3, Count: 100}} {
		tx, received := held(t)
		reps, err := tx.Transmit(context.Background(), l, engine.Stream{ID: 3, Frames: enginetest.Spec4(1, 64)})
		if err != nil {
			t.Fatal(err)
		}
		all := received()
		if r := reps[0]; r.Batch != 1 || r.Accepted != 100 || len(all) != 100 {
			t.Errorf("%v: received %d: %+v", float64(l.Rate), len(all), r)
		}
		for i := 1; i < len(all); i++ {
			if all[i].Time <= all[i-1].Time || all[i].Sequence != uint32(i) {
				t.Errorf("%v: frame %d: %+v after %+v", float64(l.Rate), i, all[i], all[i-1])
			}
		}
	}
}

// Batch is what left in one flush, and no constant.
func TestPacketBatch(t *testing.T) {
	for _, c := range []struct {
		l    engine.Load
		most int
	}{{engine.Load{Count: 10}, 10}, {engine.Load{Count: 100}, flatBatch}, {engine.Load{Rate: 1e9, Count: 100}, pace.MostBurst}} {
		tx, received := held(t)
		reps, err := tx.Transmit(context.Background(), c.l, engine.Stream{ID: 3, Frames: enginetest.Spec4(1, 64)})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(received()); reps[0].Batch != c.most || n != int(c.l.Count) {
			t.Errorf("%+v: received %d: %+v", c.l, n, reps[0])
		}
	}
}

// A port that takes nothing more ends a flat load in time: by its duration, and
// by the context. What it did not take was not sent.
func TestPacketHeldPort(t *testing.T) {
	for _, c := range []struct {
		l    engine.Load
		want error
	}{
		{engine.Load{Duration: 50 * time.Millisecond}, nil},
		{engine.Load{Duration: 50 * time.Millisecond, Count: 1e6}, nil},
		{engine.Load{Count: 1e6}, context.DeadlineExceeded},
		{engine.Load{Duration: time.Minute}, context.DeadlineExceeded},
	} {
		tx, received := held(t)
		patience := time.Minute // the load ends
		if c.want != nil {
			patience = time.Second
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		type answer struct {
			reps []engine.TxReport
			err  error
		}
		done := make(chan answer, 1)
		go func() {
			reps, err := tx.Transmit(ctx, c.l, engine.Stream{ID: 3, Frames: enginetest.Spec4(1, 64)})
			done <- answer{reps, err}
		}()
		select {
		case a := <-done:
			r := a.reps[0]
			if !errors.Is(a.err, c.want) || r.Accepted == 0 || r.Accepted != uint64(len(received())) {
				t.Errorf("%+v: %v, %+v", c.l, a.err, r)
			}
			if r.Intended != c.l.Count || r.Intended != 0 && r.Accepted+r.Refused+r.NotSent != r.Intended {
				t.Errorf("%+v: the books do not close: %+v", c.l, r)
			}
			if r.Refused > 10 || math.IsNaN(float64(r.Offered)) {
				t.Errorf("%+v: %+v", c.l, r)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%+v: still waits for room", c.l)
		}
		cancel()
	}
}

// A sender that is faster than its source waits for it, and says how often; its
// time still ends the load.
func TestPacketStarves(t *testing.T) {
	for _, c := range []struct {
		l        engine.Load
		slow     time.Duration
		accepted uint64 // 0: fewer than there are
	}{
		{engine.Load{Passes: 1}, 2 * time.Millisecond, 50},
		{engine.Load{Rate: 1e6, Count: 50}, 2 * time.Millisecond, 50},
		{engine.Load{Duration: 50 * time.Millisecond, Passes: 1}, 100 * time.Millisecond, 0},
	} {
		tx, received := held(t)
		src := &enginetest.FakeSource{Frames: 50, Each: 5, Slow: c.slow}
		reps, err := tx.Transmit(context.Background(), c.l, engine.Stream{ID: 3, Source: src})
		if err != nil {
			t.Fatal(err)
		}
		r, n := reps[0], uint64(len(received()))
		if r.Starved == 0 || r.Accepted != n || c.accepted != 0 && n != c.accepted || c.accepted == 0 && n >= 50 {
			t.Errorf("%+v: received %d: %+v", c.l, n, r)
		}
	}
}

func TestPacketFits(t *testing.T) {
	l := &Lane{Port: host.Port{Name: "lo"}, MTU: 1500}
	for _, c := range []struct {
		octets    int
		ethertype uint16
		fits      bool
	}{{60, 0x0800, true}, {1514, 0x0800, true}, {1515, 0x0800, false}, {1518, 0x8100, true}, {1519, 0x8100, false}, {1515, 0x88a8, false}, {14, 0x0800, true}, {13, 0, false}} {
		w := &frame.Window{Blob: make([]byte, 2048), Entries: make([]frame.Entry, 1)}
		_, b := w.Next(c.octets)
		if len(b) >= 14 {
			binary.BigEndian.PutUint16(b[12:], c.ethertype)
		}
		if err := l.fitsAll(w); (err == nil) != c.fits {
			t.Errorf("%d octets of type %#x: %v", c.octets, c.ethertype, err)
		}
	}
}

func TestDropsAreAccepted(t *testing.T) {
	q, other := &Queue{Failed: 10}, &Queue{Failed: 5}
	for _, c := range []struct {
		dropped uint64
		refused [3]uint64 // of 4, 6 and, on the other lane, 5
	}{{0, [3]uint64{4, 6, 5}}, {10, [3]uint64{0, 0, 5}}, {99, [3]uint64{0, 0, 5}}, {5, [3]uint64{2, 3, 5}}, {1, [3]uint64{4, 5, 5}}} {
		q.Failed = 10
		s := []Stream{{queue: q, Failed: 4}, {queue: q, Failed: 6}, {queue: other, Failed: 5}}
		q.dropsAreAccepted(s, c.dropped)
		if got := [3]uint64{s[0].Failed, s[1].Failed, s[2].Failed}; got != c.refused {
			t.Errorf("%d of 10 in tx_dropped: refused %v, want %v", c.dropped, got, c.refused)
		}
	}
}
