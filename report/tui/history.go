// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"math"

	"boxdyno/result"
	"boxdyno/unit"
)

const (
	keptLong  = 2400 // steps of what is drawn over time: 20 minutes
	keptShort = 20   // of what is only told: the longest column
)

// A history is what the series did, step by step.
type history struct {
	series  []result.Series
	was     []float64      // last values; NaN: absent
	at      []unit.Instant // when they were read
	now     []float64      // gauges' values and counters' rates a second; NaN: not known
	grown   []float64      // counters' growth so far
	seen    []bool         // there was a value
	steps   int
	figures []*figure
}

func newHistory(series []result.Series) *history {
	n := len(series)
	h := &history{series: series, was: make([]float64, n), at: make([]unit.Instant, n), now: make([]float64, n), grown: make([]float64, n), seen: make([]bool, n)}
	for i := range n {
		h.was[i], h.now[i], h.at[i] = math.NaN(), math.NaN(), math.MinInt64
	}
	return h
}

// step takes what was read since the step before. What was not read since then, as a
// collector takes its time, is as it was.
func (h *history) step(batches []result.Batch) {
	for _, b := range batches {
		for k, v := range b.Values {
			if i := b.First + k; i >= 0 && i < len(h.series) && b.At > h.at[i] {
				h.value(i, v, b.At)
			}
		}
	}
	for _, f := range h.figures {
		f.past[h.steps%len(f.past)] = f.how(h.now)
	}
	h.steps++
}

func (h *history) value(i int, v float64, at unit.Instant) {
	was, took := h.was[i], float64(at-h.at[i])/1e9
	h.was[i], h.at[i], h.now[i] = v, at, v
	h.seen[i] = h.seen[i] || !math.IsNaN(v)
	if !h.series[i].Counter {
		return
	}
	d := v - was
	switch {
	case v < was/2: // it started anew
		d = v
	case d < 0: // the kernel rounded
		d = 0
	}
	h.now[i] = d / took
	if !math.IsNaN(d) {
		h.grown[i] += d
	}
}

// A figure is one quantity that is made of series, and how it went.
type figure struct {
	h    *history
	of   []int
	how  func(now []float64) float64
	past []float64 // the last steps, in a ring
}

func (h *history) figure(kept int, of []int, how func(now []float64) float64) *figure {
	f := &figure{h: h, of: of, how: how, past: make([]float64, kept)}
	h.figures = append(h.figures, f)
	return f
}

// sum adds the series up and multiplies them; those that are not known count as
// nothing, save where none is.
func (h *history) sum(kept int, times float64, of ...int) *figure {
	return h.figure(kept, of, func(now []float64) float64 { return times * sum(now, of) })
}

// share is what part of all the series of are.
func (h *history) share(kept int, of, all []int) *figure {
	return h.figure(kept, of, func(now []float64) float64 {
		if whole := sum(now, all); whole > 0 {
			return sum(now, of) / whole
		}
		return math.NaN()
	})
}

// most is the greatest of the series.
func (h *history) most(kept int, of ...int) *figure {
	return h.figure(kept, of, func(now []float64) float64 {
		most := math.NaN()
		for _, i := range of {
			if !(now[i] <= most) && !math.IsNaN(now[i]) {
				most = now[i]
			}
		}
		return most
	})
}

func sum(now []float64, of []int) float64 {
	total, known := 0.0, false
	for _, i := range of {
		if !math.IsNaN(now[i]) {
			total, known = total+now[i], true
		}
	}
	if !known {
		return math.NaN()
	}
	return total
}

// seen says whether any of its series ever had a value: else the machine does not
// have it.
func (f *figure) seen() bool {
	if f == nil {
		return false
	}
	for _, i := range f.of {
		if f.h.seen[i] {
			return true
		}
	}
	return false
}

// grown is the growth of its counters so far.
func (f *figure) grown() (total float64) {
	for _, i := range f.of {
		total += f.h.grown[i]
	}
	return total
}

// mean is that of the n steps before step end, of those that are known; NaN: none is.
func (f *figure) mean(end, n int) float64 {
	total, known := 0.0, 0
	for s := max(end-n, 0, f.h.steps-len(f.past)); s < end; s++ {
		if v := f.past[s%len(f.past)]; !math.IsNaN(v) {
			total, known = total+v, known+1
		}
	}
	if known == 0 {
		return math.NaN()
	}
	return total / float64(known)
}

// columns are the means of the last count times n steps before end, oldest first.
func (f *figure) columns(end, n, count int) []float64 {
	out := make([]float64, max(count, 0))
	for c := range out {
		out[c] = f.mean(end-(len(out)-1-c)*n, n)
	}
	return out
}

// where are the series of these names, in their order.
func (h *history) where(names ...string) (of []int) {
	for _, name := range names {
		for i, s := range h.series {
			if s.Name == name {
				of = append(of, i)
			}
		}
	}
	return of
}
