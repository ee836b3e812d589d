// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/unit"
)

// A sensor is a number in a file of sysfs, times scale.
type sensor struct {
	*file
	scale float64
}

// value is NaN where the driver gives none: the device is asleep or gone.
func (s sensor) value() float64 {
	data, err := s.read()
	if err != nil {
		return math.NaN()
	}
	return parseNumber(data) * s.scale
}

func parseNumber(data []byte) float64 {
	v, err := strconv.ParseFloat(string(bytes.TrimSpace(data)), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// sysText is the first line of a file, "" where there is none.
func sysText(root fs.FS, name string) string {
	s, _, _ := strings.Cut(sysFile(root, name), "\n")
	return strings.TrimSpace(s)
}

// numbered are the files that match pattern, in the order of the number that each
// ends with: hwmon2 before hwmon10.
func numbered(root fs.FS, pattern string) []string {
	names, _ := fs.Glob(root, pattern) // the patterns are good
	key := func(s string) (string, int) {
		base := path.Base(s)
		digits := len(base) - len(strings.TrimRight(base, "0123456789"))
		n, _ := strconv.Atoi(base[len(base)-digits:])
		return base[:len(base)-digits], n
	}
	slices.SortStableFunc(names, func(a, b string) int {
		s, m := key(a)
		t, n := key(b)
		if c := strings.Compare(s, t); c != 0 {
			return c
		}
		return m - n
	})
	return names
}

const (
	sensorEvery = 500 * time.Millisecond // a bus has other users
	sensorStale = 3 * time.Second
)

// A group is sensors of one device and its series, read in the tick.
type group struct {
	held
	sensors []sensor
	mean    time.Duration // that powers are means over
	factors [][2]int      // of the series behind those of sensors, by index
}

// add opens a file as a series; one that cannot be opened is no series.
func (g *group) add(root fs.FS, name string, scale float64, s result.Series) error {
	f, err := open(root, name)
	if err != nil {
		return err
	}
	g.series, g.sensors, g.closers = append(g.series, s), append(g.sensors, sensor{f, scale}), append(g.closers, f)
	return nil
}

// product adds s as the product of two sensors that have these values of the label
// sensor, if both are there. No sensor is added after it.
func (g *group) product(a, b string, s result.Series) {
	at := func(sensor string) int {
		return slices.IndexFunc(g.series, func(s result.Series) bool { return result.Get(s.Labels, "sensor") == sensor })
	}
	if i, j := at(a), at(b); i >= 0 && j >= 0 {
		g.series, g.factors = append(g.series, s), append(g.factors, [2]int{i, j})
	}
}

func (g *group) Read(dst []float64) error {
	for i, s := range g.sensors {
		dst[i] = s.value()
	}
	for i, f := range g.factors {
		dst[len(g.sensors)+i] = dst[f[0]] * dst[f[1]]
	}
	return nil
}

// polled is devices that are each asked in a goroutine of their own: one that
// hangs does not hold up the others.
type polled struct {
	held
	polls  []*poll
	groups []*group
}

func (p *polled) add(ctx context.Context, who string, every time.Duration, g *group) {
	if len(g.series) == 0 {
		return
	}
	p.series, p.groups = append(p.series, g.series...), append(p.groups, g)
	one := startPoll(ctx, who, len(g.series), every, sensorStale, func(_ context.Context, dst []float64) error { return g.Read(dst) })
	p.polls, p.closers = append(p.polls, one), append(p.closers, one, g)
}

// found is the collector, or ErrAbsent if no device was added.
func (p *polled) found() (Collector, error) {
	if err := p.done(nil); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *polled) Read(dst []float64) error {
	var errs []error
	for _, one := range p.polls {
		n := len(one.values)
		if _, err := one.read(dst[:n]); err != nil {
			errs = append(errs, err)
		}
		dst = dst[n:]
	}
	return errors.Join(errs...)
}

func (p *polled) Measured(i int) (unit.Instant, time.Duration) {
	for k, g := range p.groups {
		if i < len(g.series) {
			return p.polls[k].measured(), g.mean
		}
		i -= len(g.series)
	}
	return 0, 0
}
