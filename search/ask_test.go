// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math/rand/v2"
	"testing"
	"time"

	"boxdyno/unit"
)

// decide plays a search of a box that is asked for a load, in which a share of the
// trials is invalid, until its trials are used up. It returns after how many the load
// was decided, and how.
func decide(t *testing.T, box dut, ask, forwards, invalid float64, rng *rand.Rand) (after int, carried, missed bool) {
	t.Helper()
	s, err := New("quick", unit.FrameRate(max(forwards*1.25, ask*1.01)), unit.FrameRate(forwards))
	if err != nil {
		t.Fatal(err)
	}
	s.Ask = unit.FrameRate(ask)
	var h []Seen
	for {
		if l := s.Limit(h); !carried && !missed {
			carried, missed = l.Lower >= s.Ask, l.Upper > 0 && l.Upper < s.Ask
			after = len(h)
		}
		step, more := s.Next(h)
		if !more {
			l := s.Limit(h)
			return after, l.Lower >= s.Ask, l.Upper > 0 && l.Upper < s.Ask
		}
		now := Seen{Step: step, Offered: step.Rate, Valid: rng.Float64() >= invalid}
		now.Loss = unit.LossRatio(box(float64(step.Rate), step.Duration))
		h = append(h, now)
	}
}

// Where the truth lies more than a tenth off, a criterion is decided, and rightly, in few
// trials; a third of them may be invalid.
func TestAsk(t *testing.T) {
	const limit = 500e3
	for _, c := range []struct {
		name string
		box  func(rng *rand.Rand) dut
	}{
		{"sharp", func(*rand.Rand) dut { return sharp(limit) }},
		{"collapse", func(*rand.Rand) dut { return collapse(limit) }},
		{"slope", func(*rand.Rand) dut { return slope(limit, 0.1) }},
		{"curve", func(rng *rand.Rand) dut { return curve(rng, limit, 0.01) }},
	} {
		for _, share := range []float64{0.3, 0.6, 0.9, 1.1, 1.5, 3} {
			ask := limit * share
			wrong, open, late := 0, 0, 0
			const runs = 60
			for n := range runs {
				rng := rand.New(rand.NewPCG(uint64(n), 7))
				after, carried, missed := decide(t, c.box(rng), ask, limit, 0.3, rng)
				switch {
				case carried && share > 1, missed && share < 1:
					wrong++
				case !carried && !missed:
					open++
				case after > 15:
					late++
				}
			}
			if wrong > 0 || open > runs/10 || late > runs/10 {
				t.Errorf("%s asked for %g of its limit: of %d runs %d decided wrongly, %d were open, %d late", c.name, share, runs, wrong, open, late)
			}
		}
	}
}

// A box that stands still in one trial of six may lose the first one just above the load
// that is asked for. It is tried there again, and is never said to carry less.
func TestAskOfAStallingBox(t *testing.T) {
	const ask = 500e3
	decided := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 11))
		first := true
		stalls := func(load float64, d time.Duration) float64 {
			if first || rng.Float64() < 1./6 {
				first = false
				return 0.01
			}
			return sharp(2*ask)(load, d)
		}
		s, err := New("quick", 2.5*ask, 2*ask)
		if err != nil {
			t.Fatal(err)
		}
		s.Ask, s.More = ask, 40
		var h []Seen
		for {
			step, more := s.ask(h)
			if !more {
				break
			}
			offered := step.Rate * unit.FrameRate(1-0.0003*rng.Float64())
			h = append(h, Seen{Step: step, Offered: offered, Valid: true, Loss: unit.LossRatio(stalls(float64(step.Rate), step.Duration))})
			if l := s.Interim(h); l.Upper > 0 && l.Upper < ask && len(h) > 6 {
				t.Fatalf("seed %d: below %v after %d trials", seed, l.Upper, len(h))
			}
		}
		if s.Limit(h).Lower >= ask {
			decided++
		}
	}
	if decided < 60 {
		t.Errorf("%d of 200 boxes were said to carry the load", decided)
	}
}

