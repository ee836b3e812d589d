// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"cmp"
	"slices"
	"testing"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/unit"

	"pgregory.net/rapid"
)

// The runs of a sender that is started anew are told apart, and each is counted
// right, over a way that loses, doubles and holds back frames.
func TestRunsOfASender(t *testing.T) {
	// A queue tells a run by a number that is lower than one of the run before: two
	// frames of each run come to each queue in time.
	const certain = 6
	rapid.Check(t, func(t *rapid.T) {
		queues := rapid.IntRange(1, 3).Draw(t, "queues")
		trackers := make([]tracker, queues)
		clock, arrival := unit.Instant(rapid.Int64Range(1e13, 1<<50).Draw(t, "uptime")), unit.Instant(1e9)
		var want []engine.RxRun
		for range rapid.IntRange(1, 5).Draw(t, "runs") {
			if rapid.IntRange(0, 3).Draw(t, "another machine") == 0 {
				clock -= unit.Instant(rapid.Int64Range(2e9, 1e12).Draw(t, "less uptime"))
			}
			clock += 1e6
			arrival += 1e9 // that a sender takes to start
			lost := rapid.SliceOfNDistinct(rapid.Uint64Range(certain, 400), 0, 50, rapid.ID).Draw(t, "lost")
			doubled := rapid.SliceOfN(rapid.Uint64Range(0, 400), 0, 20).Draw(t, "doubled")
			held := rapid.SliceOfN(rapid.Uint64Range(certain, 400), 0, 20).Draw(t, "held back")
			type sent struct {
				n    uint64
				time unit.Instant
				slot int
			}
			var way []sent
			total := rapid.Uint64Range(certain, 400).Draw(t, "frames")
			for n := range total {
				if n%64 == 0 || rapid.Bool().Draw(t, "clock read") { // flat out it is read seldom
					clock += unit.Instant(rapid.Int64Range(1, 1e6).Draw(t, "gap"))
				}
				if slices.Contains(lost, n) {
					continue
				}
				s := sent{n, clock, int(n) * 10}
				if slices.Contains(held, n) {
					s.slot += rapid.IntRange(1, 3000).Draw(t, "late by")
				}
				way = append(way, s)
				if slices.Contains(doubled, n) {
					s.slot += rapid.IntRange(1, 3000).Draw(t, "again after")
					way = append(way, s)
				}
			}
			slices.SortStableFunc(way, func(a, b sent) int { return cmp.Compare(a.slot, b.slot) })
			run, seen := engine.RxRun{}, map[uint64]bool{}
			for _, s := range way {
				arrival += 1000
				trackers[s.n%uint64(queues)].whole(frame.Signature{Sequence: uint32(s.n), Time: s.time}, 64, arrival)
				run.Frames++
				run.Span = max(run.Span, s.n+1)
				if seen[s.n] {
					run.Duplicate++
				}
				seen[s.n] = true
			}
			want = append(want, run)
		}
		var all [][]engine.RxRun
		for i := range trackers {
			all = append(all, trackers[i].report(0).Runs)
		}
		got := JoinRuns(all...)
		if len(got) != len(want) {
			t.Fatalf("%d runs, want %d: %+v\n%+v", len(got), len(want), got, want)
		}
		for i, r := range got {
			if w := want[i]; r.Frames != w.Frames || r.Octets != 64*w.Frames || r.Span != w.Span || r.Duplicate != w.Duplicate || r.Last < r.First || r.End < r.Begin {
				t.Fatalf("run %d: %+v, want %+v", i, r, w)
			}
		}
	})
}

// A run of so many frames that the next one's numbers look as if they came later.
func TestRunAfterManyFrames(t *testing.T) {
	var tr tracker
	for _, n := range []uint32{0, 1 << 30, 1 << 31, 3_000_000_000, 0, 1, 2} {
		tr.order(n, 0, 1)
	}
	if r := tr.report(0); len(r.Runs) != 2 || r.Runs[0].Span != 3_000_000_001 || r.Runs[1].Span != 3 || r.Span != 3_000_000_004 {
		t.Errorf("%+v", r)
	}
	tr = tracker{} // numbers that wrap are one run's, and so is an outage of 2^30 frames
	for _, n := range []uint32{0, 1 << 30, 1 << 31, 3 << 30, 1<<32 - 1, 0, 1, 1<<30 + 5} {
		tr.order(n, 0, 1)
	}
	if r := tr.report(0); len(r.Runs) != 1 || r.Span != 1<<32+1<<30+6 {
		t.Errorf("%+v", r)
	}
}

// More runs than are kept: all frames are still counted.
func TestMoreRunsThanKept(t *testing.T) {
	var tr tracker
	for i := range unit.Instant(3 * engine.MaxRuns) {
		for n := range uint32(10) {
			tr.whole(frame.Signature{Sequence: n, Time: 1000*(i+1) + unit.Instant(n)}, 64, 1000*(i+1))
		}
	}
	r := tr.report(0)
	if len(r.Runs) != engine.MaxRuns || r.Frames != 30*engine.MaxRuns || r.Duplicate != 10*2*engine.MaxRuns || r.Span != 10*engine.MaxRuns {
		t.Errorf("%+v", r)
	}
}
