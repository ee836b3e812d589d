// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"strconv"
	"strings"
	"testing"

	"boxdyno/result"
)

// fleetRun has points of 1, 2 and 4 boards that solve one system together.
func fleetRun(model string, rates map[int]float64) Run {
	r := runOf("together", 3)
	r.Run.Topology = Fleet
	r.Run.Machines = []result.Machine{{Name: "b1", Board: model}, {Name: "b2", Board: model}}
	for _, n := range []int{1, 2, 4} {
		if v, ok := rates[n]; ok {
			p := point("fleet-hpl-mpi", "hpl_rate", v, 0, 0, "nodes", strconv.Itoa(n))
			p.Energy = []result.Energy{{Meter: "plug", Covers: "wall", Joules: float64(n) * 50, Seconds: 10, Readings: 9}}
			r.Records = append(r.Records, p)
		}
	}
	return r
}

// What one's own boards did together decides how many carry a load, and not what one does
// alone; beyond that the rate for each of the most boards does.
func TestOwnTogether(t *testing.T) {
	const pi = "Raspberry Pi 4 Model B Rev 1.4"
	cs := Own(Job{Kind: HPL}, []Run{fleetRun(pi, map[int]float64{1: 10e9, 2: 16e9, 4: 24e9})})
	if len(cs) != 2 || cs[1].Rate.Value != 10e9 || len(cs[1].Measured) != 3 || len(cs[1].Power) != 3 || cs[1].Board != "rpi-4-b" || !cs[1].Fleet || cs[1].Name != pi+" (fleet)" {
		t.Fatalf("%+v", cs)
	}
	if one := cs[0]; one.Rate.Value != 10e9 || one.Measured != nil || one.Power != nil || one.Fleet || one.Name != pi || one.Board != "rpi-4-b" || one.Watts == nil || one.Watts.Value != 5 {
		t.Errorf("%+v", one)
	}
	for _, c := range []struct {
		load   float64
		number Count
		watts  float64
		note   string
	}{
		{9e9, Count{1, 1, 1}, 5, ""},
		{15e9, Count{2, 2, 2}, 18, ""},
		{20e9, Count{4, 3, 4}, 28, ""},                     // linear: 2
		{30e9, Count{5, 5, 5}, 33, "more than 4 together"}, // linear: 3
		{61e9, Count{11, 11, 11}, 63, "more than 4 together"},
	} {
		row := plan(t, Job{Kind: HPL, Load: c.load}, cs, Options{Boards: []string{pi + inFleet}, Shared: []Part{{Part: result.Part{Name: "switch", USD: 60, Watts: 8}}}}).Rows[0]
		if row.Number != c.number || row.Scaling != Measured || row.Watts == nil || row.Watts.Value != c.watts || strings.Contains(strings.Join(row.Notes, ""), "more than 4 together") != (c.note != "") {
			t.Errorf("%g: %+v by %s, %+v W, %q", c.load, row.Number, row.Scaling, row.Watts, row.Notes)
		}
		if want := 35*float64(c.number.Value) + 60*min(1, float64(c.number.Value-1)); row.Price == nil || row.Price.Value != want {
			t.Errorf("%g: %+v USD, want %g", c.load, row.Price, want)
		}
	}
	// A run without a point of one board has the rate of one from the run of that model alone.
	alone := runOf("alone", 1, point("hpl", "hpl_rate", 9e9, 0, 0))
	cs = Own(Job{Kind: HPL}, []Run{alone, fleetRun(pi, map[int]float64{2: 16e9})})
	if len(cs) != 2 || cs[0].Rate.Value != 9e9 || cs[0].Measured != nil || cs[1].Rate.Value != 9e9 || len(cs[1].Measured) != 1 || cs[0].Name == cs[1].Name {
		t.Fatalf("%+v", cs)
	}
	// The one scales linearly, and the fleet as measured: in numbers, curves and crossovers.
	r := plan(t, Job{Kind: HPL, Load: 30e9}, append(cs, Published(Job{Kind: HPL})...), Options{Boards: []string{"rpi-4-b"}, Against: []string{"nuc-i5-8500t"}})
	numbers := map[string]int{}
	for _, row := range r.Rows {
		if row.Origin == OwnRun {
			numbers[row.Name+row.Scaling] = row.Number.Value
		}
	}
	if len(numbers) != 2 || numbers[cs[0].Name] != 4 || numbers[cs[1].Name+Measured] != 4 {
		t.Errorf("%v", numbers)
	}
	for _, x := range r.Crossovers {
		if x.Cluster == cs[0].Name && x.Scaling != Linear || x.Cluster == cs[1].Name && x.Scaling != Measured || x.Against == cs[1].Name {
			t.Errorf("%+v", x)
		}
	}
	for _, c := range r.Curves {
		if c.Name == cs[0].Name && c.Scaling != Linear || c.Name == cs[1].Name && c.Scaling != Measured {
			t.Errorf("%s by %s", c.Name, c.Scaling)
		}
	}
	// Measured rates hold no more with another rate of one.
	w := WhatIf{Figure: "rate", Board: "rpi-4-b", Factor: 2}
	if err := w.Apply(Job{Kind: HPL}, cs); err != nil || len(plan(t, Job{Kind: HPL, Load: 30e9}, cs, Options{}).Rows) != 1 {
		t.Errorf("%v, %+v", err, cs)
	}
	if cs := Own(Job{Kind: HPL}, []Run{fleetRun(pi, map[int]float64{2: 16e9})}); len(cs) != 0 {
		t.Errorf("%+v", cs)
	}
	// One of one board alone adds nothing, above all not what its boards share.
	one := fleetRun(pi, map[int]float64{1: 8e9})
	one.Run.Environments = [][]result.Pair{{{Key: result.SharedKey, Value: "switch=60USD,8W"}}}
	if cs := Own(Job{Kind: HPL}, []Run{alone, one}); len(cs) != 1 || cs[0].Shared != nil || cs[0].Measured != nil {
		t.Errorf("%+v", cs)
	}
	emulated := fleetRun(pi, map[int]float64{1: 1})
	emulated.Run.Machines[1].Kind = "emulated"
	if cs := Own(Job{Kind: HPL}, []Run{emulated}); len(cs) != 0 {
		t.Errorf("%+v", cs)
	}
	// Systems that boards solve each by themselves say nothing of one that they share.
	each := fleetRun(pi, map[int]float64{1: 10e9, 2: 20e9})
	for i := range each.Records {
		each.Records[i].Procedure = "fleet-hpl"
	}
	if cs := Own(Job{Kind: HPL}, []Run{each}); len(cs) != 0 {
		t.Errorf("%+v", cs)
	}
}
