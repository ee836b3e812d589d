// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"context"
	"math"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/bucket"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/internal/pace"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"pgregory.net/rapid"
)

// The schedule in the kernel, run by a clock that the test moves, lets each frame
// leave at the first look at the clock after it is due, and not before; and it
// counts gaps, errors and late frames as they were.
func TestProgramKeepsTheSchedule(t *testing.T) {
	testutil.Privileged(t)
	rapid.Check(t, func(t *rapid.T) {
		const frames = 40
		sizes := rapid.SliceOfN(rapid.IntRange(60, 1514), 1, 3).Draw(t, "sizes")
		s := enginetest.PlainSource(frames/2, 0, sizes...)
		s.Declared.Timed = true
		at := uint64(0)
		for i := range s.Entries {
			s.Entries[i].At = at
			at += rapid.Uint64Range(0, 5000).Draw(t, "captured gap")
		}
		l := engine.Load{Count: frames, Gaps: true, Late: engine.Late(rapid.IntRange(0, 1).Draw(t, "late")), Seed: rapid.Uint64().Draw(t, "seed")}
		switch rapid.IntRange(0, 5).Draw(t, "pace") {
		case 0:
			l.Rate, l.Alone = unit.FrameRate(rapid.Float64Range(1e5, 5e6).Draw(t, "rate")), true
		case 1: // moderated
			l.Rate = unit.FrameRate(rapid.Float64Range(1e5, 5e6).Draw(t, "rate"))
		case 2:
			l.Rate, l.Pattern, l.Burst = 1e6, engine.Bursts, rapid.IntRange(1, 9).Draw(t, "burst")
		case 3:
			l.Rate, l.Pattern = 1e6, engine.Poisson
		case 4:
			l.Bits = unit.BitRate(rapid.Float64Range(1e8, 1e11).Draw(t, "bits"))
		case 5:
			l.Speed = rapid.Float64Range(0.01, 1000).Draw(t, "speed")
		}
		r, err := newReel(context.Background(), s, 0, reelRoom{whole: 1 << 20, value: 1 << 20, ring: 1 << 14})
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		sc, err := NewSchedule(l, 1, 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		sc.scripted = true
		p, err := r.sender(r.kindOf(l, engine.Stream{}, sc.Pace, 1))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.begin(p, l, 0); err != nil {
			t.Fatal(err)
		}
		if err := sc.set(p.Coll); err != nil {
			t.Fatal(err)
		}

		// The twin, in ns with fractions.
		interval := 0.0
		if l.Rate > 0 {
			interval = 1e9 / float64(l.Rate)
		}
		gaps := *poissonTable(uint64(math.Round(interval * 65536)))
		chance := sc.start.Chance
		group := int(sc.burst)
		gapBefore := func(k int) float64 { // of the group that begins with frame k
			if k == 0 {
				return 0
			}
			switch {
			case l.Bits > 0:
				return float64(len(s.Frames[(k-1)%len(s.Frames)])+4) * 8e9 / float64(l.Bits)
			case l.Speed > 0:
				if k%len(s.Frames) == 0 {
					last := float64(s.Entries[len(s.Entries)-1].At)
					return math.Floor(last/float64(len(s.Frames)-1)) / l.Speed
				}
				return float64(s.Entries[k%len(s.Frames)].At-s.Entries[k%len(s.Frames)-1].At) / l.Speed
			case l.Pattern == engine.Poisson:
				return float64(gaps[xorshift(&chance)>>20]) / 65536
			}
			return interval * float64(group)
		}
		const rounding = 0.02 // ns a frame
		slip := float64(sc.slip) / 65536
		origin := uint64(1e9)
		now, due, last, moved, previous, late := origin, 0.0, 0.0, 0.0, uint64(0), uint64(0)
		if l.Rate > 0 && l.Pattern == engine.Constant {
			due = interval * float64(group-1)
		}
		var wantGaps, wantErrors [bucket.Count]uint64
		gap, behind := 0.0, false
		for k := 0; k < frames; {
			if err := p.Coll.Variables[senderVarScriptNow].Set(now); err != nil {
				t.Fatal(err)
			}
			code, err := p.prog.Run(&ebpf.RunOptions{Data: make([]byte, r.kind.longest), DataOut: make([]byte, 2000)})
			if err != nil {
				t.Fatal(err)
			}
			earliest := last
			if l.Late == engine.MakeUp {
				earliest += gap * 8 / 9
			}
			may := max(due, earliest)
			at := float64(now - origin)
			within := k%group != 0
			tolerance := rounding * float64(k+1)
			switch sent := code == 4; {
			case sent && !within && at < may-tolerance:
				t.Fatalf("frame %d left at %.2f ns, and may at %.2f", k, at, may)
			case !sent && (within || at > may+tolerance):
				t.Fatalf("frame %d did not leave at %.2f ns, and may at %.2f", k, at, may)
			case sent:
				asked := interval
				if !within {
					usual := interval * float64(group)
					if l.Rate == 0 {
						usual = max(gap, 1000)
					}
					behind = at-due >= usual+slip
					if math.Abs(at-due-usual-slip) < tolerance {
						t.Skip("too close to tell whether the frame is late")
					}
					if l.Rate == 0 || l.Pattern != engine.Constant {
						asked = gap
					}
					if last = at; l.Late == engine.Shift {
						moved += at - due
						due = at
					} else if slip > 0 {
						last = max(at-slip, earliest)
					}
				} else if l.Pattern == engine.Bursts {
					asked = 0
				}
				if behind {
					late++
				}
				if k > 0 {
					wantGaps[bucket.Of(now-previous)]++
					wantErrors[bucket.Of(uint64(math.Abs(float64(now-previous)-asked)))]++
				}
				previous = now
				if k++; k%group == 0 {
					gap = gapBefore(k)
					due += gap
				}
			}
			step := rapid.Uint64Range(1, 400).Draw(t, "step")
			if rapid.IntRange(0, 20).Draw(t, "stall") == 0 {
				step *= 100
			}
			now += step
		}
		var state senderSchedule
		if err := p.sched.Get(&state); err != nil {
			t.Fatal(err)
		}
		if state.Late != late || state.Sent != frames {
			t.Fatalf("%d frames sent, %d of them late: want %d and %d", state.Sent, state.Late, frames, late)
		}
		if got := float64(state.Moved) / 65536; math.Abs(got-moved) > rounding*frames {
			t.Fatalf("late frames moved the schedule by %v ns, want %v", got, moved)
		}
		rep, err := sc.Report(p, l, engine.Stream{Source: s}, 0, 1, Sent{Issued: state.Sent})
		if err != nil {
			t.Fatal(err)
		}
		same := func(what string, got *result.Histogram, want []uint64) {
			// An error a fraction of a ns off may lie in the next bucket.
			if g, w := got, bucket.Histogram(want); g.Total() != w.Total() || math.Abs(mean(g)-mean(w)) > 0.002*mean(w)+1e-9 {
				t.Fatalf("%s are %v, want %v", what, g, w)
			}
		}
		same("gaps", rep.Gaps, wantGaps[:])
		same("gap errors", rep.GapErrors, wantErrors[:])
	})
}

func mean(h *result.Histogram) float64 {
	sum, n := 0.0, 0.0
	for i, c := range h.Count {
		sum += h.Upper[i] * float64(c)
		n += float64(c)
	}
	return sum / max(n, 1)
}

// xorshift is the plain twin of draw32.
func xorshift(s *uint64) uint32 {
	*s ^= *s >> 12
	*s ^= *s << 25
	*s ^= *s >> 27
	return uint32(*s * 0x2545f4914f6cdd1d >> 32)
}

func TestPoissonTable(t *testing.T) {
	for _, interval := range []uint64{1, 1000, 65536, 1e9 * 65536} {
		table := poissonTable(interval)
		sum := uint64(0)
		for _, g := range table {
			sum += g
		}
		if sum != interval*poissonGaps {
			t.Errorf("interval %d: the gaps' mean is %v", interval, float64(sum)/poissonGaps)
		}
	}
	table := poissonTable(1e9)
	// Quantiles of the exponential distribution.
	for _, q := range []float64{0.1, 0.5, 0.9, 0.99} {
		i := int(q * poissonGaps)
		want := -math.Log(1-(float64(i)+0.5)/poissonGaps) * 1e9
		if got := float64(table[i]); math.Abs(got-want) > 0.002*want {
			t.Errorf("quantile %v is %v intervals, want %v", q, got/1e9, want/1e9)
		}
	}
}

// What the schedule had within a duration, to the frame.
func TestScheduleDue(t *testing.T) {
	for _, c := range []struct {
		load  engine.Load
		state senderSchedule
		lanes int
		want  []uint64
	}{
		{engine.Load{Rate: 100e3, Duration: 50 * time.Millisecond}, senderSchedule{}, 1, []uint64{5000}},
		{engine.Load{Rate: 1e3, Duration: 1500 * time.Microsecond}, senderSchedule{}, 1, []uint64{2}},
		{engine.Load{Rate: 1e3, Duration: 1250 * time.Microsecond}, senderSchedule{}, 2, []uint64{2, 1}},
		{engine.Load{Rate: 3e6, Duration: 300 * 24 * time.Hour, Alone: true}, senderSchedule{}, 1, []uint64{3e6 * 300 * 86400}},
		{engine.Load{Rate: 1e3, Pattern: engine.Bursts, Burst: 10, Duration: 11 * time.Millisecond}, senderSchedule{}, 1, []uint64{20}},
		{engine.Load{Rate: 1e3}, senderSchedule{}, 1, []uint64{0}},
		{engine.Load{Duration: time.Second}, senderSchedule{}, 1, []uint64{0}},
		// Half the time passed when the sender stopped.
		{engine.Load{Bits: 1e6, Duration: 10 * time.Millisecond}, senderSchedule{Sent: 50, Due: 5e6 << 16}, 1, []uint64{101}},
		{engine.Load{Bits: 1e6, Duration: 300 * time.Hour}, senderSchedule{Sent: 300 * 3600, Due: 300*3600e9<<16&(1<<64-1) - 10e9<<16}, 1, []uint64{300*3600 + 11}},
		{engine.Load{Bits: 1e6, Duration: 10 * time.Millisecond, Late: engine.Shift}, senderSchedule{Sent: 50, Due: 10e6 << 16, Moved: 5e6 << 16}, 1, []uint64{101}},
	} {
		sc, err := NewSchedule(c.load, c.lanes, 0, 64, 0)
		if err != nil {
			t.Fatal(err)
		}
		c.state.Interval, c.state.Duration = sc.start.Interval, sc.start.Duration
		for i, want := range c.want {
			got := sc.due(&c.state, i, c.lanes)
			// The interval is rounded to 1/65536 ns.
			if d := float64(got) - float64(want); math.Abs(d) > 1e-7*float64(want) {
				t.Errorf("%+v: stream %d has %d frames due, want %d", c.load, i, got, want)
			}
		}
	}
}

// Load's limits fit into the fixed-point numbers of the programs.
func TestScheduleFactors(t *testing.T) {
	for _, bits := range []float64{1, 1e3, 1e9, 1e10, 4e11, 1e12} {
		sc, err := NewSchedule(engine.Load{Bits: unit.BitRate(bits), Count: 1}, 1, 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := 8e9 / bits
		if got := math.Ldexp(float64(sc.start.Factor), -16-int(sc.start.Down)); math.Abs(got/want-1) > 1e-6 || float64(sc.start.Factor)*(1<<14) >= 1<<64 {
			t.Errorf("%g bit/s: %v ns an octet, want %v (factor %d)", bits, got, want, sc.start.Factor)
		}
	}
	for _, speed := range []float64{1e-3, 0.3, 1, 3.7, 1e6} {
		sc, err := NewSchedule(engine.Load{Speed: speed, Count: 1}, 1, 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := math.Ldexp(float64(sc.start.Factor), -int(sc.start.Down)) / 65536; math.Abs(got*speed-1) > 1e-9 || sc.start.Factor >= 1<<32 {
			t.Errorf("speed %g: a ns becomes %v (factor %d)", speed, got, sc.start.Factor)
		}
	}
	if _, err := NewSchedule(engine.Load{Rate: 1e3, Pattern: engine.Poisson, Count: 1}, 2, 0, 0, 0); err == nil {
		t.Error("pattern poisson on two lanes is not one process for each")
	}
}

// Streams of specs keep the same schedules.
func TestXDPSenderPatterns(t *testing.T) {
	a, b := enginetest.Pair(t)
	ctx := context.Background()
	x := New()
	for _, p := range []host.Port{a, b} {
		m, err := x.OpenMeter(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
	}
	tx, err := x.OpenTransmitter(ctx, []host.Port{a, b}, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	one := []engine.Stream{{ID: 1, Frames: enginetest.Spec4(1, 64)}}
	two := []engine.Stream{{ID: 1, Frames: enginetest.Spec4(1, 100, 64)}, {ID: 2, Frames: enginetest.Spec4(1, 64, 100), Lane: 1}}
	for _, c := range []struct {
		name     string
		streams  []engine.Stream
		load     engine.Load
		shortest time.Duration // gap
		span     time.Duration
	}{
		{"flat out", one, engine.Load{}, 0, 0},
		{"alone, shift", one, engine.Load{Rate: 10e3, Alone: true, Late: engine.Shift}, 100 * time.Microsecond, 19_900 * time.Microsecond},
		{"bit rate, shift", one, engine.Load{Bits: 64 * 8 * 10e3, Late: engine.Shift}, 100 * time.Microsecond, 19_900 * time.Microsecond},
		{"bit rate, sizes, two lanes", two, engine.Load{Bits: 82 * 8 * 10e3, Late: engine.Shift}, 39 * time.Microsecond, 19_800 * time.Microsecond},
		{"poisson", one, engine.Load{Rate: 10e3, Pattern: engine.Poisson, Late: engine.Shift}, 0, 12 * time.Millisecond},
		{"bursts", one, engine.Load{Rate: 10e3, Pattern: engine.Bursts, Burst: 10, Late: engine.Shift}, 0, 19_000 * time.Microsecond},
	} {
		c.load.Count, c.load.Gaps, c.load.Seed = 200, true, 1
		reps, err := tx.Transmit(ctx, c.load, c.streams...)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range reps {
			if want := octetsOf(c.streams[i].Frames.Sizes, 200); r.Accepted != 200 || r.Intended != 200 || r.NotSent != 0 || r.Octets != want {
				t.Errorf("%s: report %+v, want 200 frames, %d octets", c.name, r, want)
			}
			if span := time.Duration(r.Last - r.First); span < c.span {
				t.Errorf("%s: 200 frames took %v, want %v", c.name, span, c.span)
			}
			if n := uint64(200*len(reps) - 1); r.Gaps.Total() != n || c.load.Paced() != (r.GapErrors != nil) {
				t.Errorf("%s: %d gaps, want %d", c.name, r.Gaps.Total(), n)
			}
			if shortest := time.Duration(r.Gaps.Upper[0] * 1e9); shortest < c.shortest*99/100 {
				t.Errorf("%s: the shortest gap is %v, want %v", c.name, shortest, c.shortest)
			}
		}
		if c.load.Pattern == engine.Bursts {
			within := uint64(0)
			for i, up := range reps[0].Gaps.Upper {
				if up < 500e-6 {
					within += reps[0].Gaps.Count[i]
				}
			}
			if within < 150 || within > 180 { // 180 of 199, but for stalls
				t.Errorf("bursts: %d gaps lie within bursts", within)
			}
		}
	}
}

// Frames that are due at once share a flush, and so do those at uneven gaps, for each of
// which it would fall behind; those that leave alone do at high rates only, and wait less.
func TestFlushTogether(t *testing.T) {
	for _, c := range []struct {
		rate     float64
		alone    bool
		late     engine.Late
		together int
		batch    int
		slip     time.Duration
	}{
		{90e3, true, engine.MakeUp, 0, 1, 0}, {90e3, true, engine.MakeUp, 1, 1, 0}, {90e3, true, engine.MakeUp, 10, 10, slip}, {90e3, true, engine.Shift, 10, 10, 0},
		{300e3, true, engine.MakeUp, 0, 16, slip}, {300e3, true, engine.MakeUp, 10, 16, slip}, {300e3, true, engine.Shift, 10, 16, 0},
		{300e3, true, engine.MakeUp, 1000, 64, slip}, {3e6, true, engine.MakeUp, 10, 16, slip},
		{10e3, false, engine.MakeUp, 0, 16, pace.Moderation}, {10e3, false, engine.Shift, 0, 16, 0}, {300e3, false, engine.MakeUp, 1000, 64, pace.Moderation},
	} {
		l := engine.Load{Speed: 1, Passes: 1, Late: c.late, Alone: c.alone}
		sc, err := NewSchedule(l, 1, 1, 100, c.rate)
		if err != nil {
			t.Fatal(err)
		}
		sc.flushTogether(l, c.together)
		if sc.batch != c.batch || sc.slip != uint64(c.slip)<<16 {
			t.Errorf("%+v: %d frames a flush, slip %v", c, sc.batch, time.Duration(sc.slip>>16))
		}
	}
}
