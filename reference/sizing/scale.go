// SPDX-License-Identifier: Apache-2.0

package sizing

import "fmt"

// scale counts boxes of one's own by what several of them did together: the first number
// that carried the load; beyond those that were measured, by the rate for each of the most.
// Of published rates of several the linear number stays, for they are not of one's boxes.
func (o Options) scale(r *Row, j Job) {
	if r.Origin != OwnRun || len(r.Measured) == 0 || r.Measured[len(r.Measured)-1].N < 2 {
		return
	}
	m := r.Measured[len(r.Measured)-1]
	n := m.N
	if r.Several != nil {
		n = r.Several.Value - o.Spare
		for _, x := range r.Measured {
			if x.N == n {
				m = x
			}
		}
	}
	per := m.Value / float64(m.N)
	r.Scaling = Measured
	if r.Several == nil {
		n = max(m.N+1, boxes(j.Load, per))
		r.Notes = append(r.Notes, fmt.Sprintf("more than %d together were not measured: %d are by the rate for each of %d", m.N, n+o.Spare, m.N))
	}
	n += o.Spare
	r.Number = Count{n, n, n}
	if r.Several != nil {
		r.Number = *r.Several
	}
	r.Beyond = n >= Most
	usd, watts := o.sums(r.Candidate, n)
	each := func(e *Estimate, shared float64) *Estimate {
		if e == nil {
			return nil
		}
		k := float64(n)
		return &Estimate{Value: shared + k*e.Value, Lo: shared + k*e.Lo, Hi: shared + k*e.Hi}
	}
	r.Price = each(r.Candidate.Price, usd)
	power := r.Candidate.Watts
	for _, p := range r.Power {
		if p.N == m.N {
			w := Exact(p.Value / float64(p.N))
			power = &w
		}
	}
	r.Watts, r.Joules = each(power, watts), nil
	if r.Watts != nil {
		_, of := j.Work()
		r.Joules = &Estimate{Value: r.Watts.Value * of / j.Load, Lo: r.Watts.Lo * of / j.Load, Hi: r.Watts.Hi * of / j.Load}
	}
	r.Room = float64(n)*per/j.Load - 1
	r.Failed = float64(n-1)*per/j.Load - 1
}
