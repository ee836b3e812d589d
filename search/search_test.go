// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"boxdyno/unit"

	"pgregory.net/rapid"
)

func start(t interface{ Fatal(...any) }, preset string, max, guess float64) Search {
	s, err := New(preset, unit.FrameRate(max), unit.FrameRate(guess))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var presets = rapid.SampledFrom([]string{"quick", "standard"})

// rate is a load, spread over its range evenly in logarithms.
func rate(t *rapid.T, name string, lo, hi float64) float64 {
	return math.Exp(rapid.Float64Range(math.Log(lo), math.Log(hi)).Draw(t, name))
}

var exact = tester{ceiling: math.Inf(1)}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		preset string
		max    float64
		want   string
	}{{"rfc9999", 1e6, "rfc9999"}, {"quick", 0, "above 0"}, {"quick", -1, "above 0"}, {"quick", math.NaN(), "above 0"}, {"quick", math.Inf(1), "above 0"}} {
		if _, err := New(c.preset, unit.FrameRate(c.max), 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%q, %v): %v", c.preset, c.max, err)
		}
	}
	for _, guess := range []float64{0, -1, 2e6, math.NaN()} {
		if s := start(t, "quick", 1e6, guess); s.Guess != 5e5 {
			t.Errorf("guess %v: first load %v, want half of max", guess, s.Guess)
		}
	}
	if s := start(t, "quick", 1e6, 1); s.Guess != 5000 {
		t.Errorf("a guess below the floor gives %v", s.Guess)
	}
}

// Whatever a box and a tester do, a search ends, asks only for loads and
// durations that it may, is replayed by its history, and its bounds are what
// Limit says they are.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := rate(t, "max", 10, 1e8)
		s := start(t, presets.Draw(t, "preset"), top, rate(t, "guess", top/300, top*1.2))
		outcome := rapid.IntRange(0, 9)
		bad := rapid.IntRange(0, 9).Draw(t, "of ten lossy")
		invalid := rapid.IntRange(0, 9).Draw(t, "of ten invalid")
		var h []Seen
		for {
			step, more := s.Next(h)
			if !more {
				break
			}
			if len(h) == s.Trials {
				t.Fatal("it goes on beyond its cap")
			}
			if step.Rate < s.floor() || step.Rate > s.Max || step.Duration != s.Trial && step.Duration != s.Confirm {
				t.Fatalf("asks for %+v", step)
			}
			if len(h) > 0 && trailing(h) == tries && h[len(h)-1].Rate == step.Rate {
				t.Fatalf("asks for %v a fourth time", step.Rate)
			}
			h = append(h, Seen{Step: step, Offered: step.Rate * unit.FrameRate(rapid.Float64Range(0.99, 1).Draw(t, "offered")), Valid: outcome.Draw(t, "valid") >= invalid})
			if outcome.Draw(t, "clean") < bad {
				h[len(h)-1].Loss = 0.01
			}
		}
		for i := range h {
			if step, more := s.Next(h[:i]); !more || step != h[i].Step {
				t.Fatalf("replay of trial %d gives %+v, was %+v", i, step, h[i].Step)
			}
		}
		holds(t, s, h)
	})
}

// holds checks the promises of Limit's fields against the history itself.
func holds(t *rapid.T, s Search, h []Seen) {
	l := s.Limit(h)
	var clean, lossy, invalid, full, losing int
	for _, x := range h {
		switch {
		case !x.Valid:
			invalid++
		case x.Loss > 0:
			lossy++
			if x.Offered <= l.Lower {
				t.Fatalf("lost at %v, which is not above Lower %v", x.Offered, l.Lower)
			}
			if x.Offered <= l.Upper {
				losing++
			}
		default:
			clean++
			if l.Upper > 0 && x.Offered >= l.Upper {
				t.Fatalf("clean at %v, which is not below Upper %v", x.Offered, l.Upper)
			}
			if x.Offered >= l.Lower && x.Duration == s.Confirm {
				full++
			}
		}
	}
	if clean != l.Clean || lossy != l.Lossy || invalid != l.Invalid {
		t.Fatalf("counts %+v, want %d %d %d", l, clean, lossy, invalid)
	}
	if l.Lower > 0 && full < s.Clean || l.Upper > 0 && losing < s.Lossy {
		t.Fatalf("%+v has a bound that is not confirmed", l)
	}
	if l.Upper > 0 && l.Lower >= l.Upper {
		t.Fatalf("bounds are upside down: %+v", l)
	}
	if l.AtCeiling && (lossy > 0 || l.Lower == 0) {
		t.Fatalf("at the ceiling: %+v", l)
	}
	if l.Sharp && (l.Inversions > 0 || l.Lower == 0 || l.Upper == 0 || float64(l.Upper-l.Lower) > s.Width*float64(l.Upper)) {
		t.Fatalf("sharp: %+v", l)
	}
}

