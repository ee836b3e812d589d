// SPDX-License-Identifier: Apache-2.0

// Command bench measures the engine beside its peers in one run and prints
// ratios with their intervals. script/bench sets up and runs it as root.
//
//	bed.go    where frames go: two namespaces, or the routing sandbox
//	load.go   what is sent: 64 octets, IMIX, 1518, a capture, conversations, each also as a file
//	peers.go  programs that others use
//	ours.go   the engine's backends
//	table.go  medians and their intervals, limits, targets
//	pacing.go when frames arrive, against when they should (-pacing)
//
// Whoever sends, the receiving port's own counter is what counts: no sender is
// asked how much it sent.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"boxdyno/host"
)

func main() {
	o := options{}
	flag.IntVar(&o.repeats, "repeats", 6, "runs of each sender; the table shows medians, with intervals from 6 on")
	flag.DurationVar(&o.span, "span", 600*time.Millisecond, "how long each run offers load")
	only := flag.String("only", "", "`titles`, separated by semicolons: blocks whose title holds one of them")
	flag.StringVar(&o.capture, "capture", "", "`FILE` that stands for a real capture; default: the largest of the template captures, where they are")
	flag.DurationVar(&o.pacing, "pacing", 0, "measure pacing instead: `how long` each rate is offered, such as 10s")
	flag.DurationVar(&o.original, "original", 0, "with -pacing: `how long` a capture is replayed at its own times, such as 60s")
	flag.Parse()
	if *only != "" {
		o.only = strings.Split(*only, ";")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	repeats          int
	span             time.Duration
	only             []string
	capture          string
	pacing, original time.Duration
}

// A sender offers one load to a bed until ctx ends.
type sender struct {
	name  string
	cores int
	// send returns an *absent where it cannot send this load here.
	send func(ctx context.Context, b *bed, l *load) error
}

// An absent says why a cell of the table is empty.
type absent struct{ why string }

// notForThis is why of senders that a block is not about; it does not name them.
const notForThis = "not signed"

func (a *absent) Error() string { return a.why }

func run(ctx context.Context, o options) error {
	unlock, err := host.Lock(ctx, func(holder string) { fmt.Fprintln(os.Stderr, "waiting for", holder) })
	if err != nil {
		return err
	}
	defer unlock()
	dir, err := os.MkdirTemp("", "boxdyno-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.pacing > 0 {
		if err := pacing(ctx, o.pacing, dir); err != nil || o.original == 0 {
			return err
		}
		return original(ctx, o.original, dir)
	}
	tools, err := buildPeers(ctx, dir)
	if err != nil {
		return err
	}
	var all results
	for _, kind := range bedKinds {
		b, err := kind.build(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.title, err)
		}
		err = blocks(ctx, o, kind.title, b, dir, tools, &all)
		if cerr := b.close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind.title, err)
		}
	}
	all.printTargets()
	return nil
}

func blocks(ctx context.Context, o options, title string, b *bed, dir string, tools peerTools, all *results) error {
	loads, err := makeLoads(b, dir, o.capture)
	if err != nil {
		return err
	}
	for _, l := range loads {
		name := title + ", " + l.name
		if len(o.only) > 0 && !slices.ContainsFunc(o.only, func(w string) bool { return strings.Contains(name, w) }) {
			continue
		}
		senders := append(peers(tools), ours()...)
		if b.meter != nil {
			senders = append(peers(tools)[:1], intoMeter()...)
			if l.spec == nil {
				continue
			}
		}
		r, err := compare(ctx, o, name, b, l, senders)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		r.print()
		*all = append(*all, r)
	}
	return nil
}

// compare runs the senders in turn, repeats times after a warm-up.
func compare(ctx context.Context, o options, name string, b *bed, l *load, senders []sender) (*block, error) {
	r := &block{name: name, mean: l.mean, copied: copyRate(l.mean)}
	for _, s := range senders {
		r.rows = append(r.rows, row{name: s.name, cores: s.cores})
	}
	for round := range o.repeats + 1 {
		for i, s := range senders {
			row := &r.rows[i]
			if row.why != "" {
				continue
			}
			rate, err := b.measure(ctx, o.span, func(ctx context.Context) error { return s.send(ctx, b, l) })
			var none *absent
			switch {
			case errors.As(err, &none):
				row.why = none.why
			case err != nil:
				return nil, fmt.Errorf("%s: %w", s.name, err)
			case round > 0:
				row.rates = append(row.rates, rate)
			}
		}
	}
	return r, nil
}
