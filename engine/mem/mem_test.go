// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/unit"

	"pgregory.net/rapid"
)

// A rig is a memory backend with a transmitter on lan and wan, and their meters.
type rig struct {
	*Backend
	tx       engine.Transmitter
	lan, wan engine.Meter
}

func newRig(t rapid.TB, cfg Config) *rig {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	r := &rig{Backend: m}
	if r.tx, err = m.OpenTransmitter(ctx, []host.Port{{Name: LAN}, {Name: WAN}}, -1); err != nil {
		t.Fatal(err)
	}
	if r.lan, err = m.OpenMeter(ctx, host.Port{Name: LAN}); err != nil {
		t.Fatal(err)
	}
	if r.wan, err = m.OpenMeter(ctx, host.Port{Name: WAN}); err != nil {
		t.Fatal(err)
	}
	return r
}

// run carries out one trial of streams 1 (lan to wan) and, with both, 2, and
// checks that the books close.
func (r *rig) run(t testing.TB, l engine.Load, both bool) (tx []engine.TxReport, rx []engine.RxReport) {
	t.Helper()
	ctx := context.Background()
	if err := errors.Join(r.wan.Arm(ctx, true, 1), r.lan.Arm(ctx, true, 2)); err != nil {
		t.Fatal(err)
	}
	before := r.terms(t)
	streams := []engine.Stream{{ID: 1, Frames: enginetest.Spec()}}
	if both {
		streams = append(streams, engine.Stream{ID: 2, Frames: enginetest.Spec(), Lane: 1})
	}
	tx, err := r.tx.Transmit(ctx, l, streams...)
	if err != nil {
		t.Fatal(err)
	}
	var accepted, received int64
	for i, m := range []engine.Meter{r.wan, r.lan}[:len(streams)] {
		rep, err := m.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		rx = append(rx, rep.Streams[0])
		accepted += int64(tx[i].Accepted)
		received += int64(rx[i].Frames)
		if got := tx[i].Accepted + tx[i].Refused + tx[i].NotSent; tx[i].Intended != 0 && got != tx[i].Intended {
			t.Errorf("stream %d: intended %d, accounted for %d", i, tx[i].Intended, got)
		}
	}
	var drops int64
	for name, n := range r.terms(t) {
		drops += n - before[name]
	}
	if accepted != received+drops {
		t.Errorf("accepted %d, received %d, drops %d: %d unexplained", accepted, received, drops, accepted-received-drops)
	}
	return tx, rx
}

func (r *rig) terms(t rapid.TB) map[string]int64 {
	t.Helper()
	terms, err := r.Count(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]int64{}
	for _, term := range terms {
		key := term.Link + " " + string(term.Place) + " " + term.Name
		if _, twice := byName[key]; twice {
			t.Errorf("two terms %q", key)
		}
		byName[key] = term.N
	}
	return byName
}

func TestMemIdeal(t *testing.T) {
	testutil.Computed(t)
	r := newRig(t, Config{Delay: 50 * time.Microsecond})
	var end unit.Instant
	for range 2 {
		tx, rx := r.run(t, engine.Load{Rate: 100e3, Duration: time.Second}, true)
		if tx[0].First < end {
			t.Error("the second trial began in the first")
		}
		end = rx[1].Last
		for i := range tx {
			if s := tx[i]; s.Intended != 100_000 || s.Accepted != 100_000 || s.Late != 0 {
				t.Errorf("%+v", s)
			}
			enginetest.Near(t, "offered", tx[i].Offered, 100e3, 1e-6)
			s := rx[i]
			if s.Frames != 100_000 || s.Octets != 6_400_000 || s.Reordered != 0 || s.Duplicate != 0 || s.Broken != 0 {
				t.Errorf("%+v", s)
			}
			enginetest.Near(t, "received", s.Rate, 100e3, 1e-6)
			if s.First != tx[i].First+50_000 || s.Last != tx[i].Last+50_000 {
				t.Errorf("sent %d to %d, received %d to %d", tx[i].First, tx[i].Last, s.First, s.Last)
			}
			if h := s.Latency; h.Total() != 100_000 || len(h.Upper) != 1 || h.Upper[0] < 50e-6 || h.Upper[0] > 54e-6 {
				t.Errorf("latency %+v", h)
			}
			if h := s.Gaps; h.Total() != 99_999 || h.Quantile(0.5) < 10e-6 || h.Quantile(0.5) > 11e-6 {
				t.Errorf("gaps %+v", h)
			}
		}
	}
}

