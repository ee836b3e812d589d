// SPDX-License-Identifier: Apache-2.0

package engine

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
	a, b := quiet(t)
	testutil.NoLeaks(t)
	tx, m := openOn(t, newPacket(), []host.Port{a}, b)
	for _, c := range []struct {
		name   string
		rate   unit.FrameRate
		spec   frame.Spec
		octets uint64
	}{
		{"10k", 10e3, spec4(1, 64), 64},
		{"500", 500, spec4(100_000, 1518), 1518},
		{"20k IPv6", 20e3, spec6(100, 84), 84},
	} {
		arm(t, m[0], true, 5)
		n := uint64(c.rate) * 3 / 10
		reps, err := tx.Transmit(context.Background(), Load{Rate: c.rate, Duration: 300 * time.Millisecond}, Stream{ID: 5, Frames: c.spec})
		if err != nil {
			t.Fatal(err)
		}
		got := readMeter(t, m[0])
		s, r := reps[0], got.Streams[0]
		if s.Intended != n || s.Accepted+s.NotSent != n || s.Refused != 0 {
			t.Errorf("%s: %+v", c.name, s)
		}
		if s.Late == 0 && s.NotSent == 0 { // no stall of the machine was in the way
			near(t, c.name+" offered", s.Offered, c.rate, 2e-2)
			near(t, c.name+" received", r.Rate, c.rate, 2e-2)
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
	a, b := quiet(t)
	tx, m := openOn(t, newPacket(), []host.Port{a}, b)
	for _, spec := range []frame.Spec{spec4(1, 64), spec4(1000, frame.IMIX.Sizes...)} {
		arm(t, m[0], false, 5)
		before := stats(t, a)
		reps, err := tx.Transmit(context.Background(), Load{Duration: 200 * time.Millisecond}, Stream{ID: 5, Frames: spec})
		if err != nil {
			t.Fatal(err)
		}
		got, after := readMeter(t, m[0]), stats(t, a)
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
	before := stats(t, a)
	reps, err := tx.Transmit(context.Background(), Load{Count: 1001}, Stream{ID: 5, Frames: spec4(1, 64)})
	if err != nil || reps[0].Intended != 1001 || reps[0].Accepted != 1001 || stats(t, a).TxPackets-before.TxPackets != 1001 {
		t.Errorf("%v, %+v", err, reps)
	}
}

// A veth whose peer's ring is full answers ENOBUFS and counts the frame in
// tx_dropped: it is the ledger's, and not refused as well.
func TestPacketFullRing(t *testing.T) {
	a, b := quiet(t)
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
	_, m := openOn(t, newPacket(), []host.Port{a}, b)
	tx, err := newPacket().OpenTransmitter(context.Background(), []host.Port{a}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	arm(t, m[0], false, 1, 2)
	before := stats(t, a)
	reps, err := tx.Transmit(context.Background(), Load{Duration: 200 * time.Millisecond},
		Stream{ID: 1, Frames: spec4(1, 64)}, Stream{ID: 2, Frames: spec4(1, 1518)})
	if err != nil {
		t.Fatal(err)
	}
	accepted := reps[0].Accepted + reps[1].Accepted
	var packets, dropped uint64
	for deadline := time.Now().Add(10 * time.Second); packets+dropped < accepted && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // what is in the ring is not counted yet
		after := stats(t, a)
		packets, dropped = after.TxPackets-before.TxPackets, after.TxDropped-before.TxDropped
	}
	got := readMeter(t, m[0])
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
	a, b := quiet(t)
	tx, _ := openOn(t, newPacket(), []host.Port{a})
	down(t, b)
	before := stats(t, a)
	reps, err := tx.Transmit(context.Background(), Load{Rate: 10e3, Count: 200}, Stream{ID: 1, Frames: spec4(1, 64)}, Stream{ID: 2, Frames: spec4(1, 64)})
	if err != nil {
		t.Fatal(err)
	}
	dropped := stats(t, a).TxDropped - before.TxDropped
	if dropped != 400 || reps[0].Accepted != 200 || reps[1].Accepted != 200 || reps[0].Refused+reps[1].Refused != 0 {
		t.Errorf("tx_dropped %d, %+v", dropped, reps)
	}

	down(t, a)
	reps, err = tx.Transmit(context.Background(), Load{Count: 10}, Stream{ID: 1, Frames: spec4(1, 64)})
	if !errors.Is(err, unix.ENETDOWN) {
		t.Errorf("%v, %+v", err, reps)
	}
}

func TestPacketBothWays(t *testing.T) {
	a, b := quiet(t)
	tx, m := openOn(t, newPacket(), []host.Port{a, b}, a, b)
	arm(t, m[0], false, 2)
	arm(t, m[1], false, 1)
	reps, err := tx.Transmit(context.Background(), Load{Rate: 5e3, Count: 1000},
		Stream{ID: 1, Frames: spec4(1, 64), Lane: 0}, Stream{ID: 2, Frames: spec4(1, 128), Lane: 1})
	if err != nil {
		t.Fatal(err)
	}
	// What leaves through a metered port does not arrive there.
	for i, want := range []uint64{128_000, 64_000} {
		if r := readMeter(t, m[i]); r.Streams[0].Octets != want || r.Foreign != 0 || reps[i].Accepted != 1000 {
			t.Errorf("port %d: %+v, %+v", i, r, reps[i])
		}
	}
}

func TestPacketMeterTellsFramesApart(t *testing.T) {
	a, b := quiet(t)
	_, m := openOn(t, newPacket(), []host.Port{a}, b)
	arm(t, m[0], false, 7)
	other := testFrame(t, testSpec(), 8, 0)
	inject(t, a, testFrame(t, testSpec(), 7, 0), other)
	inject(t, a, other)
	arm(t, m[0], false, 7, 9) // forgets what came so far, also what is still in the ring
	ours := testFrame(t, testSpec(), 7, 3)
	foreign := append(make([]byte, 12), 0x88, 0xb5)
	inject(t, a, ours, ours, ours, testFrame(t, testSpec(), 7, 1), append(ours, 1, 2), other, append(foreign, make([]byte, 100)...))
	r := readMeter(t, m[0])
	if s := r.Streams[0]; s.Frames != 4 || s.Duplicate != 2 || s.Reordered != 1 || s.Broken != 1 {
		t.Errorf("%+v", s)
	}
	if r.Foreign != 2 || r.Drops != 0 || r.Streams[1].Stream != 9 || r.Streams[1].Frames != 0 {
		t.Errorf("%+v", r)
	}
	if again := readMeter(t, m[0]); again.Streams[0].Frames != 4 || again.Foreign != 2 {
		t.Errorf("read twice: %+v", again)
	}
}

// A ring that nobody empties loses frames, and says how many.
// A meter that counts UDP counts what tcpdump's filter "udp" takes, and nothing that its
// port sends.
func TestPacketCountsUDP(t *testing.T) {
	a, b := quiet(t)
	ctx := context.Background()
	m, err := newPacket().OpenMeter(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.(PlainCounter).CountUDP(); err != nil {
		t.Fatal(err)
	}
	arm(t, m, false, 1)
	six := testSpec()
	six.Src, six.Dst, six.Sizes = netip.MustParseAddr("2001:2::1"), netip.MustParseAddr("2001:2::2"), []unit.FrameSize{100}
	with := func(f []byte, at int, octets ...byte) []byte {
		f = slices.Clone(f)
		copy(f[at:], octets)
		return f
	}
	four, v6 := testFrame(t, testSpec(), 1, 0), testFrame(t, six, 1, 1)
	const fragment = 44
	inject(t, b, four)
	inject(t, a, four, with(four, 23, 6), with(four, 12, 0x08, 0x06), make([]byte, 60),
		v6, with(v6, 20, 6), with(v6, 20, fragment), with(with(v6, 20, fragment), 54, 17),
		slices.Concat(four[:12], []byte{0x81, 0, 0, 5}, four[12:]))
	r := settled(t, m, 4)
	if r.Foreign != 4 || r.ForeignOctets != 64+100+100+68 || r.Streams[0].Frames != 0 || r.First == 0 || r.Last < r.First || r.Drops != 0 {
		t.Errorf("%+v", r)
	}
}

func TestPacketMeterDrops(t *testing.T) {
	a, b := quiet(t)
	tx, ms := openOn(t, newPacket(), []host.Port{a}, b)
	m := ms[0].(*packetMeter)
	arm(t, m, false, 7)
	m.mu.Lock() // the thread stands in a block
	const n = 20_000
	_, err := tx.Transmit(context.Background(), Load{Count: n}, Stream{ID: 7, Frames: spec4(1, 1518)})
	m.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	r := readMeter(t, m)
	dropped := stats(t, a).TxDropped
	if r.Drops == 0 || r.Drops+r.Streams[0].Frames+dropped != n {
		t.Errorf("%d received, %d dropped by the ring, %d by the port, of %d", r.Streams[0].Frames, r.Drops, dropped, n)
	}
}

func TestPacketRefuses(t *testing.T) {
	a, b := quiet(t)
	testutil.NoLeaks(t)
	tx, m := openOn(t, newPacket(), []host.Port{a}, b)
	ctx := context.Background()
	long := spec4(1, 64, 1519)
	for _, c := range []struct {
		l Load
		s Stream
	}{{Load{}, Stream{Frames: spec4(1, 64)}}, {Load{Count: 1}, Stream{Frames: long}}, {Load{Count: 1}, Stream{Frames: spec6(1, 64)}}, {Load{Count: 1}, Stream{Frames: spec4(1, 64), Lane: 1}}} {
		if _, err := tx.Transmit(ctx, c.l, c.s); err == nil {
			t.Errorf("%+v was sent", c)
		} else {
			t.Log(err)
		}
	}
	if _, err := tx.Transmit(ctx, Load{Count: 1}); err == nil {
		t.Error("no stream was sent")
	}
	if _, err := m[0].Read(ctx); err == nil {
		t.Error("a meter was read before it was armed")
	}
	none := host.Port{Netns: a.Netns, Name: "none"}
	if _, err := newPacket().OpenMeter(ctx, none); err == nil {
		t.Error("a meter on no port")
	}
	if _, err := newPacket().OpenTransmitter(ctx, []host.Port{a, none}, -1); err == nil {
		t.Error("a transmitter on no port")
	}
}

func TestPacketObeysContext(t *testing.T) {
	a, b := quiet(t)
	tx, m := openOn(t, newPacket(), []host.Port{a}, b)
	for _, rate := range []unit.FrameRate{1, 5e3, 0} {
		arm(t, m[0], false, 1)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		start := time.Now()
		reps, err := tx.Transmit(ctx, Load{Rate: rate, Duration: time.Minute}, Stream{ID: 1, Frames: spec4(1, 64)})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 2*time.Second {
			t.Errorf("rate %v: %v after %v", rate, err, time.Since(start))
		}
		s := reps[0]
		if s.Accepted == 0 || s.Intended != 0 && s.Accepted+s.NotSent != s.Intended {
			t.Errorf("rate %v: %+v", rate, s)
		}
	}
}

func TestPacketProbe(t *testing.T) {
	a, b := quiet(t)
	testutil.NoLeaks(t)
	ctx := context.Background()
	if err := newPacket().Probe(ctx, a, b); err != nil {
		t.Errorf("veth: %v", err)
	}
	if err := newPacket().Probe(ctx, host.Port{Netns: a.Netns, Name: "none"}); err == nil || errors.Is(err, host.ErrNotSupported) {
		t.Errorf("no port: %v", err)
	}
	for err, want := range map[error]bool{unix.ENOPROTOOPT: true, unix.EAFNOSUPPORT: true, unix.ENOMEM: false, unix.ENETDOWN: false} {
		if got := errors.Is(packetError("x", err), host.ErrNotSupported); got != want {
			t.Errorf("%v is a no: %v", err, got)
		}
	}
	var missing *host.Missing
	if !errors.As(packetError("x", unix.EPERM), &missing) {
		t.Error("EPERM is not a missing privilege")
	}
}

func TestPacketSendsWithoutAllocating(t *testing.T) {
	a, _ := quiet(t)
	tx, _ := openOn(t, newPacket(), []host.Port{a})
	count := func(n uint64) float64 {
		return testing.AllocsPerRun(3, func() {
			if _, err := tx.Transmit(context.Background(), Load{Count: n}, Stream{ID: 1, Frames: spec4(1, 64)}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := count(100), count(20_000); many > few+20 {
		t.Errorf("100 frames: %v allocations, 20,000: %v", few, many)
	}
}

func TestClock(t *testing.T) {
	c := newClock()
	for range 100 {
		before, at, after := unit.Now(), c.now(), unit.Now()
		if at < before-5000 || at > after+5000 {
			t.Fatalf("%d is not between %d and %d", at, before, after)
		}
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts); err != nil {
		t.Fatal(err)
	}
	if off := ts.Nano() - int64(unit.Now()) - c.offset(); off < -1e6 || off > 1e6 {
		t.Errorf("offset is off by %d ns", off)
	}
}

func BenchmarkPacket(b *testing.B) {
	from, to := quiet(b)
	tx, m := openOn(b, newPacket(), []host.Port{from}, to)
	arm(b, m[0], false, 1)
	reps, err := tx.Transmit(context.Background(), Load{Count: uint64(b.N)}, Stream{ID: 1, Frames: spec4(1, 64)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(reps[0].Offered)/1e6, "Mframe/s")
}
