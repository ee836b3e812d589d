// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"fmt"
	"math"
	"slices"
)

// What is compared: the whole rate, or the rate for each dollar or watt.
const (
	PerBox    = "box"
	PerDollar = "dollar"
	PerWatt   = "watt"
)

// Measures are what clusters are compared by.
var Measures = []string{PerBox, PerDollar, PerWatt}

// How a cluster's rate is known: as so many times that of one box, or as measured of
// several. The two are never mixed.
const (
	Linear   = "linear"
	Measured = "measured"
)

// A Crossover is the number of boxes from which on a cluster passes another box.
type Crossover struct {
	Cluster string `json:"cluster"` // Candidate.Name
	Board   string `json:"board,omitempty"`
	Against string `json:"against"`
	Measure string `json:"measure"`
	Scaling string `json:"scaling"`
	N       *Count `json:"n,omitempty"` // nil: it does not pass, or that is not known
	// Never is the share of draws in which it does not pass, of 1.
	Never  float64 `json:"never"`
	Reason string  `json:"reason,omitempty"` // why there is no N
}

// A Point is what a number of boxes does by a curve's measure.
type Point struct {
	N     int     `json:"n"`
	Value float64 `json:"value"` // in the result's unit; per dollar, per watt
	Lo    float64 `json:"lo"`
	Hi    float64 `json:"hi"`
}

// A Curve is what 1, 2, ... of a box do; one scaling alone.
type Curve struct {
	Name    string  `json:"name"`
	Board   string  `json:"board,omitempty"`
	Measure string  `json:"measure"`
	Scaling string  `json:"scaling"`
	Points  []Point `json:"points"`
}

// leastCurve is how many boxes a curve has at least.
const leastCurve = 12

// cross compares every candidate with those that Options.Against names.
func (o Options) cross(r *Result) {
	furthest := leastCurve
	for _, against := range r.Rows {
		if against.Fleet || !slices.ContainsFunc(o.Against, against.Is) {
			continue // one box is passed, and a fleet's one board stands beside it
		}
		for _, c := range r.Rows {
			if c.Key() == against.Key() || c.Board != "" && c.Board == against.Board {
				continue
			}
			for _, m := range Measures {
				if !o.MeasuredOnly && !c.Fleet {
					x := o.linear(c.Candidate, against.Candidate, m)
					if x.N != nil && x.N.Value <= 100 {
						furthest = max(furthest, x.N.Value+2)
					}
					r.Crossovers = append(r.Crossovers, x)
				}
				if len(c.Measured) > 0 {
					r.Crossovers = append(r.Crossovers, o.measured(c.Candidate, against.Candidate, m))
				}
			}
		}
	}
	if o.MeasuredOnly {
		return
	}
	for _, row := range r.Rows {
		r.Curves = append(r.Curves, o.curves(row.Candidate, furthest)...)
	}
}

// value is what n boxes of c with that rate and watts altogether do by a measure.
func (o Options) value(c Candidate, measure string, n int, rate, usd, watts float64) float64 {
	shareUSD, shareW := o.sums(c, n)
	switch measure {
	case PerDollar:
		return rate / (float64(n)*usd + shareUSD)
	case PerWatt:
		return rate / (watts + shareW)
	}
	return rate
}

// lacks says which figure of a candidate a measure lacks.
func (c Candidate) lacks(measure string) string {
	switch {
	case measure == PerDollar && c.Price == nil:
		return "the price of " + c.Name + " is not known"
	case measure == PerWatt && c.Watts == nil:
		return "the power of " + c.Name + " is not known"
	}
	return ""
}

// orZero draws an estimate that may be unknown.
func (e *Estimate) orZero(draw func(Estimate) float64) float64 {
	if e == nil {
		return 0
	}
	return draw(*e)
}

// linear finds the number of boxes from which they pass another box, if each does what
// one alone does.
func (o Options) linear(c, against Candidate, measure string) Crossover {
	x := Crossover{Cluster: c.Name, Board: c.Board, Against: against.Name, Measure: measure, Scaling: Linear}
	if x.Reason = c.lacks(measure); x.Reason == "" {
		x.Reason = against.lacks(measure)
	}
	if x.Reason != "" {
		return x
	}
	steps := o.stepsOf(c)
	find := func(draw func(Estimate) float64) int {
		rate, usd, watts := draw(c.holds()), c.Price.orZero(draw), c.Watts.orZero(draw)
		want := o.value(against, measure, 1, draw(against.holds()), against.Price.orZero(draw), against.Watts.orZero(draw))
		at := func(n int) float64 { return o.value(c, measure, n, float64(n)*rate, usd, float64(n)*watts) }
		// Within a step of what they share it never falls. In the last step in which some do
		// not pass, the first number after those counts.
		end := Most
		for _, start := range slices.Backward(steps) {
			switch {
			case at(start) > want:
				end = start - 1
				continue
			case at(end) > want:
			case end == Most:
				return math.MaxInt
			default:
				return end + 1
			}
			lo, hi := start, end
			for hi-lo > 1 {
				if mid := (lo + hi) / 2; at(mid) > want {
					hi = mid
				} else {
					lo = mid
				}
			}
			return hi
		}
		return 1
	}
	n := find(func(e Estimate) float64 { return e.Value })
	rnd := o.random(c)
	draws := make([]float64, 0, o.Draws)
	never := 0
	for range o.Draws {
		if k := find(func(e Estimate) float64 { return e.draw(rnd) }); k > Most {
			never++
		} else {
			draws = append(draws, float64(k))
		}
	}
	x.Never = float64(never) / float64(o.Draws)
	if n > Most {
		x.Reason = "no number of boxes does"
		return x
	}
	e := Exact(float64(n))
	if len(draws) > 0 {
		e = estimated(float64(n), draws)
	}
	x.N = &Count{n, int(e.Lo), int(e.Hi)}
	return x
}

