// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/fleet/hub"
	"boxdyno/internal/fleetsim"
	boxlink "boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/procedure/many"
	"boxdyno/result"
)

// faultNaps are the trials of a point in which something breaks.
const faultNaps = 4

// A broken is a fleet in which things break: a tenth of its boards are behind a cable, and
// the last one is a process of its own.
type broken struct {
	dir, listen string
	hub         *child
	fleet       *hub.Fleet
	cable       *fleetsim.Cable
	last        *child
	names       []string
	url, way    string

	mu    sync.Mutex
	all   map[string]hub.Entry
	asked time.Time
	conns map[string]*boxlink.Conn
}

// proveFleetFaults breaks a fleet of n boards in each way, and prints what the run says of it.
func proveFleetFaults(ctx context.Context, n int) (err error) {
	if n < 10 || n > 1000 {
		return fmt.Errorf("-fleet-faults %d: want 10 to 1000 boards", n)
	}
	dir, err := os.MkdirTemp("", "boxdyno-prove-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &broken{dir: dir, listen: "127.0.0.1:0", conns: map[string]*boxlink.Conn{}}
	if err := b.startHub(ctx); err != nil {
		return err
	}
	defer func() { _ = b.hub.end() }() // it may have been killed
	if b.fleet, err = hub.Open(filepath.Join(dir, "hub")); err != nil {
		return err
	}
	defer b.fleet.Close()
	if b.cable, err = fleetsim.NewCable(b.listen); err != nil {
		return err
	}
	defer b.cable.Close()
	b.url, b.way = "tls://"+b.listen, "tls://"+b.cable.Addr()
	end, err := b.enrol(ctx, n)
	defer end()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault in the second trial\tpoint\ttrials that count\twhat the run says\tnext point")
	var failed []string
	for _, f := range []struct {
		what string
		want result.Status
		says string
		do   func() error
	}{
		{"none", result.Passed, "", func() error { return nil }},
		{"the hub is killed, and is there again after 1 s", result.Passed, "", func() error { return b.restartHub(ctx, time.Second) }},
		{"the hub is killed, and is there again after 12 s", result.Invalid, "board sim", func() error { return b.restartHub(ctx, 12*time.Second) }},
		{"the hub stands still for 5 s", result.Passed, "", func() error { return b.freezeHub(5 * time.Second) }},
		{"a tenth of the boards is cut off for 5 s", result.Passed, "", func() error { return b.cut(true, true, 5*time.Second) }},
		{"a tenth of the boards is cut off for 30 s", result.Invalid, "nothing was heard from", func() error { return b.cut(true, true, 30*time.Second) }},
		{"a tenth of the boards hears nothing for 30 s", result.Invalid, "board sim", func() error { return b.cut(true, false, 30*time.Second) }},
		{"a tenth of the boards reads 8 KiB a second for 30 s", result.Passed, "", func() error { return b.slow(8<<10, 30*time.Second) }},
		{"a tenth of the boards reads 200 octets a second for 30 s", result.Invalid, "board sim", func() error { return b.slow(200, 30*time.Second) }},
		{"a command lists boards without end, and reads 1 KiB of it a second", result.Passed, "", func() error { return b.view(ctx, 1<<10, 30*time.Second) }},
		{"a board is killed, and comes back with another clock", result.Invalid, "board " + b.names[n-1], func() error { return b.restartLast(ctx) }},
	} {
		broke := make(chan error, 1)
		o, counted, err := b.run(ctx, func() {
			time.AfterFunc(300*time.Millisecond, func() { broke <- f.do() })
		})
		if err == nil {
			err = <-broke
		}
		if err == nil {
			err = b.ready(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.what, err)
		}
		next, again, err := b.run(ctx, func() {})
		if err != nil {
			return fmt.Errorf("after that: %s: %w", f.what, err)
		}
		fmt.Fprintf(w, "%s\t%s\t%d of %d\t%s\t%s\n", f.what, o.Status, counted, faultNaps, o.Reason, next.Status)
		fmt.Fprintf(os.Stderr, "%s: %s, %d trials count: %s; then %s %s\n", f.what, o.Status, counted, o.Reason, next.Status, next.Reason)
		whole := f.want == result.Passed && counted == faultNaps || f.want != result.Passed && counted >= 1 && counted < faultNaps
		if o.Status != f.want || !whole || !strings.Contains(o.Reason, f.says) || next.Status != result.Passed || again != faultNaps {
			failed = append(failed, f.what)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(failed) > 0 {
		return fmt.Errorf("not as it must be: %s", strings.Join(failed, "; "))
	}
	return nil
}

func (b *broken) startHub(ctx context.Context) (err error) {
	if b.hub, err = again(ctx, "-fleet-hub", filepath.Join(b.dir, "hub"), "-fleet-listen", b.listen); err != nil {
		return err
	}
	url, err := b.hub.out.ReadString('\n')
	if err == nil {
		b.listen = strings.TrimPrefix(strings.TrimSpace(url), "tls://")
	}
	return err
}

func (b *broken) restartHub(ctx context.Context, after time.Duration) error {
	if err := b.hub.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = b.hub.end() // it was killed
	time.Sleep(after)
	return b.startHub(ctx)
}

func (b *broken) freezeHub(lasts time.Duration) error {
	if err := b.hub.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(lasts)
	return b.hub.cmd.Process.Signal(unix.SIGCONT)
}

func (b *broken) cut(down, away bool, lasts time.Duration) error {
	b.cable.Cut(down, away)
	time.Sleep(lasts)
	b.cable.Cut(false, false)
	return nil
}

func (b *broken) slow(rate int, lasts time.Duration) error {
	b.cable.Slow(rate)
	time.Sleep(lasts)
	b.cable.Slow(0)
	return nil
}

// view asks for the list of boards again and again, side by side, as many pages and commands
// do, and reads the answers slowly.
func (b *broken) view(ctx context.Context, rate int, lasts time.Duration) error {
	cable, err := fleetsim.NewCable(b.listen)
	if err != nil {
		return err
	}
	defer cable.Close()
	folder := filepath.Join(b.dir, "viewer")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(b.dir, "hub"))); err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	where := filepath.Join(folder, "hub.json")
	text, err := os.ReadFile(where)
	if err == nil {
		err = errors.Join(os.Chmod(folder, 0o700), os.WriteFile(where, bytes.ReplaceAll(text, []byte(b.listen), []byte(cable.Addr())), 0o600))
	}
	if err != nil {
		return err
	}
	viewer, err := hub.Open(folder)
	if err != nil {
		return err
	}
	defer viewer.Close()
	cable.Slow(rate)
	defer cable.Slow(0)
	ctx, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = viewer.List(ctx) // late, or never
			}
		})
	}
	<-ctx.Done()
	return nil
}

