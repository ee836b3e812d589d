// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/unit"
)

// A known box is a simulated one with the loads between which its limit lies, for
// a loss ratio and trials of length d. Of a noisy one: from where a trial in a
// hundred loses to where one in a hundred does not.
type known struct {
	name  string
	box   dut
	noisy bool
	truth func(loss float64, d time.Duration) (least, most float64)
}

func at(limit func(d time.Duration) float64) func(float64, time.Duration) (float64, float64) {
	return func(loss float64, d time.Duration) (float64, float64) {
		l := limit(d) / (1 - loss)
		return l, l
	}
}

// random makes a box with a limit between 0.5 and 100 % of max.
func random(rng *rand.Rand, max float64) known {
	limit := max * math.Exp(-rng.Float64()*math.Log(150))
	noise := func(name string, box dut, least, most func(d time.Duration) float64) known {
		return known{name, box, true, func(loss float64, d time.Duration) (float64, float64) {
			if loss > 0 && name == "curve" { // which never loses as much
				return math.Inf(1), math.Inf(1)
			}
			return least(d), most(d) / (1 - loss)
		}}
	}
	switch rng.IntN(8) {
	case 0:
		return known{"sharp", sharp(limit), false, at(func(time.Duration) float64 { return limit })}
	case 1:
		burst := rng.Float64() * limit / 20
		return known{"policer", policer(limit, burst), false, at(func(d time.Duration) float64 { return limit + burst/d.Seconds() })}
	case 2:
		share := 0.02 + rng.Float64()
		return known{"slope", slope(limit, share), false, func(loss float64, _ time.Duration) (float64, float64) {
			l := limit / (1 - loss/share)
			return l, l
		}}
	case 3:
		return known{"collapse", collapse(limit), false, func(loss float64, _ time.Duration) (float64, float64) {
			l := limit / math.Sqrt(1-loss)
			return l, l
		}}
	case 4:
		size, flows := 64+rng.Float64()*1454, 1+rng.IntN(1_000_000)
		limit := min(stack(size, flows), max)
		return known{fmt.Sprintf("stack at %.0f octets and %d flows", size, flows), sharp(limit), false, at(func(time.Duration) float64 { return limit })}
	case 5:
		share, tau := 0.3*rng.Float64(), time.Duration(rng.ExpFloat64()*float64(20*time.Second))
		return known{"heat", heat(limit, share, tau), false, func(loss float64, _ time.Duration) (float64, float64) {
			return limit * (1 - share) / (1 - loss), limit / (1 - loss)
		}}
	case 6:
		mid, spread := limit, 0.01+0.5*rng.Float64()
		return noise("curve", curve(rng, mid, spread),
			func(d time.Duration) float64 { return curveAt(mid, spread, 0.01, d) },
			func(d time.Duration) float64 { return curveAt(mid, spread, 0.99, d) })
	}
	perSecond, mean := math.Exp(rng.Float64()*math.Log(100)), 100e-6*math.Exp(rng.Float64()*math.Log(30))
	return noise(fmt.Sprintf("%.1f stalls/s of %.0f us", perSecond, mean*1e6), stalls(rng, limit, perSecond, mean),
		func(d time.Duration) float64 { return stallsAt(limit, perSecond, mean, 0.01, d) },
		func(time.Duration) float64 { return limit })
}

// 10,000 boxes at random: a search of any preset ends within its cap, and its
// bounds hold: always where the box does the same at every time, in 99 of 100
// searches where it does not.
func TestBoundsHold(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, seed))
	type count struct{ n, wrong int }
	noisy := map[string]*count{}
	for i := range testutil.Cases(10_000) {
		top := math.Exp(math.Log(1e4) + rng.Float64()*math.Log(1e3))
		b := random(rng, top)
		p := Presets[rng.IntN(len(Presets))]
		if p.Name == "csit" && rng.IntN(5) > 0 { // takes hundreds of trials
			p = Presets[0]
		}
		s := start(t, p.Name, top, top*math.Exp(-rng.Float64()*3))
		h := run(s, tester{ceiling: math.Inf(1), short: 0.003 * float64(rng.IntN(2)), rng: rng}, b.box)
		if len(h) > s.Trials {
			t.Fatalf("box %d, %s with %s: %d trials, the cap is %d", i, b.name, p.Name, len(h), s.Trials)
		}
		for _, l := range s.Limits(h) {
			least, most := b.truth(float64(l.Goal.Loss), l.Goal.Final)
			c := noisy[p.Name+" "+l.Goal.Name]
			if c == nil {
				c = &count{}
				noisy[p.Name+" "+l.Goal.Name] = c
			}
			const round = 1 + 1e-9
			wrong := float64(l.Lower) > most*round || l.Upper > 0 && float64(l.Upper)*round < least || l.Upper > 0 && l.Lower >= l.Upper
			switch {
			case b.noisy:
				c.n++
				if wrong {
					c.wrong++
				}
			case wrong:
				t.Errorf("seed %d, box %d, %s with %s: %s between %v and %v: %+v", seed, i, b.name, p.Name, l.Goal.Name, least, most, l)
			}
		}
	}
	for name, c := range noisy {
		t.Logf("%s: %d of %d wrong at noisy boxes", name, c.wrong, c.n)
		if c.wrong*100 > c.n {
			t.Errorf("seed %d: %s: %d of %d searches of noisy boxes are wrong", seed, name, c.wrong, c.n)
		}
	}
}

