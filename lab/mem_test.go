// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"flag"
	"io"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/unit"
)

func buildMem(t *testing.T, args ...string) *Testbed {
	t.Helper()
	top := newMem()
	fs := flag.NewFlagSet("mem", flag.ContinueOnError)
	top.Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	tb, err := top.Build(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := tb.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return tb
}

// memTrial sends from one port to another, as a procedure does.
func memTrial(t *testing.T, tb *Testbed, from, to Port, l engine.Load) (engine.TxReport, engine.RxReport) {
	t.Helper()
	ctx := context.Background()
	tx, err := tb.Engine.OpenTransmitter(ctx, []host.Port{from.Port}, tb.TesterCPU)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	rx, err := tb.Engine.OpenMeter(ctx, to.Port)
	if err != nil {
		t.Fatal(err)
	}
	defer rx.Close()
	if err := rx.Arm(ctx, false, 1); err != nil {
		t.Fatal(err)
	}
	sent, err := tx.Transmit(ctx, l, engine.Stream{ID: 1, Frames: frame.Spec{
		Sizes: []unit.FrameSize{64}, Flows: 10, SrcMAC: from.MAC, DstMAC: from.GatewayMAC,
		Src: from.Addr4, Dst: to.Addr4, SrcPort: frame.FirstPort, DstPort: frame.Port,
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := rx.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return sent[0], got.Streams[0]
}

func TestMemTestbed(t *testing.T) {
	tb := buildMem(t, "-capacity", "50k", "-queue", "10", "-ceiling", "500k", "-link_rate", "1Gbps", "-loss_seed", "3")
	if tb.Kind != "memory" || tb.Placement != "" || tb.DUT != nil || len(tb.Ports) != 2 || len(tb.Loop) != 2 {
		t.Fatalf("%+v", tb)
	}
	for _, kv := range []result.Pair{{Key: "capacity", Value: "50000"}, {Key: "queue", Value: "10"}, {Key: "ceiling", Value: "500000"}, {Key: "link_rate", Value: "1.00 Gbit/s"}, {Key: "loss_seed", Value: "3"}, {Key: "mtu", Value: "1500"}} {
		if got := result.Get(tb.Settings, kv.Key); got != kv.Value {
			t.Errorf("setting %s is %q, want %q", kv.Key, got, kv.Value)
		}
	}
	for i, p := range append(tb.Ports, tb.Loop...) {
		if err := tb.Engine.Probe(context.Background(), p.Port); err != nil || p.Link != 1e9 || p.MTU != 1500 {
			t.Errorf("port %d: %v, %+v", i, err, p)
		}
	}

	// The DUT gives at its capacity, the wire of the self-test at the ceiling.
	sent, got := memTrial(t, tb, tb.Ports[0], tb.Ports[1], engine.Load{Duration: 100 * time.Millisecond})
	if sent.Accepted != 50_000 || got.Frames < 5_009 || got.Frames > 5_010 {
		t.Errorf("sent %d, received %d", sent.Accepted, got.Frames)
	}
	sent, got = memTrial(t, tb, tb.Loop[1], tb.Loop[0], engine.Load{Duration: 100 * time.Millisecond})
	if sent.Accepted != 50_000 || got.Frames != 50_000 {
		t.Errorf("loop: sent %d, received %d", sent.Accepted, got.Frames)
	}
	if n := memTerm(t, tb, result.DUTNIC); n < 44_990 || n > 44_991 {
		t.Errorf("queue full %d times", n)
	}
}

func memTerm(t *testing.T, tb *Testbed, p result.Place) (n int64) {
	t.Helper()
	for _, s := range tb.Sources {
		terms, err := s.Count(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, term := range terms {
			if term.Place == p {
				n += term.N
			}
		}
	}
	return n
}

func TestMemServes(t *testing.T) {
	tb := buildMem(t)
	ctx := context.Background()
	for _, c := range []struct {
		kind  string
		place result.Place
	}{{"drop-xdp", result.XDP}, {"drop-tc", result.TC}, {"drop-nft", result.NFT}, {"route", ""}} {
		if err := tb.Serve(ctx, Service{Kind: c.kind}); err != nil {
			t.Fatal(err)
		}
		sent, got := memTrial(t, tb, tb.Ports[1], tb.Ports[0], engine.Load{Rate: 100e3, Count: 500})
		want := uint64(500)
		if c.place != "" {
			want = 0
			if n := memTerm(t, tb, c.place); n != 500 {
				t.Errorf("%s: %d frames dropped at %s", c.kind, n, c.place)
			}
		}
		if sent.Accepted != 500 || got.Frames != want {
			t.Errorf("%s: sent %d, received %d", c.kind, sent.Accepted, got.Frames)
		}
	}
	if err := tb.Serve(ctx, Service{Kind: "nat"}); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("nat: %v", err)
	}
}

func TestMemPaths(t *testing.T) {
	tb := buildMem(t)
	for _, c := range []struct {
		from, to int
		loop     bool
		name     string
		places   []result.Place
	}{
		{0, 1, false, "lan-to-wan", []result.Place{result.Tester, result.DUTNIC, result.DUTNIC, result.MeterAt}},
		{1, 0, false, "wan-to-lan", []result.Place{result.Tester, result.DUTNIC, result.DUTNIC, result.MeterAt}},
		{0, 1, true, "loop-a-to-loop-b", []result.Place{result.Tester, result.MeterAt}},
	} {
		p := tb.Path(c.from, c.to, c.loop)
		if p.Name != c.name || len(p.Hops) != len(c.places) {
			t.Fatalf("%+v", p)
		}
		for i, h := range p.Hops {
			if h.Place != c.places[i] || h.Host != nil {
				t.Errorf("%s: hop %d is %+v", c.name, i, h)
			}
		}
		ports := tb.Ports
		if c.loop {
			ports = tb.Loop
		}
		if p.Hops[0].Port != ports[c.from].Port || p.Hops[len(p.Hops)-1].Port != ports[c.to].Port {
			t.Errorf("%s ends at %v and %v", c.name, p.Hops[0].Port, p.Hops[len(p.Hops)-1].Port)
		}
	}
}

func TestMemRefuses(t *testing.T) {
	for _, args := range [][]string{{"-capacity", "-5"}, {"-ceiling", "fast"}, {"-mtu", "1"}, {"-link_rate", "0"}} {
		fs := flag.NewFlagSet("mem", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		newMem().Flags(fs)
		if err := fs.Parse(args); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
	top := newMem().(*mem)
	top.cfg.Loss = 2
	if _, err := top.Build(context.Background()); err == nil {
		t.Error("a loss of 2 was taken")
	}
}
