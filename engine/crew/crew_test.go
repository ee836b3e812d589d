// SPDX-License-Identifier: Apache-2.0

package crew_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/afxdp"
	"boxdyno/engine/crew"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/mem"
	"boxdyno/engine/packet"
	"boxdyno/engine/xdp"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/unit"

	"pgregory.net/rapid"
)

// flowOf is the flow's address and port in a frame.
func flowOf(t *rapid.T, s frame.Spec, k uint64) string {
	b, err := frame.NewBuilder(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2000)
	b.Build(k, buf)
	l := b.Layout
	return fmt.Sprint(binary.BigEndian.Uint32(buf[l.Addr:]), binary.BigEndian.Uint16(buf[l.Port:]))
}

// The shares of a load have every flow once, each at its rate, and every frame of a count.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, crew.Most).Draw(t, "senders")
		s := enginetest.Spec4(rapid.SampledFrom([]int{1, 2, 3, 7, 8, 100, 60_000}).Draw(t, "flows"), 64)
		l := engine.Load{Rate: unit.FrameRate(rapid.IntRange(1, 1e6).Draw(t, "rate")), Count: rapid.Uint64Range(0, 1e6).Draw(t, "count")}
		if l.Count == 0 {
			l.Duration = time.Hour
		}
		shares, err := crew.Split(l, []engine.Stream{{ID: 0xffff, Frames: s}}, n)
		if err != nil {
			t.Fatal(err)
		}
		flows, rate, count := map[string]float64{}, 0.0, uint64(0)
		ids := map[uint16]bool{}
		for _, share := range shares {
			part := share.Streams[0]
			ids[part.ID] = true
			rate, count = rate+float64(share.Load.Rate), count+share.Load.Count
			for _, k := range []int{0, part.Frames.Flows / 2, part.Frames.Flows - 1} {
				flows[flowOf(t, part.Frames, uint64(k))] = float64(share.Load.Rate) / float64(part.Frames.Flows)
			}
			if l.Duration != 0 && share.Load.Duration+share.Load.Phase != l.Duration {
				t.Fatalf("%+v", share.Load)
			}
		}
		if count != l.Count || l.Count == 0 && math.Abs(rate/float64(l.Rate)-1) > 1e-9 || len(ids) != len(shares) {
			t.Fatalf("%v frame/s, %d frames, %d numbers of %d shares", rate, count, len(ids), len(shares))
		}
		for flow, of := range flows {
			if s.Flows >= n && math.Abs(of*float64(s.Flows)/float64(l.Rate)-1) > 1e-9 {
				t.Fatalf("flow %s has %v frame/s", flow, of)
			}
		}
		first, last := flowOf(t, s, 0), flowOf(t, s, uint64(s.Flows-1))
		if l.Count == 0 && (flows[first] == 0 || flows[last] == 0) {
			t.Fatalf("flow %s or %s is in no share", first, last)
		}
	})
}

// A frame of each flow is a frame of each flow, whichever senders have it.
func TestAFrameOfEachFlow(t *testing.T) {
	for flows := 1; flows <= 9; flows++ {
		for n := 1; n <= crew.Most; n++ {
			shares, err := crew.Split(engine.Load{Rate: 1e3, Count: uint64(flows)}, []engine.Stream{{ID: 1, Frames: enginetest.Spec4(flows, 64)}}, n)
			if err != nil {
				t.Fatal(err)
			}
			had := map[int]int{}
			for _, s := range shares {
				for k := range s.Load.Count {
					f := s.Streams[0].Frames
					had[f.First+int(k)%f.Flows]++
				}
			}
			for flow := range flows {
				if had[flow] != 1 {
					t.Errorf("%d flows, %d senders: flow %d has %d frames", flows, n, flow, had[flow])
				}
			}
		}
	}
}

// The report of a stream of which one share is left is the stream's.
func TestOneShareIsLeft(t *testing.T) {
	streams := []engine.Stream{{ID: 1, Frames: enginetest.Spec4(4, 64)}}
	shares, err := crew.Split(engine.Load{Rate: 1e3, Count: 1}, streams, 4)
	if err != nil || len(shares) != 1 {
		t.Fatal(shares, err)
	}
	got := crew.Join(streams, [][]engine.TxReport{{{Stream: shares[0].Streams[0].ID, Accepted: 1}}})
	if len(got) != 1 || got[0].Stream != 1 || got[0].Accepted != 1 {
		t.Errorf("%+v", got)
	}
}

