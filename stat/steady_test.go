// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A box forwards from a bucket that is full at first, and stands still now and then.
type courseBox struct {
	rate, bucket, offered float64
	seconds, mark         float64
	stalls, stall         float64 // a second, and their mean in s
	catchUp               bool    // what waited in a stall comes at once afterwards, not never
}

func (b courseBox) run(rng *rand.Rand) (at, n []float64) {
	const dt = 100e-6
	credit, count, marked, waited, until := b.bucket, 0.0, -1.0, 0.0, 0.0
	for t := 0.0; t < b.seconds; t += dt {
		if t-marked >= b.mark*(1-1e-9) {
			at, n, marked = append(at, t), append(n, math.Floor(count)), t
		}
		if b.stalls > 0 && rng.Float64() < b.stalls*dt {
			until = t + rng.ExpFloat64()*b.stall
		}
		credit = min(credit+b.rate*dt, max(b.bucket, b.rate*dt))
		passed := min(credit, b.offered*dt)
		credit -= passed
		switch {
		case t < until && b.catchUp:
			waited += passed
		case t < until:
		default:
			count += passed + waited
			waited = 0
		}
	}
	return at, n
}

// The plateau of a box with a bucket is its rate, and begins when the bucket is
// empty; a box that stands still for 50 us to 5 ms keeps its plateau.
func TestSteadyFindsTheSustainedRate(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, seed))
	unknown := 0
	for i := range 600 {
		b := courseBox{rate: math.Exp(math.Log(2e3) + rng.Float64()*math.Log(250)), seconds: 0.2 + rng.Float64(), mark: []float64{3e-3, 4e-3, 10e-3}[i%3]}
		b.offered = b.rate * (1.25 + 10*rng.Float64())
		empty := b.seconds * 0.5 * rng.Float64() * float64(i%2)
		b.bucket = empty * (b.offered - b.rate)
		allowed := 0.005
		if i%4 > 1 {
			b.stalls, b.stall, b.catchUp = 5*rng.Float64(), math.Exp(math.Log(50e-6)+rng.Float64()*math.Log(100)), i%8 > 3
			allowed += 3*b.stalls*b.stall + 8*b.stall/b.seconds
		}
		at, n := b.run(rng)
		p, ok := Steady(at, n)
		switch {
		case !ok:
			unknown++
		case math.Abs(p.Rate/b.rate-1) > allowed && !p.Falling:
			t.Errorf("seed %d, %d: %+v, empty after %.3f s: plateau %+v, off by %.4f", seed, i, b, empty, p, p.Rate/b.rate-1)
		case b.stalls == 0 && at[p.From] < empty-b.mark:
			t.Errorf("seed %d, %d: %+v, empty after %.3f s: the plateau begins at %.3f s", seed, i, b, empty, at[p.From])
		case b.stalls == 0 && at[p.From] > empty+2*b.seconds/steadyBins+2*b.mark:
			t.Errorf("seed %d, %d: %+v, empty after %.3f s: the plateau begins as late as %.3f s", seed, i, b, empty, at[p.From])
		}
	}
	if unknown > 12 {
		t.Errorf("seed %d: of %d courses of 600 no plateau is known", seed, unknown)
	}
}

// A bucket that is empty shortly before the end is not taken for a plateau without
// a word.
func TestSteadyNearTheEnd(t *testing.T) {
	for left := 0.0; left < 0.4; left += 0.004 {
		b := courseBox{rate: 1e5, offered: 2e5, seconds: 0.4, mark: 4e-3}
		b.bucket = (b.seconds - left) * (b.offered - b.rate)
		at, n := b.run(nil)
		p, ok := Steady(at, n)
		if ok && !p.Falling && left > 0.012 && math.Abs(p.Rate/b.rate-1) > 0.005 {
			t.Errorf("%.3f s after the bucket is empty: %+v", left, p)
		}
	}
}

func TestSteadyWithout(t *testing.T) {
	for _, c := range [][2][]float64{{}, {{0}, {0}}, {{0, 1, 2, 3}, {0, 1, 2, 3}}, {{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}}, {{1, 1, 1, 1, 1, 1}, {0, 100, 200, 300, 400, 500}}} {
		if p, ok := Steady(c[0], c[1]); ok {
			t.Errorf("%v: %+v", c, p)
		}
	}
}
