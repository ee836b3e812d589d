// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"

	"boxdyno/report"
	"boxdyno/unit"
)

// A track is a Line while telemetry is read. Several sources may add up to it if
// they are counters.
type track struct {
	report.Line
	kind    string
	order   float64 // of its row, else of itself
	counter bool
	cells   [window]cell
	steps   []cell
	before  float64         // ns sampled of the cell that was folded last
	carried cell            // what was sampled of too short a part of a cell
	gaps    map[int]float64 // growth in them
}

// A source is a series that a track is made of.
type source struct {
	track *track
	scale float64
	value float64 // NaN: there is none
	at    unit.Instant
}

// A cell is one interval of sampling, or a step of several. Of a counter sum is its
// growth, of a gauge value x time.
type cell struct {
	sum, time, lo, hi float64
	known             bool // the series was there
	bounded           bool // lo and hi are
}

func (c *cell) bound(lo, hi float64) {
	if !c.bounded || lo < c.lo {
		c.lo = lo
	}
	if !c.bounded || hi > c.hi {
		c.hi = hi
	}
	c.bounded = true
}

func (c *cell) join(d cell) {
	c.sum, c.time, c.known = c.sum+d.sum, c.time+d.time, c.known || d.known
	if d.bounded {
		c.bound(d.lo, d.hi)
	}
}

// at is a cell that can still grow, else the step that it is in.
func (k *track) at(factor, flushed, i int) *cell {
	if i >= flushed {
		return &k.cells[i%window]
	}
	return k.step(i / factor)
}

func (k *track) step(i int) *cell {
	for len(k.steps) <= i {
		k.steps = append(k.steps, cell{})
	}
	return &k.steps[i]
}

// hold says that a gauge was v for ns of a cell; 0: at an instant.
func (k *track) hold(factor, flushed, i int, v, ns float64) {
	c := k.at(factor, flushed, i)
	c.sum, c.time, c.known = c.sum+v*ns, c.time+ns, true
	c.bound(v, v)
}

// grow says that a counter was there, and grew by n.
func (k *track) grow(factor, flushed, i int, n float64) {
	c := k.at(factor, flushed, i)
	c.sum, c.known = c.sum+n, true
}

func (k *track) growInGap(i int, n float64) {
	if k.gaps == nil {
		k.gaps = map[int]float64{}
	}
	k.gaps[i] += n
}

// fold puts a cell, of which ns were sampled, into a step, and empties it. A rate
// over less than half an interval is mostly the counter's grain: such a cell, beside
// a gap, goes to its neighbour.
func (k *track) fold(n, factor int, ns, interval float64) {
	c := k.cells[n%window]
	k.cells[n%window] = cell{}
	before := k.before
	k.before = 0
	if !k.counter || !c.known {
		k.step(n / factor).join(c)
		return
	}
	c.time = ns
	switch {
	case ns >= interval/2:
		k.before = ns
		c.join(k.carried)
		k.carried = cell{}
		r := c.sum * 1e9 / c.time
		c.bound(r, r)
		k.step(n / factor).join(c)
	case before > 0:
		k.step((n - 1) / factor).join(c)
	default:
		k.carried.join(c)
	}
}

// double makes one step of two.
func (k *track) double() {
	for i := range k.steps {
		c := k.steps[i]
		if k.steps[i] = (cell{}); i%2 == 0 {
			k.steps[i/2] = c
		} else {
			k.steps[i/2].join(c)
		}
	}
	k.steps = k.steps[:(len(k.steps)+1)/2]
}

// line fills in the track's values. Lo and Hi are left out where they say what Mean
// says.
func (k *track) line(steps int, gaps []report.Gap, kept []int) {
	k.Mean, k.Lo, k.Hi = make(report.Points, steps), make(report.Points, steps), make(report.Points, steps)
	more := false
	for i := range steps {
		k.Mean[i], k.Lo[i], k.Hi[i] = math.NaN(), math.NaN(), math.NaN()
		if i >= len(k.steps) || !k.steps[i].known {
			continue
		}
		c := k.steps[i]
		switch {
		case c.time > 0 && k.counter:
			k.Mean[i] = c.sum * 1e9 / c.time
		case c.time > 0:
			k.Mean[i] = c.sum / c.time
		case c.bounded && !k.counter:
			k.Mean[i] = c.hi
		default:
			continue // all of it is a gap
		}
		if !c.bounded {
			c.bound(k.Mean[i], k.Mean[i])
		}
		k.Lo[i], k.Hi[i] = min(c.lo, k.Mean[i]), max(c.hi, k.Mean[i])
		more = more || k.Lo[i] != k.Hi[i] && (report.Rounded(k.Lo[i]) != report.Rounded(k.Mean[i]) || report.Rounded(k.Hi[i]) != report.Rounded(k.Mean[i]))
	}
	if !more {
		k.Lo, k.Hi = nil, nil
	}
	if !k.counter {
		return
	}
	for _, i := range kept {
		v := math.NaN()
		if n, ok := k.gaps[i]; ok {
			v = n * 1e9 / float64(gaps[i].To-gaps[i].From)
		}
		k.InGaps = append(k.InGaps, v)
	}
}

// most is the greatest value; NaN where there is none.
func (k *track) most() float64 {
	most := math.NaN()
	for _, ps := range []report.Points{k.Mean, k.Hi, k.InGaps} {
		for _, v := range ps {
			if !math.IsNaN(v) && !(v <= most) {
				most = v
			}
		}
	}
	return most
}
