// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/unit"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestPacketPaced(t *testing.T) {
	testutil.Alone(t)
	a, b := enginetest.Quiet(t)
	testutil.NoLeaks(t)
	tx, m := enginetest.Open(t, New(), []host.Port{a}, b)
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
		if s.Intended != n || s.Accepted+s.NotSent != n || s.Refused != 0 {
			t.Errorf("%s: %+v", c.name, s)
		}
		if s.Late == 0 && s.NotSent == 0 { // no stall of the machine was in the way
			enginetest.Near(t, c.name+" offered", s.Offered, c.rate, 2e-2)
			enginetest.Near(t, c.name+" received", r.Rate, c.rate, 2e-2)
			if s.NotSent != 0 {
				t.Errorf("%s: %d frames were not sent", c.name, s.NotSent)
			}
			if p50 := r.Gaps.Quantile(0.5); math.Abs(p50*float64(c.rate)-1) > 0.2 {
				t.Errorf("%s: median gap %v s", c.name, p50)
			}
		} else {
			t.Logf("%s: the machine stalled: %+v", c.name, s)
		}
		if r.Frames != s.Accepted || r.Octets != r.Frames*c.octets || r.Reordered+r.Duplicate+r.Broken+got.Foreign+got.Drops != 0 {
			t.Errorf("%s: sent %d, %+v", c.name, s.Accepted, got)
		}
		if r.Latency.Total() != r.Frames || r.Gaps.Total() != r.Frames-1 {
			t.Errorf("%s: %d latencies, %d gaps", c.name, r.Latency.Total(), r.Gaps.Total())
		}
		// Through a veth a frame takes microseconds; a clock that is off would show.
		if p50 := r.Latency.Quantile(0.5); p50 < 200e-9 || p50 > 50e-3 {
			t.Errorf("%s: median latency %v s", c.name, p50)
		}
		if s.First > r.First || r.Last-s.Last > unit.Instant(time.Second) || r.Last < s.Last {
			t.Errorf("%s: sent %d to %d, received %d to %d", c.name, s.First, s.Last, r.First, r.Last)
		}
	}
}

// Flat out, what is lost between the port and the meter is in tx_dropped, and
// nothing is in the books twice.
func TestPacketFlatOut(t *testing.T) {
	testutil.Alone(t)
	a, b := enginetest.Quiet(t)
	tx, m := enginetest.Open(t, New(), []host.Port{a}, b)
	for _, spec := range []frame.Spec{enginetest.Spec4(1, 64), enginetest.Spec4(1000, frame.IMIX.Sizes...)} {
		enginetest.Arm(t, m[0], false, 5)
		before := enginetest.Stats(t, a)
		reps, err := tx.Transmit(context.Background(), engine.Load{Duration: 200 * time.Millisecond}, engine.Stream{ID: 5, Frames: spec})
		if err != nil {
			t.Fatal(err)
		}
		got, after := enginetest.Read(t, m[0]), enginetest.Stats(t, a)
		s, r := reps[0], got.Streams[0]
		packets, dropped := after.TxPackets-before.TxPackets, after.TxDropped-before.TxDropped
		t.Logf("%v, %d frames, %d in tx_dropped, %d lost by the ring, %d stalls up to %v", s.Offered, s.Accepted, dropped, got.Drops, s.Stalls, s.LongestStall)
		if s.Accepted != packets+dropped || s.Refused != 0 || s.Intended != 0 || s.NotSent != 0 || s.Batch != flatBatch {
			t.Errorf("port took %d and dropped %d; %+v", packets, dropped, s)
		}
		if r.Frames+got.Drops != packets || r.Reordered+r.Duplicate+r.Broken+got.Foreign != 0 {
			t.Errorf("port sent %d; %+v", packets, got)
		}
		if s.Accepted < 10_000 {
			t.Errorf("only %d frames", s.Accepted)
		}
	}
	before := enginetest.Stats(t, a)
	reps, err := tx.Transmit(context.Background(), engine.Load{Count: 1001}, engine.Stream{ID: 5, Frames: enginetest.Spec4(1, 64)})
	if err != nil || reps[0].Intended != 1001 || reps[0].Accepted != 1001 || enginetest.Stats(t, a).TxPackets-before.TxPackets != 1001 {
		t.Errorf("%v, %+v", err, reps)
	}
}

