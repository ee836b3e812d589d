// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/afxdp"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/mem"
	"boxdyno/engine/packet"
	"boxdyno/engine/xdp"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"

	"github.com/vishvananda/netlink"
)

// Behind a tag, a signature is found by every meter.
func TestMetersFindTaggedFrames(t *testing.T) {
	a, b := enginetest.Quiet(t)
	f := enginetest.Frame(t, enginetest.Spec(), 3, 5)
	once := bytes.Join([][]byte{f[:12], {0x81, 0, 0, 7}, f[12:]}, nil)
	twice := bytes.Join([][]byte{f[:12], {0x88, 0xa8, 0, 8, 0x81, 0, 0, 7}, f[12:]}, nil)
	thrice := bytes.Join([][]byte{f[:12], {0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3}, f[12:]}, nil)
	for _, backend := range []engine.Backend{xdp.New(), xdp.NewGeneric(), packet.New()} {
		m, err := backend.OpenMeter(context.Background(), b)
		if err != nil {
			t.Fatal(err)
		}
		enginetest.Arm(t, m, false, 3)
		enginetest.Inject(t, a, f, once, twice, thrice)
		r := enginetest.Settled(t, m, 4)
		if s := r.Streams[0]; s.Frames != 3 || s.Octets != 64+68+72 || s.Duplicate != 2 || s.Span != 6 || r.Foreign != 1 || r.ForeignOctets != 76 {
			t.Errorf("%s: %+v", backend.Name(), r)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What a sender counts as late its meter finds marked, frame by frame.
func TestLateFramesAreMarked(t *testing.T) {
	memory, err := mem.New(mem.Config{Ceiling: 500e3})
	if err != nil {
		t.Fatal(err)
	}
	tx, rx := enginetest.Open(t, memory, []host.Port{{Name: mem.LAN}}, host.Port{Name: mem.WAN})
	type bed struct {
		tx engine.Transmitter
		rx engine.Meter
	}
	beds := map[string]bed{"mem": {tx, rx[0]}}
	for _, b := range []engine.Backend{xdp.New(), packet.New(), afxdp.New()} {
		from, to := enginetest.Quiet(t)
		m, err := b.OpenMeter(context.Background(), to)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		tx, err := b.OpenTransmitter(context.Background(), []host.Port{from}, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Close()
		beds[b.Name()] = bed{tx, m}
	}
	for name, b := range beds {
		for _, spec := range []frame.Spec{enginetest.Spec4(3, 64), enginetest.Spec6(3, 84)} {
			enginetest.Arm(t, b.rx, true, 3)
			// More than it can send, so that it falls behind.
			reps, err := b.tx.Transmit(context.Background(), engine.Load{Rate: 20e6, Count: 300}, engine.Stream{ID: 3, Frames: spec})
			if err != nil {
				t.Fatal(err)
			}
			r := enginetest.Settled(t, b.rx, 300).Streams[0]
			if s := reps[0]; r.Frames != 300 || s.Late == 0 || r.Late != s.Late || r.Broken != 0 || r.Latency.Quantile(1) > 1 {
				t.Errorf("%s: %d frames arrived, %d of them late; %d were; %+v", name, r.Frames, r.Late, s.Late, r)
			}
		}
	}
}

// A sink keeps foreign frames from the stack, and counts them as before.
func TestXDPSink(t *testing.T) {
	for _, backend := range []engine.Backend{xdp.New(), xdp.NewGeneric()} {
		a, b := enginetest.Quiet(t)
		ctx := context.Background()
		m, err := backend.OpenMeter(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		stack, err := packet.New().OpenMeter(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		defer stack.Close()
		for _, timed := range []bool{false, true} {
			for _, sink := range []bool{true, false, true} {
				if err := m.(engine.Sinker).Sink(sink); err != nil {
					t.Fatal(err)
				}
				enginetest.Arm(t, m, timed, 3)
				enginetest.Arm(t, stack, false)
				enginetest.Inject(t, a, enginetest.Frame(t, enginetest.Spec(), 3, 0), enginetest.Frame(t, enginetest.Spec(), 4, 0), make([]byte, 60))
				r := enginetest.Settled(t, m, 3)
				if r.Foreign != 2 || r.ForeignOctets != 128 || r.Streams[0].Frames != 1 || r.First == 0 || r.Last < r.First {
					t.Errorf("%s, sink %v: %+v", backend.Name(), sink, r)
				}
				want := uint64(2)
				if sink {
					want = 0
				}
				if got := enginetest.Read(t, stack); got.Foreign != want {
					t.Errorf("%s, timed %v, sink %v: %d frames reached the stack, want %d", backend.Name(), timed, sink, got.Foreign, want)
				}
			}
		}
	}
}

// A meter that screens leaves frames of neighbours to the stack, and counts none of them.
func TestScreen(t *testing.T) {
	arp := append(append(make([]byte, 12), 0x08, 0x06), make([]byte, 46)...)
	asks := append(append(make([]byte, 12), 0x86, 0xdd), make([]byte, 64)...)
	asks[14], asks[20], asks[54] = 0x60, 58, 135
	virtual := arp[:42] // as it leaves a veth
	groups := append(append(make([]byte, 12), 0x86, 0xdd), make([]byte, 96)...)
	groups[14], groups[54], groups[62] = 0x60, 58, 143
	for _, backend := range []engine.Backend{xdp.New(), xdp.NewGeneric(), packet.New(), afxdp.New()} {
		a, b := enginetest.Quiet(t)
		ctx := context.Background()
		m, err := backend.OpenMeter(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		stack, err := packet.New().OpenMeter(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		for _, screen := range []bool{false, true} {
			if screen {
				if err := m.(engine.Screener).Screen(); err != nil {
					t.Fatal(err)
				}
			}
			enginetest.Arm(t, m, false, 3)
			enginetest.Arm(t, stack, false)
			enginetest.Inject(t, a, arp, enginetest.Frame(t, enginetest.Spec(), 3, 0), asks, groups, virtual, enginetest.Frame(t, enginetest.Spec(), 4, 0))
			want, reach := uint64(5), uint64(5)
			if screen {
				want = 1
			}
			r := enginetest.Settled(t, m, want+1)
			_, sinks := m.(engine.Sinker)
			switch {
			case !sinks:
				reach = 6
			case screen:
				reach = 4
			}
			if got := enginetest.Read(t, stack); r.Foreign != want || r.Streams[0].Frames != 1 || got.Foreign != reach {
				t.Errorf("%s, screens %v: %+v, and %d frames reached the stack, want %d", backend.Name(), screen, r, got.Foreign, reach)
			}
		}
		if err := errors.Join(stack.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Reading while frames arrive changes nothing of what is counted.
func TestReadingDoesNotDisturb(t *testing.T) {
	testutil.Alone(t)
	a, b := enginetest.Quiet(t)
	ctx := context.Background()
	ids := make([]uint16, engine.MaxStreams)
	for i := range ids {
		ids[i] = uint16(100 + i)
	}
	for _, backend := range []engine.Backend{xdp.New(), xdp.NewGeneric(), packet.New()} {
		m, err := backend.OpenMeter(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		enginetest.Arm(t, m, true, ids...)
		last := make([]uint64, engine.MaxStreams)
		const rounds, chunk = 12, 32
		for k := range rounds {
			var frames [][]byte
			for i := range chunk {
				n := k*chunk + i
				frames = append(frames, enginetest.Frame(t, enginetest.Spec(), ids[n%engine.MaxStreams], uint64(n/engine.MaxStreams)))
			}
			enginetest.FromCPU0(t, a, frames...)
			r := enginetest.Read(t, m)
			for i, s := range r.Streams {
				if s.Frames < last[i] {
					t.Fatalf("%s: stream %d fell from %d to %d frames", backend.Name(), s.Stream, last[i], s.Frames)
				}
				last[i] = s.Frames
			}
			enginetest.Settled(t, m, uint64((k+1)*chunk))
		}
		r := enginetest.Settled(t, m, rounds*chunk)
		for _, s := range r.Streams {
			const n = rounds * chunk / engine.MaxStreams
			var inBursts float64
			for i, upper := range s.Bursts.Upper { // exact below 32
				inBursts += upper * float64(s.Bursts.Count[i])
			}
			if s.Frames != n || s.Span != n || s.Reordered+s.Duplicate+s.Broken != 0 || s.Gaps.Total() != n-1 || s.IPDV.Total() != 0 || s.Latency.Total() != 0 || inBursts != n {
				t.Errorf("%s: %+v, %v frames in bursts", backend.Name(), s, inBursts)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Where native XDP is refused, as on the loopback, the generic meter counts.
func TestGenericMeterWhereNativeIsRefused(t *testing.T) {
	testutil.Privileged(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	lo := host.Port{Netns: ns.Path(), Name: "lo"}
	if err := netns.Do(ns.Path(), func() error {
		l, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	}); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	m, err := xdp.New().OpenMeter(ctx, lo)
	if err == nil {
		m.Close()
		t.Skip("this kernel's loopback takes native XDP")
	}
	if !errors.Is(err, host.ErrNotSupported) {
		t.Fatalf("native XDP on the loopback: %v", err)
	}
	g := xdp.NewGeneric()
	if err := g.Probe(ctx, lo); err != nil {
		t.Fatal(err)
	}
	if m, err = g.OpenMeter(ctx, lo); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tx, err := g.OpenTransmitter(ctx, []host.Port{lo}, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	enginetest.Arm(t, m, true, 9)
	if _, err := tx.Transmit(ctx, engine.Load{Count: 100, Rate: 10e3}, engine.Stream{ID: 9, Frames: enginetest.Spec4(1, 64)}); err != nil {
		t.Fatal(err)
	}
	r := enginetest.Settled(t, m, 100)
	if s := r.Streams[0]; s.Frames != 100 || s.Span != 100 || s.Latency.Total() != 100 || !strings.Contains(r.Stamps, "generic XDP program") || g.Name() != "xdp/generic" {
		t.Errorf("%+v", r)
	}
}
