// SPDX-License-Identifier: Apache-2.0

// Package capture holds the programs that receive the frames of a port and count them.
package capture

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/subject"
	"boxdyno/subject/internal/made"
	"boxdyno/unit"
)

// How much a capture subject does with each frame (Spec.Work).
const (
	Count       = "count"       // it sees that there is one
	Decode      = "decode"      // headers up to layer 4
	Dissection  = "dissection"  // every field of every layer
	Application = "application" // streams and what they carry
)

// A Capture is a program that receives the frames of a port and counts them.
type Capture struct {
	Buffer uint64 // octets between the kernel and the program; 0: as the program has it
	Filter string // of pcap-filter(7); "": every frame
	File   string // of own: the subject's description

	Tool      *Tool
	described *Tool  // of own: what its file says, once that is read
	room      uint64 // octets that its temporary files may have; 0: half of what is free
}

// A Tool is how one program captures: a row of a table.
type Tool struct {
	Name, doc, Work string
	program         string // that must be installed; "": none, or check says
	check           func(ctx context.Context, c *Capture) error
	install         func(ctx context.Context, run subject.Runner) error // what packages do not bring; nil: nothing
	Argv            func(c *Capture, e Place) ([]string, error)
	Said            func(c *Capture, e subject.Env) (stdout, stderr Parser) // nil: what it writes there is for people
	rows            bool                                                    // its standard output is one line for each frame
	poke            syscall.Signal                                          // makes it say what it has counted; 0: it does by itself
	Unseen          bool                                                    // it has no packet socket that /proc shows
	redirected      bool                                                    // XDP redirects frames to its sockets
	mute            bool                                                    // its standard output is thrown away
	Lag             time.Duration                                           // how long the kernel may hold frames back from it
	silent          bool                                                    // it does not say when it captures
	behind          bool                                                    // what it says while it runs is one frame behind
	Fixed           uint64                                                  // the buffer cannot be made otherwise; 0: it can
	step            uint64                                                  // the buffer is a multiple of so many octets; 0: any
	ends            bool                                                    // frames that it counts end in its XDP program
	Filters         []string                                                // that it can have; nil: any
	Logs            func() []LogFile                                        // that it writes to its folder; nil: none
	Grace           time.Duration                                           // how long it may take to end; 0: stopGrace
	untold          bool                                                    // it does not tell what was dropped
	prompt          bool                                                    // nothing holds frames back from its count, which it tells ten times a second
	Rare            time.Duration                                           // how long it may not tell a count, though it counts; 0: no longer than others
}

// A Place is where a process of a capture works.
type Place struct {
	subject.Env
	Dir string // of its temporary files
}

// DefaultFilter takes the engine's frames and iperf3's, and leaves a port's neighbour
// discovery out.
const DefaultFilter = "udp"

// Specs are the rows of All that capture.
func Specs() (specs subject.Specs) {
	for _, t := range tools() {
		specs = append(specs, subject.Spec{Name: t.Name, Work: t.Work, Doc: t.doc, New: func() subject.Subject { return New(t) }})
	}
	return specs
}

func tools() []*Tool {
	all := []*Tool{&tcpdump, &dumpcap, &tshark, &counter}
	all = append(all, pythons()...)
	return append(all, &zeek, &snort, &afPacket, &afXDP, &xdp, &own)
}

// New is a capture by a tool, with its defaults.
func New(t *Tool) *Capture { return &Capture{Tool: t, Filter: DefaultFilter} }

// Flags implements Subject.
func (c *Capture) Flags(fs *flag.FlagSet) {
	fs.Uint64Var(&c.Buffer, "buffer", c.Buffer, "`octets` between the kernel and the program; 0: as the program has it")
	fs.StringVar(&c.Filter, "filter", c.Filter, "`expression` of pcap-filter(7) that frames must match; empty: every frame")
	if c.Tool == &own {
		fs.StringVar(&c.File, "file", c.File, "YAML `file` that describes the program")
	}
}

const (
	leastBuffer = 4 << 10
	MostBuffer  = 1 << 30
)