func TestMemLoss(t *testing.T) {
	testutil.Computed(t)
	r := newRig(t, Config{LoseEvery: 1000})
	_, rx := r.run(t, engine.Load{Rate: 200e3, Count: 123_456}, false)
	if rx[0].Frames != 123_456-123 {
		t.Errorf("received %d", rx[0].Frames)
	}
	if n := r.terms(t)["lan link lost on purpose"]; n != 123 {
		t.Errorf("lost %d", n)
	}

	r = newRig(t, Config{Loss: 0.01, Seed: 7})
	_, rx = r.run(t, engine.Load{Rate: 200e3, Count: 200_000}, true)
	for i := range rx { // 2,000 +- 5 sigma
		if lost := 200_000 - float64(rx[i].Frames); math.Abs(lost-2000) > 5*math.Sqrt(2000*0.99) {
			t.Errorf("lost %v", lost)
		}
	}
	again := newRig(t, Config{Loss: 0.01, Seed: 7})
	if _, rx2 := again.run(t, engine.Load{Rate: 200e3, Count: 200_000}, true); rx2[0].Frames != rx[0].Frames {
		t.Errorf("one seed, %d and %d frames", rx[0].Frames, rx2[0].Frames)
	}
}

func TestMemCapacity(t *testing.T) {
	testutil.Computed(t)
	const queue = 100
	for _, c := range []struct {
		rate    unit.FrameRate
		both    bool
		dropped bool
	}{{50e3, false, false}, {200e3, false, false}, {100e3, true, false}, {300e3, false, true}, {150e3, true, true}, {0, false, true}, {0, true, true}} {
		r := newRig(t, Config{Capacity: 200e3, Queue: queue})
		tx, rx := r.run(t, engine.Load{Rate: c.rate, Duration: time.Second}, c.both)
		var offered, received uint64
		for i := range tx {
			offered += tx[i].Accepted
			received += rx[i].Frames
		}
		if c.rate == 0 && offered != 1_000_000 {
			t.Errorf("flat out, %d frames: the ceiling is 1 M", offered)
		}
		want := offered
		if c.dropped {
			want = 200_000 - 1 + queue // done by the last frame, and in the DUT then
		}
		if received != want {
			t.Errorf("%+v: offered %d, received %d, want %d", c, offered, received, want)
		}
		full := r.terms(t)["lan dut nic queue full"] + r.terms(t)["wan dut nic queue full"]
		if full != int64(offered-received) {
			t.Errorf("%+v: queue full %d times, lost %d", c, full, offered-received)
		}
		if !c.dropped {
			continue
		}
		if c.both && (rx[0].Frames < received/3 || rx[1].Frames < received/3) {
			t.Errorf("%+v: shared as %d and %d", c, rx[0].Frames, rx[1].Frames)
		}
		if q := rx[0].Latency.Quantile(1); math.Abs(q-queue/200e3) > queue/200e3/16 {
			t.Errorf("%+v: the longest wait is %v s, want %v", c, q, queue/200e3)
		}
	}
}

// However few and unequal frames a load has, their octets take the time that the
// bit rate has for them, the last frame's too.
func TestMemBitRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, Config{})
		spec := enginetest.Spec()
		spec.Sizes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) unit.FrameSize {
			return unit.FrameSize(rapid.SampledFrom([]int{64, 65, 594, 1518}).Draw(t, "size"))
		}), 1, 4).Draw(t, "sizes")
		l := engine.Load{Bits: unit.BitRate(rapid.Float64Range(1e6, 1e8).Draw(t, "rate"))}
		if rapid.Bool().Draw(t, "counted") {
			l.Count = rapid.Uint64Range(1, 9).Draw(t, "count")
		} else {
			l.Duration = time.Duration(rapid.Int64Range(1, 5e6).Draw(t, "duration"))
		}
		streams := []engine.Stream{{ID: 1, Frames: spec}}
		if rapid.Bool().Draw(t, "source") {
			lengths := make([]int, len(spec.Sizes))
			for i, s := range spec.Sizes {
				lengths[i] = s.Buffer()
			}
			streams[0] = engine.Stream{ID: 1, Source: enginetest.PlainSource(1000, 0, lengths...)}
		}
		reps, err := r.tx.Transmit(context.Background(), l, streams...)
		if err != nil {
			t.Fatal(err)
		}
		s := reps[0]
		octetsOf := func(frames uint64) (octets uint64) {
			for i := range frames {
				octets += uint64(spec.Sizes[i%uint64(len(spec.Sizes))])
			}
			return octets
		}
		octets := octetsOf(s.Accepted)
		takes := func(n uint64) time.Duration { return time.Duration(float64(8*n) / float64(l.Bits) * 1e9) }
		if within := func(a, b time.Duration) bool { return a-b < 3 && b-a < 3 }; !within(time.Duration(s.Last-s.First), takes(octetsOf(s.Accepted-1))) || !within(time.Duration(s.Last-s.First)+s.Tail, takes(octets)) {
			t.Fatalf("%d frames of %v at %v from %v to %v and %v", s.Accepted, spec.Sizes, l.Bits, s.First, s.Last, s.Tail)
		}
		if l.Duration > 0 && (takes(octets) < l.Duration-3 || time.Duration(s.Last-s.First) >= l.Duration) {
			t.Fatalf("%d octets in %v at %v", octets, l.Duration, l.Bits)
		}
		if bits := float64(s.Offered) * float64(8*s.Octets) / float64(s.Accepted); s.Octets != octets || math.Abs(bits/float64(l.Bits)-1) > 5e-4 {
			t.Fatalf("%d octets at %v bit/s, want %d at %v", s.Octets, bits, octets, l.Bits)
		}
	})
}

