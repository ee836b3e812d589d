// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"

	"github.com/vishvananda/netlink"
)

// settled reads a meter until it has counted n frames, or none come any more; once more
// then, for while frames arrive its counters may be some frames apart.
func settled(t testing.TB, m Meter, n uint64) MeterReport {
	t.Helper()
	for deadline, all := time.Now().Add(5*time.Second), false; ; time.Sleep(time.Millisecond) {
		r := readMeter(t, m)
		sum := r.Foreign + r.Drops
		for _, s := range r.Streams {
			sum += s.Frames + s.Broken
		}
		if all || time.Now().After(deadline) {
			return r
		}
		all = sum >= n
	}
}

// Behind a tag, a signature is found by every meter.
func TestMetersFindTaggedFrames(t *testing.T) {
	a, b := quiet(t)
	f := testFrame(t, testSpec(), 3, 5)
	once := bytes.Join([][]byte{f[:12], {0x81, 0, 0, 7}, f[12:]}, nil)
	twice := bytes.Join([][]byte{f[:12], {0x88, 0xa8, 0, 8, 0x81, 0, 0, 7}, f[12:]}, nil)
	thrice := bytes.Join([][]byte{f[:12], {0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3}, f[12:]}, nil)
	for _, backend := range []Backend{newXDP(), newGeneric(), newPacket()} {
		m, err := backend.OpenMeter(context.Background(), b)
		if err != nil {
			t.Fatal(err)
		}
		arm(t, m, false, 3)
		inject(t, a, f, once, twice, thrice)
		r := settled(t, m, 4)
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
	memory, err := Mem(MemConfig{Ceiling: 500e3})
	if err != nil {
		t.Fatal(err)
	}
	tx, rx := openOn(t, memory, []host.Port{{Name: MemLAN}}, host.Port{Name: MemWAN})
	type bed struct {
		tx Transmitter
		rx Meter
	}
	beds := map[string]bed{"mem": {tx, rx[0]}}
	for _, b := range []Backend{newXDP(), newPacket(), newAFXDP()} {
		from, to := quiet(t)
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
		for _, spec := range []frame.Spec{spec4(3, 64), spec6(3, 84)} {
			arm(t, b.rx, true, 3)
			// More than it can send, so that it falls behind.
			reps, err := b.tx.Transmit(context.Background(), Load{Rate: 20e6, Count: 300}, Stream{ID: 3, Frames: spec})
			if err != nil {
				t.Fatal(err)
			}
			r := settled(t, b.rx, 300).Streams[0]
			if s := reps[0]; r.Frames != 300 || s.Late == 0 || r.Late != s.Late || r.Broken != 0 || r.Latency.Quantile(1) > 1 {
				t.Errorf("%s: %d frames arrived, %d of them late; %d were; %+v", name, r.Frames, r.Late, s.Late, r)
			}
		}
	}
}

// A sink keeps foreign frames from the stack, and counts them as before.
func TestXDPSink(t *testing.T) {
	for _, backend := range []Backend{newXDP(), newGeneric()} {
		a, b := quiet(t)
		ctx := context.Background()
		m, err := backend.OpenMeter(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		stack, err := newPacket().OpenMeter(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		defer stack.Close()
		for _, timed := range []bool{false, true} {
			for _, sink := range []bool{true, false, true} {
				if err := m.(Sinker).Sink(sink); err != nil {
					t.Fatal(err)
				}
				arm(t, m, timed, 3)
				arm(t, stack, false)
				inject(t, a, testFrame(t, testSpec(), 3, 0), testFrame(t, testSpec(), 4, 0), make([]byte, 60))
				r := settled(t, m, 3)
				if r.Foreign != 2 || r.ForeignOctets != 128 || r.Streams[0].Frames != 1 || r.First == 0 || r.Last < r.First {
					t.Errorf("%s, sink %v: %+v", backend.Name(), sink, r)
				}
				want := uint64(2)
				if sink {
					want = 0
				}
				if got := readMeter(t, stack); got.Foreign != want {
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
	for _, backend := range []Backend{newXDP(), newGeneric(), newPacket(), newAFXDP()} {
		a, b := quiet(t)
		ctx := context.Background()
		m, err := backend.OpenMeter(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		stack, err := newPacket().OpenMeter(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		for _, screen := range []bool{false, true} {
			if screen {
				if err := m.(Screener).Screen(); err != nil {
					t.Fatal(err)
				}
			}
			arm(t, m, false, 3)
			arm(t, stack, false)
			inject(t, a, arp, testFrame(t, testSpec(), 3, 0), asks, testFrame(t, testSpec(), 4, 0))
			want, reach := uint64(3), uint64(3)
			if screen {
				want = 1
			}
			r := settled(t, m, want+1)
			_, sinks := m.(Sinker)
			switch {
			case !sinks:
				reach = 4
			case screen:
				reach = 2
			}
			if got := readMeter(t, stack); r.Foreign != want || r.Streams[0].Frames != 1 || got.Foreign != reach {
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
	a, b := quiet(t)
	ctx := context.Background()
	ids := make([]uint16, MaxStreams)
	for i := range ids {
		ids[i] = uint16(100 + i)
	}
	for _, backend := range []Backend{newXDP(), newGeneric(), newPacket()} {
		m, err := backend.OpenMeter(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		arm(t, m, true, ids...)
		last := make([]uint64, MaxStreams)
		const rounds, chunk = 12, 32
		for k := range rounds {
			var frames [][]byte
			for i := range chunk {
				n := k*chunk + i
				frames = append(frames, testFrame(t, testSpec(), ids[n%MaxStreams], uint64(n/MaxStreams)))
			}
			fromCPU0(t, a, frames...)
			r := readMeter(t, m)
			for i, s := range r.Streams {
				if s.Frames < last[i] {
					t.Fatalf("%s: stream %d fell from %d to %d frames", backend.Name(), s.Stream, last[i], s.Frames)
				}
				last[i] = s.Frames
			}
			settled(t, m, uint64((k+1)*chunk))
		}
		r := settled(t, m, rounds*chunk)
		for _, s := range r.Streams {
			const n = rounds * chunk / MaxStreams
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
	m, err := newXDP().OpenMeter(ctx, lo)
	if err == nil {
		m.Close()
		t.Skip("this kernel's loopback takes native XDP")
	}
	if !errors.Is(err, host.ErrNotSupported) {
		t.Fatalf("native XDP on the loopback: %v", err)
	}
	g := newGeneric()
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
	arm(t, m, true, 9)
	if _, err := tx.Transmit(ctx, Load{Count: 100, Rate: 10e3}, Stream{ID: 9, Frames: spec4(1, 64)}); err != nil {
		t.Fatal(err)
	}
	r := settled(t, m, 100)
	if s := r.Streams[0]; s.Frames != 100 || s.Span != 100 || s.Latency.Total() != 100 || !strings.Contains(r.Stamps, "generic XDP program") || g.Name() != "xdp/generic" {
		t.Errorf("%+v", r)
	}
}
