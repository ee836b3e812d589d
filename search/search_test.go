// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/unit"

	"pgregory.net/rapid"
)

var presets = rapid.SampledFrom(Names())

// strict presets: their goals pool loads.
var strict = rapid.SampledFrom([]string{"quick", "standard"})

// rate is a load, spread over its range evenly in logarithms.
func rate(t *rapid.T, name string, lo, hi float64) float64 {
	return math.Exp(rapid.Float64Range(math.Log(lo), math.Log(hi)).Draw(t, name))
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		preset string
		max    float64
		want   string
	}{{"rfc9999", 1e6, "rfc9999"}, {"", 1e6, "quick"}, {"quick", 0, "above 0"}, {"quick", -1, "above 0"}, {"quick", math.NaN(), "above 0"}, {"quick", math.Inf(1), "above 0"}} {
		if _, err := New(c.preset, unit.FrameRate(c.max), 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%q, %v): %v", c.preset, c.max, err)
		}
	}
	for _, guess := range []float64{0, -1, 2e6, math.NaN()} {
		if s := start(t, "quick", 1e6, guess); s.Guess != 1e6 {
			t.Errorf("guess %v: first load %v, want max", guess, s.Guess)
		}
	}
	if s := start(t, "quick", 1e6, 1); s.Guess != 5000 {
		t.Errorf("a guess below the floor gives %v", s.Guess)
	}
}

// Presets are what METHOD and docs/search.md say of them, and can be searched by.
func TestPresets(t *testing.T) {
	for _, c := range []struct {
		name         string
		final, sum   time.Duration
		exceed       float64
		goals        string
		width        float64
		mostDeviates bool
	}{
		{"rfc2544", time.Minute, time.Minute, 0, "NDR", 0.005, false},
		{"tst009", time.Minute, 2 * time.Minute, 0.5, "NDR", 0.005, true},
		{"csit", time.Second, 21 * time.Second, 0.5, "NDR PDR(0.5 %)", 0.005, true},
		{"quick", 150 * time.Millisecond, 450 * time.Millisecond, 0, "NDR PDR(0.1 %) PDR(0.5 %)", 0.005, true},
		{"standard", time.Minute, 2 * time.Minute, 0, "NDR PDR(0.1 %) PDR(0.5 %)", 0.005, true},
	} {
		p, err := Get(c.name)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, g := range p.Goals {
			names = append(names, g.Name)
		}
		g := p.Goals[0]
		if g.Loss != 0 || g.Final != c.final || g.Sum != c.sum || g.Exceed != c.exceed || g.Width != c.width || strings.Join(names, " ") != c.goals || (p.Deviation != "") != c.mostDeviates {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// Whatever a box and a tester do, a search ends, asks only for loads and
// durations that it may, and is replayed by its history.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := rate(t, "max", 10, 1e8)
		s := start(t, presets.Draw(t, "preset"), top, rate(t, "guess", top/300, top*1.2))
		s.Trials = min(s.Trials, 60)
		lengths := map[time.Duration]bool{}
		for _, g := range s.Goals {
			for _, r := range g.ladder() {
				lengths[r.trial] = true
			}
		}
		outcome := rapid.IntRange(0, 9)
		bad := rapid.IntRange(0, 9).Draw(t, "of ten lossy")
		invalid := rapid.IntRange(0, 9).Draw(t, "of ten invalid")
		var h []Seen
		for {
			step, more := s.Next(h)
			if !more {
				break
			}
			if most := s.Trials + min(s.Goals[0].silent(h), s.Trials/2); len(h) >= most {
				t.Fatalf("asks for trial %d, the cap is %d", len(h)+1, most)
			}
			if !(step.Rate > 0) || step.Rate > s.Max || step.Rate < s.floor() || !lengths[step.Duration] {
				t.Fatalf("step %+v of %+v", step, s)
			}
			if len(h) >= tries && step.Rate == h[len(h)-1].Rate && !slices.ContainsFunc(h[len(h)-tries:], func(o Seen) bool { return o.Valid || o.Rate != step.Rate }) {
				t.Fatalf("asks for %v a fourth time", step.Rate)
			}
			x := Seen{Step: step, Offered: step.Rate * unit.FrameRate(rapid.Float64Range(0.99, 1).Draw(t, "offered")), Valid: outcome.Draw(t, "valid") >= invalid}
			if outcome.Draw(t, "clean") < bad {
				x.Loss = unit.LossRatio(rapid.SampledFrom([]float64{1e-6, 0.002, 0.01, 0.5, 1}).Draw(t, "loss"))
			}
			h = append(h, x)
		}
		for i := range h {
			if step, more := s.Next(h[:i]); !more || step != h[i].Step {
				t.Fatalf("replay of trial %d gives %+v, was %+v", i, step, h[i].Step)
			}
		}
		for i, l := range s.Limits(h) {
			holds(t, l, h)
			if i > 0 && l.Lower < s.Limits(h)[i-1].Lower {
				t.Fatalf("%s is below a stricter goal: %+v", l.Goal.Name, s.Limits(h))
			}
		}
	})
}