// scan is the slow twin: every load from the floor upwards, 1 % apart, at full
// length; the highest one before the first loss.
func scan(s Search, box dut) (clean float64) {
	for r := float64(s.floor()); r <= float64(s.Max); r *= 1.01 {
		if box(r, s.Confirm) > 0 {
			return clean
		}
		clean = r
	}
	return clean
}

// A box with a threshold: the bounds hold it, are confirmed and near, and the
// slow twin agrees.
func TestSharpLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := rate(t, "max", 1e3, 1e8)
		limit := rate(t, "limit", top/190, top*0.999)
		s := start(t, presets.Draw(t, "preset"), top, rate(t, "guess", top/200, top))
		box := sharp(limit)
		h := run(s, exact, box)
		l := s.Limit(h)
		holds(t, s, h)
		if !l.Sharp || float64(l.Lower) > limit || float64(l.Upper) <= limit {
			t.Fatalf("limit %v: %+v after %d trials", limit, l, len(h))
		}
		if twin := scan(s, box); twin*1.01 < float64(l.Lower) || twin > float64(l.Upper) {
			t.Fatalf("the scan found %v, the search %+v", twin, l)
		}
		if len(h) == s.Trials {
			t.Fatalf("took all %d trials", len(h))
		}
	})
}

// A bucket makes the limit depend on the length of a trial. The bounds hold the
// limit at full length.
func TestPolicer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rate(t, "limit", 1e5, 5e5)
		burst := rapid.Float64Range(0, 20000).Draw(t, "burst")
		s := start(t, "quick", 1e6, rate(t, "guess", 1e4, 1e6))
		box := policer(limit, burst)
		h := run(s, exact, box)
		l := s.Limit(h)
		holds(t, s, h)
		long, short := limit+burst/s.Confirm.Seconds(), limit+burst/s.Trial.Seconds()
		if float64(l.Lower) > long || float64(l.Upper) <= long {
			t.Fatalf("limit %v at full length: %+v", long, l)
		}
		if float64(l.Lower) < 0.5*long || float64(l.Upper) > 1.5*short {
			t.Fatalf("limits %v at full length and %v at search length are too far from %+v", long, short, l)
		}
		if twin := scan(s, box); twin*1.01 < float64(l.Lower) || twin > float64(l.Upper) {
			t.Fatalf("the scan found %v, the search %+v", twin, l)
		}
	})
}

// Nothing is lost up to the highest load.
func TestLimitAtMax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := rate(t, "max", 10, 1e8)
		s := start(t, presets.Draw(t, "preset"), top, rate(t, "guess", top/200, top))
		l := s.Limit(run(s, exact, sharp(top)))
		if !l.AtCeiling || l.Lower != s.Max || l.Upper != 0 || l.Sharp {
			t.Fatalf("%+v, want Lower %v at the ceiling", l, s.Max)
		}
	})
}

// Above its ceiling the tester's trials are invalid: the search ends there.
func TestTesterCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ceiling := rate(t, "ceiling", 3e4, 0.98e6)
		s := start(t, "quick", 1e6, rate(t, "guess", 5e3, ceiling))
		h := run(s, tester{ceiling: ceiling}, sharp(1e7))
		l := s.Limit(h)
		holds(t, s, h)
		if l.Sharp || l.Upper != 0 || float64(l.Lower) > ceiling || l.Lower == 0 {
			t.Fatalf("ceiling %v: %+v", ceiling, l)
		}
		if !l.AtCeiling || float64(l.Lower) < 0.94*ceiling {
			t.Fatalf("ceiling %v: %+v after %d trials", ceiling, l, len(h))
		}
	})
}

// A tester that can offer nothing gives no bounds; one that fails now and then
// costs trials and nothing else.
func TestInvalidTrials(t *testing.T) {
	s := start(t, "quick", 1e6, 3e5)
	l := s.Limit(run(s, tester{}, sharp(2e5)))
	if l.Lower != 0 || l.Upper != 0 || l.AtCeiling || l.Clean+l.Lossy != 0 || l.Invalid == 0 {
		t.Errorf("nothing offered: %+v", l)
	}
	h := []Seen{{Step: Step{3e5, s.Trial}}, {Step: Step{3e5, s.Trial}}}
	if step, _ := s.Next(h); step != h[0].Step {
		t.Errorf("after two invalid trials it asks for %+v", step)
	}
	if step, _ := s.Next(append(h, h[0])); step.Rate >= 3e5 {
		t.Errorf("after three invalid trials it asks for %+v", step)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		limit := 1e4 * math.Exp(4*rng.Float64())
		s := start(t, "quick", 1e6, 2e5)
		l := s.Limit(run(s, tester{ceiling: math.Inf(1), fails: 0.1, rng: rng}, sharp(limit)))
		if float64(l.Lower) > limit || l.Upper != 0 && float64(l.Upper) <= limit {
			t.Errorf("limit %v: %+v", limit, l)
		}
	}
}

