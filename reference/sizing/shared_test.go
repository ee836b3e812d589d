// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"boxdyno/result"
)

// meteredRun has points of 1, 2 and 4 of four boards that one plug sees, with a switch. Each
// board takes 2 W idle and 5 W at work, the switch 6 W and 8 W. Fans, at which a command's
// meter stands, take 3 W idle and 3.5, 4 and 5 W.
func meteredRun() Run {
	r := fleetRun("Raspberry Pi 4 Model B Rev 1.4", map[int]float64{1: 10e9, 2: 16e9, 4: 24e9})
	r.Run.Environments = [][]result.Pair{{{Key: result.MeteredKey, Value: "4"}, {Key: result.SharedKey, Value: "switch=60USD,6..8W,inside;fans=15USD,1W,meter=command"}}}
	energy := func(meter, covers string, watts float64) result.Energy {
		return result.Energy{Meter: meter, Covers: covers, Joules: 10 * watts, Seconds: 10, Readings: 9}
	}
	r.Run.Telemetry = []result.Telemetry{{Idle: []result.Energy{energy("plug", "wall", 4*2+6), energy("fan meter", "command", 3)}}}
	fans := map[float64]float64{1: 3.5, 2: 4, 4: 5}
	for i := range r.Records {
		n, _ := strconv.ParseFloat(result.Get(r.Records[i].Config, "nodes"), 64)
		r.Records[i].Energy = []result.Energy{energy("plug", "wall", 5*n+2*(4-n)+8), energy("fan meter", "command", fans[n])}
	}
	return r
}

// Boards that idled at the meter, and what they share, are told apart from those that served.
func TestIdleBoardsAndSharedParts(t *testing.T) {
	cs := Own(Job{Kind: HPL}, []Run{meteredRun()})[1:] // beside the one board
	if len(cs) != 1 || len(cs[0].Power) != 3 || len(cs[0].Shared) != 2 {
		t.Fatalf("%+v", cs)
	}
	c := cs[0]
	near := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s: %v, want %g", what, got, want)
		}
	}
	near("watts of one", &c.Watts.Value, 5)
	for i, want := range []float64{5, 10, 20} {
		near("power", &c.Power[i].Value, want)
	}
	if f := c.Shared[1]; f.Idle == nil || *f.Idle != 3 || len(f.Loaded) != 3 || f.loaded(2) != 4 || f.loaded(3) != 5 || f.loaded(9) != 5 {
		t.Errorf("%+v", f)
	}
	r := plan(t, Job{Kind: HPL, Load: 20e9}, cs, Options{})
	row := r.Rows[0]
	for i, want := range []struct{ watts, shared, joules, usd, linear float64 }{
		{5, 0, 5. / 10, 35, 1}, {10, 8 + 4, 22. / 16, 2*35 + 75, .8}, {20, 8 + 5, 33. / 24, 4*35 + 75, .6},
	} {
		s := row.Steps[i]
		near("watts", s.Watts, want.watts)
		near("shared watts", s.Parts, want.shared)
		near("joules", s.Joules, want.joules)
		near("rate per watt", s.PerW, 1e9/want.joules)
		near("price", s.USD, want.usd)
		near("rate per dollar", s.PerUSD, s.Rate.Value/want.usd)
		near("share of linear", s.Linear, want.linear)
	}
	// The plan for 20 GFLOPS is 4 boards, with the same parts; by linear scaling 2.
	if row.Number.Value != 4 || row.Scaling != Measured {
		t.Errorf("%+v by %q", row.Number, row.Scaling)
	}
	near("plan's watts", &row.Watts.Value, 33)
	near("plan's joules", &row.Joules.Value, 33./20)
	near("plan's price", &row.Price.Value, 4*35+75)
	// What is named again takes the place of the run's.
	row = plan(t, Job{Kind: HPL, Load: 20e9}, cs, Options{Shared: []Part{{Part: result.Part{Name: "fans", Watts: 1}}}}).Rows[0]
	near("watts with other fans", &row.Watts.Value, 29)

	// Without an idle power nothing is told of the fewer ones, and all of all four.
	run := meteredRun()
	run.Run.Telemetry = nil
	c = Own(Job{Kind: HPL}, []Run{run})[1]
	if len(c.Power) != 1 || c.Power[0].N != 4 || c.Power[0].Value != 20 || !strings.Contains(fmt.Sprint(c.Figures), "was not measured before the run") {
		t.Errorf("%+v, %+v", c.Power, c.Figures)
	}
	// A meter that sees those that serve alone, as in runs of versions before.
	run = meteredRun()
	run.Run.Environments = nil
	c = Own(Job{Kind: HPL}, []Run{run})[1]
	if len(c.Power) != 3 || c.Power[0].Value != 19 {
		t.Errorf("%+v", c.Power)
	}
	// Parts that take more than was read.
	run = meteredRun()
	run.Run.Environments[0][1].Value = "switch=1USD,400W,inside"
	if c = Own(Job{Kind: HPL}, []Run{run})[1]; len(c.Power) != 0 {
		t.Errorf("%+v", c.Power)
	}
}