// A veth whose peer's ring is full answers ENOBUFS and counts the frame in
// tx_dropped: it is the ledger's, and not refused as well.
func TestPacketFullRing(t *testing.T) {
	a, b := enginetest.Quiet(t)
	// With GRO, and without TSO at its peer, b has a ring; its NAPI, on a thread that gets what the
	// sender leaves of its CPU, lets it fill. The thread is known by the port's name, in all namespaces.
	b.Name = fmt.Sprintf("b%d", os.Getpid()%1_000_000)
	if err := netns.DoSys(a.Netns, func(sys *os.Root) error {
		l, err := netlink.LinkByName("b")
		if err != nil {
			return err
		}
		if err := errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, b.Name), netlink.LinkSetUp(l)); err != nil {
			return err
		}
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		for port, features := range map[string]map[string]bool{b.Name: {"rx-gro": true}, a.Name: {
			"tx-tcp-segmentation": false, "tx-tcp6-segmentation": false, "tx-tcp-ecn-segmentation": false, "tx-tcp-mangleid-segmentation": false,
		}} {
			if err := e.SetFeatures(port, features); err != nil {
				return err
			}
		}
		return sys.WriteFile("class/net/"+b.Name+"/threaded", []byte("1"), 0)
	}); err != nil {
		t.Fatal(err)
	}
	comms, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, path := range comms {
		if comm, _ := os.ReadFile(path); !strings.HasPrefix(string(comm), "napi/"+b.Name) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		var set unix.CPUSet
		set.Set(0)
		idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
		if err := errors.Join(unix.SchedSetaffinity(pid, &set), unix.SchedSetAttr(pid, &idle, 0)); err != nil {
			t.Fatal(err)
		}
		found = true
	}
	if !found {
		t.Skip("this kernel has no threaded NAPI for veth, or hides its threads")
	}
	_, m := enginetest.Open(t, New(), []host.Port{a}, b)
	tx, err := New().OpenTransmitter(context.Background(), []host.Port{a}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	enginetest.Arm(t, m[0], false, 1, 2)
	before := enginetest.Stats(t, a)
	reps, err := tx.Transmit(context.Background(), engine.Load{Duration: 200 * time.Millisecond},
		engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)}, engine.Stream{ID: 2, Frames: enginetest.Spec4(1, 1518)})
	if err != nil {
		t.Fatal(err)
	}
	accepted := reps[0].Accepted + reps[1].Accepted
	var packets, dropped uint64
	for deadline := time.Now().Add(time.Minute); packets+dropped < accepted && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // what is in the ring is not counted yet
		after := enginetest.Stats(t, a)
		packets, dropped = after.TxPackets-before.TxPackets, after.TxDropped-before.TxDropped
	}
	got := enginetest.Read(t, m[0])
	received := got.Streams[0].Frames + got.Streams[1].Frames
	t.Logf("accepted %d: sent %d, dropped %d; received %d, lost by the meter's ring %d", accepted, packets, dropped, received, got.Drops)
	if dropped == 0 {
		t.Error("the ring was never full: the test shows nothing")
	}
	if accepted != packets+dropped || reps[0].Refused+reps[1].Refused != 0 || received+got.Drops != packets {
		t.Errorf("the books do not close: %+v", reps)
	}
}

// A veth without a running peer answers ENOBUFS and counts in tx_dropped: taken,
// and lost behind the port. A port that is down takes nothing.
func TestPacketDropsAreNotRefused(t *testing.T) {
	a, b := enginetest.Quiet(t)
	tx, _ := enginetest.Open(t, New(), []host.Port{a})
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
	reps, err = tx.Transmit(context.Background(), engine.Load{Count: 10}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)})
	if !errors.Is(err, unix.ENETDOWN) {
		t.Errorf("%v, %+v", err, reps)
	}
}

