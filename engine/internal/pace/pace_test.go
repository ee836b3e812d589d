// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/unit"

	"pgregory.net/rapid"
)

// A twinFrame is one frame as a source has it.
type twinFrame struct {
	at     uint64 // captured
	octets int
	begins bool // a pass, and not the first
}

// twinDue is the schedule of stream i of n, by its definition and in exact
// arithmetic, ns from the origin.
func twinDue(l engine.Load, i, n int, frames []twinFrame) []*big.Rat {
	rat := func(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }
	dues := make([]*big.Rat, len(frames))
	octets, start, pass := new(big.Rat), new(big.Rat), 0
	if l.Speed > 0 { // it may begin in the middle of a pass
		start.Neg(start.Quo(rat(float64(frames[0].at)), rat(l.Speed)))
	}
	for k, f := range frames {
		due := new(big.Rat)
		switch {
		case l.Bits > 0:
			due.Quo(new(big.Rat).Mul(octets, rat(8e9)), rat(float64(l.Bits)))
			octets.Add(octets, rat(float64(f.octets)))
		case l.Speed > 0:
			if f.begins {
				last, took := dues[k-1], new(big.Rat).Sub(dues[k-1], start)
				gap := rat(1e6)
				if took.Sign() > 0 && k-pass > 1 {
					gap = took.Quo(took, rat(float64(k-pass-1)))
				}
				start, pass = new(big.Rat).Add(last, gap), k
			}
			due.Add(start, new(big.Rat).Quo(rat(float64(f.at)), rat(l.Speed)))
			if k > 0 && due.Cmp(dues[k-1]) < 0 {
				due = dues[k-1]
			}
		default:
			j := k
			if l.Pattern == engine.Bursts {
				j = k / l.Burst * l.Burst
			}
			due.Quo(rat(1e9), rat(float64(l.Rate)))
			due.Mul(due, new(big.Rat).Add(rat(float64(j)), big.NewRat(int64(i), int64(n))))
		}
		dues[k] = due
	}
	return dues
}

func drawLoad(t *rapid.T) engine.Load {
	l := engine.Load{Count: rapid.Uint64Range(1, 300).Draw(t, "count"), Late: rapid.SampledFrom([]engine.Late{engine.MakeUp, engine.Shift}).Draw(t, "late"), Gaps: true}
	switch rapid.SampledFrom([]string{"rate", "bursts", "bits", "speed"}).Draw(t, "kind") {
	case "rate":
		l.Rate = unit.FrameRate(rapid.Float64Range(1e3, 20e6).Draw(t, "rate"))
	case "bursts":
		l.Rate = unit.FrameRate(rapid.Float64Range(1e3, 20e6).Draw(t, "rate"))
		l.Pattern, l.Burst = engine.Bursts, rapid.IntRange(1, 20).Draw(t, "burst")
	case "bits":
		l.Bits = unit.BitRate(rapid.Float64Range(1e6, 100e9).Draw(t, "bits"))
	case "speed":
		l.Speed = rapid.Float64Range(0.01, 1000).Draw(t, "speed")
	}
	return l
}

func drawFrames(t *rapid.T, n int) []twinFrame {
	frames := make([]twinFrame, n)
	at := rapid.SampledFrom([]uint64{0, 777_777}).Draw(t, "begins")
	for k := range frames {
		f := &frames[k]
		if k > 0 && rapid.IntRange(0, 30).Draw(t, "pass") == 0 {
			f.begins, at = true, 0
		} else if k > 0 {
			at += uint64(rapid.SampledFrom([]int{0, 67, 1000, 12_345, 1_000_000}).Draw(t, "gap"))
		}
		f.at, f.octets = at, rapid.IntRange(64, 1518).Draw(t, "octets")
	}
	return frames
}