// Rates with intervals give crossovers with intervals, by what was measured and not linearly.
func TestMeasuredCrossoverInterval(t *testing.T) {
	one := Candidate{Name: "one", Rate: Exact(30)}
	c := Candidate{Name: "c", Origin: OwnRun, Rate: Exact(10), Measured: []Node{{N: 1, Value: 10}, {N: 2, Value: 19}, {N: 4, Value: 31, Lo: 28, Hi: 34}, {N: 8, Value: 50, Lo: 48, Hi: 52}}}
	x := Options{Draws: 2000, Seed: 1}.measured(c, one, PerBox)
	if x.N == nil || x.N.Value != 4 || x.N.Lo != 3 || x.N.Hi != 8 || x.Never != 0 {
		t.Errorf("%+v", x)
	}
	if x := (Options{Draws: 10, Seed: 1}).linear(c, one, PerBox); x.N == nil || x.N.Value != 4 {
		t.Errorf("%+v", x)
	}
	// 45 is passed by 5 boxes linearly, and by 8 as measured: from 5 on nothing is known.
	one.Rate = Exact(45)
	if x := (Options{Draws: 2000, Seed: 1}).measured(c, one, PerBox); x.N == nil || *x.N != (Count{8, 5, 8}) {
		t.Errorf("%+v", x.N)
	}
	one.Rate = Exact(51)
	if x := (Options{Draws: 2000, Seed: 1}).measured(c, one, PerBox); x.N != nil || x.Reason != "8, the most measured, do not" {
		t.Errorf("%+v", x)
	}
	// By the central figures none do, and in more than a third of the draws they pass.
	one.Rate = Estimate{Value: 50.1, Lo: 48, Hi: 52}
	if x := (Options{Draws: 2000, Seed: 1}).measured(c, one, PerBox); x.N != nil || x.Reason == "" || x.Never < .4 || x.Never > .65 {
		t.Errorf("%+v", x)
	}
}

// The power of shared parts steps up with the number of boxes: what two pass, three may not.
func TestLinearCrossoverOfSteps(t *testing.T) {
	one, own := Exact(1), Exact(1)
	against := Candidate{Name: "one", Rate: Exact(40), Watts: &one}
	for rate := 40.; rate < 400; rate += 7 {
		c := Candidate{Name: "c", Rate: Exact(rate), Watts: &own, Shared: []Part{
			{Part: result.Part{Name: "fans"}, Loaded: []Node{{N: 2, Value: .1}, {N: 5, Value: 9}, {N: 8, Value: 30}}},
			{Part: result.Part{Name: "switch", Watts: 3}, Loaded: []Node{{N: 1, Value: 1}, {N: 6, Value: 2}, {N: 7, Value: 8}}},
		}}
		o := Options{Draws: 1, Seed: 1}
		want := 1
		for n := range 1000 {
			_, w := o.sums(c, n+1)
			if !(float64(n+1)*rate/(float64(n+1)+w) > 40) {
				want = n + 2
			}
		}
		x := o.linear(c, against, PerWatt)
		if want > 1000 && x.N != nil || want <= 1000 && (x.N == nil || x.N.Value != want) {
			t.Errorf("rate %g: %+v, want %d", rate, x, want)
		}
	}
}

// Without linear ones the crossovers by what was measured are the same, and there are no curves.
func TestMeasuredOnly(t *testing.T) {
	j := Job{Kind: HPL}
	cs := append(Own(j, []Run{meteredRun()}), Published(j)...)
	whole := plan(t, j, cs, Options{Against: []string{"rpi-5"}, Draws: 50})
	short := plan(t, j, cs, Options{Against: []string{"rpi-5"}, Draws: 50, MeasuredOnly: true})
	linear := func(x Crossover) bool { return x.Scaling == Linear }
	want := slices.DeleteFunc(whole.Crossovers, linear)
	if len(want) == 0 || short.Curves != nil || !reflect.DeepEqual(short.Crossovers, want) {
		t.Errorf("%d curves, %+v, want %+v", len(short.Curves), short.Crossovers, want)
	}
}
