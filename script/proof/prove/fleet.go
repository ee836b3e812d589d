// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/fleet"
	"boxdyno/fleet/hub"
	"boxdyno/internal/fleetsim"
	boxlink "boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/procedure/many"
	"boxdyno/result"
)

// Fleets of simulated boards: the agent's own code with a procedure that waits, in few
// processes, over TLS on the loopback. The hub is a process of its own, whose memory and CPU
// time are read.
const (
	perProcess = 250 // boards
	naps       = 10  // trials of a fleet
	resting    = 20 * time.Second
	hubMemory  = 600 << 20
	startP99   = 10 * time.Millisecond
	enrolMost  = time.Minute
)

// A fleetSize is what was measured of one.
type fleetSize struct {
	boards          int
	enrol           time.Duration // until all were ready
	memory          float64       // octets, the hub's most
	idle, work      float64       // the hub's CPUs
	p50, p99, most  time.Duration // by which boards began late
	clock           time.Duration // largest error of a clock
	around          time.Duration // a trial: clocks, start, results; the lead of the start included
	states, lost    uint64
	passed, results int
}

// ahead has this process, and all that it starts, come before other work where root runs
// it: real boards have CPUs of their own.
func ahead(priority uint32) error {
	const mark = "BOXDYNO_AHEAD"
	if os.Geteuid() != 0 || os.Getenv(mark) == fmt.Sprint(priority) {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the new program begins in this thread, as all of its threads do
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: priority}, 0); err != nil {
		fmt.Fprintln(os.Stderr, "prove: other work may keep boards from their CPUs:", err)
		return nil
	}
	if err := os.Setenv(mark, fmt.Sprint(priority)); err != nil {
		return err
	}
	return unix.Exec(self, os.Args, os.Environ())
}

