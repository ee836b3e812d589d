// SPDX-License-Identifier: Apache-2.0

// Package metrics makes values of the metrics that procedures declare.
package metrics

import (
	"slices"

	"boxdyno/result"
	"boxdyno/search"
)

// A List is the metrics that procedures of a package declare.
type List []result.Metric

// Value returns v as the metric of that name, in its unit. It panics where ms has none.
// Programs have one copy of it: with one at each call, capture's figures alone took 17 kB.
//
//go:noinline
func (ms List) Value(name string, v float64) result.Value {
	return result.Value{Metric: name, Unit: ms.Pick(name)[0].Unit, Value: v}
}

// Add appends v to values as the metric of that name, as Value returns it.
//
//go:noinline
func (ms List) Add(values *[]result.Value, name string, v float64) {
	*values = append(*values, ms.Value(name, v))
}

// Spread returns the median of vs as that metric, with least and greatest as its
// interval. It panics where vs is empty.
func (ms List) Spread(name string, vs []float64) result.Value {
	s := slices.Sorted(slices.Values(vs))
	v := ms.Value(name, (s[(len(s)-1)/2]+s[len(s)/2])/2)
	v.Lo, v.Hi, v.N = &s[0], &s[len(s)-1], len(s)
	return v
}

// Interval returns a limit, times factor, as that metric, from its lower to its upper
// bound; without that one it is a lower bound. It panics where ms has none of that name.
func (ms List) Interval(name string, l search.Limit, factor float64) result.Value {
	v := ms.Value(name, float64(l.Lower)*factor)
	low := v.Value
	v.Lo, v.N = &low, l.Clean+l.Lossy
	if l.Upper > 0 {
		high := float64(l.Upper) * factor
		v.Hi = &high
	}
	if l.AtCeiling || v.Hi == nil {
		v.Bound, v.Open = result.AtLeast, !l.AtCeiling
	}
	return v
}

// Pick returns the metrics of those names, in their order. It panics where ms lacks one.
func (ms List) Pick(names ...string) (out []result.Metric) {
	for _, name := range names {
		i := slices.IndexFunc(ms, func(m result.Metric) bool { return m.Name == name })
		if i < 0 {
			panic("procedure: there is no metric " + name)
		}
		out = append(out, ms[i])
	}
	return out
}

// As returns the metric of that name under another label, in the table of that title.
func (ms List) As(name, label, group string) result.Metric {
	m := ms.Pick(name)[0]
	m.Label, m.Group = label, group
	return m
}

// Grouped returns metrics whose table has the title.
func Grouped(title string, metrics []result.Metric) []result.Metric {
	out := slices.Clone(metrics)
	if i := slices.IndexFunc(out, func(m result.Metric) bool { return m.Label != "" }); i >= 0 {
		out[i].Group = title
	}
	return out
}
