// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"slices"
	"sync"

	"boxdyno/result"
	"boxdyno/unit"
)

// Label is list with the label machine in front.
func Label(list []result.Series, machine string) []result.Series {
	list = slices.Clone(list)
	for i := range list {
		list[i].Labels = append([]result.Pair{{Key: result.MachineLabel, Value: machine}}, list[i].Labels...)
	}
	return list
}

// A Reader is collectors that are read when somebody asks: for a sampler on another
// machine. It is a Collector itself. Its methods may be called side by side.
type Reader struct {
	series []result.Series
	absent []string
	warn   func(string)

	mu     sync.Mutex
	parts  []*part
	closed bool
}

// NewReader opens the collectors of m that o's Specs (nil: those of its own sensors) and Names
// ask for; errors are those of Start. Other options but Any and Warn do nothing.
func NewReader(ctx context.Context, m *Machine, o Options) (*Reader, error) {
	if o.Specs == nil {
		o.Specs = sensors
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	o.Beside = nil
	all, absent, err := collectors(ctx, m, o)
	if err != nil {
		return nil, err
	}
	r := &Reader{absent: absent, warn: o.Warn}
	for _, x := range all {
		list := x.c.Series()
		p := &part{name: x.spec.Name, c: x.c, first: len(r.series), values: make([]float64, len(list))}
		if x.spec.Every > 1 {
			p.every = unit.Instant(x.spec.Every) * 1e8
		}
		r.parts, r.series = append(r.parts, p), append(r.series, list...)
	}
	return r, nil
}

// Series implements Collector.
func (r *Reader) Series() []result.Series { return r.series }

// Absent are the collectors that are not read, each with why.
func (r *Reader) Absent() []string { return r.absent }

// Read implements Collector: collectors whose turn has not come keep their values, and
// one that fails is absent for a second.
func (r *Reader) Read(dst []float64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("telemetry is closed")
	}
	for _, p := range r.parts {
		if now := unit.Now(); now >= p.due {
			p.due = 0
			if p.every > 0 {
				p.due = now + p.every - 1e8/2
			}
			p.refresh(now, r.warn)
		}
		copy(dst[p.first:], p.values)
	}
	return nil
}

// Close lets go of the collectors. It may be called more than once.
func (r *Reader) Close() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	for _, p := range r.parts {
		err = errors.Join(err, shut(p.c))
	}
	return err
}
