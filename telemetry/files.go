// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/result"
)

// files is a Collector of files of proc and sys, each with the parser of its
// series.
type files struct {
	held
	sources []source
}

// A source is one file. parse is given what it says now and its part of dst, which
// is all NaN.
type source struct {
	*file
	n     int
	parse func(data []byte, dst []float64) error
}

// add reads name for the first time and has begin find in it what series there
// are. A file that does not exist, and one in which begin finds nothing, add none.
func (c *files) add(root fs.FS, name string, begin func(data []byte) ([]result.Series, func([]byte, []float64) error, error)) error {
	f, err := open(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return host.Privilege("read /" + name)
	}
	if err != nil {
		return err
	}
	data, err := f.read()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EBUSY) { // pressure stall information that is switched off, a CPU that is
		return f.Close()
	}
	var series []result.Series
	var parse func([]byte, []float64) error
	if err == nil {
		series, parse, err = begin(data)
	}
	if err == nil && len(series) > 0 {
		err = parse(data, make([]float64, len(series))) // what it cannot make sense of is said here, once
	}
	if err != nil {
		return errors.Join(fmt.Errorf("read /%s: %w", name, err), f.Close())
	}
	if len(series) == 0 {
		return f.Close()
	}
	c.series = append(c.series, series...)
	c.sources, c.closers = append(c.sources, source{f, len(series), parse}), append(c.closers, f)
	return nil
}

// done is the collector, ErrAbsent where there is nothing to read, or err.
func (c *files) done(err error) (Collector, error) {
	if err := c.held.done(err); err != nil {
		return nil, err
	}
	return c, nil
}

// Read implements Collector. One file that cannot be read is absent; if none can, it
// is an error.
func (c *files) Read(dst []float64) error {
	fill(dst, math.NaN())
	good := false
	var last error
	for i := range c.sources {
		p := &c.sources[i]
		data, err := p.read()
		if err == nil {
			err = p.parse(data, dst[:p.n])
		}
		if err == nil {
			good = true
		} else {
			fill(dst[:p.n], math.NaN())
			last = fmt.Errorf("read /%s: %w", p.name, err)
		}
		dst = dst[p.n:]
	}
	if good {
		return nil
	}
	return last
}

// one is the New of a collector that is one file of the machine.
func one(name string, begin func(root fs.FS, data []byte) ([]result.Series, func([]byte, []float64) error, error)) func(context.Context, *Machine) (Collector, error) {
	return func(_ context.Context, m *Machine) (Collector, error) {
		c, root := &files{}, m.root()
		return c.done(c.add(root, name, func(data []byte) ([]result.Series, func([]byte, []float64) error, error) {
			return begin(root, data)
		}))
	}
}

// label is a list of one pair.
func label(key, value string) []result.Pair { return []result.Pair{{Key: key, Value: value}} }

func cpuLabel(cpu int) []result.Pair { return label("cpu", strconv.Itoa(cpu)) }