// The schedule is its definition's to a few ns, whatever the sender does, and
// frames leave as the late policy says.
func TestPaceAgainstTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLoad(t)
		const origin = 1_000_000
		frames := drawFrames(t, int(l.Count))
		group := 1
		if l.Rate > 0 && l.Pattern == engine.Constant {
			group = rapid.IntRange(1, 8).Draw(t, "group")
		}
		dues := twinDue(l, 0, 1, frames)
		if l.Pattern == engine.Bursts {
			group = l.Burst
		}
		ns := func(k int) unit.Instant { f, _ := dues[k].Float64(); return unit.Instant(f) }

		p := New(l, 1, group, origin)
		p.Captured(0, frames[0].at)
		now := unit.Instant(origin)
		shift, late := unit.Instant(0), uint64(0)
		var before, went unit.Instant // release and departure of the group before
		var left []unit.Instant
		for k := range frames {
			// A group leaves when its first frame is due, or its last one by moderation.
			g := k / group * group
			release := ns(g)
			if l.Pattern == engine.Constant && l.Rate > 0 {
				release = ns(min(g+group-1, len(frames)-1))
			}
			may := origin + shift + release
			if k%group != 0 {
				may = went
			} else if k > 0 && l.Late == engine.MakeUp {
				may = max(may, went+(release-before)*8/9)
			}
			i, at := p.Next()
			if i != 0 || math.Abs(float64(at-may)) > 4 {
				t.Fatalf("%+v: frame %d may leave at %d, want %d (stream %d)", l, k, at, may, i)
			}
			if k%group == 0 {
				now = max(now, at) + unit.Instant(rapid.SampledFrom([]int{0, 0, 0, 50, 700, 5000, 300_000}).Draw(t, "held"))
				if l.Late == engine.Shift {
					shift = now - origin - p.Lines[0].release
				}
				if l.Speed == 0 || k == 0 || p.Lines[0].spacing > 0 { // else due at once with the frame before
					went = now
				}
				before = release
			}
			behindBefore := p.late
			p.Take(0, now, frames[k].octets)
			late += p.late - behindBefore
			left = append(left, now)
			if k+1 < len(frames) {
				if frames[k+1].begins {
					p.wrap(0)
				}
				p.Captured(0, frames[k+1].at)
			}
		}
		if i, _ := p.Next(); i >= 0 {
			t.Fatalf("%+v: more than %d frames", l, l.Count)
		}
		for k := 1; k < len(left); k++ {
			gap, asked := left[k]-left[k-1], ns(k)-ns(k-1)
			if l.Late == engine.Shift && group == 1 && gap < asked-2 {
				t.Fatalf("%+v: gap %d before frame %d, asked %d", l, gap, k, asked)
			}
		}
		var r engine.TxReport
		p.Settle(0, engine.Stream{}, &r)
		if int(r.Gaps.Total()) != len(frames)-1 || int(r.GapErrors.Total()) != len(frames)-1 {
			t.Fatalf("%d gaps, %d errors of %d frames", r.Gaps.Total(), r.GapErrors.Total(), len(frames))
		}
	})
}

// No frame count and no rate makes the schedule drift.
func TestPaceDoesNotDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(1, 20e6).Draw(t, "rate")
		k := rapid.Uint64Max(1<<32).Draw(t, "k")
		want := float64(k) * (1e9 / rate)
		if got := periodOf(1e9 / rate).times(k); math.Abs(float64(got)-want) > 2+want*(1e-17*rate+4e-16) {
			t.Fatalf("frame %d at %v frame/s is due at %d, want %.0f", k, rate, got, want)
		}
	})
	// 1 M frame/s is exact: 2^40 frames later to the nanosecond.
	if got, want := periodOf(1000).times(1<<40), unit.Instant(1<<40*1000); got != want {
		t.Errorf("frame 2^40 is due at %d, want %d", got, want)
	}
	// At 3 M frame/s an hour is right to 10 us.
	if got := periodOf(1e9 / 3e6).times(3e6 * 3600); math.Abs(float64(got)-3600e9) > 10e3 {
		t.Errorf("an hour lasts %d ns", got)
	}
}

// simulate sends with a sender that needs cost a frame and stands still at stall.
func simulate(p *Pace, cost, stall, stalled unit.Instant) (left []unit.Instant) {
	now := unit.Instant(0)
	for {
		i, at := p.Next()
		if i < 0 {
			return left
		}
		now = max(now, at)
		if stall > 0 && now >= stall {
			now += stalled
			stall = 0
		}
		p.Take(i, now, 64)
		left = append(left, now)
		now += cost
	}
}

