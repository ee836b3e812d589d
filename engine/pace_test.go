// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"boxdyno/unit"
)

func TestPaceDoesNotDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(1, 20e6).Draw(t, "rate")
		k := rapid.Uint64Max(1<<40).Draw(t, "k")
		p := newPace(unit.FrameRate(rate), 1000)
		want := new(big.Int).Mul(new(big.Int).SetUint64(k), new(big.Int).SetUint64(p.interval))
		want.Rsh(want, 16)
		if !want.IsInt64() {
			t.Skip("beyond 292 years")
		}
		if got := p.due(k); got-1000 != unit.Instant(want.Int64()) {
			t.Fatalf("frame %d at %v frame/s is due at %d, want %v", k, rate, got-1000, want)
		}
		if off := math.Abs(float64(p.interval)*rate/65536e9 - 1); off > rate/65536e9 {
			t.Fatalf("interval off by %g", off)
		}
	})
	// 1 M frame/s is exact: 2^40 frames later to the nanosecond.
	if got, want := newPace(1e6, 0).due(1<<40), unit.Instant(1<<40*1000); got != want {
		t.Errorf("frame 2^40 is due at %d, want %d", got, want)
	}
}

func TestPaceSendsWhenDue(t *testing.T) {
	p := newPace(1e6, 5000)
	for now := unit.Instant(5000); now < 5000+1e6; now += 10 {
		if p.take(now) != ((now-5000)%1000 == 0) {
			t.Fatalf("at %d, frame %d", now, p.k)
		}
	}
	if p.k != 1000 || p.late != 0 || p.catchUp != 0 || p.origin != 5000 {
		t.Errorf("%+v", p)
	}
}

// A stall is caught up by at most 16 frames; what is beyond shifts the schedule.
func TestPaceAfterStall(t *testing.T) {
	for _, c := range []struct {
		stall         unit.Instant // ns behind, at 1 M frame/s
		sent          int          // at once
		late, catchUp uint64
		shift         unit.Instant
	}{
		{999, 1, 0, 0, 0},
		{1000, 2, 1, 1, 0},
		{16_000, 17, 16, 16, 0},
		{16_001, 17, 16, 16, 1},
		{5_000_000, 17, 16, 16, 4_984_000},
	} {
		p := newPace(1e6, 0)
		for k := range unit.Instant(10) {
			if !p.take(k * 1000) {
				t.Fatal("not due")
			}
		}
		now := 10_000 + c.stall
		sent := 0
		for p.take(now) {
			sent++
		}
		if sent != c.sent || p.late != c.late || p.catchUp != c.catchUp || p.origin != c.shift {
			t.Errorf("%d ns behind: sent %d, late %d, catch-up %d, shifted by %d; want %+v", c.stall, sent, p.late, p.catchUp, p.origin, c)
		}
		if next := p.due(p.k); next <= now || next > now+1000 {
			t.Errorf("%d ns behind: the next frame is due %d ns later", c.stall, next-now)
		}
		if !p.take(p.due(p.k)) || p.burst != 0 {
			t.Errorf("%d ns behind: burst %d goes on", c.stall, p.burst)
		}
	}
}

// A sender slower than asked offers what it can, and never bursts: each frame is
// as far behind as the policy lets it be.
func TestPaceOfSlowSender(t *testing.T) {
	p := newPace(1e6, 0)
	now := unit.Instant(0)
	for range 10_000 {
		if p.take(now) {
			now += 2000 // a ceiling of 500 k
		} else {
			t.Fatal("a slow sender is never early")
		}
	}
	if p.k != 10_000 || p.late < 9_900 || p.catchUp < 9_900 {
		t.Errorf("%+v", p)
	}
}

func TestPaceStalls(t *testing.T) {
	p := newPace(0, 100)
	for i, c := range []struct {
		now   unit.Instant
		busy  time.Duration
		stall bool
	}{{50_100, 0, false}, {100_101, 0, true}, {200_000, 50 * time.Microsecond, false}, {400_000, 100 * time.Microsecond, true}} {
		if got := p.tick(c.now, c.busy); got != c.stall {
			t.Errorf("tick %d: %v", i, got)
		}
	}
	if p.stalls != 2 || p.longestStall != 100*time.Microsecond {
		t.Errorf("%d stalls, the longest %v", p.stalls, p.longestStall)
	}
	for range 3 {
		if !p.take(0) {
			t.Error("flat out, a frame was not due")
		}
	}
	if p.k != 3 || p.catchUp != 0 {
		t.Errorf("%+v", p)
	}
}

func TestLoad(t *testing.T) {
	for _, c := range []struct {
		l    Load
		want uint64
	}{
		{Load{Rate: 3, Duration: time.Second}, 3},
		{Load{Rate: 1e6, Duration: 100 * time.Millisecond}, 100_000},
		{Load{Rate: 1e6, Duration: time.Second, Count: 7}, 7},
		{Load{Rate: 10, Duration: time.Second, Count: 70}, 10},
		{Load{Rate: 10, Count: 70}, 70},
		{Load{Count: 70}, 70},
		{Load{Duration: time.Second}, 0},
	} {
		if got := c.l.intended(); got != c.want || c.l.check() != nil {
			t.Errorf("%+v intends %d frames (%v), want %d", c.l, got, c.l.check(), c.want)
		}
	}
	for _, l := range []Load{{}, {Rate: 1}, {Rate: -1, Count: 1}, {Rate: 2e9, Count: 1}, {Rate: unit.FrameRate(math.NaN()), Count: 1}, {Duration: -1, Count: 1}} {
		if l.check() == nil {
			t.Errorf("%+v was taken", l)
		}
	}
}
