// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"net/netip"
	"slices"
	"testing"

	"boxdyno/engine/internal/enginetest"
	"boxdyno/frame"
	"boxdyno/unit"

	"pgregory.net/rapid"
)

func TestTrackerAgainstTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Streams start anywhere: the 32 bits wrap in many of them.
		n := rapid.Uint64Range(1<<33-20_000, 1<<33+20_000).Draw(t, "start")
		step := rapid.OneOf(
			rapid.Just(int64(1)),              // in order
			rapid.Int64Range(-3, 3),           // duplicates, neighbours swapped, small gaps
			rapid.Int64Range(-200, 200),       // over a few words
			rapid.Int64Range(-8200, 8200),     // to the window's end
			rapid.Int64Range(-40_000, 40_000), // beyond it
			rapid.SampledFrom([]int64{-8193, -8192, -8191, -64, -63, 63, 64, 65, 8191, 8192, 8193}),
		)
		var fast tracker
		var slow enginetest.PlainTracker
		for range rapid.SampledFrom([]int{0, 100, 8192, 9000}).Draw(t, "run before") { // a full window shows what is not forgotten
			fast.order(uint32(n), 0, 0)
			slow.Order(n)
			n++
		}
		for _, d := range rapid.SliceOfN(step, 1, 400).Draw(t, "steps") {
			fast.order(uint32(n), 0, 0)
			slow.Order(n)
			if fast.reordered != slow.Reordered || fast.duplicate != slow.Duplicate || uint32(fast.next) != uint32(slow.Next) {
				t.Fatalf("after %d: reordered %d, duplicate %d, next %d; the twin has %d, %d, %d",
					n, fast.reordered, fast.duplicate, uint32(fast.next), slow.Reordered, slow.Duplicate, uint32(slow.Next))
			}
			n = max(n+uint64(d), 1<<32)
		}
	})
}

func TestTrackerTimes(t *testing.T) {
	tr := tracker{timing: new(Timing)}
	for i, f := range []struct{ sent, at unit.Instant }{{100, 110}, {200, 1200}, {0, 2200}, {9000, 3200}} {
		tr.whole(frame.Signature{Sequence: uint32(i), Time: f.sent}, 64, f.at)
	}
	tr.whole(frame.Signature{Sequence: 3, Time: 9000}, 64, 3200)
	r := tr.report(7)
	if r.Stream != 7 || r.Frames != 5 || r.Octets != 320 || r.Duplicate != 1 || r.First != 110 || r.Last != 3200 {
		t.Errorf("%+v", r)
	}
	if want := unit.FrameRate(4 / 3090e-9); r.Rate < want*0.999 || r.Rate > want*1.001 {
		t.Errorf("rate %v, want %v", r.Rate, want)
	}
	// Latencies: 10, 1000, none without a stamp, and twice below zero.
	if h := r.Latency; h.Total() != 4 || h.Count[0] != 2 || h.Upper[0] != 0 || h.Upper[1] != 10e-9 || h.Upper[2] != 1023e-9 {
		t.Errorf("latency %+v", h)
	}
	// In sequence 0, 1 with latencies of 10 and 1000; 3 comes after one without a stamp, and twice.
	if h := r.IPDV; h.Total() != 1 || h.Upper[0] != 991e-9 {
		t.Errorf("IPDV %+v", h)
	}
	// 1090, 1000, 1000 and 0 apart: one burst of all.
	if h := r.Bursts; h.Total() != 1 || h.Upper[0] != 5 {
		t.Errorf("bursts %+v", h)
	}
	if h := r.Gaps; h.Total() != 4 || h.Upper[0] != 0 || h.Upper[1] != 1023e-9 || h.Upper[2] != 1151e-9 || h.Count[1] != 2 {
		t.Errorf("gaps %+v", h)
	}
	tr.whole(frame.Signature{Sequence: 4}, 64, 5199) // 1999 behind
	tr.whole(frame.Signature{Sequence: 5}, 64, 7199) // 2000: the next burst
	tr.whole(frame.Signature{Sequence: 6}, 64, 9999)
	if h := tr.report(7).Bursts; !slices.Equal(h.Upper, []float64{1, 6}) || !slices.Equal(h.Count, []uint64{2, 1}) {
		t.Errorf("bursts %+v", h)
	}
	if r := new(tracker).report(0); r.Latency != nil || r.Gaps != nil || r.Rate != 0 {
		t.Errorf("nothing seen: %+v", r)
	}
}

func TestTallyTellsFramesApart(t *testing.T) {
	tl := New(false, []uint16{3, 9})
	ours := enginetest.Frame(t, enginetest.Spec(), 9, 0)
	tl.Arrive(ours, 1)
	tl.Arrive(append(ours, 0), 2)                                    // one octet too many
	tl.Arrive(enginetest.Frame(t, enginetest.Spec(), 4, 0), 3)       // not armed
	tl.Arrive(make([]byte, 60), 4)                                   // no signature
	tl.Arrive(enginetest.Frame(t, enginetest.Spec(), 3, 1<<32|5), 5) // the number's low half
	r := tl.Report(2, "")
	if r.Foreign != 2 || r.Drops != 2 || len(r.Streams) != 2 {
		t.Fatalf("%+v", r)
	}
	if s := r.Streams[0]; s.Stream != 3 || s.Frames != 1 || s.Broken != 0 {
		t.Errorf("%+v", s)
	}
	if s := r.Streams[1]; s.Stream != 9 || s.Frames != 1 || s.Octets != 64 || s.Broken != 1 || s.First != 1 || s.Last != 1 {
		t.Errorf("%+v", s)
	}
}

// FuzzTally gives the meter's path any octets: each frame is counted once.
func FuzzTally(f *testing.F) {
	f.Add([]byte{}, int64(0))
	f.Add(enginetest.Frame(f, enginetest.Spec(), 1, 0), int64(5))
	spec := enginetest.Spec()
	spec.Sizes[0], spec.Src, spec.Dst = 84, netip.MustParseAddr("2001:2::1"), netip.MustParseAddr("2001:2:0:1::1")
	f.Add(enginetest.Frame(f, spec, 1, 77), int64(-1))
	tl := New(true, []uint16{1, 2})
	var n uint64
	f.Fuzz(func(t *testing.T, buf []byte, at int64) {
		n++
		tl.Arrive(buf, unit.Instant(at))
		r := tl.Report(0, "")
		sum := r.Foreign
		for _, s := range r.Streams {
			sum += s.Frames + s.Broken
			if s.Duplicate+s.Reordered > s.Frames || (s.Frames > 0 && (s.Gaps.Total() != s.Frames-1 || s.Latency.Total() > s.Frames || s.IPDV.Total() >= s.Frames)) {
				t.Fatalf("%+v", s)
			}
		}
		if sum != n {
			t.Fatalf("%d frames, %d counted", n, sum)
		}
	})
}

func BenchmarkTracker(b *testing.B) {
	for name, tr := range map[string]*tracker{"count": {}, "timing": {timing: new(Timing)}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				tr.whole(frame.Signature{Sequence: uint32(i), Time: unit.Instant(i)}, 64, unit.Instant(i+300))
			}
		})
	}
}