// A box that always loses ends early, with nothing below.
func TestZero(t *testing.T) {
	for _, p := range []string{"quick", "standard"} {
		s := start(t, p, 1.2e6, 5e5)
		h := run(s, exact, sharp(0))
		if l := s.Limit(h); l.Lower != 0 || l.Upper != s.floor() || l.Sharp || l.AtCeiling || len(h) > 8 {
			t.Errorf("%s: %+v after %d trials", p, l, len(h))
		}
	}
}

// Two searches of the same noisy box must not contradict each other: their
// intervals overlap, in at least 99 of 100 pairs, and so do those of which one
// was called sharp in at least 995 of 1000.
func TestNoisyBoxesRepeat(t *testing.T) {
	const pairs = 400
	for i, c := range []struct {
		name string
		box  func(*rand.Rand) dut
	}{
		{"curve 0.01", func(r *rand.Rand) dut { return curve(r, 3e5, 0.01) }},
		{"curve 0.1", func(r *rand.Rand) dut { return curve(r, 3e5, 0.1) }},
		{"curve 0.3", func(r *rand.Rand) dut { return curve(r, 3e5, 0.3) }},
		{"curve 1", func(r *rand.Rand) dut { return curve(r, 3e5, 1) }},
		{"1 stall/s of 5 ms", func(r *rand.Rand) dut { return stalls(r, 9e5, 1, 5e-3) }},
		{"1 stall/s of 500 us", func(r *rand.Rand) dut { return stalls(r, 9e5, 1, 500e-6) }},
		{"5 stalls/s of 500 us", func(r *rand.Rand) dut { return stalls(r, 9e5, 5, 500e-6) }},
		{"20 stalls/s of 150 us", func(r *rand.Rand) dut { return stalls(r, 9e5, 20, 150e-6) }},
		{"100 stalls/s of 500 us", func(r *rand.Rand) dut { return stalls(r, 9e5, 100, 500e-6) }},
	} {
		seed := uint64(i + 1)
		rng := rand.New(rand.NewPCG(seed, 2))
		apart, sharpApart, trials, inverted := 0, 0, 0, 0
		traffic := time.Duration(0)
		for range pairs {
			var l [2]Limit
			for j := range l {
				s := start(t, "quick", 1.2e6, 1.2e6*(0.2+0.7*rng.Float64()))
				h := run(s, tester{ceiling: math.Inf(1), short: 0.003, rng: rng}, c.box(rng))
				l[j] = s.Limit(h)
				trials += len(h)
				for _, x := range h {
					traffic += x.Duration
				}
				if l[j].Inversions > 0 {
					inverted++
				}
			}
			if above(l[0], l[1]) || above(l[1], l[0]) {
				apart++
				if l[0].Sharp || l[1].Sharp {
					sharpApart++
				}
			}
		}
		t.Logf("%s (seed %d): %d of %d pairs apart, %d of them with a sharp one; %.1f trials, %.1f s of traffic", c.name, seed, apart, pairs, sharpApart,
			float64(trials)/(2*pairs), traffic.Seconds()/(2*pairs))
		if apart*100 > pairs || sharpApart*200 > pairs {
			t.Errorf("%s (seed %d): %d of %d pairs contradict each other, %d with a sharp one", c.name, seed, apart, pairs, sharpApart)
		}
		if inverted == 0 {
			t.Errorf("%s (seed %d): no inversion was counted in %d searches", c.name, seed, 2*pairs)
		}
	}
}

func above(a, b Limit) bool { return b.Upper > 0 && a.Lower > b.Upper }

// The quick preset is quick, and Estimate is about right.
func TestBudget(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, p := range Presets {
		trials, traffic := 0, time.Duration(0)
		const n = 300
		for range n {
			s := start(t, p.Name, 1.2e6, 6e5)
			for _, x := range run(s, exact, sharp(1e5*math.Exp(2.3*rng.Float64()))) {
				trials++
				traffic += x.Duration
			}
		}
		wantTrials, want := p.Estimate()
		if got := float64(trials) / n; math.Abs(got-float64(wantTrials)) > 2 {
			t.Errorf("%s takes %.1f trials, the estimate is %d", p.Name, got, wantTrials)
		}
		if got := traffic / n; got < want*7/10 || got > want*13/10 {
			t.Errorf("%s offers load for %v, the estimate is %v", p.Name, got, want)
		}
		if p.Name == "quick" && traffic/n > 4*time.Second {
			t.Errorf("quick takes %v", traffic/n)
		}
	}
}

