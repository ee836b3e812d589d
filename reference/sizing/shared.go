// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"slices"
	"strings"

	"boxdyno/result"
)

// A Part is what boxes share, with what a meter at it read.
type Part struct {
	result.Part
	// Loaded is what the meter read beside numbers of boards, in W, ascending.
	Loaded []Node `json:"measured_watts,omitempty"`
}

// Parts are declared ones, which no meter of a run has measured.
func Parts(declared []result.Part) (out []Part) {
	for _, p := range declared {
		out = append(out, Part{Part: p})
	}
	return out
}

// idle is its power while no box works, in W.
func (p Part) idle() float64 {
	if p.Idle != nil {
		return *p.Idle
	}
	return p.Watts
}

// loaded is its power beside n boxes that work: of the least measured number that has as
// many, else of the most.
func (p Part) loaded(n int) float64 {
	for _, l := range p.Loaded {
		if l.N >= n {
			return l.Value
		}
	}
	if k := len(p.Loaded); k > 0 {
		return p.Loaded[k-1].Value
	}
	return p.Watts
}

// stands says whether e is of the meter that stands at the part.
func (p Part) stands(e result.Energy) bool {
	return e.Of == p.Name || p.Meter != "" && e.Of == "" && (e.Covers == p.Meter || strings.Contains(e.Meter, p.Meter))
}

// parts are what boxes of c share: what the options name, what its run had beside, and what
// is declared once and named by neither.
func (o Options) parts(c Candidate) []Part {
	return append(slices.Clone(o.Shared), o.beside(c)...)
}

// beside are the parts of c's own run, and the declared ones, that are not named again.
func (o Options) beside(c Candidate) (out []Part) {
	for _, p := range slices.Concat(c.Shared, o.Declared) {
		named := func(q Part) bool { return q.Name == p.Name }
		if !slices.ContainsFunc(o.Shared, named) && !slices.ContainsFunc(out, named) {
			out = append(out, p)
		}
	}
	return out
}

// sums are the price and the power of what n boxes of c share: one shares nothing.
func (o Options) sums(c Candidate, n int) (usd, watts float64) {
	if n < 2 {
		return 0, 0
	}
	for _, p := range o.parts(c) {
		usd, watts = usd+p.USD, watts+p.loaded(n)
	}
	return usd, watts
}

// stepsOf are the numbers of boxes of c, ascending, from which on what they share stays the
// same up to the next of them.
func (o Options) stepsOf(c Candidate) []int {
	out := []int{1, 2}
	for _, p := range o.parts(c) {
		for _, l := range p.Loaded {
			if l.N >= 2 && l.N < Most {
				out = append(out, l.N+1)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A Step is what a number of boxes did together, as measured. What is not known is nil.
type Step struct {
	N      int      `json:"n"`
	Rate   Estimate `json:"rate"` // in the job's unit
	Per    float64  `json:"rate_per_box"`
	Linear *float64 `json:"of_linear,omitempty"`     // the rate as a share of so many times that of one
	Watts  *float64 `json:"watts,omitempty"`         // of them, without what they share
	Parts  *float64 `json:"shared_watts,omitempty"`  // of what they share
	Joules *float64 `json:"joules_per,omitempty"`    // of a unit of work (Job.Work), by both
	PerW   *float64 `json:"rate_per_watt,omitempty"` // by both
	USD    *float64 `json:"usd,omitempty"`           // with what they share
	PerUSD *float64 `json:"rate_per_dollar,omitempty"`
}

// steps are what numbers of boxes of c did together.
func (o Options) steps(j Job, c Candidate) (out []Step) {
	_, work := j.Work()
	for _, m := range c.Measured {
		n := float64(m.N)
		s := Step{N: m.N, Rate: m.estimate(), Per: m.Value / n}
		if c.Rate.Value > 0 {
			s.Linear = ptr(m.Value / (n * c.Rate.Value))
		}
		usd, watts := o.sums(c, m.N)
		if i := slices.IndexFunc(c.Power, func(p Node) bool { return p.N == m.N }); i >= 0 {
			all := c.Power[i].Value + watts
			s.Watts, s.Parts, s.Joules, s.PerW = ptr(c.Power[i].Value), ptr(watts), ptr(all*work/m.Value), ptr(m.Value/all)
		}
		if c.Price != nil {
			usd += n * c.Price.Value
			s.USD, s.PerUSD = ptr(usd), ptr(m.Value/usd)
		}
		out = append(out, s)
	}
	return out
}

func ptr(v float64) *float64 { return &v }