// holds checks the promises of Limit's fields against the history itself.
func holds(t *rapid.T, l Limit, h []Seen) {
	g := l.Goal
	var clean, lossy, invalid, losing, below int
	var full time.Duration
	for _, x := range h {
		switch {
		case !x.Valid:
			invalid++
		case x.Loss > g.Loss:
			lossy++
			at := x.Offered
			if float64(at) < float64(x.Rate)*(1-g.Width/4) { // the tester stood still amid it
				at = x.Rate
			}
			if g.Lossy > 0 && (g.Loss == 0 || x.Duration >= g.Final) && at <= l.Lower {
				below++
			}
			if at <= l.Upper {
				losing++
			}
		default:
			clean++
			if g.Lossy > 0 && l.Upper > 0 && x.Duration >= g.Final && x.Offered >= l.Upper {
				t.Fatalf("%s: clean at %v, which is not below Upper %v", g.Name, x.Offered, l.Upper)
			}
			if x.Offered >= l.Lower && x.Duration >= g.Final {
				full += x.Duration
			}
		}
	}
	if clean != l.Clean || lossy != l.Lossy || invalid != l.Invalid {
		t.Fatalf("%s: counts %+v, want %d %d %d", g.Name, l, clean, lossy, invalid)
	}
	if g.Lossy > 0 && (l.Lower > 0 && (below > outvoted || full < g.Sum+time.Duration(below*outvotes)*g.Final) || l.Upper > 0 && losing < g.Lossy) {
		t.Fatalf("%+v has a bound that is not confirmed", l)
	}
	if g.Lossy > 0 && l.Upper > 0 && l.Lower >= l.Upper {
		t.Fatalf("bounds are upside down: %+v", l)
	}
	if l.AtCeiling && l.Lower == 0 || l.AtCeiling && g.Loss == 0 && lossy > 0 {
		t.Fatalf("at the ceiling: %+v", l)
	}
	if l.Sharp && (l.Inversions > 0 || l.Lower == 0 || l.Upper == 0 || float64(l.Upper-l.Lower) > g.Width*float64(l.Upper)) {
		t.Fatalf("sharp: %+v", l)
	}
}

// scan is the slow twin of one bound: every load from the floor upwards, 1 %
// apart, at full length; the highest one before the first that lost too much.
func scan(s Search, g Goal, box dut) (clean float64) {
	for r := float64(s.floor()); r <= float64(s.Max); r *= 1.01 {
		if box(r, g.Final) > float64(g.Loss) {
			return clean
		}
		clean = r
	}
	return clean
}

// A box with a threshold: the bounds hold it, are near, and the slow twins agree.
func TestSharpLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := rate(t, "max", 1e3, 1e8)
		limit := rate(t, "limit", top/150, top*0.98)
		burst := limit / 50 * rapid.Float64Range(0, 1).Draw(t, "burst")
		s := start(t, presets.Draw(t, "preset"), top, rate(t, "guess", top/200, top))
		s.Trials = 1000
		box := policer(limit, burst)
		h := run(s, exact, box)
		for _, l := range s.Limits(h) {
			truth := (limit + burst/l.Goal.Final.Seconds()) / (1 - float64(l.Goal.Loss))
			if truth > top*0.99 {
				continue
			}
			if float64(l.Lower) > truth || float64(l.Upper) <= truth || float64(l.Upper-l.Lower) > 1.01*l.Goal.Width*float64(l.Upper) {
				t.Fatalf("limit %v: %+v after %d trials", truth, l, len(h))
			}
			if twin := scan(s, l.Goal, box); twin*1.01 < float64(l.Lower) || twin > float64(l.Upper) {
				t.Fatalf("the scan found %v, the search %+v", twin, l)
			}
		}
	})
}

// Nothing is lost up to the highest load.
func TestLimitAtMax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := rate(t, "max", 10, 1e8)
		s := start(t, presets.Draw(t, "preset"), top, rate(t, "guess", top/200, top))
		for _, l := range s.Limits(run(s, exact, sharp(top))) {
			if !l.AtCeiling || l.Lower != s.Max || l.Upper != 0 || l.Sharp {
				t.Fatalf("%+v, want Lower %v at the ceiling", l, s.Max)
			}
		}
	})
}

