// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"boxdyno/agent"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/link/hub"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/telemetry"
	"boxdyno/unit"
)

// telemetryFlags are what a user tells collectors; watch, run and qualify have
// them.
type telemetryFlags struct {
	collectors, meter, plug, reading string
	meters, plugs                    []string // of a fleet, each with what it sees
}

func (f *telemetryFlags) add(a *app, cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.collectors, "collectors", "", "`names` of collectors, separated by commas, or all (boxdyno list collectors; default: those that are not optional)")
	fs.StringVar(&f.meter, "meter", "", "`command` that prints watts, one value a line for as long as it runs, or once")
	fs.StringVar(&f.plug, "plug", "", "`URL` of a smart plug that meters the box's power")
	fs.StringVar(&f.reading, "reading", "", "`power` read off a meter, such as 5.2W")
	_ = cmd.RegisterFlagCompletionFunc("collectors", a.completing(cobra.ShellCompDirectiveNoFileComp, "collectors"))
}

// apply changes w as the flags say, and nothing else.
func (f *telemetryFlags) apply(set func(key, text, at string) error) error {
	for _, k := range []struct{ key, text string }{{"collectors", f.collectors}, {"meter", f.meter}, {"plug", f.plug}, {"reading", f.reading}} {
		if k.text == "" {
			continue
		}
		if err := set(k.key, k.text, "--"+k.key); err != nil {
			return err
		}
	}
	for key, texts := range map[string][]string{"meter": f.meters, "plug": f.plugs} {
		for _, text := range texts {
			if err := set(key, text, "--"+key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *app) watch() *cobra.Command {
	var f telemetryFlags
	var rate, length, box string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show what a machine says of itself: CPUs, temperatures, clocks, power, drops",
		Long: `Watch reads this machine's own counters and sensors again and again, until Ctrl-C
(exit code 0) or for a time. It reads what a run keeps as its telemetry, at the same
cost. What the machine lacks is left out; without root there is less to read.

--box watches a box that boxdyno box add has added, by its agent. Of several boxes in
group=NAME it prints a line a second each.

On a terminal it is a view of cores, ports, drops by place, heat, clock, power and
memory with how they went, until q; ? explains it. NO_COLOR is obeyed. Elsewhere it
prints a line a second.

--json prints one object a line: first the series, then batches of their values, as
the file telemetry.jsonl.gz of a run has them. A batch's values are of series first,
first+1...; null is absent; what has not changed is left out for up to a second.
They are printed once a second.`,
		Example: `  boxdyno watch
  sudo boxdyno watch --for 10s
  boxdyno watch --box pi5
  boxdyno watch --box group=rack1
  boxdyno watch --json --rate 2 --collectors cpu,thermal --for 1s`,
		Args: cobra.NoArgs,
	}
	f.add(a, cmd)
	fs := cmd.Flags()
	fs.StringVar(&rate, "rate", "", fmt.Sprintf("samples a second, %d to %d `Hz` (default %d)", telemetry.MinRate, telemetry.MaxRate, telemetry.DefaultRate))
	fs.StringVar(&length, "for", "", "end after `seconds`, or 5s, 2m (default: not before Ctrl-C)")
	fs.StringVar(&box, "box", "", "`NAME` of the box to watch (boxdyno box ls; default: this machine), or group=NAME: all boxes of a group")
	_ = cmd.RegisterFlagCompletionFunc("box", boxNames)
	fs.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var w runner.Watching
		if rate != "" {
			if err := w.Set("rate", rate); err != nil {
				return fmt.Errorf("--rate: %w", err)
			}
		}
		if err := f.apply(func(key, text, _ string) error { return w.Set(key, text) }); err != nil {
			return err
		}
		if _, err := telemetry.Choose(a.plugins.Collectors, w.Collectors); err != nil {
			return fmt.Errorf("--collectors: %w", err)
		}
		duration := time.Duration(0)
		if length != "" {
			var err error
			if duration, err = parseDuration(length); err != nil {
				return fmt.Errorf("--for: %w", err)
			}
		}
		return do(func(ctx context.Context, _ []string) error {
			names, err := selected(box)
			switch {
			case err != nil:
				return err
			case len(names) > 1:
				return a.watchGroup(ctx, names, w, duration, asJSON)
			case len(names) == 1:
				return a.watchBox(ctx, names[0], w, duration, asJSON)
			}
			return a.watching(ctx, w, nil, (&host.Local{}).Identify(), duration, asJSON)
		})(cmd, nil)
	}
	return cmd
}

// watchBox watches a box as watching does, once it is reached. A connection that ends
// before is an error. What meters power is asked here: its user has put it at the box.
func (a *app) watchBox(ctx context.Context, name string, w runner.Watching, length time.Duration, asJSON bool) (err error) {
	b, err := findBox(name)
	if err != nil {
		return err
	}
	c, err := hub.Dial(ctx, b.Reach())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	id, err := agent.Identify.Call(ctx, c, agent.IdentifyArgs{})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	guard.Go(func() {
		select {
		case <-c.Ended():
			stop()
		case <-ctx.Done():
		}
	})
	err = a.watching(ctx, w, c, id.Machine, length, asJSON)
	return errors.Join(err, c.Err())
}

// watchGroup watches boxes side by side, whose lines begin with their names. One that
// fails does not keep the others from it; the worst exit code is returned.
func (a *app) watchGroup(ctx context.Context, names []string, w runner.Watching, length time.Duration, asJSON bool) error {
	for _, other := range []struct {
		flag  string
		given bool
	}{{"--json", asJSON}, {"--meter", w.Meter != ""}, {"--plug", w.Plug != ""}, {"--reading", w.Reading != ""}} {
		if other.given {
			return &runner.PlanError{At: "--box", Err: fmt.Errorf("%s is of one box, and this is a group: leave it out, or name one box", other.flag)}
		}
	}
	var turn sync.Mutex
	exits := make([]int, len(names))
	widest := 0
	for _, name := range names {
		widest = max(widest, len(name))
	}
	var all guard.Group
	for i, name := range names {
		all.Go(func() {
			prefix := fmt.Sprintf("%-*s  ", widest, name)
			one := *a
			one.out, one.err = named{prefix, a.out, &turn}, named{prefix, a.err, &turn}
			if err := one.watchBox(ctx, name, w, length, false); err != nil {
				exits[i] = code(ctx, err)
				one.note("%s", sentence(err))
			}
		})
	}
	all.Wait()
	exit := exitOK
	for _, e := range exits {
		exit = worst(exit, e)
	}
	if exit != exitOK {
		return &failure{exit, nil}
	}
	return nil
}

// named writes whole lines of several boxes, each with the name of its box before it. It
// is no terminal, so that no box has a screen.
type named struct {
	prefix string
	to     io.Writer
	turn   *sync.Mutex
}

func (n named) Write(b []byte) (int, error) {
	n.turn.Lock()
	defer n.turn.Unlock()
	for line := range bytes.Lines(b) {
		if _, err := n.to.Write(append([]byte(n.prefix), line...)); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// watching watches a machine, this one or the box behind c, until ctx ends or for
// length (0: without end), which is no failure.
func (a *app) watching(ctx context.Context, w runner.Watching, c *link.Conn, machine result.Machine, length time.Duration, asJSON bool) error {
	o := telemetry.Options{
		Specs: a.plugins.Collectors, Names: w.Collectors, Rate: w.Rate,
		Origin: unit.Now(), Start: time.Now(), Warn: func(text string) { a.note("%s", text) },
	}
	var said warnings
	screen := a.screen()
	if screen != nil && !asJSON {
		o.Warn = said.add // a line on standard error would go through the screen
		defer said.tell(a)
	}
	if c != nil {
		o.Specs, o.Names = telemetry.Given(a.plugins.Collectors), nil
		o.Beside = []telemetry.Spec{lab.WatchBox(c, w.Collectors, "", o.Warn)}
	}
	broken := make(chan struct{})
	if asJSON {
		o.Every = time.Second // at each sample it would cost a third more
		o.Write = func(lines []byte) error {
			_, err := a.out.Write(lines)
			if err != nil {
				close(broken) // nobody reads on
			}
			return err
		}
	}
	// Collectors end with Close, not with ctx: the last sample is whole.
	s, err := telemetry.Start(context.WithoutCancel(ctx), &telemetry.Machine{Ask: w.Ask()}, o)
	if err != nil {
		return err
	}
	if length > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, length)
		defer stop()
	}
	switch {
	case asJSON:
		select {
		case <-ctx.Done():
		case <-broken:
		}
	case screen != nil:
		err = show(ctx, s, machine, w.Rate, screen, &said)
	default:
		err = a.lines(ctx, s)
	}
	_, cerr := s.Close()
	return errors.Join(err, cerr)
}

// lines prints a line a second.
func (a *app) lines(ctx context.Context, s *telemetry.Sampler) error {
	v := newView(s.Series())
	v.look(s)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		v.look(s)
		if _, err := fmt.Fprintln(a.out, time.Now().Format("15:04:05")+v.line()); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
}