func (b *broken) restartLast(ctx context.Context) (err error) {
	if err := b.last.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = b.last.end() // it was killed
	if b.last, err = again(ctx, "-fleet-boards", filepath.Join(b.dir, "last"), "-fleet-url", b.url, "-fleet-clock", "99h"); err == nil {
		_, err = fmt.Fprintf(b.last.in, "%s -\n\n", b.names[len(b.names)-1])
	}
	return err
}

// enrol starts all boards, and waits until they are ready.
func (b *broken) enrol(ctx context.Context, n int) (end func(), err error) {
	var children []*child
	end = func() {
		for _, c := range append(children, b.last) {
			if c != nil {
				_ = c.end() // it may have been killed
			}
		}
	}
	for i := range n {
		b.names = append(b.names, fmt.Sprintf("sim%04d", i))
	}
	_, tokens, err := b.fleet.Token(ctx, hub.TokenArgs{Names: b.names, Lasts: time.Hour})
	if err != nil {
		return end, err
	}
	for from := 0; from < n-1; from += perProcess {
		c, err := again(ctx, "-fleet-boards", filepath.Join(b.dir, fmt.Sprint("boards", from)), "-fleet-url", b.url)
		if err != nil {
			return end, err
		}
		children = append(children, c)
		for i := from; i < min(from+perProcess, n-1); i++ {
			url := b.url
			if i < n/10 {
				url = b.way
			}
			fmt.Fprintln(c.in, b.names[i], tokens[i], url) // or its boards do not come
		}
		fmt.Fprintln(c.in)
	}
	if b.last, err = again(ctx, "-fleet-boards", filepath.Join(b.dir, "last"), "-fleet-url", b.url); err != nil {
		return end, err
	}
	if _, err := fmt.Fprintf(b.last.in, "%s %s\n\n", b.names[n-1], tokens[n-1]); err != nil {
		return end, err
	}
	return end, b.ready(ctx)
}