// After a stall MakeUp brings the mean back without a burst, Shift keeps the gaps.
func TestPaceAfterStall(t *testing.T) {
	for _, l := range []engine.Load{
		{Rate: 1e6, Count: 100_000},
		{Rate: 1e6, Count: 100_000, Pattern: engine.Bursts, Burst: 10},
		{Bits: 512e6, Count: 100_000}, // 64 octets: 1 us
	} {
		const stalled = 5_000_000
		group := max(l.Burst, 1)
		p := New(l, 1, 1, 0)
		left := simulate(p, 0, 20_000_000, stalled)
		for k := group; k < len(left); k++ {
			if gap := left[k] - left[k-group]; k%group == 0 && gap < unit.Instant(888*group) {
				t.Fatalf("%+v: the gap before frame %d is %d ns", l, k, gap)
			}
		}
		// 5 ms at 9/8 of the rate are made up in 45 ms.
		if end := left[len(left)-1]; end != unit.Instant(1000*(100_000-group)) || p.late < 40_000 || p.late > 46_000 {
			t.Errorf("%+v: the last frame left at %d, %d were late", l, end, p.late)
		}

		l.Late = engine.Shift
		p = New(l, 1, 1, 0)
		left = simulate(p, 0, 20_000_000, stalled)
		if end := left[len(left)-1]; end != unit.Instant(1000*(100_000-group))+stalled || p.late != uint64(group) {
			t.Errorf("%+v: the last frame left at %d, %d were late", l, end, p.late)
		}
	}
}

// A sender slower than asked offers what it can, late and without bursts.
func TestPaceOfSlowSender(t *testing.T) {
	l := engine.Load{Rate: 1e6, Count: 10_000}
	p := New(l, 1, 1, 0)
	left := simulate(p, 2000, 0, 0)
	if left[9999] != 9999*2000 || p.late < 9_990 {
		t.Errorf("the last frame left at %d, %d were late", left[9999], p.late)
	}
	// In groups, which leave with their last frame, it is the same rate.
	p = New(engine.Load{Rate: 1e6, Count: 10_001}, 1, 8, 0)
	left = simulate(p, 0, 0, 0)
	if left[0] != 7000 || left[7] != 7000 || left[8] != 15_000 || left[10_000] != 10_000_000 || p.late != 0 {
		t.Errorf("groups leave at %d, %d, %d... %d; %d late", left[0], left[7], left[8], left[10_000], p.late)
	}
}

func TestPacePoisson(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		l := engine.Load{Rate: 1e6, Duration: 100 * time.Millisecond, Pattern: engine.Poisson, Seed: seed}
		const n = 100_000
		left := simulate(New(l, 1, 1, 0), 0, 0, 0)
		if len(left) != n || left[n-1] >= 100_000_000 {
			t.Fatalf("seed %d: %d frames to %d ns", seed, len(left), left[len(left)-1])
		}
		again := simulate(New(l, 1, 1, 0), 0, 0, 0)
		l.Seed += 10
		other := simulate(New(l, 1, 1, 0), 0, 0, 0)
		if fmt.Sprint(left[:100]) != fmt.Sprint(again[:100]) || fmt.Sprint(left[:100]) == fmt.Sprint(other[:100]) {
			t.Errorf("seed %d does not say which schedule it is", seed)
		}
		// Exponential: the share of gaps beyond x means is e^-x, within 5 sigma; and
		// arrivals are spread evenly over the time.
		for _, x := range []float64{0.1, 0.5, 1, 2, 4} {
			beyond := 0
			for k := 1; k < n; k++ {
				if float64(left[k]-left[k-1]) > x*1000 {
					beyond++
				}
			}
			want := math.Exp(-x)
			if sigma := math.Sqrt(n * want * (1 - want)); math.Abs(float64(beyond)-n*want) > 5*sigma+n*want/500 {
				t.Errorf("seed %d: %d gaps are longer than %v means, want %.0f +- %.0f", seed, beyond, x, n*want, sigma)
			}
		}
		for k := 0; k < n; k += n / 10 {
			if off := float64(left[k])/1000 - float64(k); math.Abs(off) > 5*math.Sqrt(n)/2 {
				t.Errorf("seed %d: frame %d is %v frames off", seed, k, off)
			}
		}
	}
	// Two streams are two processes; without an end the mean is right in the mean.
	p := New(engine.Load{Rate: 1e6, Passes: 1, Pattern: engine.Poisson}, 2, 1, 0)
	var took [2]unit.Instant
	var frames [2]int
	for range 200_000 {
		i, at := p.Next()
		p.Take(i, at, 64)
		took[i] = at
		frames[i]++
	}
	for i := range took {
		enginetest.Near(t, "Poisson rate", unit.FrameRate(float64(frames[i])/float64(took[i])*1e9), 1e6, 0.02)
	}
	if took[0] == took[1] {
		t.Error("two streams keep one time")
	}
}

