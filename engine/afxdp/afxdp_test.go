// SPDX-License-Identifier: Apache-2.0

package afxdp

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/internal/xsk"
	"boxdyno/unit"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestAFXDPPaced(t *testing.T) {
	testutil.Alone(t)
	testutil.NoLeaks(t)
	a, b := enginetest.Quiet(t)
	backend := New()
	tx, m := enginetest.Open(t, backend, []host.Port{a}, b)
	if backend.Name() != "afxdp/copy" {
		t.Errorf("the backend is %s", backend.Name())
	}
	for _, c := range []struct {
		name   string
		rate   unit.FrameRate
		spec   frame.Spec
		octets uint64
	}{
		{"10k", 10e3, enginetest.Spec4(1, 64), 64},
		{"500", 500, enginetest.Spec4(100_000, 1518), 1518},
		{"20k IPv6", 20e3, enginetest.Spec6(100, 84), 84},
	} {
		enginetest.Arm(t, m[0], true, 5)
		n := uint64(c.rate) * 3 / 10
		reps, err := tx.Transmit(context.Background(), engine.Load{Rate: c.rate, Duration: 300 * time.Millisecond}, engine.Stream{ID: 5, Frames: c.spec})
		if err != nil {
			t.Fatal(err)
		}
		got := enginetest.Read(t, m[0])
		s, r := reps[0], got.Streams[0]
		if s.Intended != n || s.Accepted+s.NotSent != n || s.Refused != 0 || s.Octets != s.Accepted*c.octets {
			t.Errorf("%s: %+v", c.name, s)
		}
		if r.Frames != s.Accepted || r.Octets != r.Frames*c.octets || r.Reordered+r.Duplicate+r.Broken+got.Foreign+got.Drops != 0 {
			t.Errorf("%s: sent %d, %+v", c.name, s.Accepted, got)
		}
		if r.Latency.Total() != r.Frames || r.Gaps.Total() != r.Frames-1 {
			t.Errorf("%s: %d latencies, %d gaps", c.name, r.Latency.Total(), r.Gaps.Total())
		}
		if !strings.Contains(got.Stamps, "XDP program") {
			t.Errorf("%s: stamped by %s", c.name, got.Stamps)
		}
		if p50 := r.Latency.Quantile(0.5); p50 < 200e-9 || p50 > 50e-3 {
			t.Errorf("%s: median latency %v s", c.name, p50)
		}
		if s.First > r.First || r.Last-s.Last > unit.Instant(time.Second) || r.Last < s.Last {
			t.Errorf("%s: sent %d to %d, received %d to %d", c.name, s.First, s.Last, r.First, r.Last)
		}
		if s.Late == 0 && s.NotSent == 0 {
			enginetest.Near(t, c.name+" offered", s.Offered, c.rate, 2e-2)
			if p50 := r.Gaps.Quantile(0.5); math.Abs(p50*float64(c.rate)-1) > 0.2 {
				t.Errorf("%s: median gap %v s", c.name, p50)
			}
		}
	}
}

// Flat out, what is lost between the port and the meter is in tx_dropped or in the
// meter's own drops, and nothing is in the books twice.
func TestAFXDPFlatOut(t *testing.T) {
	testutil.Alone(t)
	a, b := enginetest.Quiet(t)
	tx, m := enginetest.Open(t, New(), []host.Port{a}, b)
	for _, c := range []struct {
		l    engine.Load
		spec frame.Spec
	}{
		{engine.Load{Duration: 200 * time.Millisecond}, enginetest.Spec4(1, 64)},
		{engine.Load{Duration: 200 * time.Millisecond}, enginetest.Spec4(1000, frame.IMIX.Sizes...)},
		{engine.Load{Count: 1001}, enginetest.Spec4(1, 64)},
	} {
		enginetest.Arm(t, m[0], false, 5)
		before := enginetest.Stats(t, a)
		reps, err := tx.Transmit(context.Background(), c.l, engine.Stream{ID: 5, Frames: c.spec})
		if err != nil {
			t.Fatal(err)
		}
		got, after := enginetest.Read(t, m[0]), enginetest.Stats(t, a)
		s, r := reps[0], got.Streams[0]
		packets, dropped := after.TxPackets-before.TxPackets, after.TxDropped-before.TxDropped
		t.Logf("%v, %d frames, %d in tx_dropped, %d lost by the meter, %d stalls up to %v", s.Offered, s.Accepted, dropped, got.Drops, s.Stalls, s.LongestStall)
		if s.Accepted != packets+dropped || s.Refused != 0 || s.Intended != c.l.Count || s.NotSent != 0 || s.Batch == 0 {
			t.Errorf("port took %d and dropped %d; %+v", packets, dropped, s)
		}
		if r.Frames+got.Drops != packets || r.Reordered+r.Duplicate+r.Broken+got.Foreign != 0 {
			t.Errorf("port sent %d; %+v", packets, got)
		}
		if s.Accepted < 1000 || c.l.Count != 0 && s.Accepted != c.l.Count {
			t.Errorf("%d frames", s.Accepted)
		}
	}
}