// Of 5 flows, one of 4 senders has 2: together they reach 5/8 of their ceilings.
func TestEvenness(t *testing.T) {
	for c, want := range map[[2]int]float64{{1, 1}: 1, {5, 1}: 1, {1, 4}: 1, {3, 4}: 1, {4, 4}: 1, {5, 4}: 5. / 8, {8, 4}: 1, {9, 4}: 0.75} {
		if got := crew.Evenness(c[0], c[1]); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d flows, %d senders: %v, want %v", c[0], c[1], got, want)
		}
	}
}

func TestSourcesAreNotShared(t *testing.T) {
	if _, err := crew.Split(engine.Load{Passes: 1}, []engine.Stream{{Source: enginetest.PlainSource(3, 0, 60)}}, 2); err == nil {
		t.Error("a source was shared")
	}
}

// carried offers a load with n senders and returns what became of it.
func carried(t *testing.T, b engine.Backend, from, to host.Port, cpus []int, l engine.Load, s frame.Spec) (engine.TxReport, engine.RxReport) {
	t.Helper()
	m, err := b.OpenMeter(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tx, err := crew.Open(t.Context(), b, []host.Port{from}, cpus)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	meter := crew.Meter(m, len(cpus))
	enginetest.Arm(t, meter, true, 1)
	sent, err := tx.Transmit(t.Context(), l, engine.Stream{ID: 1, Frames: s})
	if err != nil {
		t.Fatal(err)
	}
	return sent[0], enginetest.Settled(t, meter, sent[0].Accepted).Streams[0]
}

// In memory each of n senders has the ceiling, and a policer finds the sum to be the load.
func TestInMemory(t *testing.T) {
	for n, want := range map[int]uint64{1: 100_000, 2: 200_000, 3: 250_000} {
		m, err := mem.New(mem.Config{Ceiling: 100e3})
		if err != nil {
			t.Fatal(err)
		}
		cpus := make([]int, n)
		tx, rx := carried(t, m, host.Port{Name: mem.LAN}, host.Port{Name: mem.WAN}, cpus, engine.Load{Rate: 250e3, Duration: time.Second}, enginetest.Spec4(12, 64))
		if math.Abs(float64(tx.Accepted)-float64(want)) > 6 || rx.Frames != tx.Accepted || rx.Span != tx.Accepted || rx.Reordered+rx.Duplicate != 0 || tx.Accepted+tx.NotSent != tx.Intended || math.Abs(float64(tx.Intended)-250_000) > 6 {
			t.Errorf("%d senders: %+v\n%+v", n, tx, rx)
		}
	}
	// Together they are as even as one: not one frame finds the box's only place taken.
	for _, n := range []int{1, 2, 4} {
		m, err := mem.New(mem.Config{Capacity: 101e3, Queue: 2})
		if err != nil {
			t.Fatal(err)
		}
		tx, rx := carried(t, m, host.Port{Name: mem.LAN}, host.Port{Name: mem.WAN}, make([]int, n), engine.Load{Rate: 100e3, Duration: time.Second, Alone: true}, enginetest.Spec4(12, 64))
		if tx.Accepted < 99_990 || rx.Frames != tx.Accepted {
			t.Errorf("%d senders: %d of %d frames came", n, rx.Frames, tx.Accepted)
		}
	}
}

// On a link the senders begin at one instant and end with one load; its books close.
func TestOnALink(t *testing.T) {
	cpus := testutil.TwoCPUs(t)
	for _, b := range []engine.Backend{xdp.New(), packet.New(), afxdp.NewCopy()} {
		from, to := enginetest.Wire(t, testutil.Cable{A: "a", B: "b", Silent: true, Queues: 2}) // afxdp has a sender a queue
		for _, l := range []engine.Load{{Rate: 20e3, Duration: 200 * time.Millisecond}, {Rate: 20e3, Count: 1001}, {Count: 2001}} {
			tx, rx := carried(t, b, from, to, cpus[:], l, enginetest.Spec4(5, 64))
			if rx.Frames != tx.Accepted || rx.Span != tx.Accepted || rx.Reordered+rx.Duplicate+rx.Broken != 0 {
				t.Errorf("%s, %+v: sent %+v\ncame %+v", b.Name(), l, tx, rx)
			}
			if l.Rate > 0 && (tx.Accepted+tx.NotSent+tx.Refused != tx.Intended || math.Abs(float64(tx.Intended)-float64(l.Frames(engine.Stream{}))) > 2) {
				t.Errorf("%s, %+v: sent %+v", b.Name(), l, tx)
			}
		}
	}
}

// Senders of a source's parts send each frame of a pass once, and say how many each had.
func TestPartsOnALink(t *testing.T) {
	cpus := testutil.TwoCPUs(t)
	for _, b := range []engine.Backend{xdp.New(), packet.New(), afxdp.NewCopy()} {
		from, to := enginetest.Wire(t, testutil.Cable{A: "a", B: "b", Silent: true, Queues: 2})
		for _, l := range []engine.Load{{Rate: 20e3, Passes: 2}, {Bits: 10e6, Passes: 1}, {Speed: 1, Passes: 1}, {Passes: 3}} {
			var parts []engine.Part
			for i, n := range []int{700, 300} {
				parts = append(parts, engine.Part{Source: enginetest.PlainSource(n, 50_000, 60+i), Frames: uint64(n), Octets: uint64(n * (64 + i)), First: time.Duration(i) * 10 * time.Millisecond})
			}
			m, err := b.OpenMeter(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			tx, err := crew.Open(t.Context(), b, []host.Port{from}, cpus[:])
			if err != nil {
				t.Fatal(err)
			}
			enginetest.Arm(t, m, false)
			reports, err := tx.Transmit(t.Context(), l, engine.Stream{ID: 1, Parts: parts})
			if err != nil {
				t.Fatal(err)
			}
			sent := reports[0]
			if len(sent.Shares) != 2 || sent.Shares[0] != 700*l.Passes || sent.Shares[1] != 300*l.Passes || sent.Accepted+sent.Refused != 1000*l.Passes || sent.Passes != l.Passes {
				t.Errorf("%s, %+v: %+v", b.Name(), l, sent)
			}
			begin := time.Now()
			for enginetest.Read(t, m).Foreign < sent.Accepted && time.Since(begin) < time.Minute {
				time.Sleep(time.Millisecond)
			}
			if came := enginetest.Read(t, m).Foreign; came != sent.Accepted {
				t.Errorf("%s, %+v: %d of %d frames came", b.Name(), l, came, sent.Accepted)
			}
			if err := errors.Join(tx.Close(), m.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// A sender that cannot go on ends the others, and is the error.
func TestOneFails(t *testing.T) {
	broken := errors.New("broken")
	b := &failing{err: broken}
	tx, err := crew.Open(t.Context(), b, []host.Port{{}}, []int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	reports, err := tx.Transmit(t.Context(), engine.Load{Rate: 1e3, Duration: time.Hour}, engine.Stream{ID: 1, Frames: enginetest.Spec4(3, 64)})
	if !errors.Is(err, broken) || len(reports) != 1 || reports[0].Accepted != 2 {
		t.Errorf("%+v, %v", reports, err)
	}
	if err := tx.Close(); err != nil || b.open != 0 {
		t.Errorf("%d are left open: %v", b.open, err)
	}
	b.refuse = 2
	if _, err := crew.Open(t.Context(), b, []host.Port{{}}, []int{0, 1, 2}); !errors.Is(err, broken) || b.open != 0 {
		t.Errorf("%d are left open: %v", b.open, err)
	}
}

// failing is a backend whose sender on CPU 1 fails once the others are ready.
type failing struct {
	engine.Backend
	err    error
	open   int
	refuse int // the CPU whose sender does not open; 0: none
}

type failingSender struct {
	b   *failing
	cpu int
}

func (b *failing) OpenTransmitter(_ context.Context, _ []host.Port, cpu int) (engine.Transmitter, error) {
	if cpu > 0 && cpu == b.refuse {
		return nil, b.err
	}
	b.open++
	return &failingSender{b, cpu}, nil
}

func (s *failingSender) Close() error {
	s.b.open--
	return nil
}

func (s *failingSender) Transmit(ctx context.Context, l engine.Load, streams ...engine.Stream) ([]engine.TxReport, error) {
	if s.cpu == 1 { // before it is ready: nobody may wait for it
		return nil, s.b.err
	}
	l.Start.Ready(ctx.Done())
	<-ctx.Done()
	return []engine.TxReport{{Stream: streams[0].ID, Accepted: 1}}, ctx.Err()
}
