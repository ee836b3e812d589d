// SPDX-License-Identifier: Apache-2.0

package subject

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

	tool      *tool
	described *tool  // of own: what its file says, once that is read
	room      uint64 // octets that its temporary files may have; 0: half of what is free
}

// A tool is how one program captures: a row of a table.
type tool struct {
	name, doc, work string
	program         string // that must be installed; "": none, or check says
	check           func(ctx context.Context, c *Capture) error
	install         func(ctx context.Context, run Runner) error // what packages do not bring; nil: nothing
	argv            func(c *Capture, e place) ([]string, error)
	said            func(c *Capture, e Env) (stdout, stderr parser) // nil: what it writes there is for people
	rows            bool                                            // its standard output is one line for each frame
	poke            syscall.Signal                                  // makes it say what it has counted; 0: it does by itself
	unseen          bool                                            // it has no packet socket that /proc shows
	redirected      bool                                            // XDP redirects frames to its sockets
	mute            bool                                            // its standard output is thrown away
	lag             time.Duration                                   // how long the kernel may hold frames back from it
	silent          bool                                            // it does not say when it captures
	behind          bool                                            // what it says while it runs is one frame behind
	fixed           uint64                                          // the buffer cannot be made otherwise; 0: it can
	step            uint64                                          // the buffer is a multiple of so many octets; 0: any
	ends            bool                                            // frames that it counts end in its XDP program
	filters         []string                                        // that it can have; nil: any
	logs            func() []logFile                                // that it writes to its folder; nil: none
	grace           time.Duration                                   // how long it may take to end; 0: stopGrace
	untold          bool                                            // it does not tell what was dropped
	prompt          bool                                            // nothing holds frames back from its count, which it tells ten times a second
	rare            time.Duration                                   // how long it may not tell a count, though it counts; 0: no longer than others
}

// A place is where a process of a capture works.
type place struct {
	Env
	dir string // of its temporary files
}

// DefaultFilter takes the engine's frames and iperf3's, and leaves a port's neighbour
// discovery out.
const DefaultFilter = "udp"

// captures are the rows of All that capture.
func captures() (specs []Spec) {
	for _, t := range tools() {
		specs = append(specs, Spec{Name: t.name, Work: t.work, Doc: t.doc, New: func() Subject { return newCapture(t) }})
	}
	return specs
}

func tools() []*tool {
	all := []*tool{&tcpdump, &dumpcap, &tshark, &counter}
	all = append(all, pythons()...)
	return append(all, &zeek, &snort, &afPacket, &afXDP, &xdp, &own)
}

func newCapture(t *tool) *Capture { return &Capture{tool: t, Filter: DefaultFilter} }

// Flags implements Subject.
func (c *Capture) Flags(fs *flag.FlagSet) {
	fs.Uint64Var(&c.Buffer, "buffer", c.Buffer, "`octets` between the kernel and the program; 0: as the program has it")
	fs.StringVar(&c.Filter, "filter", c.Filter, "`expression` of pcap-filter(7) that frames must match; empty: every frame")
	if c.tool == &own {
		fs.StringVar(&c.File, "file", c.File, "YAML `file` that describes the program")
	}
}

const (
	leastBuffer = 4 << 10
	mostBuffer  = 1 << 30
)

// Valid says what is wrong with the parameters, whatever the machine has.
func (c *Capture) Valid() error {
	t, err := c.resolve()
	if err != nil {
		return err
	}
	switch {
	case c.Buffer != 0 && (c.Buffer < leastBuffer || c.Buffer > mostBuffer):
		return fmt.Errorf("buffer %d: want 0, or %d to %d octets", c.Buffer, leastBuffer, mostBuffer)
	case c.Buffer != 0 && t.fixed != 0 && c.Buffer != t.fixed:
		return fmt.Errorf("buffer %d: that of %s is %s: give 0", c.Buffer, t.name, fixedText(t.fixed))
	case t.step != 0 && c.Buffer%t.step != 0:
		return fmt.Errorf("buffer %d: %s takes multiples of %d octets: give %d", c.Buffer, t.name, t.step, (c.Buffer/t.step+1)*t.step)
	case strings.ContainsAny(c.Filter, "\x00\n") || len(c.Filter) > 4096:
		return errors.New("filter: want one line of at most 4096 octets")
	}
	if t.filters != nil && !slices.Contains(t.filters, c.Filter) {
		return fmt.Errorf("filter %q: %s can have %s", c.Filter, t.name, quoted(t.filters))
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

// asItIs is a fixed buffer of a size that nobody states.
const asItIs = 1

func fixedText(n uint64) string {
	if n == asItIs {
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
func (c *Capture) Start(ctx context.Context, e Env) (Running, error) {
	r, err := c.Run(ctx, e)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Run is Start with what only captures have.
func (c *Capture) Run(ctx context.Context, e Env) (_ *Capturing, err error) {
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
	r := newCapturing(t.name, t)
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
	argv, err := t.argv(c, place{e, dir})
	if err != nil {
		return nil, err
	}
	if t.logs != nil {
		if r.tails, err = openTails(dir, t.logs()); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				r.closeTails()
			}
		}()
	}
	out, errs := t.said(c, e)
	stdout, stderr := r.listener(out), r.listener(errs)
	switch {
	case t.rows:
		stdout = &rows{r: r}
	case t.mute:
		stdout = nil
	}
	r.begun = unit.Now()
	r.process, err = e.Host.Start(ctx, host.Cmd{
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
func indexOf(e Env) (index int, err error) {
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

// cpuList is the Env's CPUs as taskset(1) takes them: "0,2"; "" for any.
func cpuList(cpus []int) string {
	var words []string
	for _, c := range cpus {
		words = append(words, strconv.Itoa(c))
	}
	return strings.Join(words, ",")
}

func since(t unit.Instant) time.Duration { return time.Duration(unit.Now() - t) }

// Installs implements Installer.
func (c *Capture) Installs(remedy []string) func(context.Context, Runner) error {
	if !slices.Equal(remedy, installCommand(c.tool.name)) {
		return nil
	}
	return c.tool.install
}
