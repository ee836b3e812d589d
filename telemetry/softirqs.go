// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"io/fs"

	"boxdyno/result"
)

// newSoftIRQs reads /proc/softirqs: how often each kind of deferred work ran on
// each CPU. The kernel's counters have 32 bit.
var newSoftIRQs = one("proc/softirqs", func(_ fs.FS, data []byte) ([]result.Series, func([]byte, []float64) error, error) {
	p, err := newSoftIRQTable(data)
	if err != nil {
		return nil, nil, err
	}
	return p.series(), p.parse, nil
})

// softirqs is the parser: a line of CPUs, then one a kind with a number a CPU. The
// columns are all CPUs that there could be, whether on or off.
type softirqs struct {
	kinds  []string
	cpus   []int
	counts []counter // by kind, then CPU
}

var cpuColumn = []byte("CPU")

// cpuColumns parses a line "CPU0  CPU1 ...".
func cpuColumns(l scan) (cpus []int, ok bool) {
	for b := l.field(); b != nil; b = l.field() {
		cpu, ok := cpuOf(b, cpuColumn)
		if !ok {
			return nil, false
		}
		cpus = append(cpus, cpu)
	}
	return cpus, len(cpus) > 0
}

func newSoftIRQTable(data []byte) (*softirqs, error) {
	s, text := &softirqs{}, scan(data)
	l, _ := text.line()
	var ok bool
	if s.cpus, ok = cpuColumns(l); !ok {
		return nil, malformed(l)
	}
	for l, ok := text.line(); ok; l, ok = text.line() {
		s.kinds = append(s.kinds, string(bytes.TrimSuffix(l.field(), []byte{':'})))
	}
	s.counts = make([]counter, len(s.kinds)*len(s.cpus))
	return s, nil
}

func (s *softirqs) series() (all []result.Series) {
	for _, kind := range s.kinds {
		for _, cpu := range s.cpus {
			all = append(all, result.Series{Name: "node_softirqs_functions_total", Unit: "1", Counter: true, Help: "times that a CPU ran a kind of deferred work",
				Labels: append(cpuLabel(cpu), result.Pair{Key: "type", Value: kind})})
		}
	}
	return all
}

func (s *softirqs) parse(data []byte, dst []float64) error {
	text := scan(data)
	text.line()
	for kind := range s.kinds {
		l, ok := text.line()
		whole := l
		if key := l.field(); !ok || len(key) == 0 || string(key[:len(key)-1]) != s.kinds[kind] {
			return malformed(whole)
		}
		for i := range s.cpus {
			n, ok := l.number()
			if !ok {
				return malformed(whole)
			}
			at := kind*len(s.cpus) + i
			dst[at] = s.counts[at].next(n)
		}
	}
	return nil
}
