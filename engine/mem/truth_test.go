// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"context"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/unit"

	"pgregory.net/rapid"
)

// truth is what a meter must count of stream i of n, whose frames were sent in
// turn, by the definitions and from what the wire says arrived.
func truth(arrivals []Arrival, i, n uint64) (want engine.RxReport) {
	seen := map[uint64]bool{}
	highest := uint64(0)
	for _, a := range arrivals {
		if a.N%n != i {
			continue
		}
		k := a.N / n
		want.Frames++
		want.Octets += uint64(a.Octets + unit.FCS)
		switch {
		case seen[k]:
			want.Duplicate++
		case k < highest:
			want.Reordered++
		}
		seen[k] = true
		highest = max(highest, k)
	}
	return want
}

// Wires that lose, double and hold back frames at random, by a seed: the meter
// counts what the wire did.
func TestMemMeterAgainstTruth(t *testing.T) {
	ratio := rapid.SampledFrom([]float64{0, 0.001, 0.1, 0.5, 1})
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, Config{
			Seed: rapid.Uint64().Draw(t, "seed"), Trace: true,
			Loss: unit.LossRatio(ratio.Draw(t, "loss")), Duplicate: ratio.Draw(t, "duplicate"), Reorder: ratio.Draw(t, "reorder"),
			LoseEvery: uint64(rapid.IntRange(0, 9).Draw(t, "lose every")), DuplicateEvery: uint64(rapid.IntRange(0, 9).Draw(t, "duplicate every")),
			ReorderEvery: uint64(rapid.IntRange(0, 9).Draw(t, "reorder every")), ReorderDepth: rapid.IntRange(0, 300).Draw(t, "depth"),
		})
		ctx := context.Background()
		n := rapid.Uint64Range(1, 3).Draw(t, "streams")
		var streams []engine.Stream
		var ids []uint16
		for i := range n {
			ids = append(ids, uint16(100+i))
			streams = append(streams, engine.Stream{ID: ids[i], Frames: enginetest.Spec4(3, 64, 1518)})
		}
		if err := r.wan.Arm(ctx, rapid.Bool().Draw(t, "timing"), ids...); err != nil {
			t.Fatal(err)
		}
		reps, err := r.tx.Transmit(ctx, engine.Load{Rate: 10e3, Count: rapid.Uint64Range(1, 2000).Draw(t, "count")}, streams...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.wan.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		arrivals, err := r.Arrivals(host.Port{Name: LAN})
		if err != nil {
			t.Fatal(err)
		}
		sent, lost := int64(0), int64(0)
		for i := range n {
			want, have := truth(arrivals, i, n), got.Streams[i]
			if have.Frames != want.Frames || have.Octets != want.Octets || have.Duplicate != want.Duplicate || have.Reordered != want.Reordered || have.Broken != 0 {
				t.Fatalf("stream %d: %+v, want %+v", i, have, want)
			}
			sent += int64(reps[i].Accepted)
			lost += int64(reps[i].Accepted) - int64(want.Frames-want.Duplicate)
		}
		terms := r.terms(t)
		if terms["lan link lost on purpose"] != lost || -terms["lan link duplicated on purpose"] != int64(len(arrivals))-(sent-lost) || got.Foreign != 0 {
			t.Fatalf("%v; lost %d of %d, %d arrived", terms, lost, sent, len(arrivals))
		}
	})
}