// measured finds the first measured number of boxes from which on they pass another box.
// Its interval is of draws; in each of them the last that did not pass is below it.
func (o Options) measured(c, against Candidate, measure string) Crossover {
	x := Crossover{Cluster: c.Name, Board: c.Board, Against: against.Name, Measure: measure, Scaling: Measured}
	if measure == PerDollar {
		x.Reason = c.lacks(measure)
	}
	if x.Reason == "" {
		x.Reason = against.lacks(measure)
	}
	if measure == PerWatt && len(c.Power) == 0 {
		x.Reason = "the power of several " + c.Name + " was not measured"
	}
	if x.Reason != "" {
		return x
	}
	find := func(draw func(Estimate) float64) (n, below int) { // 0: none; the largest number that does not pass
		want := o.value(against, measure, 1, draw(against.holds()), against.Price.orZero(draw), against.Watts.orZero(draw))
		for _, p := range o.points(c, measure, draw) {
			switch {
			case !(p.Value > want):
				n, below = 0, p.N
			case n == 0:
				n = p.N
			}
		}
		return n, below
	}
	n, below := find(func(e Estimate) float64 { return e.Value })
	rnd := o.random(c)
	lows, highs := []float64{float64(below + 1)}, []float64{float64(n)}
	never := 0
	for range o.Draws {
		if k, b := find(func(e Estimate) float64 { return e.draw(rnd) }); k == 0 {
			never++
		} else {
			lows, highs = append(lows, float64(b+1)), append(highs, float64(k))
		}
	}
	if x.Never = float64(never) / float64(max(o.Draws, 1)); n == 0 {
		x.Reason = fmt.Sprintf("%d, the most measured, do not", below)
		return x
	}
	lo, _ := interval(lows)
	_, hi := interval(highs)
	x.N = &Count{n, min(int(lo), n), max(int(hi), n)}
	return x
}

// points are what measured numbers of boxes do by a measure.
func (o Options) points(c Candidate, measure string, draw func(Estimate) float64) (out []Point) {
	usd := c.Price.orZero(draw)
	for _, m := range c.Measured {
		watts, known := 0.0, measure != PerWatt
		for _, p := range c.Power {
			if p.N == m.N {
				watts, known = draw(p.estimate()), true
			}
		}
		if !known {
			continue
		}
		e := m.estimate()
		of := func(rate float64) float64 { return o.value(c, measure, m.N, rate, usd, watts) }
		out = append(out, Point{m.N, of(draw(e)), of(e.Lo), of(e.Hi)})
	}
	return out
}

// curves are what 1 to n boxes do by each measure that can be told.
func (o Options) curves(c Candidate, n int) (out []Curve) {
	for _, m := range Measures {
		if c.lacks(m) == "" && !c.Fleet {
			curve := Curve{Name: c.Name, Board: c.Board, Measure: m, Scaling: Linear}
			rnd := o.random(c)
			type drawn struct{ rate, usd, watts float64 }
			draws := make([]drawn, min(o.Draws, 1000))
			for i := range draws {
				draw := func(e Estimate) float64 { return e.draw(rnd) }
				draws[i] = drawn{draw(c.holds()), c.Price.orZero(draw), c.Watts.orZero(draw)}
			}
			mid := func(e Estimate) float64 { return e.Value }
			for k := 1; k <= n; k++ {
				values := make([]float64, len(draws))
				for i, d := range draws {
					values[i] = o.value(c, m, k, float64(k)*d.rate, d.usd, float64(k)*d.watts)
				}
				e := estimated(o.value(c, m, k, float64(k)*c.holds().Value, c.Price.orZero(mid), float64(k)*c.Watts.orZero(mid)), values)
				curve.Points = append(curve.Points, Point{k, e.Value, e.Lo, e.Hi})
			}
			out = append(out, curve)
		}
		if len(c.Measured) > 0 && !(m == PerDollar && c.Price == nil) {
			if points := o.points(c, m, func(e Estimate) float64 { return e.Value }); points != nil {
				out = append(out, Curve{Name: c.Name, Board: c.Board, Measure: m, Scaling: Measured, Points: points})
			}
		}
	}
	return out
}