// proveFleet measures fleets of these sizes.
func proveFleet(ctx context.Context, sizes []string) error {
	if err := ahead(1); err != nil {
		return err
	}
	var all []fleetSize
	for _, s := range sizes {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 10_000 {
			return fmt.Errorf("-fleet %q: want numbers from 1 to 10000", s)
		}
		one, err := oneFleet(ctx, n)
		if err != nil {
			return fmt.Errorf("a fleet of %d boards: %w", n, err)
		}
		fmt.Fprintf(os.Stderr, "%d boards: %+v\n", n, one)
		all = append(all, one)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "boards\tenrolment\thub memory\thub idle\thub at work\tstart p50\tstart p99\tlatest\tclock error\taround a trial\tstates lost\ttrials")
	for _, f := range all {
		fmt.Fprintf(w, "%d\t%.2f s\t%.0f MiB\t%.3f CPUs\t%.3f CPUs\t%.2f ms\t%.2f ms\t%.2f ms\t%.2f ms\t%.0f ms\t%d of %d\t%d of %d\n", f.boards, f.enrol.Seconds(), f.memory/(1<<20), f.idle, f.work,
			ms(f.p50), ms(f.p99), ms(f.most), ms(f.clock), ms(f.around), f.lost, f.states, f.passed, naps)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var failed []string
	last := all[len(all)-1]
	if len(all) > 1 {
		first := all[0]
		law := func(what string, a, b float64) {
			fmt.Printf("%s grows as boards^%.2f from %d to %d boards\n", what, math.Log(b/a)/math.Log(float64(last.boards)/float64(first.boards)), first.boards, last.boards)
		}
		law("enrolment", first.enrol.Seconds(), last.enrol.Seconds())
		law("start p99", first.p99.Seconds(), last.p99.Seconds())
		law("time around a trial", first.around.Seconds(), last.around.Seconds())
		law("the hub's CPU time at rest", first.idle, last.idle)
		fmt.Printf("the hub's memory: %.0f KiB more for each board\n", (last.memory-first.memory)/float64(last.boards-first.boards)/1024)
	}
	for _, f := range all {
		for what, bad := range map[string]bool{
			"the hub's memory": f.memory > hubMemory, "start p99": f.p99 > startP99, "enrolment": f.enrol > enrolMost,
			"states lost": f.lost > 0, "trials": f.passed != naps, "results": f.results != naps*f.boards,
		} {
			if bad {
				failed = append(failed, fmt.Sprintf("%s of %d boards", what, f.boards))
			}
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not as it must be: %s", strings.Join(failed, ", "))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// A child is this program again.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func again(ctx context.Context, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, args...)}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	return c, c.cmd.Start()
}

func (c *child) end() error {
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

// cpu is the process's CPU time so far.
func (c *child) cpu() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, uerr := strconv.ParseFloat(f[11], 64)
	system, serr := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100, errors.Join(uerr, serr)
}

// memory is the most that the process had, octets.
func (c *child) memory() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for l := range strings.SplitSeq(string(text), "\n") {
		if v, ok := strings.CutPrefix(l, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(v)[0], 64)
			return kib * 1024, err
		}
	}
	return 0, errors.New("the kernel does not say how much memory the hub has")
}

func oneFleet(ctx context.Context, n int) (f fleetSize, err error) {
	f.boards = n
	dir, err := os.MkdirTemp("", "boxdyno-prove-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	h, err := again(ctx, "-fleet-hub", filepath.Join(dir, "hub"))
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, h.end()) }()
	if _, err := h.out.ReadString('\n'); err != nil { // it listens
		return f, err
	}
	fl, err := hub.Open(filepath.Join(dir, "hub"))
	if err != nil {
		return f, err
	}
	defer fl.Close()
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("sim%04d", i))
	}
	url, tokens, err := fl.Token(ctx, hub.TokenArgs{Names: names, Lasts: time.Hour})
	if err != nil {
		return f, err
	}
	begin := time.Now()
	for from := 0; from < n; from += perProcess {
		c, err := again(ctx, "-fleet-boards", filepath.Join(dir, fmt.Sprint("boards", from)), "-fleet-url", url)
		if err != nil {
			return f, err
		}
		defer func() { err = errors.Join(err, c.end()) }()
		for i := from; i < min(from+perProcess, n); i++ {
			fmt.Fprintln(c.in, names[i], tokens[i]) // or its boards do not come
		}
		fmt.Fprintln(c.in)
	}
	entries := map[string]hub.Entry{}
	for {
		all, _, err := fl.List(ctx)
		if err != nil {
			return f, err
		}
		ready := 0
		for _, e := range all {
			entries[e.Name] = e
			if e.State == "ready" {
				ready++
			}
		}
		if ready == n {
			break
		}
		if time.Since(begin) > 5*time.Minute {
			return f, fmt.Errorf("%d of %d boards are ready after %v", ready, n, time.Since(begin))
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.enrol = time.Since(begin)

	at := time.Now()
	before, err := h.cpu()
	if err != nil {
		return f, err
	}
	time.Sleep(resting)
	after, err := h.cpu()
	if err != nil {
		return f, err
	}
	f.idle = (after - before) / time.Since(at).Seconds()

	at, before = time.Now(), after
	if err := f.naps(ctx, &simShelf{fleet: fl, entries: entries, conns: map[string]*boxlink.Conn{}}); err != nil {
		return f, err
	}
	if after, err = h.cpu(); err != nil {
		return f, err
	}
	f.work = (after - before) / time.Since(at).Seconds()
	if f.memory, err = h.memory(); err != nil {
		return f, err
	}
	all, _, err := fl.List(ctx)
	if err != nil {
		return f, err
	}
	for _, e := range all {
		f.lost += e.Lost
		f.states += e.States
	}
	return f, nil
}

// A simShelf is all boards.
type simShelf struct {
	fleet   *hub.Fleet
	entries map[string]hub.Entry
	conns   map[string]*boxlink.Conn
}

func (s *simShelf) Names() (names []string) {
	for n := range s.entries {
		names = append(names, n)
	}
	return names
}

func (s *simShelf) Heat(c *boxlink.Conn) (float64, int64) { return s.fleet.Heat(c) }

func (s *simShelf) Dial(ctx context.Context, name string) (*boxlink.Conn, error) {
	return s.fleet.Dial(ctx, s.entries[name])
}

// naps has all boards nap together.
func (f *fleetSize) naps(ctx context.Context, s *simShelf) error {
	p := many.Spec((&fleetsim.Board{}).Spec(), s).New()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	p.Flags(fs)
	for key, v := range map[string]string{"nodes": strconv.Itoa(f.boards), "rounds": strconv.Itoa(naps), "lasts": "1s", "most_skew": "1", "hot": "0"} {
		if err := fs.Set(key, v); err != nil {
			return err
		}
	}
	var lates []time.Duration
	var arounds []time.Duration
	env := &procedure.Env{Seed: 1, Repeat: 1}
	env.Trial = func(ctx context.Context, cfg []result.Pair, trial func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		begin := time.Now()
		o, err := trial(ctx)
		took := time.Since(begin)
		rec := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Boards: o.Boards, Phases: o.Phases}
		if o.Status == result.Passed {
			f.passed++
		}
		for _, b := range o.Boards {
			if b.Status == result.Passed && len(b.Values) == 1 {
				f.results++
			}
			lates, f.clock = append(lates, b.Late), max(f.clock, b.ClockError)
		}
		arounds = append(arounds, took-time.Second)
		return rec, err
	}
	o, err := p.Run(ctx, env)
	if err == nil && o.Status != result.Passed {
		err = errors.New(o.Reason)
	}
	if err != nil {
		return err
	}
	slices.Sort(lates)
	slices.Sort(arounds)
	at := func(q float64) time.Duration { return lates[min(len(lates)-1, int(q*float64(len(lates))))] }
	f.p50, f.p99, f.most, f.around = at(0.5), at(0.99), at(1), arounds[len(arounds)/2]
	return nil
}

