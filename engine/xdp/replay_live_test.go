// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/internal/pace"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"

	"golang.org/x/sys/unix"
)

// hearken hears what arrives at p of the ethertype that PlainSource's frames have.
func hearken(t *testing.T, p host.Port) (hear func(n int) [][]byte) {
	t.Helper()
	const ethertype = 0xb588 // 0x88b5 in network byte order
	fd := -1
	err := netns.Do(p.Netns, func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, ethertype); err != nil {
			return err
		}
		iface, err := net.InterfaceByName(p.Name)
		if err != nil {
			return err
		}
		return errors.Join(
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ethertype, Ifindex: iface.Index}),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func(n int) (frames [][]byte) {
		for len(frames) < n {
			buf := make([]byte, 4096)
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return frames
			}
			frames = append(frames, buf[:n])
		}
		return frames
	}
}

// replayPair opens a transmitter on one end of a wire, and the other end for XDP.
func replayPair(t *testing.T) (tx *Transmitter, a, b host.Port) {
	t.Helper()
	a, b = enginetest.Pair(t)
	x := New()
	m, err := x.OpenMeter(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	opened, err := x.OpenTransmitter(context.Background(), []host.Port{a}, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	return opened.(*Transmitter), a, b
}

// reelIn makes the transmitter's next reel, in so much room.
func reelIn(t *testing.T, tx *Transmitter, s *enginetest.ListSource, limit uint64, room reelRoom) {
	t.Helper()
	if tx.reel != nil {
		if err := tx.reel.close(); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if tx.reel, err = newReel(context.Background(), s, limit, room); err != nil {
		t.Fatal(err)
	}
}

// Frames arrive as the source has them, in order, pass after pass, and the report
// counts them.
func TestXDPReplayArrives(t *testing.T) {
	tx, _, b := replayPair(t)
	for _, c := range []struct {
		name   string
		silent bool
		sizes  []int
		load   engine.Load
		want   int
		passes uint64
	}{
		{"one size", false, []int{60}, engine.Load{Rate: 20e3, Passes: 3}, 300, 3},
		{"sizes", false, []int{60, 1514, 99, 18}, engine.Load{Rate: 20e3, Passes: 2, Count: 1000}, 200, 2},
		{"count in mid-pass", false, []int{600, 61}, engine.Load{Rate: 20e3, Count: 250}, 250, 2},
		{"unknown length", true, []int{70, 80}, engine.Load{Rate: 20e3, Passes: 3}, 300, 3},
		{"bit rate", false, []int{996}, engine.Load{Bits: 80e6, Count: 100}, 100, 1},
		{"its own times", false, []int{60, 500}, engine.Load{Speed: 2, Passes: 2}, 200, 2},
		{"bursts", false, []int{60}, engine.Load{Rate: 20e3, Pattern: engine.Bursts, Burst: 20, Count: 200}, 200, 2},
		{"poisson", false, []int{60}, engine.Load{Rate: 20e3, Pattern: engine.Poisson, Count: 200, Late: engine.Shift}, 200, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := enginetest.PlainSource(100, 100_000, c.sizes...)
			s.Silent = c.silent
			c.load.Gaps = true
			hear := hearken(t, b)
			reps, err := tx.Transmit(context.Background(), c.load, engine.Stream{ID: 3, Source: s})
			if err != nil {
				t.Fatal(err)
			}
			got := hear(c.want + 1)
			if len(got) != c.want {
				t.Fatalf("%d frames arrived, want %d", len(got), c.want)
			}
			octets := uint64(0)
			for i, f := range got {
				if want := s.Frames[i%100]; !bytes.Equal(f, want) {
					t.Fatalf("frame %d is\n% x, want\n% x", i, f, want)
				}
				octets += uint64(len(f) + 4)
			}
			r := reps[0]
			if r.Stream != 3 || r.Accepted != uint64(c.want) || r.Intended != r.Accepted || r.NotSent+r.Refused+r.Starved != 0 || r.Octets != octets || r.Passes != c.passes {
				t.Errorf("report %+v, want %d frames, %d octets, %d passes", r, c.want, octets, c.passes)
			}
			if r.Gaps.Total() != uint64(c.want-1) || r.GapErrors.Total() != uint64(c.want-1) {
				t.Errorf("%d gaps and %d errors of %d frames", r.Gaps.Total(), r.GapErrors.Total(), c.want)
			}
		})
	}
}

// A source that does not fit is sent from windows that are filled meanwhile: its
// frames arrive whole, and in order.
func TestXDPReplayRefills(t *testing.T) {
	tx, _, b := replayPair(t)
	s := enginetest.PlainSource(1000, 0, 60, 300, 1514)
	reelIn(t, tx, s, 5, reelRoom{value: 1 << 20, ring: 30_000})
	hear := hearken(t, b)
	reps, err := tx.Transmit(context.Background(), engine.Load{Rate: 50e3, Passes: 5}, engine.Stream{ID: 1, Source: s})
	if err != nil {
		t.Fatal(err)
	}
	got := hear(5001)
	for i, f := range got {
		if !bytes.Equal(f, s.Frames[i%1000]) {
			t.Fatalf("frame %d is\n% x, want\n% x", i, f, s.Frames[i%1000])
		}
	}
	if r := reps[0]; len(got) != 5000 || r.Accepted != 5000 || r.Passes != 5 || r.Intended != 5000 {
		t.Errorf("%d arrived; report %+v", len(got), r)
	}
}

// A source that fails has its frames up to there sent, and the error returned.
func TestXDPReplaySourceFails(t *testing.T) {
	tx, _, _ := replayPair(t)
	for _, c := range []struct {
		failAt int
		ring   int
	}{{1, 1 << 20}, {50, 1 << 20}, {150, 3000}} {
		s := enginetest.PlainSource(100, 0, 60, 1000)
		s.FailAt = c.failAt
		reelIn(t, tx, s, 0, reelRoom{ring: c.ring})
		reps, err := tx.Transmit(context.Background(), engine.Load{Rate: 50e3, Duration: 5 * time.Second}, engine.Stream{ID: 1, Source: s})
		if !errors.Is(err, enginetest.ErrListSource) {
			t.Errorf("a source that fails at frame %d: %v", c.failAt, err)
		}
		if len(reps) != 1 || reps[0].Accepted != uint64(c.failAt) {
			t.Errorf("a source that fails at frame %d: report %+v", c.failAt, reps)
		}
	}
	s := enginetest.PlainSource(0, 0, 60)
	s.Declared.Longest = 60
	if _, err := tx.Transmit(context.Background(), engine.Load{Count: 1}, engine.Stream{Source: s}); err == nil {
		t.Error("a source without frames is no error")
	}
}

func TestXDPReplayStopsWithItsContext(t *testing.T) {
	testutil.NoLeaks(t)
	tx, _, _ := replayPair(t)
	for _, ring := range []uint64{0, 1 << 20} {
		s := enginetest.PlainSource(1000, 0, 60)
		reelIn(t, tx, s, 0, reelRoom{whole: ring, value: 1 << 20, ring: 10_000})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		reps, err := tx.Transmit(ctx, engine.Load{Rate: 1000, Duration: time.Minute}, engine.Stream{ID: 1, Source: s})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 30*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if len(reps) != 1 || reps[0].Accepted == 0 || reps[0].NotSent == 0 {
			t.Errorf("reports %+v", reps)
		}
	}
}

func TestXDPReplayRefusesWhatCannotBe(t *testing.T) {
	tx, a, _ := replayPair(t)
	var long *engine.TooLongError
	_, err := tx.Transmit(context.Background(), engine.Load{Count: 1}, engine.Stream{Source: enginetest.PlainSource(3, 0, 60, 9000)})
	if !errors.As(err, &long) || long.Longest != 9000 || long.Limit < 2048 || long.Limit > 9000 {
		t.Fatalf("a frame of 9000 octets: %v", err)
	}
	if err := checkLive(long.Limit); err != nil {
		t.Errorf("the limit itself: %v", err)
	}
	if err := checkLive(long.Limit + 1); err == nil {
		t.Errorf("%d octets, over the limit, are no error", long.Limit+1)
	}
	// A schedule cannot look ahead further than it counts.
	far := enginetest.PlainSource(2, uint64(1e15), 60)
	if _, err := tx.Transmit(context.Background(), engine.Load{Speed: 1, Passes: 1}, engine.Stream{ID: 1, Source: far}); err == nil || !strings.Contains(err.Error(), "278 h apart (multiplier 1)") {
		t.Errorf("frames that are 11 days apart: %v", err)
	}
	if _, err := tx.Transmit(context.Background(), engine.Load{Speed: 1e6, Passes: 1, Duration: 20 * time.Millisecond}, engine.Stream{ID: 1, Source: far}); err != nil {
		t.Errorf("frames that are 1000 s apart: %v", err)
	}
	// What the port does not take is refused: frames over its MTU.
	reps, err := tx.Transmit(context.Background(), engine.Load{Count: 300}, engine.Stream{Source: enginetest.PlainSource(3, 0, 60, 60, 2000)})
	if err != nil {
		t.Fatal(err)
	}
	if r := reps[0]; r.Refused != 100 || r.Accepted != 200 {
		t.Errorf("a third of the frames is over the MTU: %+v", r)
	}
	two, err := New().OpenTransmitter(context.Background(), []host.Port{a, a}, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	s := enginetest.PlainSource(3, 0, 60)
	if _, err := two.Transmit(context.Background(), engine.Load{Count: 1}, engine.Stream{ID: 1, Source: s}, engine.Stream{ID: 2, Frames: enginetest.Spec4(1, 64), Lane: 1}); err == nil {
		t.Error("a source beside another stream is no error")
	}
}

// Transmitters at once have memory of their own, and refusals of their own.
func TestXDPReplaysAtOnce(t *testing.T) {
	tx, a, b := replayPair(t)
	other, err := New().OpenTransmitter(context.Background(), []host.Port{a}, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	hear := hearken(t, b)
	answers := make(chan error, 2)
	for i, x := range []engine.Transmitter{tx, other} {
		s := enginetest.PlainSource(50, 0, 100+i)
		for _, f := range s.Frames {
			f[20] = byte(i)
		}
		go func() {
			reps, err := x.Transmit(context.Background(), engine.Load{Rate: 5e3, Passes: 4}, engine.Stream{ID: uint16(i), Source: s})
			if err == nil && (reps[0].Accepted != 200 || reps[0].Octets != 200*uint64(104+i)) {
				err = errors.New("wrong counts")
			}
			answers <- err
		}()
	}
	if err := errors.Join(<-answers, <-answers); err != nil {
		t.Fatal(err)
	}
	var next [2]uint32
	for _, f := range hear(401) {
		i := f[20]
		if n := binary.BigEndian.Uint32(f[14:]); len(f) != 100+int(i) || n != next[i]%50 {
			t.Fatalf("frame %d of transmitter %d is number %d and has %d octets", next[i], i, n, len(f))
		}
		next[i]++
	}
	if next != [2]uint32{200, 200} {
		t.Errorf("%v frames arrived", next)
	}
}

// A schedule on the real clock: no gap is shorter than the policy allows, and
// the load takes as long as its rate says, whatever held it up.
func TestXDPReplayKeepsItsRate(t *testing.T) {
	testutil.Alone(t)
	tx, _, _ := replayPair(t)
	s := enginetest.PlainSource(100, 100_000, 60)
	for _, c := range []struct {
		name     string
		load     engine.Load
		shortest time.Duration
		span     time.Duration
	}{
		{"make up", engine.Load{Rate: 10e3, Alone: true}, 88 * time.Microsecond, 49_900 * time.Microsecond},
		{"shift", engine.Load{Rate: 10e3, Alone: true, Late: engine.Shift}, 100 * time.Microsecond, 49_900 * time.Microsecond},
		{"captured", engine.Load{Speed: 1, Alone: true}, 88 * time.Microsecond, 49_900 * time.Microsecond},
		{"captured, moderated", engine.Load{Speed: 1}, 88*time.Microsecond - pace.Moderation, 49_900 * time.Microsecond},
		{"captured, half as fast, shift", engine.Load{Speed: 0.5, Late: engine.Shift}, 200 * time.Microsecond, 99_800 * time.Microsecond},
		{"bit rate", engine.Load{Bits: 64 * 8 * 10e3, Late: engine.Shift}, 100 * time.Microsecond, 49_900 * time.Microsecond},
	} {
		c.load.Count, c.load.Gaps = 500, true
		reps, err := tx.Transmit(context.Background(), c.load, engine.Stream{ID: 1, Source: s})
		if err != nil {
			t.Fatal(err)
		}
		r := reps[0]
		// A bucket's upper edge is up to 1/16 above what fell in.
		if shortest := time.Duration(r.Gaps.Upper[0] * 1e9); shortest < c.shortest*99/100 {
			t.Errorf("%s: the shortest gap is %v, want %v", c.name, shortest, c.shortest)
		}
		if c.load.Late == engine.MakeUp {
			c.span = c.span * 99 / 100 // the first frame may be late, and the last one not
		}
		if span := time.Duration(r.Last - r.First); span < c.span {
			t.Errorf("%s: 500 frames took %v, want %v", c.name, span, c.span)
		}
	}
}

// A signal for nothing, such as the Go runtime sends, neither ends a load nor
// loses a frame.
func TestXDPReplayOutlivesSignals(t *testing.T) {
	tx, _, _ := replayPair(t)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(40 * time.Millisecond):
			}
			tasks, _ := os.ReadDir("/proc/self/task")
			for _, task := range tasks {
				if tid, err := strconv.Atoi(task.Name()); err == nil {
					_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
				}
			}
		}
	}()
	reps, err := tx.Transmit(context.Background(), engine.Load{Rate: 2e3, Count: 500}, engine.Stream{ID: 1, Source: enginetest.PlainSource(100, 0, 60)})
	if err != nil {
		t.Fatal(err)
	}
	if r := reps[0]; r.Accepted != 500 || r.Passes != 5 || r.Octets != 500*64 {
		t.Errorf("report %+v", r)
	}
}
