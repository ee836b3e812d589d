// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"sync"
	"testing"

	"boxdyno/result"
)

// A dial is a collector that reads what a test sets.
type dial struct {
	mu     sync.Mutex
	series []result.Series
	values []float64
	err    error
	fault  bool
	reads  int
	closed int
}

func (d *dial) Series() []result.Series { return d.series }

func (d *dial) Read(dst []float64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	if d.fault {
		panic("ouch")
	}
	copy(dst, d.values)
	return d.err
}

func (d *dial) Close() error { d.closed++; return nil }

func (d *dial) set(err error, values ...float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.values = err, values
}

func (d *dial) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

func dials(name string, counter bool, n int) *dial {
	d := &dial{values: make([]float64, n)}
	for i := range n {
		d.series = append(d.series, result.Series{Name: name, Labels: []result.Pair{{Key: "n", Value: string(rune('a' + i))}}, Unit: "1", Counter: counter})
	}
	return d
}

func (d *dial) spec(name string) Spec {
	return Spec{Name: name, Default: true, New: func(context.Context, *Machine) (Collector, error) { return d, nil }}
}

// slow is a rate at which a test sees no tick but those it asks for.
const slow = MinRate

func startSampler(t *testing.T, o Options) *Sampler {
	t.Helper()
	s, err := Start(t.Context(), &Machine{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func digestOf(t *testing.T, s *Sampler, ds []result.Digest, name, label string) *result.Digest {
	t.Helper()
	for i := range ds {
		if x := s.Series()[ds[i].Series]; x.Name == name && result.Get(x.Labels, "n") == label {
			return &ds[i]
		}
	}
	return nil
}