// fleetHub is a hub until standard input ends.
func fleetHub(ctx context.Context, folder, listen string) error {
	h, err := hub.Start(ctx, hub.Options{Folder: folder, Listen: listen, Note: func(s string) {
		if !strings.Contains(s, " joined from ") {
			fmt.Fprintln(os.Stderr, "hub:", s)
		}
	}})
	if err != nil {
		return err
	}
	defer h.Close()
	fmt.Println(h.URL)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// fleetBoards are boards until standard input ends, which first names them with their tokens,
// and with the URL of those that reach the hub by another. Their clocks are ahead by clock.
func fleetBoards(ctx context.Context, folder, url string, clock time.Duration) error {
	if os.Getenv("BOXDYNO_AHEAD") != "" { // the hub's and this machine's work come after boards
		if err := ahead(2); err != nil {
			return err
		}
	}
	debug.SetGCPercent(800) // one process is many boards, which stand still together
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	in := bufio.NewReader(os.Stdin)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	turn := make(chan struct{}, 8)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		words := append(strings.Fields(line), url)
		if len(words) < 3 {
			break
		}
		name, token, url := words[0], words[1], words[2]
		own := filepath.Join(folder, name)
		turn <- struct{}{}
		all.Go(func() {
			id, err := fleet.Load(own)
			if err != nil {
				id, err = fleet.Join(ctx, own, url, token, name, nil)
			}
			<-turn
			if err != nil {
				fmt.Fprintln(os.Stderr, name, err)
				return
			}
			sim := &fleetsim.Board{Speed: 1, Clock: clock}
			b := &fleet.Board{Identity: id, Version: "sim", Now: sim.Now, Sense: func() (float64, int64) { return 40, 0 }, Note: func(s string) { fmt.Fprintln(os.Stderr, name+":", s) }}
			b.Open = func(ctx context.Context) (func(string) boxlink.Handler, func() error) {
				return sim.Open(ctx, own, "sim")
			}
			if err := b.Run(ctx); err != nil {
				fmt.Fprintln(os.Stderr, name, err)
			}
		})
	}
	_, err := io.Copy(io.Discard, in)
	return err
}