func TestMemCeiling(t *testing.T) {
	r := newRig(t, Config{Ceiling: 333_333})
	tx, rx := r.run(t, engine.Load{Rate: 500e3, Duration: time.Second}, false)
	s := tx[0]
	if s.Intended != 500_000 || s.Accepted < 333_333 || s.Accepted > 333_334 || s.Late == 0 {
		t.Errorf("%+v", s)
	}
	enginetest.Near(t, "offered", s.Offered, 333_333, 1e-6)
	enginetest.Near(t, "received", rx[0].Rate, 333_333, 1e-6)
	// At the ceiling itself nothing is late.
	if tx, _ := r.run(t, engine.Load{Rate: 333_333, Duration: time.Second}, false); tx[0].Accepted != 333_333 || tx[0].Late != 0 {
		t.Errorf("%+v", tx[0])
	}
}

func TestMemDuplicatesAndReordering(t *testing.T) {
	for _, c := range []struct {
		cfg                  Config
		duplicate, reordered uint64
		latency              float64 // the longest, at a frame in 10 us
	}{
		{Config{DuplicateEvery: 10}, 1000, 0, 0},
		{Config{ReorderEvery: 10}, 0, 999, 10e-6}, // the last frame has nobody to let pass
		{Config{ReorderEvery: 100, ReorderDepth: 99}, 0, 99, 990e-6},
		{Config{ReorderEvery: 10, ReorderDepth: 35}, 0, 999, 380e-6},
	} {
		r := newRig(t, c.cfg)
		_, rx := r.run(t, engine.Load{Rate: 100e3, Count: 10_000}, false)
		if s := rx[0]; s.Duplicate != c.duplicate || s.Reordered != c.reordered || s.Frames != 10_000+c.duplicate {
			t.Errorf("%+v: frames %d, duplicate %d, reordered %d; want %d, %d", c.cfg, s.Frames, s.Duplicate, s.Reordered, c.duplicate, c.reordered)
		} else if q := s.Latency.Quantile(1); q < c.latency || q > c.latency*17/16 {
			t.Errorf("%+v: the longest latency is %v s, want %v", c.cfg, q, c.latency)
		}
	}
}

func TestMemDrop(t *testing.T) {
	r := newRig(t, Config{Capacity: 200e3})
	for _, p := range []result.Place{result.XDP, result.TC, result.NFT} {
		r.Drop(p)
		_, rx := r.run(t, engine.Load{Rate: 100e3, Count: 1000}, false)
		if n := r.terms(t)["lan "+string(p)+" dropped by the service"]; n != 1000 || rx[0].Frames != 0 {
			t.Errorf("%s: %d dropped, %d received", p, n, rx[0].Frames)
		}
	}
	r.Drop("")
	if _, rx := r.run(t, engine.Load{Rate: 100e3, Count: 1000}, false); rx[0].Frames != 1000 {
		t.Errorf("received %d", rx[0].Frames)
	}
}