// Above its ceiling the tester's trials are invalid: the search ends there.
func TestTesterCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ceiling := rate(t, "ceiling", 3e4, 0.98e6)
		s := start(t, strict.Draw(t, "preset"), 1e6, rate(t, "guess", 5e3, ceiling))
		h := run(s, tester{ceiling: ceiling}, sharp(1e7))
		l := s.Limit(h)
		if l.Sharp || l.Upper != 0 || float64(l.Lower) > ceiling || l.Lower == 0 {
			t.Fatalf("ceiling %v: %+v", ceiling, l)
		}
		if len(h) < s.Trials && (!l.AtCeiling || float64(l.Lower) < 0.94*ceiling) {
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
	first, _ := s.Next(nil)
	h := []Seen{{Step: first}, {Step: first}}
	if step, _ := s.Next(h); step != first {
		t.Errorf("after two invalid trials it asks for %+v", step)
	}
	if step, _ := s.Next(append(h, h[0])); step.Rate >= 3e5 {
		t.Errorf("after three invalid trials it asks for %+v", step)
	}
	// What a tester could not offer thrice, and then more than, it is asked for again.
	held := start(t, "quick", 4e5, 3.2e5)
	again := 0
	var seen []Seen
	for step, more := held.Next(seen); more; step, more = held.Next(seen) {
		x := tester{ceiling: math.Inf(1)}.trial(step, sharp(2.7e5))
		x.Valid = len(seen) < 2 || len(seen) > 4
		if len(seen) > 4 && step.Rate == seen[2].Rate {
			again++
		}
		seen = append(seen, x)
	}
	if l := held.Limit(seen); again == 0 || float64(l.Lower) < 2.7e5*0.995 {
		t.Errorf("%+v after %d trials, %d again at what was invalid", l, len(seen), again)
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

// A load right at the limit loses hardly a frame, which any disturbance may have
// cost, and never twice as many: the limit is found beside it.
func TestLoadAtTheLimit(t *testing.T) {
	const limit = 7e5
	hit := 0
	for k := range 400 {
		s := start(t, "quick", 1.25*limit, 1.15*limit)
		off := float64(k) * 1e-5 // of what the first trial forwards: the forecast, and so the loads to come
		var h []Seen
		tiny := 3e-6
		for step, more := s.Next(h); more; step, more = s.Next(h) {
			x := Seen{Step: step, Offered: step.Rate, Valid: true}
			load := float64(step.Rate)
			x.Loss = unit.LossRatio(max(0, 1-limit/load))
			switch {
			case len(h) == 0:
				x.Loss = unit.LossRatio(1 - limit*(1-off)/load)
			case math.Abs(load/limit-1) < 1e-4:
				hit++
				tiny *= 3
				x.Loss, x.Doubt = unit.LossRatio(tiny), 1
			}
			h = append(h, x)
		}
		l := s.Limit(h)
		if low, high := float64(l.Lower)/limit, float64(l.Upper)/limit; low < 1-s.Goals[0].Width || low > 1+1e-4 || high < 1-1e-4 {
			t.Errorf("%d: %v to %v after %d trials", k, l.Lower, l.Upper, len(h))
		}
	}
	if hit < 50 {
		t.Errorf("%d trials at the limit", hit)
	}
}

// A box that always loses ends early, with nothing below.
func TestZero(t *testing.T) {
	for _, name := range Names() {
		s := start(t, name, 1.2e6, 5e5)
		h := run(s, exact, func(float64, time.Duration) float64 { return 1 })
		if l := s.Limit(h); l.Lower != 0 || l.Sharp || l.AtCeiling || len(h) == s.Trials {
			t.Errorf("%s: %+v after %d trials", name, l, len(h))
		}
	}
}

// Estimate is about right for a box with a sharp limit.
func TestEstimate(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, p := range Presets {
		trials, d := 0, time.Duration(0)
		const n = 100
		for range n {
			limit := 1e5 * math.Exp(2.3*rng.Float64())
			s := start(t, p.Name, min(1.25*limit, 1.2e6), limit*(0.98+0.04*rng.Float64()))
			h := run(s, exact, sharp(limit))
			trials += len(h)
			d += traffic(h)
		}
		wantTrials, want := p.Estimate()
		if got := float64(trials) / n; math.Abs(got-float64(wantTrials)) > 0.25*float64(wantTrials) {
			t.Errorf("%s takes %.1f trials, the estimate is %d", p.Name, got, wantTrials)
		}
		if got := d / n; got < want*7/10 || got > want*13/10 {
			t.Errorf("%s offers load for %v, the estimate is %v", p.Name, got, want)
		}
		if p.Name == "quick" && d/n > 4*time.Second {
			t.Errorf("quick takes %v", d/n)
		}
	}
}
