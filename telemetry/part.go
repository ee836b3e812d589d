// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// A part is a collector and where its series stand.
type part struct {
	name    string
	c       Collector
	first   int
	every   unit.Instant // between reads; 0: at each sample
	at      unit.Instant // of the last read, from the origin
	due     unit.Instant
	read    unit.Instant // the last
	meters  []*powerMeter
	values  []float64
	written []float64
	failed  bool // it was said
}

// A collecting is a collector that is open.
type collecting struct {
	spec Spec
	c    Collector
}

// collectors opens those that o asks for, and further ones; absent are the others, with why. One
// of o.Names must be there, or on a machine beside. An error leaves none open.
func collectors(ctx context.Context, m *Machine, o Options, further ...Spec) (all []collecting, absent []string, err error) {
	specs, err := Choose(o.Specs, o.Names)
	if err != nil {
		return nil, nil, err
	}
	lacking := map[string]error{}
	fail := func(name string, err error) ([]collecting, []string, error) {
		err = fmt.Errorf("collector %s: %w", name, err)
		for _, x := range all {
			err = errors.Join(err, shut(x.c))
		}
		return nil, nil, err
	}
	for i, spec := range slices.Concat(specs, o.Beside, further) {
		c, err := spec.New(ctx, m)
		named := i < len(specs) && slices.Contains(o.Names, spec.Name)
		switch {
		case err == nil:
			all = append(all, collecting{spec, c})
			if a, ok := c.(interface{ Absent() []string }); ok {
				absent = append(absent, a.Absent()...)
			}
			if r, ok := c.(interface{ Reads(name string) bool }); ok {
				maps.DeleteFunc(lacking, func(name string, _ error) bool { return r.Reads(name) })
			}
		case named && errors.Is(err, ErrAbsent) && (o.Any || len(o.Beside) > 0):
			if !o.Any {
				lacking[spec.Name] = err
			}
			absent = append(absent, fmt.Sprintf("%s: %v", spec.Name, err))
		case i >= len(specs) || named || m.Ask.wants(spec.Name):
			return fail(spec.Name, err)
		default:
			absent = append(absent, fmt.Sprintf("%s: %v", spec.Name, err))
			if !errors.Is(err, ErrAbsent) {
				o.Warn(fmt.Sprintf("telemetry has no %s: %v", spec.Name, err))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		return fail(name, lacking[name])
	}
	return all, absent, nil
}

func shut(c Collector) error {
	if x, ok := c.(io.Closer); ok {
		return x.Close()
	}
	return nil
}

// Choose is the specs that names asks for: nil those by default, "all" all of them.
func Choose(specs []Spec, names []string) (out []Spec, err error) {
	var known []string
	for _, spec := range specs {
		known = append(known, spec.Name)
		if names == nil && spec.Default || slices.Contains(names, spec.Name) || slices.Contains(names, "all") {
			out = append(out, spec)
		}
	}
	for _, n := range names {
		if n != "all" && !slices.Contains(known, n) {
			return nil, fmt.Errorf("there is no collector %q: there are all, %s", n, strings.Join(known, ", "))
		}
	}
	return out, nil
}

// add gives c's series their place: the one that they had, or a new one.
func (s *Sampler) add(spec Spec, c Collector) {
	list := c.Series()
	if s.o.Of != "" && !spec.given && !slices.Contains(given, spec.Name) && !slices.ContainsFunc(s.o.Beside, func(b Spec) bool { return b.Name == spec.Name }) {
		list = Label(list, s.o.Of)
	}
	p := &part{name: spec.Name, c: c, values: make([]float64, len(list)), written: make([]float64, len(list))}
	if spec.Every > 1 {
		p.every = unit.Instant(spec.Every) * 1e8
	}
	known := len(s.o.Known)
	for p.first = 0; p.first+len(list) <= known; p.first++ {
		if slices.EqualFunc(list, s.series[p.first:p.first+len(list)], result.Series.Same) {
			break
		}
	}
	if p.first+len(list) > known {
		p.first = len(s.series)
		s.series = append(s.series, list...)
	}
	for i, one := range list {
		if isMeter(one) {
			p.meters = append(p.meters, &powerMeter{series: p.first + i, of: one})
		}
	}
	s.meters = append(s.meters, p.meters...)
	s.parts, s.names = append(s.parts, p), append(s.names, spec.Name)
}

// refresh fills p's values. A collector that fails is absent for a second.
func (p *part) refresh(at unit.Instant, warn func(string)) {
	fill(p.values, math.NaN())
	if err := p.call(); err != nil {
		fill(p.values, math.NaN())
		p.due = at + unit.Instant(failedFor)
		if !p.failed {
			p.failed = true
			warn(fmt.Sprintf("collector %s failed, and is absent where it does: %v", p.name, err))
		}
	}
}

// call turns a panic into an error, so that the run goes on.
func (p *part) call() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a fault in boxdyno: panic: %v", v)
		}
	}()
	return p.c.Read(p.values)
}

// same compares bit by bit: NaN is itself.
func same(a, b []float64) bool {
	for i, v := range a {
		if math.Float64bits(v) != math.Float64bits(b[i]) {
			return false
		}
	}
	return true
}

func (s *Sampler) closeParts() (err error) {
	for _, p := range s.parts {
		err = errors.Join(err, shut(p.c))
	}
	return err
}
