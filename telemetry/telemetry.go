// SPDX-License-Identifier: Apache-2.0

// Package telemetry reads, again and again, what a machine says of itself while a
// run lasts: time of its CPUs, temperatures, clocks, power, counters of its network.
// Trials are cut out of it afterwards by their instants.
//
//	Machine -> Spec.New -> Collector.Series once, Collector.Read each tick -> Sampler -> bundle
//
// What a machine does not have is absent, never zero. Files, netlink and ethtool are read
// in place, without the libraries at hand: those make garbage at every tick, which the
// machine under load would pay for.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"boxdyno/host"
	"boxdyno/internal/caps"
	"boxdyno/result"
)

// A Collector declares its series once, when it is made, and fills a slice as long
// as them at each tick. NaN is absent: a sensor that did not answer, a port that is
// gone. Read is called from one goroutine, takes microseconds and does not allocate
// where it can help it; what is slow (HTTP, commands, buses) is asked in a goroutine
// of the collector's own, and Read hands out what came last. A Collector that holds
// files or goroutines is an io.Closer.
type Collector interface {
	Series() []result.Series
	Read(dst []float64) error
}

// held is what collectors have in common: their series, and what they hold open.
type held struct {
	series  []result.Series
	closers []io.Closer
}

func (h *held) Series() []result.Series { return h.series }

func (h *held) Close() error {
	var errs []error
	for _, c := range h.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// done is err, or ErrAbsent where there are no series; then nothing is held any more.
func (h *held) done(err error) error {
	if err == nil && len(h.series) == 0 {
		err = ErrAbsent
	}
	if err != nil {
		err = errors.Join(err, h.Close())
	}
	return err
}

// A Spec is a row of All. New returns ErrAbsent where the machine has nothing for
// it to read, *host.Missing where a privilege or program is missing.
type Spec struct {
	Name, Doc string
	Every     int  // ticks of 10 Hz between two reads, where each is too often; 0: 1
	Default   bool // read in each run, not only when asked for
	New       func(ctx context.Context, m *Machine) (Collector, error)

	given bool // it reads what the user gave, as those of given
}

// A Machine is what is watched: its files, and the network namespaces in it.
type Machine struct {
	Root   fs.FS   // nil: the machine's own; in tests a recorded tree
	Spaces []Space // nil: only the process's own
	Ask    Ask     // what the user gave

	polls time.Duration // between two questions to a sensor; 0: its own. Tests are hasty
}

// A Space is a network namespace and how its series are labelled.
type Space struct {
	Name string // label "netns": "dut", "tester"; "" for the process's own, which gets no label
	Path string // "": the process's own
}

// Ask is what collectors need to be told.
type Ask struct {
	Meter   []string // a command that prints watts, for as long as it runs one a line, or once
	Plug    string   // URL of a smart plug
	Reading string   // typed in by hand: "5.2W"
	Places  []Place  // further meters
}

// Check refuses what no machine has an answer to. A meter's command that is not here is a
// *host.Missing.
func (a Ask) Check() error {
	if a.Reading != "" {
		if _, _, err := parseReading(a.Reading); err != nil {
			return err
		}
	}
	if a.Plug != "" {
		if _, err := newPlugClient(a.Plug, plugTimeout); err != nil {
			return err
		}
	}
	if len(a.Meter) > 0 {
		if err := hasMeter(a.Meter[0]); err != nil {
			return err
		}
	}
	for _, p := range a.Places {
		if err := (Ask{Meter: p.Meter, Plug: p.Plug}).Check(); err != nil {
			return fmt.Errorf("the meter of %s: %w", p.Of, err)
		}
	}
	return nil
}

// wants says whether the user gave what the collector of that name needs.
func (a Ask) wants(name string) bool {
	switch name {
	case "meter":
		return len(a.Meter) > 0
	case "plug":
		return a.Plug != ""
	case "reading":
		return a.Reading != ""
	}
	return false
}

// given are the collectors that read what the user gave, which may measure any machine.
var given = []string{"meter", "plug", "reading"}

// Given are those of specs that read what the user gave, which may measure any machine.
func Given(specs []Spec) []Spec {
	return slices.DeleteFunc(slices.Clone(specs), func(s Spec) bool { return !slices.Contains(given, s.Name) })
}

// Own are those of names that read a machine's own sensors: what Given names is left out.
// nil, which stands for those by default, stays nil.
func Own(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(given, n) })
}

func (m *Machine) pollEvery(own time.Duration) time.Duration { return cmp.Or(m.polls, own) }

func (m *Machine) root() fs.FS {
	if m.Root != nil {
		return m.Root
	}
	return os.DirFS("/")
}

// within calls f once for each of the machine's network namespaces, inside of it:
// files below proc/thread-self/net and sockets that f opens stay with that namespace.
// f must not start goroutines.
func (m *Machine) within(f func(s Space, root fs.FS) error) error {
	spaces := m.Spaces
	if len(spaces) == 0 || m.Root != nil {
		spaces = []Space{{}}
	}
	for _, s := range spaces {
		l := host.Local{Root: m.Root, Netns: s.Path}
		if err := l.View(func(root fs.FS) error { return f(s, root) }); err != nil {
			return err
		}
	}
	return nil
}

// labels is pairs with the namespace's, if it has one.
func (s Space) labels(pairs ...result.Pair) []result.Pair {
	if s.Name == "" {
		return pairs
	}
	return append([]result.Pair{{Key: "netns", Value: s.Name}}, pairs...)
}

// A file is one of proc or sys that is opened once and read at each tick.
type file struct {
	root fs.FS
	name string
	at   io.ReaderAt
	open fs.File
	buf  []byte
}

// open fails like fs.FS.Open where there is no such file.
func open(root fs.FS, name string) (*file, error) {
	var o fs.File
	err := caps.Override(func() (err error) { // some are root's alone, such as RAPL's
		o, err = root.Open(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	f := &file{root: root, name: name, open: o, buf: make([]byte, 4096)}
	f.at, _ = o.(io.ReaderAt)
	return f, nil
}

// read returns the file's content as it is now. The slice is good until the next
// call.
func (f *file) read() ([]byte, error) {
	if f.at == nil {
		return fs.ReadFile(f.root, f.name)
	}
	for n := 0; ; {
		k, err := f.at.ReadAt(f.buf[n:], int64(n))
		n += k
		switch {
		case err == io.EOF:
			return f.buf[:n], nil
		case err != nil:
			return nil, err
		case n == len(f.buf):
			f.buf = append(f.buf, make([]byte, len(f.buf))...)
		}
	}
}

func (f *file) Close() error { return f.open.Close() }
