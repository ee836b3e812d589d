// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"math"
	"slices"
	"time"

	"boxdyno/result"
	"boxdyno/unit"
)

// How a trial's joules come about:
//
//	Collector.Read -> a meter's value, with the instant it was measured at
//	               -> readings, kept from Begin to the next Begin
//	Sampler.Energy -> of those readings, the ones that belong to the load alone
//
// A repeated value of a slow meter is one reading, not several. A reading that was
// averaged over a time that began before the load is none of it.

// A dated collector measures at other instants than its Reads. Measured is asked after
// Read: when the value of series i was measured that Read returned last, and the time
// before it that the value is a mean over.
type dated interface {
	Measured(i int) (at unit.Instant, over time.Duration)
}

const (
	// longestHole is the most time between two readings of a meter that is taken as
	// known. The slowest meters answer once a second.
	longestHole = 5 * unit.Instant(time.Second)
	// leastCovered is the share of a load that a meter's readings must cover.
	leastCovered = 0.5
	// edge is how far outside of a load a counter may have been read, as a share of it.
	edge = 0.02
)

type powerReading struct {
	at, over unit.Instant
	value    float64 // W, or J of a counter
}

// A powerMeter is one series of a power or an energy, and its readings.
type powerMeter struct {
	series   int // index
	of       result.Series
	readings []powerReading
}

// isMeter says whether joules may come from s. A typed power is none, and a plug's own
// count of energy is coarser than its power. The tester's tell nothing of another machine.
func isMeter(s result.Series) bool {
	return (s.Unit == "W" || s.Unit == "J") && result.Get(s.Labels, "covers") != "" && !s.OfTester()
}

// read takes v, which p's collector returned at an instant.
func (m *powerMeter) read(p *part, v float64, at unit.Instant) {
	r := powerReading{at: at, value: v}
	if c, ok := p.c.(dated); ok {
		var over time.Duration
		r.at, over = c.Measured(m.series - p.first)
		r.over = unit.Instant(over)
	}
	if n := len(m.readings); math.IsNaN(v) || n > 0 && r.at <= m.readings[n-1].at {
		return
	}
	m.readings = append(m.readings, r)
}

// forget drops what lies before the last reading: a counter's load may begin there.
func (m *powerMeter) forget() {
	if n := len(m.readings); n > 1 {
		m.readings = append(m.readings[:0], m.readings[n-1])
	}
}

// energy is m's between two instants; Seconds is 0 where too little is known.
func (m *powerMeter) energy(from, to unit.Instant) (e result.Energy) {
	label := func(key string) string { return result.Get(m.of.Labels, key) }
	e = result.Energy{Meter: label("meter"), Covers: label("covers"), Accuracy: label("accuracy"), Of: label("of")}
	var known unit.Instant
	if m.of.Counter {
		e.Joules, known, e.Readings = counted(m.readings, from, to)
	} else {
		e.Joules, known, e.Readings = integrated(m.readings, from, to)
	}
	if known > 0 && float64(known) >= leastCovered*float64(to-from) {
		e.Seconds = float64(known) / 1e9
	}
	return e
}

// counted is the growth of an energy between the readings nearest to both ends.
func counted(all []powerReading, from, to unit.Instant) (joules float64, known unit.Instant, n int) {
	slack := unit.Instant(edge * float64(to-from))
	var first, last *powerReading
	for i := range all {
		r := &all[i]
		if r.at < from-slack || r.at > to+slack {
			continue
		}
		if n++; first == nil || r.at <= from {
			first = r
		}
		if last == nil || last.at < to {
			last = r
		}
	}
	if n < 2 || last.at <= first.at || last.value < first.value { // below: the counter began anew
		return 0, 0, n
	}
	return last.value - first.value, last.at - first.at, n
}

// integrated is the integral of a power by the trapezoid rule. Before the first and
// after the last reading of the load the power is taken as theirs.
func integrated(all []powerReading, from, to unit.Instant) (joules float64, known unit.Instant, n int) {
	add := func(w float64, d unit.Instant) {
		if d > 0 && d <= longestHole {
			joules += w * float64(d) / 1e9
			known += d
		}
	}
	var last powerReading
	for _, r := range all {
		if r.at-r.over < from || r.at > to {
			continue
		}
		if n == 0 {
			add(r.value, r.at-from)
		} else {
			add((last.value+r.value)/2, r.at-last.at)
		}
		last = r
		n++
	}
	if n > 0 {
		add(last.value, to-last.at)
	}
	return joules, known, n
}

// Meters is how many energies Energy returns where every meter answers.
func (s *Sampler) Meters() (n int) {
	packages := 0
	for _, m := range s.meters {
		if m.of.Name == raplPackage {
			packages = 1
		} else {
			n++
		}
	}
	return n + packages
}

// Energy is what each meter measured between two instants of unit.Now since the last
// Begin, by readings that were taken then; a meter without enough of them is left out.
// The packages of RAPL are one meter.
func (s *Sampler) Energy(from, to unit.Instant) (out []result.Energy) {
	s.do(func() {
		packages, lost := -1, false
		for _, m := range s.meters {
			e := m.energy(from, to)
			isPackage := m.of.Name == raplPackage
			if lost = lost || isPackage && e.Seconds == 0; e.Seconds == 0 {
				continue
			}
			if !isPackage || packages < 0 {
				if isPackage {
					packages = len(out)
				}
				out = append(out, e)
				continue
			}
			sum := &out[packages]
			sum.Meter += " + " + e.Meter
			sum.Joules += e.Joules / e.Seconds * sum.Seconds
			sum.Readings = min(sum.Readings, e.Readings)
		}
		if lost && packages >= 0 { // a sum with a package less would look like a saving
			out = slices.Delete(out, packages, packages+1)
		}
	})
	return out
}
