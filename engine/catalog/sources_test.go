// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/afxdp"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/mem"
	"boxdyno/engine/packet"
	"boxdyno/engine/xdp"
	"boxdyno/frame"
	"boxdyno/host"
)

// Only signed frames use up their class's sequence numbers: a meter that sees all
// of them misses none.
func TestMixedClassHasNoHoles(t *testing.T) {
	from, to := enginetest.Quiet(t)
	ctx := context.Background()
	for _, b := range []engine.Backend{xdp.New(), afxdp.New(), packet.New()} {
		m, err := b.OpenMeter(ctx, to)
		if err != nil {
			t.Fatal(err)
		}
		enginetest.Arm(t, m, false, 5)
		tx, err := b.OpenTransmitter(ctx, []host.Port{from}, -1)
		if err != nil {
			t.Fatal(err)
		}
		s := enginetest.PlainSource(3, 0, 60)
		s.Frames[1] = enginetest.Frame(t, enginetest.Spec(), 0, 0)
		s.Entries[1] = frame.Entry{Flags: frame.IPv4 | frame.SumUDP, L3: 14, L4: 34, Sig: 42}
		if _, err := tx.Transmit(ctx, engine.Load{Rate: 10e3, Passes: 20}, engine.Stream{ID: 5, Source: s}); err != nil {
			t.Fatal(err)
		}
		if r := enginetest.Settled(t, m, 60).Streams[0]; r.Frames != 20 || r.Span != 20 {
			t.Errorf("%s: %d frames of %d sequence numbers, want 20 of 20", b.Name(), r.Frames, r.Span)
		}
		tx.Close()
		m.Close()
	}
}

// A pass is complete with its last frame, whatever comes after it.
func TestPassesComplete(t *testing.T) {
	from, _ := enginetest.Quiet(t)
	memory, err := mem.New(mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []engine.Backend{xdp.New(), afxdp.New(), packet.New(), memory} {
		if b == engine.Backend(memory) {
			from = host.Port{Name: mem.LAN}
		}
		tx, err := b.OpenTransmitter(context.Background(), []host.Port{from}, -1)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			load engine.Load
			want uint64
		}{{engine.Load{Count: 299}, 2}, {engine.Load{Count: 300}, 3}, {engine.Load{Count: 301}, 3}, {engine.Load{Passes: 3}, 3}, {engine.Load{Rate: 1e5, Count: 300}, 3}} {
			for _, silent := range []bool{false, true} {
				s := enginetest.PlainSource(100, 0, 60)
				s.Silent = silent
				reps, err := tx.Transmit(context.Background(), c.load, engine.Stream{ID: 1, Source: s})
				if err != nil || reps[0].Passes != c.want {
					t.Errorf("%s, %+v: %d passes, want %d; %v", b.Name(), c.load, reps[0].Passes, c.want, err)
				}
			}
		}
		if err := tx.Close(); err != nil {
			t.Error(err)
		}
	}
}