// Limit's words, one history each (quick: 3 clean full-length trials, 4 lossy ones).
func TestLimit(t *testing.T) {
	s := start(t, "quick", 1000, 500)
	full := func(n int, r unit.FrameRate) (h []Seen) {
		for range n {
			h = append(h, Seen{Step: Step{r, s.Confirm}, Offered: r * 0.999, Valid: true})
		}
		return h
	}
	short := func(n int, r unit.FrameRate, loss unit.LossRatio) (h []Seen) {
		for range n {
			h = append(h, Seen{Step: Step{r, s.Trial}, Offered: r * 0.999, Loss: loss, Valid: true})
		}
		return h
	}
	join := func(hs ...[]Seen) (all []Seen) {
		for _, h := range hs {
			all = append(all, h...)
		}
		return all
	}
	invalid := func(n int, r unit.FrameRate) (h []Seen) {
		for range n {
			h = append(h, Seen{Step: Step{r, s.Trial}, Offered: r / 2, Loss: 1})
		}
		return h
	}
	for _, c := range []struct {
		name string
		h    []Seen
		want Limit
	}{
		{"nothing", nil, Limit{}},
		{"confirmed and near", join(full(3, 400), short(4, 416, 0.1)), Limit{Lower: 399.6, Upper: 415.584, Sharp: true, Clean: 3, Lossy: 4}},
		{"confirmed, not near", join(full(3, 400), short(4, 500, 0.1)), Limit{Lower: 399.6, Upper: 499.5, Clean: 3, Lossy: 4}},
		{"two clean are not three", join(full(2, 400), short(4, 416, 0.1)), Limit{Upper: 415.584, Clean: 2, Lossy: 4}},
		{"short clean ones confirm nothing", join(short(3, 400, 0), short(4, 416, 0.1)), Limit{Upper: 415.584, Clean: 3, Lossy: 4}},
		{"three lossy are not four", join(full(3, 400), short(3, 416, 0.1)), Limit{Lower: 399.6, Clean: 3, Lossy: 3}},
		{"a clean load speaks for those below", join(full(2, 400), full(1, 500), short(4, 600, 0.1)), Limit{Lower: 399.6, Upper: 599.4, Clean: 3, Lossy: 4}},
		{"loss below voids what is above", join(full(3, 400), full(3, 200), short(1, 300, 1e-6), short(4, 416, 0.1)), Limit{Lower: 199.8, Upper: 415.584, Inversions: 1, Clean: 6, Lossy: 5}},
		{"loss at the load voids it", join(full(3, 400), short(1, 400, 0.1), short(4, 416, 0.1)), Limit{Upper: 415.584, Inversions: 1, Clean: 3, Lossy: 5}},
		{"a clean one moves Upper up", join(full(3, 400), short(4, 416, 0.1), short(1, 450, 0), short(4, 480, 0.1)), Limit{Lower: 399.6, Upper: 479.52, Inversions: 4, Clean: 4, Lossy: 8}},
		{"near, but contradicted", join(full(3, 400), short(1, 405, 0.1), short(1, 410, 0), short(4, 416, 0.1)), Limit{Lower: 399.6, Upper: 415.584, Inversions: 1, Clean: 4, Lossy: 5}},
		{"at max", full(3, 1000), Limit{Lower: 999, AtCeiling: true, Clean: 3}},
		{"clean, far below max", full(3, 400), Limit{Lower: 399.6, Clean: 3}},
		{"beyond the tester", join(full(3, 400), invalid(3, 415)), Limit{Lower: 399.6, AtCeiling: true, Clean: 3, Invalid: 3}},
		{"invalid twice is not beyond it", join(full(3, 400), invalid(2, 415)), Limit{Lower: 399.6, Clean: 3, Invalid: 2}},
		{"beyond the tester, far above", join(full(3, 400), invalid(3, 800)), Limit{Lower: 399.6, Clean: 3, Invalid: 3}},
	} {
		got := s.Limit(c.h)
		for _, p := range []struct{ got, want *unit.FrameRate }{{&got.Lower, &c.want.Lower}, {&got.Upper, &c.want.Upper}} {
			if math.Abs(float64(*p.got-*p.want)) < 1e-6 {
				*p.got = *p.want
			}
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