// A box that stands still in one trial of five or more, whatever the load, is not tried at
// one load until the time is spent: what no trial can decide is left, and the bounds that
// can be had are found.
func TestSearchOfAStallingBoxEnds(t *testing.T) {
	const ask = 327e3
	for _, share := range []float64{0.2, 0.3, 0.5} {
		found := 0
		for seed := range uint64(60) {
			rng := rand.New(rand.NewPCG(seed, 13))
			s, err := New("quick", 2.5*ask, 1.3*ask)
			if err != nil {
				t.Fatal(err)
			}
			s.Ask, s.More = ask, 8
			var h []Seen
			for {
				step, more := s.Next(h)
				if !more {
					break
				}
				if len(h) >= 2*s.Trials+asks+s.More {
					t.Fatalf("share %g, seed %d: no end after %d trials", share, seed, len(h))
				}
				loss := sharp(2.2*ask)(float64(step.Rate), step.Duration)
				if rng.Float64() < share {
					loss = max(loss, 0.01)
				}
				h = append(h, Seen{Step: step, Offered: step.Rate * unit.FrameRate(1-0.0003*rng.Float64()), Valid: rng.Float64() > 0.1, Loss: unit.LossRatio(loss)})
			}
			if s.Limit(h).Lower > 0 {
				found++
			}
			if !s.contradicted(h) {
				continue
			}
			above, below := s.asking()
			for range 60 { // no trial that could be asked for decides any more
				rate := []unit.FrameRate{below, above, above * 1.1}[rng.IntN(3)]
				h = append(h, Seen{Step: Step{rate, s.Goals[0].Final}, Offered: rate, Valid: true, Loss: unit.LossRatio(0.01 * float64(rng.IntN(2)))})
				if l := s.Limit(h); l.Lower >= ask || l.Upper > 0 && l.Upper < ask {
					t.Fatalf("share %g, seed %d: decided after all, %v to %v", share, seed, l.Lower, l.Upper)
				}
			}
		}
		t.Logf("stalls in %g of the trials: 60 searches ended, %d with a lower bound", share, found)
		if share < 0.3 && found < 45 {
			t.Errorf("stalls in %g of the trials: %d of 60 searches have a lower bound", share, found)
		}
	}
}

// The share of boxes with twice the load that is asked for which are decided falls with the
// share of trials in which they stand still (docs/search.md); none is said to carry less.
func TestAskOfStallingBoxes(t *testing.T) {
	const ask, runs = 500e3, 100
	for _, c := range []struct {
		stalls float64
		least  int
	}{{0, runs}, {0.1, 75}, {0.2, 55}, {0.35, 30}} {
		decided := 0
		for n := range uint64(runs) {
			rng := rand.New(rand.NewPCG(n, 17))
			box := func(load float64, d time.Duration) float64 {
				if rng.Float64() < c.stalls {
					return max(0.01, sharp(2*ask)(load, d))
				}
				return sharp(2*ask)(load, d)
			}
			_, carried, missed := decide(t, box, ask, 2*ask, 0, rng)
			if missed {
				t.Errorf("stalls in %g of the trials, seed %d: said to carry less", c.stalls, n)
			}
			if carried {
				decided++
			}
		}
		if t.Logf("stalls in %g of the trials: %d of %d decided", c.stalls, decided, runs); decided < c.least {
			t.Errorf("stalls in %g of the trials: %d of %d decided, want %d", c.stalls, decided, runs, c.least)
		}
	}
}

// A load is given up only where no trial just above it can become a lower bound any more: what
// was lost above that one does not count. A goal that is not strict is never asked.
func TestAskIsGivenUp(t *testing.T) {
	const ask = 500e3
	s, err := New("quick", 2*ask, ask)
	if err != nil {
		t.Fatal(err)
	}
	s.Ask = ask
	seen := func(rate unit.FrameRate, loss unit.LossRatio) Seen {
		return Seen{Step: Step{rate, s.Goals[0].Final}, Offered: rate, Valid: true, Loss: loss}
	}
	for name, c := range map[string]struct {
		lossy unit.FrameRate
		open  bool
	}{"below the load": {0.99 * ask, false}, "at the trials that decide": {ask * (1 + beside), false}, "above them": {1.006 * ask, true}} {
		h := []Seen{seen(1.01*ask, 0), seen(c.lossy, 0.1), seen(c.lossy, 0.1)}
		if s.Open(h) != c.open {
			t.Errorf("two trials lost %s: open is %v", name, !c.open)
		}
		for range 5 {
			h = append(h, seen(ask*(1+beside), 0))
		}
		if (s.Limit(h).Lower >= ask) != c.open {
			t.Errorf("two trials lost %s, and five carried it: %+v", name, s.Limit(h))
		}
	}
	if s, err = New("csit", 2*ask, ask); err != nil {
		t.Fatal(err)
	}
	if s.Ask = ask; s.Open(nil) {
		t.Error("csit: the load is open, and no trial is asked for to decide it")
	}
}

// A load that nobody asks for changes nothing.
func TestAskNothing(t *testing.T) {
	s, _ := New("quick", 1e6, 5e5)
	if _, more := s.ask(nil); more || s.asked([]Seen{{}}) != 0 {
		t.Error("a search without a load to decide on asks for one")
	}
	s.Ask = 2e6 // beyond what can be offered
	if _, more := s.ask(nil); more {
		t.Error("it asks for more than the tester can do")
	}
}