// Both ports send and meter at once, by the same sockets.
func TestAFXDPBothWays(t *testing.T) {
	a, b := enginetest.Quiet(t)
	tx, m := enginetest.Open(t, New(), []host.Port{a, b}, a, b)
	enginetest.Arm(t, m[0], false, 2)
	enginetest.Arm(t, m[1], false, 1)
	reps, err := tx.Transmit(context.Background(), engine.Load{Rate: 5e3, Count: 1000},
		engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64), Lane: 0}, engine.Stream{ID: 2, Frames: enginetest.Spec4(1, 128), Lane: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint64{128_000, 64_000} {
		if r := enginetest.Read(t, m[i]); r.Streams[0].Octets != want || r.Foreign+r.Drops != 0 || reps[i].Accepted != 1000 {
			t.Errorf("port %d: %+v, %+v", i, r, reps[i])
		}
	}
}

// A veth without a running peer answers EBUSY and counts in tx_dropped: taken, and
// lost behind the port. A port that is down takes nothing, and one that is gone
// says so.
func TestAFXDPDropsAreNotRefused(t *testing.T) {
	testutil.NoLeaks(t)
	a, b := enginetest.Quiet(t)
	tx, m := enginetest.Open(t, New(), []host.Port{a}, a)
	enginetest.Arm(t, m[0], false)
	enginetest.Down(t, b)
	before := enginetest.Stats(t, a)
	reps, err := tx.Transmit(context.Background(), engine.Load{Rate: 10e3, Count: 200}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)}, engine.Stream{ID: 2, Frames: enginetest.Spec4(1, 64)})
	if err != nil {
		t.Fatal(err)
	}
	dropped := enginetest.Stats(t, a).TxDropped - before.TxDropped
	if dropped != 400 || reps[0].Accepted != 200 || reps[1].Accepted != 200 || reps[0].Refused+reps[1].Refused != 0 {
		t.Errorf("tx_dropped %d, %+v", dropped, reps)
	}

	enginetest.Down(t, a)
	if reps, err := tx.Transmit(context.Background(), engine.Load{Count: 10}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)}); !errors.Is(err, unix.ENETDOWN) {
		t.Errorf("%v, %+v", err, reps)
	}

	if err := netns.Do(a.Netns, func() error {
		l, err := netlink.LinkByName(a.Name)
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	}); err != nil {
		t.Fatal(err)
	}
	if reps, err := tx.Transmit(context.Background(), engine.Load{Count: 10}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)}); err == nil {
		t.Errorf("a port that is gone sent: %+v", reps)
	} else {
		t.Log(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := m[0].Read(context.Background()); err != nil {
			t.Log(err)
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the meter does not see that its port is gone")
		}
	}
}