// Valid says what is wrong with the parameters, whatever the machine has.
func (c *Capture) Valid() error {
	t, err := c.resolve()
	if err != nil {
		return err
	}
	switch {
	case c.Buffer != 0 && (c.Buffer < leastBuffer || c.Buffer > MostBuffer):
		return fmt.Errorf("buffer %d: want 0, or %d to %d octets", c.Buffer, leastBuffer, MostBuffer)
	case c.Buffer != 0 && t.Fixed != 0 && c.Buffer != t.Fixed:
		return fmt.Errorf("buffer %d: that of %s is %s: give 0", c.Buffer, t.Name, fixedText(t.Fixed))
	case t.step != 0 && c.Buffer%t.step != 0:
		return fmt.Errorf("buffer %d: %s takes multiples of %d octets: give %d", c.Buffer, t.Name, t.step, (c.Buffer/t.step+1)*t.step)
	case strings.ContainsAny(c.Filter, "\x00\n") || len(c.Filter) > 4096:
		return errors.New("filter: want one line of at most 4096 octets")
	}
	if t.Filters != nil && !slices.Contains(t.Filters, c.Filter) {
		return fmt.Errorf("filter %q: %s can have %s", c.Filter, t.Name, quoted(t.Filters))
	}
	return nil
}

// Check implements Subject.
func (c *Capture) Check(ctx context.Context, h *host.Local) error {
	if err := c.Valid(); err != nil {
		return err
	}
	if err := host.ProbePacket(); err != nil {
		return err
	}
	t, err := c.resolve()
	if err != nil {
		return err
	}
	if t.program != "" {
		if err := host.Has(t.program); err != nil {
			return err
		}
	}
	if t.check != nil {
		return t.check(ctx, c)
	}
	return nil
}

// AsItIs is a fixed buffer of a size that nobody states.
const AsItIs = 1

func fixedText(n uint64) string {
	if n == AsItIs {
		return "the program's own, and cannot be set"
	}
	return strconv.FormatUint(n, 10) + " and cannot be set"
}

func quoted(all []string) string {
	var words []string
	for _, a := range all {
		words = append(words, strconv.Quote(a))
	}
	return strings.Join(words, " or ")
}

// Start implements Subject. The program runs in the Env's namespace and listens to
// its port, which must be up.
func (c *Capture) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	return c.Run(ctx, e)
}

// Run is Start with what only captures have.
func (c *Capture) Run(ctx context.Context, e subject.Env) (_ *Capturing, err error) {
	if e.Host == nil {
		e.Host = &host.Local{Netns: e.Port.Netns}
	}
	if err := c.Check(ctx, e.Host); err != nil {
		return nil, err
	}
	t, err := c.resolve()
	if err != nil {
		return nil, err
	}
	r := NewCapturing(t.Name, t)
	if r.index, err = indexOf(e); err != nil {
		return nil, err
	}
	dir, err := host.MakeScratchIn(cmp.Or(e.Dir, os.TempDir()))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	r.Dir, r.room = dir, cmp.Or(c.room, roomOf(dir))
	argv, err := t.Argv(c, Place{e, dir})
	if err != nil {
		return nil, err
	}
	if t.Logs != nil {
		if r.tails, err = openTails(dir, t.Logs()); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				r.closeTails()
			}
		}()
	}
	out, errs := t.Said(c, e)
	stdout, stderr := r.listener(out), r.listener(errs)
	switch {
	case t.rows:
		stdout = &rows{r: r}
	case t.mute:
		stdout = nil
	}
	r.begun = unit.Now()
	r.Process, err = e.Host.Start(ctx, host.Cmd{
		Argv: argv, Dir: dir, Stdout: stdout, Stderr: stderr, CPUs: e.CPUs, Scratch: []string{dir},
		Env: append(os.Environ(), "TMPDIR="+dir, "LC_ALL=C", "PYTHONDONTWRITEBYTECODE=1"),
	})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.startup.Process = since(r.begun)
	r.mu.Unlock()
	guard.Go(r.watch)
	return r, nil
}

// indexOf is the number of the Env's port.
func indexOf(e subject.Env) (index int, err error) {
	if e.Port.Name == "" {
		return 0, errors.New("a capture needs a port that it listens to")
	}
	err = e.Host.View(func(fs.FS) error {
		i, err := net.InterfaceByName(e.Port.Name)
		if err != nil {
			return fmt.Errorf("there is no port %s: %w", e.Port.Name, err)
		}
		if index = i.Index; i.Flags&net.FlagUp == 0 {
			return fmt.Errorf("the port %s is down", e.Port.Name)
		}
		return nil
	})
	return index, err
}

func since(t unit.Instant) time.Duration { return time.Duration(unit.Now() - t) }

// Installs implements Installer.
func (c *Capture) Installs(remedy []string) func(context.Context, subject.Runner) error {
	if !slices.Equal(remedy, made.InstallCommand(c.Tool.Name)) {
		return nil
	}
	return c.Tool.install
}
