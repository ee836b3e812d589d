// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

func TestXDPCountsClose(t *testing.T) {
	a, b := enginetest.Pair(t)
	ctx := context.Background()
	x := New()
	m, err := x.OpenMeter(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tx, err := x.OpenTransmitter(ctx, []host.Port{a}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	const while = 50 * time.Millisecond
	for _, c := range []struct {
		name     string
		spec     frame.Spec
		load     engine.Load
		timing   bool
		intended uint64
	}{
		{"flat 64", enginetest.Spec4(1, 64), engine.Load{Duration: while}, false, 0},
		{"flat 1518", enginetest.Spec4(1, 1518), engine.Load{Duration: while}, false, 0},
		{"flat imix", enginetest.Spec4(100, frame.IMIX.Sizes...), engine.Load{Duration: while}, false, 0},
		{"flat ipv6", enginetest.Spec6(1000, 84), engine.Load{Duration: while}, false, 0},
		{"paced, a million flows", enginetest.Spec4(1_000_000, 64), engine.Load{Rate: 100e3, Duration: while}, true, 5000},
		{"counted", enginetest.Spec4(10, 64), engine.Load{Rate: 100e3, Count: 1001}, true, 1001},
		{"counted flat out", enginetest.Spec4(10, 64), engine.Load{Count: 100_003}, false, 100_003},
		{"count before duration", enginetest.Spec4(10, 64), engine.Load{Rate: 10e3, Count: 7, Duration: while}, false, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := m.Arm(ctx, c.timing, 7); err != nil {
				t.Fatal(err)
			}
			before := enginetest.Stats(t, a)
			reps, err := tx.Transmit(ctx, c.load, engine.Stream{ID: 7, Frames: c.spec})
			if err != nil {
				t.Fatal(err)
			}
			r, after := reps[0], before
			var s engine.RxReport
			// Once more after all have come: while they arrive the counts may be some frames apart.
			for begin, all := time.Now(), false; ; time.Sleep(time.Millisecond) {
				after, s = enginetest.Stats(t, a), enginetest.Read(t, m).Streams[0]
				if all || time.Since(begin) > time.Minute {
					break
				}
				all = s.Frames+after.TxDropped-before.TxDropped >= r.Accepted
			}
			if r.Accepted == 0 || r.Refused != 0 || r.Intended != c.intended {
				t.Errorf("sent %+v, want %d intended", r, c.intended)
			}
			if c.intended != 0 && r.Accepted+r.NotSent != r.Intended {
				t.Errorf("%d accepted and %d not sent are not %d intended", r.Accepted, r.NotSent, r.Intended)
			}
			// What the port did not take for want of room in the peer's ring, it counts.
			if dropped := after.TxDropped - before.TxDropped; s.Frames+dropped != r.Accepted {
				t.Errorf("%d received and %d dropped of %d", s.Frames, dropped, r.Accepted)
			}
			if s.Reordered+s.Duplicate+s.Broken != 0 {
				t.Errorf("received %+v", s)
			}
			if c.timing && s.Latency.Total() != s.Frames {
				t.Errorf("%d latencies of %d frames", s.Latency.Total(), s.Frames)
			}
		})
	}
}

// What the kernel refuses to redirect is refused, not accepted and lost.
func TestXDPRefusals(t *testing.T) {
	a, b := enginetest.Pair(t)
	ctx := context.Background()
	x := New()
	tx, err := x.OpenTransmitter(ctx, []host.Port{a}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	send := func(size unit.FrameSize) engine.TxReport {
		reps, err := tx.Transmit(ctx, engine.Load{Count: 1000}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, size)})
		if err != nil {
			t.Fatal(err)
		}
		return reps[0]
	}
	if r := send(64); r.Refused != 1000 || r.Accepted != 0 {
		t.Errorf("the peer has no XDP program: %+v", r)
	}
	if err := x.Probe(ctx, a); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("probe of a port whose peer takes no XDP frames says %v, want not supported", err)
	}
	if err := x.Probe(ctx, a, b); err != nil {
		t.Errorf("probe of both ends says %v", err)
	}
	if err := x.Probe(ctx, host.Port{Netns: a.Netns, Name: "lo"}); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("probe of lo says %v, want not supported", err)
	}
	m, err := x.OpenMeter(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	err = netns.Do(a.Netns, func() error {
		l, err := netlink.LinkByName("a")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(l, 1000)
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := send(1518); r.Refused != 1000 || r.Accepted != 0 {
		t.Errorf("a frame over the MTU: %+v", r)
	}
	if r := send(1000); r.Refused != 0 || r.Accepted != 1000 {
		t.Errorf("a frame within the MTU: %+v", r)
	}
}

func TestXDPBothWaysAtOnce(t *testing.T) {
	a, b := enginetest.Pair(t)
	ctx := context.Background()
	x := New()
	var meters [2]engine.Meter
	for i, p := range []host.Port{a, b} {
		m, err := x.OpenMeter(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		meters[i] = m
	}
	tx, err := x.OpenTransmitter(ctx, []host.Port{a, b}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	if err := errors.Join(meters[0].Arm(ctx, false, 2), meters[1].Arm(ctx, false, 1)); err != nil {
		t.Fatal(err)
	}
	reps, err := tx.Transmit(ctx, engine.Load{Rate: 50e3, Count: 2000},
		engine.Stream{ID: 1, Frames: enginetest.Spec4(5, 64), Lane: 0}, engine.Stream{ID: 2, Frames: enginetest.Spec4(1, 512), Lane: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range reps {
		got := enginetest.Settled(t, meters[1-i], 2000)
		if r.Accepted != 2000 || got.Streams[0].Frames != 2000 {
			t.Errorf("stream %d: %d accepted, %d received", r.Stream, r.Accepted, got.Streams[0].Frames)
		}
	}
}

func TestXDPStopsWithItsContext(t *testing.T) {
	a, b := enginetest.Pair(t)
	x := New()
	m, err := x.OpenMeter(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tx, err := x.OpenTransmitter(context.Background(), []host.Port{a}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	enginetest.Arm(t, m, false, 1)
	ctx := enginetest.UntilCounted(t, m)
	start := time.Now()
	reps, err := tx.Transmit(ctx, engine.Load{Rate: 1000, Duration: time.Minute}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)})
	if !errors.Is(err, context.Canceled) || time.Since(start) > 30*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	if len(reps) != 1 || reps[0].Accepted == 0 || reps[0].NotSent == 0 {
		t.Errorf("reports %+v", reps)
	}
}

// The sender in the kernel writes the octets that the builder in Go writes.
func TestSenderProgramWritesTheBuildersFrames(t *testing.T) {
	testutil.Privileged(t)
	answer := enginetest.Spec4(70_000, 64, 594)
	answer.Answer, answer.SrcPort, answer.DstPort = true, frame.Port, frame.FirstPort
	answer6 := enginetest.Spec6(70_000, 200, 84)
	answer6.Answer, answer6.SrcPort, answer6.DstPort = true, frame.Port, frame.FirstPort
	tagged := func(s frame.Spec) frame.Spec {
		s.VLAN = 100
		return s
	}
	for name, spec := range map[string]frame.Spec{
		"tagged": tagged(enginetest.Spec4(50_003, 68, 594)), "tagged6": tagged(enginetest.Networks(enginetest.Spec6(3, 88))),
		"ipv4": enginetest.Spec4(1, 64), "flows": enginetest.Spec4(50_003, 64), "imix": enginetest.Spec4(3, frame.IMIX.Sizes...),
		"ipv6": enginetest.Spec6(50_003, 84), "answer": answer, "answer6": answer6,
		"networks": enginetest.Networks(enginetest.Spec4(50_003, 64, 594)), "networks6": enginetest.Networks(enginetest.Spec6(3, 84)),
	} {
		t.Run(name, func(t *testing.T) {
			b, err := frame.NewBuilder(spec, 0xabcd)
			if err != nil {
				t.Fatal(err)
			}
			var lanes [maxLanes]senderLane
			longest := fillLane(&lanes[0], b, 1)
			mixed := shrink(lanes[:1], longest)
			p, err := senderKind{Pace{burst: 1}, spec.Src.Is6(), mixed, spec.Networks > 1, spec.VLAN > 0, 1}.load()
			if err != nil {
				t.Fatal(err)
			}
			defer p.Coll.Close()
			if err := errors.Join(p.Coll.Variables[senderVarLaneState].Set(&lanes), p.sched.Set(&senderSchedule{})); err != nil {
				t.Fatal(err)
			}
			dirty := make([]byte, longest)
			want := make([]byte, longest)
			for k := range uint64(50_100) {
				for i := range dirty[:min(longest, b.Layout.HeaderLen)] {
					dirty[i] = 0xee // as the DUT left the page
				}
				opts := ebpf.RunOptions{Data: dirty, DataOut: make([]byte, 2000)}
				if code, err := p.prog.Run(&opts); err != nil || code != 4 {
					t.Fatalf("frame %d: verdict %d, %v", k, code, err)
				}
				clear(want)
				n := b.Build(k, want)
				sig, _ := frame.Parse(opts.DataOut)
				b.Stamp(want, enginetest.StampOf(sig))
				if sig.Time == 0 || !bytes.Equal(opts.DataOut, want[:n]) {
					t.Fatalf("frame %d is\n% x, want\n% x", k, opts.DataOut, want[:n])
				}
			}
		})
	}
}