func TestPacketBothWays(t *testing.T) {
	a, b := enginetest.Quiet(t)
	tx, m := enginetest.Open(t, New(), []host.Port{a, b}, a, b)
	enginetest.Arm(t, m[0], false, 2)
	enginetest.Arm(t, m[1], false, 1)
	reps, err := tx.Transmit(context.Background(), engine.Load{Rate: 5e3, Count: 1000},
		engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64), Lane: 0}, engine.Stream{ID: 2, Frames: enginetest.Spec4(1, 128), Lane: 1})
	if err != nil {
		t.Fatal(err)
	}
	// What leaves through a metered port does not arrive there.
	for i, want := range []uint64{128_000, 64_000} {
		if r := enginetest.Read(t, m[i]); r.Streams[0].Octets != want || r.Foreign != 0 || reps[i].Accepted != 1000 {
			t.Errorf("port %d: %+v, %+v", i, r, reps[i])
		}
	}
}

func TestPacketMeterTellsFramesApart(t *testing.T) {
	a, b := enginetest.Quiet(t)
	_, m := enginetest.Open(t, New(), []host.Port{a}, b)
	enginetest.Arm(t, m[0], false, 7)
	other := enginetest.Frame(t, enginetest.Spec(), 8, 0)
	enginetest.Inject(t, a, enginetest.Frame(t, enginetest.Spec(), 7, 0), other)
	enginetest.Inject(t, a, other)
	enginetest.Arm(t, m[0], false, 7, 9) // forgets what came so far, also what is still in the ring
	ours := enginetest.Frame(t, enginetest.Spec(), 7, 3)
	foreign := append(make([]byte, 12), 0x88, 0xb5)
	enginetest.Inject(t, a, ours, ours, ours, enginetest.Frame(t, enginetest.Spec(), 7, 1), append(ours, 1, 2), other, append(foreign, make([]byte, 100)...))
	r := enginetest.Read(t, m[0])
	if s := r.Streams[0]; s.Frames != 4 || s.Duplicate != 2 || s.Reordered != 1 || s.Broken != 1 {
		t.Errorf("%+v", s)
	}
	if r.Foreign != 2 || r.Drops != 0 || r.Streams[1].Stream != 9 || r.Streams[1].Frames != 0 {
		t.Errorf("%+v", r)
	}
	if again := enginetest.Read(t, m[0]); again.Streams[0].Frames != 4 || again.Foreign != 2 {
		t.Errorf("read twice: %+v", again)
	}
}