func TestMemLoopIsIdeal(t *testing.T) {
	m, err := New(Config{Capacity: 10, Loss: 1, DuplicateEvery: 1, ReorderEvery: 1})
	if err != nil {
		t.Fatal(err)
	}
	m.Drop(result.XDP)
	ctx := context.Background()
	tx, _ := m.OpenTransmitter(ctx, []host.Port{{Name: LoopA}}, -1)
	rx, _ := m.OpenMeter(ctx, host.Port{Name: LoopB})
	if err := rx.Arm(ctx, false, 1); err != nil {
		t.Fatal(err)
	}
	spec := enginetest.Spec()
	spec.Sizes, spec.Flows = frame.IMIX.Sizes, 1000
	if _, err := tx.Transmit(ctx, engine.Load{Count: 12_000}, engine.Stream{ID: 1, Frames: spec}); err != nil {
		t.Fatal(err)
	}
	rep, _ := rx.Read(ctx)
	s := rep.Streams[0]
	if s.Frames != 12_000 || s.Octets != 1000*(7*64+4*594+1518) || s.Broken != 0 || rep.Foreign != 0 || s.Latency != nil {
		t.Errorf("%+v", rep)
	}
}

func TestMemObeysContext(t *testing.T) {
	r := newRig(t, Config{})
	enginetest.Arm(t, r.wan, false, 1)
	ctx := enginetest.UntilCounted(t, r.wan)
	start := time.Now()
	tx, err := r.tx.Transmit(ctx, engine.Load{Rate: 1e6, Duration: time.Hour}, engine.Stream{ID: 1, Frames: enginetest.Spec()})
	if !errors.Is(err, context.Canceled) || time.Since(start) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	if len(tx) != 1 || tx[0].Accepted == 0 || tx[0].Accepted+tx[0].NotSent != tx[0].Intended {
		t.Errorf("%+v", tx)
	}
}

// Each of several transmitters has the wire for itself; reading goes on meanwhile.
func TestMemConcurrent(t *testing.T) {
	r := newRig(t, Config{})
	ctx := context.Background()
	if err := r.wan.Arm(ctx, false, 1); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := r.tx.Transmit(ctx, engine.Load{Count: 10_000}, engine.Stream{ID: 1, Frames: enginetest.Spec()}); err != nil {
				t.Error(err)
			}
			if _, err := r.wan.Read(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if rep, _ := r.wan.Read(ctx); rep.Streams[0].Frames != 40_000 {
		t.Errorf("%+v", rep)
	}
}

func TestMemRefuses(t *testing.T) {
	for _, c := range []Config{{Capacity: -1}, {Loss: 1.1}, {Loss: unit.LossRatio(math.NaN())}, {Queue: -1}, {Delay: -1}, {ReorderDepth: -1}, {Ceiling: 2e9}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	r := newRig(t, Config{})
	ctx := context.Background()
	if err := r.Probe(ctx, host.Port{Name: "eth0"}); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("probe: %v", err)
	}
	if err := r.Probe(ctx, host.Port{Name: LoopB}); err != nil {
		t.Errorf("probe: %v", err)
	}
	if _, err := r.OpenMeter(ctx, host.Port{Name: WAN}); err == nil {
		t.Error("a second meter was opened")
	}
	if err := r.wan.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.OpenMeter(ctx, host.Port{Name: WAN}); err != nil {
		t.Error(err)
	}
	good := engine.Stream{ID: 1, Frames: enginetest.Spec()}
	small := enginetest.Spec()
	small.Sizes[0] = 63
	for _, c := range []struct {
		l engine.Load
		s []engine.Stream
	}{{engine.Load{}, []engine.Stream{good}}, {engine.Load{Count: 1}, nil}, {engine.Load{Count: 1}, []engine.Stream{{ID: 1, Frames: enginetest.Spec(), Lane: 2}}}, {engine.Load{Count: 1}, []engine.Stream{{ID: 1, Frames: small}}}} {
		if _, err := r.tx.Transmit(ctx, c.l, c.s...); err == nil {
			t.Errorf("%+v was sent", c)
		}
	}
}

func BenchmarkMem(b *testing.B) {
	r := newRig(b, Config{Capacity: 2e5})
	b.ReportAllocs()
	r.run(b, engine.Load{Count: uint64(b.N)}, false)
}

// A machine that stands still between two loads fills no bucket: time is virtual.
func TestMemStandsStillAlone(t *testing.T) {
	r := newRig(t, Config{Policer: 1000, PolicerBurst: 100})
	l := engine.Load{Rate: 100_000, Count: 200}
	first, _ := r.run(t, l, false)
	time.Sleep(30 * time.Millisecond)
	second, rx := r.run(t, l, false)
	if pause := second[0].First - first[0].Last; pause > trialPause+trialPause/10 || rx[0].Frames > 15 {
		t.Errorf("a pause of %v ns, after which %d frames passed", pause, rx[0].Frames)
	}
	r.Rest(50 * time.Millisecond)
	if _, rx := r.run(t, l, false); rx[0].Frames < 55 || rx[0].Frames > 75 {
		t.Errorf("after a rest %d frames passed", rx[0].Frames)
	}
}