// Frames of a spec arrive as they are built, whether they are built in the memory
// that they are sent from (one stream) or not (two), and whatever was in it before.
func TestAFXDPSpecs(t *testing.T) {
	a, b := enginetest.Quiet(t)
	tx, _ := enginetest.Open(t, New(), []host.Port{a})
	fd := hearAt(t, b)
	const n = 3000
	for i, specs := range [][]frame.Spec{
		{enginetest.Spec6(1000, 1518)},
		{enginetest.Spec4(1, 1518)},
		{enginetest.Spec4(300, frame.IMIX.Sizes...)},
		{enginetest.Spec6(1, 84, 200)},
		{enginetest.Spec4(1, 64)},
		{enginetest.Spec4(1, 70), enginetest.Spec6(9, 84, 1518)},
	} {
		var streams []engine.Stream
		var builders []*frame.Builder
		for j, spec := range specs {
			builder, err := frame.NewBuilder(spec, uint16(j))
			if err != nil {
				t.Fatal(err)
			}
			builders = append(builders, builder)
			streams = append(streams, engine.Stream{ID: uint16(j), Frames: spec})
		}
		done := make(chan error, 1)
		go func() {
			_, err := tx.Transmit(t.Context(), engine.Load{Rate: 30e3, Count: n}, streams...)
			done <- err
		}()
		seen := make([]uint64, len(specs))
		buf, want := make([]byte, 2048), make([]byte, 2048)
		for range n * len(specs) {
			octets, err := unix.Read(fd, buf)
			for err == unix.EINTR {
				octets, err = unix.Read(fd, buf)
			}
			if err != nil {
				t.Fatalf("case %d: after %d frames: %v", i, seen, err)
			}
			s, class := frame.Parse(buf[:octets])
			j := int(s.Stream)
			if class != frame.Whole || j >= len(specs) || s.Time == 0 {
				t.Fatalf("case %d: %x arrived", i, buf[:octets])
			}
			clear(want)
			length := builders[j].Build(seen[j], want)
			builders[j].Stamp(want, enginetest.StampOf(s))
			seen[j]++
			if !bytes.Equal(buf[:octets], want[:length]) {
				t.Fatalf("case %d: frame %d arrived as\n%x, want\n%x", i, seen[j], buf[:octets], want[:length])
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFXDPRefuses(t *testing.T) {
	testutil.NoLeaks(t)
	a, b := enginetest.Quiet(t)
	backend := New()
	tx, m := enginetest.Open(t, backend, []host.Port{a}, b)
	ctx := context.Background()
	jumbo := &listed{frames: [][]byte{make([]byte, xsk.Longest+1)}}
	for _, c := range []struct {
		l engine.Load
		s engine.Stream
	}{{engine.Load{}, engine.Stream{Frames: enginetest.Spec4(1, 64)}}, {engine.Load{Count: 1}, engine.Stream{Frames: enginetest.Spec4(1, 64, 1519)}}, {engine.Load{Count: 1}, engine.Stream{Frames: enginetest.Spec4(1, 64), Lane: 1}}, {engine.Load{Count: 1}, engine.Stream{Source: jumbo}}} {
		if _, err := tx.Transmit(ctx, c.l, c.s); err == nil {
			t.Errorf("%+v was sent", c)
		} else {
			t.Log(err)
		}
	}
	var long *engine.TooLongError
	if _, err := tx.Transmit(ctx, engine.Load{Count: 1}, engine.Stream{Source: jumbo}); !errors.As(err, &long) || long.Longest != xsk.Longest+1 || long.Limit != xsk.Longest {
		t.Errorf("a frame that is too long for the memory: %v", err)
	}
	if _, err := m[0].Read(ctx); err == nil {
		t.Error("a meter was read before it was armed")
	}
	if _, err := backend.OpenMeter(ctx, b); err == nil {
		t.Error("a second meter on a port")
	}
	if _, err := New().OpenMeter(ctx, b); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a meter of another program: %v", err)
	}
	if err := errors.Join(m[0].Close(), tx.Close()); err != nil {
		t.Error(err)
	}
	if _, err := m[0].Read(ctx); err == nil {
		t.Error("a closed meter was read")
	}
	if err := m[0].Arm(ctx, false); err == nil {
		t.Error("a closed meter was armed")
	}
	if _, err := tx.Transmit(ctx, engine.Load{Count: 1}, engine.Stream{Frames: enginetest.Spec4(1, 64)}); err == nil {
		t.Error("a closed transmitter sent")
	}
	none := host.Port{Netns: a.Netns, Name: "none"}
	if _, err := New().OpenMeter(ctx, none); err == nil {
		t.Error("a meter on no port")
	}
	if _, err := New().OpenTransmitter(ctx, []host.Port{b, none}, -1); err == nil {
		t.Error("a transmitter on no port")
	}
}

func TestAFXDPObeysContext(t *testing.T) {
	a, b := enginetest.Quiet(t)
	tx, m := enginetest.Open(t, New(), []host.Port{a}, b)
	for _, rate := range []unit.FrameRate{1, 5e3, 0} {
		enginetest.Arm(t, m[0], false, 1)
		ctx := enginetest.UntilCounted(t, m[0])
		start := time.Now()
		reps, err := tx.Transmit(ctx, engine.Load{Rate: rate, Duration: time.Minute}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)})
		if !errors.Is(err, context.Canceled) || time.Since(start) > 30*time.Second {
			t.Errorf("rate %v: %v after %v", rate, err, time.Since(start))
		}
		s := reps[0]
		if s.Accepted == 0 || s.Intended != 0 && s.Accepted+s.NotSent != s.Intended {
			t.Errorf("rate %v: %+v", rate, s)
		}
		if r := enginetest.Read(t, m[0]); r.Streams[0].Frames+r.Drops > s.Accepted {
			t.Errorf("rate %v: accepted %d, received %+v", rate, s.Accepted, r)
		}
	}
}

func TestAFXDPProbe(t *testing.T) {
	testutil.NoLeaks(t)
	a, b := enginetest.Quiet(t)
	ctx := context.Background()
	x := New()
	if err := x.Probe(ctx, a, b); err != nil {
		t.Errorf("veth: %v", err)
	}
	if attached(t, a) || attached(t, b) {
		t.Error("the probe left a program behind")
	}
	if x.Name() != "afxdp/copy" {
		t.Errorf("the backend is %s", x.Name())
	}
	if err := NewZeroCopy().Probe(ctx, a); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("zero-copy on a veth: %v", err)
	}
	if err := x.Probe(ctx, host.Port{Netns: a.Netns, Name: "none"}); err == nil || errors.Is(err, host.ErrNotSupported) {
		t.Errorf("no port: %v", err)
	}
	for err, want := range map[error]bool{unix.EAFNOSUPPORT: true, unix.EOPNOTSUPP: true, unix.ENOMEM: false, unix.EBUSY: false, unix.ENETDOWN: false} {
		if got := errors.Is(refused("x", err), host.ErrNotSupported); got != want {
			t.Errorf("%v is a no: %v", err, got)
		}
	}
	if err := refused("x", unix.ENOBUFS); !strings.Contains(err.Error(), "cap_ipc_lock") || errors.Is(err, host.ErrNotSupported) {
		t.Error(err)
	}
	var missing *host.Missing
	if !errors.As(refused("x", unix.EPERM), &missing) {
		t.Error("EPERM is not a missing privilege")
	}
}