func TestPaceStreamsInTurn(t *testing.T) {
	for _, l := range []engine.Load{{Rate: 1e6, Count: 1000}, {Count: 1000}} {
		p := New(l, 3, 1, 0)
		for k := range 3000 {
			i, at := p.Next()
			if i != k%3 || l.Rate > 0 && (at < unit.Instant(k*1000/3)-1 || at > unit.Instant(k*1000/3)+1) {
				t.Fatalf("%+v: frame %d is stream %d's, at %d", l, k, i, at)
			}
			p.Take(i, at, 64)
		}
		if i, _ := p.Next(); i >= 0 {
			t.Errorf("%+v: stream %d has more", l, i)
		}
	}
	// One that is over leaves the rest to the other.
	p := New(engine.Load{Passes: 1}, 2, 1, 0)
	p.Lines[0].Over = true
	for range 3 {
		if i, _ := p.Next(); i != 1 {
			t.Fatalf("stream %d", i)
		}
		p.Take(1, 0, 64)
	}
}

func TestPaceStalls(t *testing.T) {
	p := New(engine.Load{Count: 3}, 1, 1, 100)
	for i, c := range []struct {
		now   unit.Instant
		busy  time.Duration
		stall bool
	}{{50_100, 0, false}, {100_101, 0, true}, {200_000, 50 * time.Microsecond, false}, {400_000, 100 * time.Microsecond, true}} {
		if got := p.Tick(c.now, c.busy); got != c.stall {
			t.Errorf("tick %d: %v", i, got)
		}
	}
	if p.stalls != 2 || p.longestStall != 100*time.Microsecond {
		t.Errorf("%d stalls, the longest %v", p.stalls, p.longestStall)
	}
}

// What was due and did not leave is known, also where frames differ.
func TestPaceSettles(t *testing.T) {
	src := &enginetest.FakeSource{Frames: 10}
	for _, c := range []struct {
		l                 engine.Load
		octets            int
		n                 int // frames that left
		intended, notSent uint64
	}{
		{engine.Load{Rate: 1e6, Duration: time.Millisecond}, 64, 400, 1000, 600},
		{engine.Load{Bits: 512e6, Duration: time.Millisecond}, 64, 400, 1000, 600},
		{engine.Load{Bits: 512e6, Duration: time.Millisecond, Count: 700}, 64, 400, 700, 300},
		{engine.Load{Bits: 512e6, Duration: time.Millisecond, Passes: 50}, 64, 400, 500, 100},
		{engine.Load{Bits: 512e6, Duration: time.Millisecond}, 64, 0, 1, 1},
		{engine.Load{Passes: 50}, 64, 500, 500, 0},
		{engine.Load{Passes: 50}, 64, 470, 500, 30},
		{engine.Load{Duration: time.Second}, 64, 470, 0, 0},
		{engine.Load{Rate: 1e6, Duration: time.Second, Passes: 50}, 64, 500, 500, 0},
	} {
		p := New(c.l, 1, 1, 0)
		for range c.n {
			p.Take(0, 0, c.octets)
		}
		r := engine.TxReport{Accepted: uint64(c.n), Passes: uint64(c.n / 10)}
		p.Settle(0, engine.Stream{Source: src}, &r)
		if r.Intended != c.intended || r.NotSent != c.notSent {
			t.Errorf("%+v: intended %d, not sent %d; want %d, %d", c.l, r.Intended, r.NotSent, c.intended, c.notSent)
		}
	}
}
