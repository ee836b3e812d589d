// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"boxdyno/result"
)

// A Part is shared by all boxes and counted once, from two boxes on: a switch, a power
// supply, fans.
type Part struct {
	Name  string  `json:"name"`
	USD   float64 `json:"usd"`
	Watts float64 `json:"watts"` // while boxes work
	// Idle is its power while none does, in W; nil: that of Watts.
	Idle *float64 `json:"idle_watts,omitempty"`
	// Meter is part of the name, or the covers, of a meter that stands at it in a run of a
	// fleet; its readings take the place of Watts and Idle.
	Meter string `json:"meter,omitempty"`
	// Inside says that the meter of the boards sees it, too.
	Inside bool `json:"inside,omitempty"`
	// Loaded is what the meter read beside numbers of boards, in W, ascending.
	Loaded []Node `json:"measured_watts,omitempty"`
}

// PartHelp is how a part is written.
const PartHelp = "NAME=60USD,8W; 6..8W is 6 W idle and 8 W loaded"

// ParsePart reads "switch=60USD,6..8W". Of a run, "meter=command" says which meter stands at
// the part, and "inside" that the meter of the boards sees it.
func ParsePart(s string) (p Part, err error) {
	bad := fmt.Errorf("%q: want a name with price, power or both, such as switch=60USD,8W or switch=60USD,6..8W, or with a meter, and no semicolon", s)
	name, rest, ok := strings.Cut(s, "=")
	if !ok || name == "" || rest == "" || strings.Contains(s, ";") {
		return p, bad
	}
	p.Name = name
	known := false
	number := func(s string) (float64, bool) {
		v, err := strconv.ParseFloat(s, 64)
		return v, err == nil && v >= 0 && v <= 1e9 && !math.IsInf(v, 0)
	}
	for w := range strings.SplitSeq(rest, ",") {
		if w == "inside" {
			p.Inside = true
			continue
		}
		known = true // or it is refused below
		if meter, ok := strings.CutPrefix(w, "meter="); ok && meter != "" {
			p.Meter = meter
			continue
		}
		if n, ok := strings.CutSuffix(w, "USD"); ok {
			if p.USD, ok = number(n); !ok {
				return p, bad
			}
			continue
		}
		n, ok := strings.CutSuffix(w, "W")
		if !ok {
			return p, bad
		}
		if idle, loaded, two := strings.Cut(n, ".."); two {
			v, ok := number(idle)
			if !ok {
				return p, bad
			}
			p.Idle, n = &v, loaded
		}
		if p.Watts, ok = number(n); !ok || p.Idle != nil && *p.Idle > p.Watts {
			return p, bad
		}
	}
	if !known {
		return p, bad
	}
	return p, nil
}

// String is what ParsePart reads.
func (p Part) String() string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	words := []string{f(p.USD) + "USD", f(p.Watts) + "W"}
	if p.Idle != nil {
		words[1] = f(*p.Idle) + ".." + words[1]
	}
	if p.Meter != "" {
		words = append(words, "meter="+p.Meter)
	}
	if p.Inside {
		words = append(words, "inside")
	}
	return p.Name + "=" + strings.Join(words, ",")
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
	return p.Meter != "" && (e.Covers == p.Meter || strings.Contains(e.Meter, p.Meter))
}

// parts are what boxes of c share: what the options name, and what its run had beside.
func (o Options) parts(c Candidate) []Part {
	return append(slices.Clone(o.Shared), o.beside(c)...)
}

// beside are the parts of c's own run that the options do not name again.
func (o Options) beside(c Candidate) []Part {
	return slices.DeleteFunc(slices.Clone(c.Shared), func(p Part) bool {
		return slices.ContainsFunc(o.Shared, func(q Part) bool { return q.Name == p.Name })
	})
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