// The policers of script/prove: quick and csit come within half a percent of the
// truth, as offered, with at most half the traffic of bisection that repeats as
// often at a load.
func TestKnownLimits(t *testing.T) {
	for _, name := range []string{"quick", "csit", "standard", "tst009", "rfc2544"} {
		for _, limit := range []float64{50e3, 187e3, 250e3, 700e3} {
			for _, burst := range []float64{0, 64, 1000} {
				const overload = 0.05 // s
				rate := limit + burst/overload
				s := start(t, name, min(1.25*rate, 1.5e6), rate)
				h := run(s, exact, policer(limit, burst))
				twin := s
				twin.Halves, twin.Trials = true, 1000
				slow := run(twin, exact, policer(limit, burst))
				for i, l := range s.Limits(h) {
					truth := (limit + burst/l.Goal.Final.Seconds()) / (1 - float64(l.Goal.Loss))
					for _, l := range []Limit{l, twin.Limits(slow)[i]} {
						if float64(l.Lower) > truth*(1+1e-9) || float64(l.Lower) < truth*0.995 || float64(l.Upper) <= truth || float64(l.Upper) > truth*1.0051 || !l.Sharp {
							t.Errorf("%s, limit %v and burst %v: truth %v, found %+v in %d trials", name, limit, burst, truth, l, len(h))
						}
					}
				}
				if traffic(h) > traffic(slow)/2 {
					t.Errorf("%s, limit %v and burst %v: %v of traffic, bisection %v", name, limit, burst, traffic(h), traffic(slow))
				}
				if burst == 64 {
					t.Logf("%s, limit %v: %d trials of %v together, bisection %d of %v", name, limit, len(h), traffic(h), len(slow), traffic(slow))
				}
			}
		}
	}
}

// Two searches of one noisy box agree: a pair whose intervals lie apart holds a
// search that is confidently wrong, and at most one search in a hundred may be,
// so at most two pairs in a hundred may lie apart.
func TestNoisyBoxesRepeat(t *testing.T) {
	pairs := testutil.Cases(1000)
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
		{"policer and 2 stalls/s of 3 ms", func(r *rand.Rand) dut { return stalls(r, 187e3, 2, 3e-3) }},
	} {
		seed := uint64(i + 1)
		rng := rand.New(rand.NewPCG(seed, 2))
		var apart, sharp, none [3]int
		trials, inverted, d := 0, 0, time.Duration(0)
		for range pairs {
			var l [2][]Limit
			for j := range l {
				s := start(t, "quick", 1.2e6, 1.2e6*(0.2+0.7*rng.Float64()))
				h := run(s, tester{ceiling: math.Inf(1), short: 0.003, rng: rng}, c.box(rng))
				l[j] = s.Limits(h)
				trials += len(h)
				d += traffic(h)
				if l[j][0].Inversions > 0 {
					inverted++
				}
			}
			for g := range apart {
				if l[0][g].Lower == 0 || l[1][g].Lower == 0 {
					none[g]++
				}
				if above(l[0][g], l[1][g]) || above(l[1][g], l[0][g]) {
					apart[g]++
					if l[0][g].Sharp || l[1][g].Sharp {
						sharp[g]++
					}
				}
			}
		}
		t.Logf("%s (seed %d): of %d pairs %v apart, %v without a lower bound; %.1f trials, %.1f s of traffic", c.name, seed, pairs, apart, none,
			float64(trials)/float64(2*pairs), d.Seconds()/float64(2*pairs))
		for g, n := range apart {
			if n*100 > pairs || sharp[g]*200 > pairs {
				t.Errorf("%s (seed %d): %d of %d pairs contradict each other in goal %d, %d of them with a sharp one", c.name, seed, n, pairs, g, sharp[g])
			}
		}
		if none[0]*20 > pairs {
			t.Errorf("%s (seed %d): of %d pairs %d have a search without a lower bound", c.name, seed, pairs, none[0])
		}
		if inverted == 0 {
			t.Errorf("%s (seed %d): no inversion was counted in %d searches", c.name, seed, 2*pairs)
		}
	}
}

func above(a, b Limit) bool { return b.Upper > 0 && a.Lower > b.Upper }

// Where the tester's machine disturbs a policer, the truth lies in the interval.
func TestDisturbedPolicer(t *testing.T) {
	const seed, runs = 7, 2000
	rng := rand.New(rand.NewPCG(seed, seed))
	wrong, open := 0, 0
	for range runs {
		limit := []float64{50e3, 187e3, 250e3, 700e3}[rng.IntN(4)]
		perSecond, mean := 2*rng.Float64(), 3e-3*rng.Float64()
		s := start(t, "quick", 1.25*limit, limit*(0.9+0.15*rng.Float64()))
		l := s.Limit(run(s, tester{ceiling: math.Inf(1), short: 0.002, fails: 0.05, rng: rng}, stalls(rng, limit, perSecond, mean)))
		if l.Upper == 0 || l.Lower == 0 {
			open++
		}
		if float64(l.Lower) > limit || l.Upper > 0 && float64(l.Upper) < limit {
			wrong++
		}
	}
	t.Logf("seed %d: of %d searches %d confidently wrong, %d with one bound only", seed, runs, wrong, open)
	if wrong*100 > runs {
		t.Errorf("seed %d: %d of %d searches do not hold the truth", seed, wrong, runs)
	}
}

func start(t interface{ Fatal(...any) }, preset string, max, guess float64) Search {
	s, err := New(preset, unit.FrameRate(max), unit.FrameRate(guess))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