// A ring that nobody empties loses frames, and says how many.
// A meter that counts UDP counts what tcpdump's filter "udp" takes, and nothing that its
// port sends.
func TestPacketCountsUDP(t *testing.T) {
	a, b := enginetest.Quiet(t)
	ctx := context.Background()
	m, err := New().OpenMeter(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.(engine.PlainCounter).CountUDP(); err != nil {
		t.Fatal(err)
	}
	enginetest.Arm(t, m, false, 1)
	six := enginetest.Spec()
	six.Src, six.Dst, six.Sizes = netip.MustParseAddr("2001:2::1"), netip.MustParseAddr("2001:2::2"), []unit.FrameSize{100}
	with := func(f []byte, at int, octets ...byte) []byte {
		f = slices.Clone(f)
		copy(f[at:], octets)
		return f
	}
	four, v6 := enginetest.Frame(t, enginetest.Spec(), 1, 0), enginetest.Frame(t, six, 1, 1)
	const fragment = 44
	enginetest.Inject(t, b, four)
	enginetest.Inject(t, a, four, with(four, 23, 6), with(four, 12, 0x08, 0x06), make([]byte, 60),
		v6, with(v6, 20, 6), with(v6, 20, fragment), with(with(v6, 20, fragment), 54, 17),
		slices.Concat(four[:12], []byte{0x81, 0, 0, 5}, four[12:]))
	r := enginetest.Settled(t, m, 4)
	if r.Foreign != 4 || r.ForeignOctets != 64+100+100+68 || r.Streams[0].Frames != 0 || r.First == 0 || r.Last < r.First || r.Drops != 0 {
		t.Errorf("%+v", r)
	}
}

func TestPacketMeterDrops(t *testing.T) {
	a, b := enginetest.Quiet(t)
	tx, ms := enginetest.Open(t, New(), []host.Port{a}, b)
	m := ms[0].(*Meter)
	enginetest.Arm(t, m, false, 7)
	m.mu.Lock() // the thread stands in a block
	const n = 20_000
	_, err := tx.Transmit(context.Background(), engine.Load{Count: n}, engine.Stream{ID: 7, Frames: enginetest.Spec4(1, 1518)})
	m.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	r := enginetest.Read(t, m)
	dropped := enginetest.Stats(t, a).TxDropped
	if r.Drops == 0 || r.Drops+r.Streams[0].Frames+dropped != n {
		t.Errorf("%d received, %d dropped by the ring, %d by the port, of %d", r.Streams[0].Frames, r.Drops, dropped, n)
	}
}

func TestPacketRefuses(t *testing.T) {
	a, b := enginetest.Quiet(t)
	testutil.NoLeaks(t)
	tx, m := enginetest.Open(t, New(), []host.Port{a}, b)
	ctx := context.Background()
	long := enginetest.Spec4(1, 64, 1519)
	for _, c := range []struct {
		l engine.Load
		s engine.Stream
	}{{engine.Load{}, engine.Stream{Frames: enginetest.Spec4(1, 64)}}, {engine.Load{Count: 1}, engine.Stream{Frames: long}}, {engine.Load{Count: 1}, engine.Stream{Frames: enginetest.Spec6(1, 64)}}, {engine.Load{Count: 1}, engine.Stream{Frames: enginetest.Spec4(1, 64), Lane: 1}}} {
		if _, err := tx.Transmit(ctx, c.l, c.s); err == nil {
			t.Errorf("%+v was sent", c)
		} else {
			t.Log(err)
		}
	}
	if _, err := tx.Transmit(ctx, engine.Load{Count: 1}); err == nil {
		t.Error("no stream was sent")
	}
	if _, err := m[0].Read(ctx); err == nil {
		t.Error("a meter was read before it was armed")
	}
	none := host.Port{Netns: a.Netns, Name: "none"}
	if _, err := New().OpenMeter(ctx, none); err == nil {
		t.Error("a meter on no port")
	}
	if _, err := New().OpenTransmitter(ctx, []host.Port{a, none}, -1); err == nil {
		t.Error("a transmitter on no port")
	}
}

func TestPacketObeysContext(t *testing.T) {
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
	}
}

func TestPacketProbe(t *testing.T) {
	a, b := enginetest.Quiet(t)
	testutil.NoLeaks(t)
	ctx := context.Background()
	if err := New().Probe(ctx, a, b); err != nil {
		t.Errorf("veth: %v", err)
	}
	if err := New().Probe(ctx, host.Port{Netns: a.Netns, Name: "none"}); err == nil || errors.Is(err, host.ErrNotSupported) {
		t.Errorf("no port: %v", err)
	}
	for err, want := range map[error]bool{unix.ENOPROTOOPT: true, unix.EAFNOSUPPORT: true, unix.ENOMEM: false, unix.ENETDOWN: false} {
		if got := errors.Is(refused("x", err), host.ErrNotSupported); got != want {
			t.Errorf("%v is a no: %v", err, got)
		}
	}
	var missing *host.Missing
	if !errors.As(refused("x", unix.EPERM), &missing) {
		t.Error("EPERM is not a missing privilege")
	}
}

func TestPacketSendsWithoutAllocating(t *testing.T) {
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

func BenchmarkPacket(b *testing.B) {
	from, to := enginetest.Quiet(b)
	tx, m := enginetest.Open(b, New(), []host.Port{from}, to)
	enginetest.Arm(b, m[0], false, 1)
	reps, err := tx.Transmit(context.Background(), engine.Load{Count: uint64(b.N)}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(reps[0].Offered)/1e6, "Mframe/s")
}