// ready waits until every board is.
func (b *broken) ready(ctx context.Context) error {
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		all, _, err := b.fleet.List(ctx)
		good := 0
		for _, e := range all {
			if e.State == "ready" || e.State == "busy" {
				good++
			}
		}
		switch {
		case good == len(b.names):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Since(begin) > 3*time.Minute:
			return fmt.Errorf("%d of %d boards are ready (%v)", good, len(b.names), err)
		}
	}
}

// Names implements many.Shelf.
func (b *broken) Names() []string { return b.names }

// Heat implements many.Shelf.
func (b *broken) Heat(c *boxlink.Conn) (float64, int64) { return b.fleet.Heat(c) }

// Dial implements many.Shelf.
func (b *broken) Dial(ctx context.Context, name string) (*boxlink.Conn, error) {
	b.mu.Lock()
	c := b.conns[name]
	if c != nil && c.Err() == nil {
		b.mu.Unlock()
		return c, nil
	}
	if time.Since(b.asked) > time.Second {
		all, _, err := b.fleet.List(ctx)
		if err != nil {
			b.mu.Unlock()
			return nil, err
		}
		b.all, b.asked = map[string]hub.Entry{}, time.Now()
		for _, e := range all {
			b.all[e.Name] = e
		}
	}
	e := b.all[name]
	b.mu.Unlock()
	if c != nil {
		_ = c.Close() // why it ended was said
	}
	c, err := b.fleet.Dial(ctx, e)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.conns[name] = c
	}
	return c, err
}

// run carries out a point of all boards, and calls fault as its second trial begins. counted
// are the trials that passed with every board's figure: one that is there twice, or that a
// board is in twice, is an error.
func (b *broken) run(ctx context.Context, fault func()) (o procedure.Outcome, counted int, err error) {
	p := many.Spec((&fleetsim.Board{}).Spec(), b).New()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	p.Flags(fs)
	for key, v := range map[string]string{"nodes": strconv.Itoa(len(b.names)), "rounds": strconv.Itoa(faultNaps), "lasts": "1s", "most_skew": "1", "hot": "0"} {
		if err := fs.Set(key, v); err != nil {
			return o, 0, err
		}
	}
	seen := map[string]bool{}
	env := &procedure.Env{Seed: 1, Repeat: 1}
	begun := 0
	var twice error
	env.Trial = func(ctx context.Context, cfg []result.Pair, trial func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		if begun++; begun == 2 {
			fault()
		}
		o, err := trial(ctx)
		rec := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Boards: o.Boards, Phases: o.Phases}
		if o.Status != result.Passed {
			return rec, err
		}
		counted++
		if id := fmt.Sprint(cfg); seen[id] {
			twice = errors.Join(twice, fmt.Errorf("trial %s is there twice", id))
		} else {
			seen[id] = true
		}
		boards := map[string]bool{}
		for _, x := range o.Boards {
			if x.Status == result.Passed && len(x.Values) == 1 {
				boards[x.Name] = true
			}
		}
		if len(boards) != len(b.names) || len(o.Boards) != len(b.names) {
			twice = errors.Join(twice, fmt.Errorf("a trial counts with %d of %d boards", len(boards), len(b.names)))
		}
		return rec, err
	}
	o, err = p.Run(ctx, env)
	return o, counted, errors.Join(err, twice)
}