func TestAFXDPSendsWithoutAllocating(t *testing.T) {
	a, _ := enginetest.Quiet(t)
	tx, _ := enginetest.Open(t, New(), []host.Port{a})
	count := func(n uint64) float64 {
		return testing.AllocsPerRun(3, func() {
			if _, err := tx.Transmit(context.Background(), engine.Load{Count: n}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := count(100), count(20_000); many > few+20 {
		t.Errorf("100 frames: %v allocations, 20,000: %v", few, many)
	}
}

// Whatever is taken and comes back in whatever order, across divisions for other
// lengths, no octet is given out twice and none crosses a chunk.
func TestSendMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const before, chunks = 3, 5
		m := newSendMemory(before, chunks)
		type piece struct {
			at     uint64
			stride int
		}
		var out []piece
		m.divide(60)
		t.Repeat(map[string]func(*rapid.T){
			"divide": func(t *rapid.T) {
				m.divide(rapid.IntRange(60, xsk.Longest).Draw(t, "longest"))
				busy := map[int]bool{}
				for _, p := range out {
					busy[int(p.at/xsk.Chunk)] = true
				}
				if want := min((chunks-len(busy))*(xsk.Chunk/m.stride), mostSends); len(m.free) != want {
					t.Fatalf("%d pieces of %d are free, want %d", len(m.free), m.stride, want)
				}
			},
			"take": func(t *rapid.T) {
				at, ok := m.take()
				if !ok {
					return
				}
				end := at + uint64(m.stride)
				if at < before*xsk.Chunk || end > (before+chunks)*xsk.Chunk || at/xsk.Chunk != (end-1)/xsk.Chunk {
					t.Fatalf("piece %d to %d", at, end)
				}
				for _, p := range out {
					if at < p.at+uint64(p.stride) && p.at < end {
						t.Fatalf("piece %d to %d is out already, at %d", at, end, p.at)
					}
				}
				out = append(out, piece{at, m.stride})
			},
			"back": func(t *rapid.T) {
				if len(out) == 0 {
					return
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				m.back(out[i].at)
				out = slices.Delete(out, i, i+1)
			},
		})
		for _, p := range out {
			m.back(p.at)
		}
		if m.divide(xsk.Longest); len(m.free) != chunks {
			t.Fatalf("%d chunks came back", len(m.free))
		}
	})
}

func BenchmarkAFXDP(b *testing.B) {
	from, to := enginetest.Quiet(b)
	tx, m := enginetest.Open(b, New(), []host.Port{from}, to)
	enginetest.Arm(b, m[0], false, 1)
	reps, err := tx.Transmit(context.Background(), engine.Load{Count: uint64(b.N)}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(reps[0].Offered)/1e6, "Mframe/s")
}
