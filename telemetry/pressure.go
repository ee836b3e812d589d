// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"

	"boxdyno/result"
)

// pressures are the lines of /proc/pressure/* (Documentation/accounting/psi.rst).
// "full" of the CPU is always 0 for a whole machine, "some" of interrupts does not
// exist.
var pressures = []struct{ file, key, name, help string }{
	{"cpu", "some", "node_pressure_cpu_waiting_seconds_total", "time in which some task waited for a CPU"},
	{"io", "some", "node_pressure_io_waiting_seconds_total", "time in which some task waited for a disk"},
	{"io", "full", "node_pressure_io_stalled_seconds_total", "time in which every task that could work waited for a disk"},
	{"memory", "some", "node_pressure_memory_waiting_seconds_total", "time in which some task waited for memory"},
	{"memory", "full", "node_pressure_memory_stalled_seconds_total", "time in which every task that could work waited for memory"},
	{"irq", "full", "node_pressure_irq_stalled_seconds_total", "time in which interrupts kept a CPU from its task"},
}

// newPressure reads pressure stall information. A kernel without it, or booted
// with it switched off, has none.
func newPressure(_ context.Context, m *Machine) (Collector, error) {
	c := &files{}
	var err error
	for _, name := range []string{"cpu", "io", "memory", "irq"} {
		if err == nil {
			err = c.add(m.root(), "proc/pressure/"+name, func(data []byte) ([]result.Series, func([]byte, []float64) error, error) {
				p := newPressureFile(name, data)
				return p.series, p.parse, nil
			})
		}
	}
	return c.done(err)
}

type pressure struct {
	series []result.Series
	keys   []string
	counts []counter
}

var pressureTotal = []byte("total=")

func newPressureFile(name string, data []byte) *pressure {
	p := &pressure{}
	for _, w := range pressures {
		if w.file == name && bytes.Contains(data, []byte(w.key+" ")) {
			p.series = append(p.series, result.Series{Name: w.name, Unit: "s", Counter: true, Help: w.help})
			p.keys = append(p.keys, w.key)
		}
	}
	p.counts = make([]counter, len(p.keys))
	return p
}

// parse reads "some avg10=0.00 avg60=0.00 avg300=0.00 total=12", microseconds.
func (p *pressure) parse(data []byte, dst []float64) error {
	text := scan(data)
	for l, ok := text.line(); ok; l, ok = text.line() {
		whole, key := l, l.field()
		for i := range p.keys {
			if string(key) != p.keys[i] {
				continue
			}
			var n uint64
			ok := false
			for b := l.field(); b != nil && !ok; b = l.field() {
				if digits, is := bytes.CutPrefix(b, pressureTotal); is {
					n, ok = decimal(digits)
				}
			}
			if !ok {
				return malformed(whole)
			}
			dst[i] = p.counts[i].next(n) / 1e6
		}
	}
	return nil
}