// varied is a source of signed frames of two classes, with fields and addresses
// of the pass.
func varied(t testing.TB, frames int) *enginetest.ListSource {
	t.Helper()
	b, err := frame.NewBuilder(enginetest.Spec4(1, 128), 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &enginetest.ListSource{Declared: frame.Shape{
		Classes: []string{"benign", "flood"}, Timed: true,
		Draws: []frame.Draw{{Class: 0, Kind: frame.Counter, Count: 7}, {Class: 1, Kind: frame.Random}, {Class: 0, Kind: frame.List, List: []uint32{53, 80, 443}}},
		Fields: []frame.Field{
			{Class: 0, Draw: 0, Base: frame.AtL4, Width: 2, From: 1000},
			{Class: 0, Draw: 2, Base: frame.AtL4, Offset: 2, Width: 2},
			{Class: 1, Draw: 1, Base: frame.AtL3, Offset: 12, Width: 4, Sums: frame.SumsIP | frame.SumsL4},
		},
	}}
	for k := range frames {
		buf := make([]byte, 124)
		b.Build(0, buf)
		class := uint8(k % 3 / 2)
		buf[b.Layout.Signature+5] = class // magic 4, stream 2
		s.Frames = append(s.Frames, buf)
		s.Entries = append(s.Entries, frame.Entry{
			At: uint64(k) * 10_000, Class: class, Flags: frame.IPv4 | frame.SumUDP | frame.Rewrite, L3: 14, L4: 34, Sig: uint16(b.Layout.Signature),
		})
	}
	return s
}

// A source through the memory backend: each class is a stream of its own, at the
// times that the source has, pass after pass.
func TestMemSource(t *testing.T) {
	for _, silent := range []bool{false, true} {
		r := newRig(t, Config{})
		ctx := context.Background()
		src := varied(t, 300)
		src.Silent = silent
		if err := r.wan.Arm(ctx, true, 40, 41); err != nil {
			t.Fatal(err)
		}
		reps, err := r.tx.Transmit(ctx, engine.Load{Speed: 2, Passes: 4, Unique: true, Seed: 3, Gaps: true}, engine.Stream{ID: 40, Source: src})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := r.wan.Read(ctx)
		s := reps[0]
		if s.Accepted != 1200 || s.Intended != 1200 || s.NotSent != 0 || s.Passes != 4 || s.Octets != 1200*128 || s.Late != 0 {
			t.Errorf("%+v", s)
		}
		// A frame in 5 us, also from pass to pass.
		if s.Last-s.First != 1199*5000 || s.GapErrors.Quantile(1) > 2e-9 || s.Gaps.Total() != 1199 {
			t.Errorf("sent in %d ns, gap errors %+v", s.Last-s.First, s.GapErrors)
		}
		enginetest.Near(t, "offered", s.Offered, 200e3, 1e-6)
		if a, b := got.Streams[0], got.Streams[1]; a.Frames != 800 || b.Frames != 400 || a.Reordered+b.Reordered+a.Broken+b.Broken+got.Foreign != 0 {
			t.Errorf("%+v", got)
		}
	}
}

func TestMemSourceLoads(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		l                         engine.Load
		accepted, passes, notSent uint64
	}{
		{engine.Load{Count: 750}, 750, 2, 0},
		{engine.Load{Passes: 2}, 600, 2, 0},
		{engine.Load{Rate: 100e3, Duration: time.Millisecond}, 100, 0, 0},
		{engine.Load{Rate: 100e3, Duration: time.Second, Passes: 1}, 300, 1, 0},
		{engine.Load{Bits: 1024e3, Duration: 100 * time.Millisecond}, 100, 0, 0},         // 1 ms a frame
		{engine.Load{Bits: 2048e6, Duration: 100 * time.Millisecond}, 100_000, 333, 1e5}, // twice the ceiling
		{engine.Load{Speed: 1, Duration: 10 * time.Millisecond}, 1000, 3, 0},
		{engine.Load{Rate: 1e5, Pattern: engine.Bursts, Burst: 50, Count: 120}, 120, 0, 0},
		{engine.Load{Rate: 1e5, Pattern: engine.Poisson, Duration: 10 * time.Millisecond}, 1000, 3, 0},
	} {
		r := newRig(t, Config{})
		reps, err := r.tx.Transmit(ctx, c.l, engine.Stream{ID: 1, Source: varied(t, 300)})
		if err != nil {
			t.Fatal(err)
		}
		if s := reps[0]; s.Accepted != c.accepted || s.Passes != c.passes || s.NotSent != c.notSent || s.Octets != 128*c.accepted {
			t.Errorf("%+v: %+v", c.l, s)
		}
	}
	r := newRig(t, Config{})
	if _, err := r.tx.Transmit(ctx, engine.Load{Count: 100}, engine.Stream{ID: 1, Source: &enginetest.FakeSource{Frames: 10, Each: 4, Fails: 3}}); err == nil {
		t.Error("a source that broke off")
	}
}
