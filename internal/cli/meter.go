// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"boxdyno/engine"
	"boxdyno/engine/catalog"
	"boxdyno/host"
	"boxdyno/unit"
)

// meterFlags are what meter has besides portFlags.
type meterFlags struct {
	streams             string
	timing, sharedClock bool
	hash, sink, udp     bool
}

func (a *app) meter() *cobra.Command {
	var p portFlags
	var f meterFlags
	cmd := &cobra.Command{
		Use:   "meter -i INTERFACE",
		Short: "Count what arrives at a port: frames, loss, order, gaps",
		Long: `Meter counts the frames that arrive at a port until Ctrl-C (exit code 0) or for a
duration. Signed frames (boxdyno send) carry a stream and a sequence number, by which the
meter counts missing, duplicate and reordered frames. Start the meter before the
sender, on the same machine or on another. All other frames are counted together as foreign.

Frames with a signature end in the meter; foreign ones go on to the machine,
unless --sink. A port that others use is refused if an XDP program would be attached
to it, with or without --sink: --backend packet attaches none.`,
		Example: `  sudo boxdyno meter -i eth1
  sudo boxdyno meter -i eth1 --json --duration 10s
  sudo boxdyno meter -i eth1 --timing --streams 0,1 --stats 5`,
		Args: cobra.NoArgs,
	}
	p.add(a, cmd, "listen on")
	fs := cmd.Flags()
	fs.StringVar(&f.streams, "streams", fmt.Sprintf("0-%d", engine.MaxStreams-1), fmt.Sprintf("`numbers` of the streams to count, at most %d of them", engine.MaxStreams))
	fs.StringVar(&p.duration, "duration", "", "end after `seconds`, or 5s, 2m (default: not before Ctrl-C)")
	fs.StringVar(&p.stats, "stats", "", "print a line every `seconds` (default 1, with --json none)")
	fs.StringVar(&p.stats, "interval", "", "the same as --stats")
	fs.BoolVar(&f.timing, "timing", false, "gaps, delay variation (IPDV) and bursts; costs the meter about a third of its speed")
	fs.BoolVar(&f.sharedClock, "shared-clock", false, "the sender is on this machine, so latency is measured; implies --timing")
	fs.BoolVar(&f.hash, "hash", false, "SHA-256 over all frames in order; takes backend packet unless --backend says otherwise")
	fs.BoolVar(&f.udp, "count-udp", false, "count frames of UDP and look into none: neither streams nor what is missing are known; backend packet")
	fs.BoolVar(&f.sink, "sink", false, "drop foreign frames once they are counted, instead of handing them on (backend xdp)")
	p.forceFlags.add(cmd, "attach an XDP program, also with --sink, even where others use the port")
	exclusive(cmd, "stats", "interval")
	for _, other := range []string{"streams", "timing", "shared-clock", "hash", "sink"} {
		exclusive(cmd, "count-udp", other)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		name := "stats"
		if fs.Changed("interval") {
			name = "interval"
		}
		every, err := p.interval(fs, name)
		if err != nil {
			return err
		}
		duration := time.Duration(0)
		if fs.Changed("duration") {
			if duration, err = parseDuration(p.duration); err != nil {
				return fmt.Errorf("--duration: %w", err)
			}
		}
		numbers, err := parseNumbers(f.streams, 1<<16-1)
		if err != nil {
			return fmt.Errorf("--streams %w", err)
		}
		if len(numbers) > engine.MaxStreams {
			return fmt.Errorf("--streams %s: a meter counts at most %d streams", f.streams, engine.MaxStreams)
		}
		var ids []uint16
		for _, n := range numbers {
			ids = append(ids, uint16(n))
		}
		if f.udp {
			ids = nil
		}
		f.timing = f.timing || f.sharedClock || p.gaps
		return do(func(ctx context.Context, _ []string) error {
			return a.listen(ctx, &p, &f, ids, every, duration)
		})(cmd, nil)
	}
	return cmd
}

// listen meters until ctx or the duration ends. That ctx ends an open-ended
// meter is no failure.
func (a *app) listen(ctx context.Context, p *portFlags, f *meterFlags, ids []uint16, every, duration time.Duration) error {
	port, err := p.openPort()
	if err != nil {
		return err
	}
	switch {
	case f.sink:
		err = port.guard(p.forceFlags, "take its frames away", "choose another port, or give --backend packet without --sink, which attaches nothing")
	case p.meterBackend(f) != "packet":
		err = port.guard(p.forceFlags, "attach an XDP program", "choose another port, or give --backend packet, which attaches nothing")
	}
	if err != nil {
		return err
	}
	m, backend, err := p.openMeter(ctx, port, f)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer m.Close()
	if err := m.Arm(ctx, f.timing, ids...); err != nil {
		return err
	}
	armed := unit.Now()
	line := newTicker(a, p, every)
	line.loss = "missing"
	until := "Ctrl-C"
	if duration > 0 {
		until = about(duration) + " are over"
	}
	what := "streams " + f.streams
	if f.udp {
		what = "frames of UDP"
	}
	if err := line.begin(fmt.Sprintf("%-*s%s, backend %s, %s, until %s", nameWidth, "meter", port.describeText(), backend, what, until)); err != nil {
		return err
	}
	a.note("listening on %s", port.Name) // who waits for it may send now
	waiting, stop := context.WithCancel(ctx)
	if duration > 0 {
		waiting, stop = context.WithTimeout(ctx, duration)
	}
	defer stop()
	reading := context.WithoutCancel(ctx)
	var latest engine.MeterReport
	var known unit.Instant // up to which latest has all that came
	read := func() (portCounts, error) {
		before := unit.Now()
		rep, err := m.Read(reading)
		if err != nil && len(rep.Streams) == 0 {
			return portCounts{}, err
		}
		latest, known = rep, before
		return arrived(rep), err
	}
	share := func(_ uint64, d time.Duration) float64 {
		if duration == 0 {
			return 0
		}
		return min(d.Seconds()/duration.Seconds(), 1)
	}
	err = line.watch(waiting.Done(), portCounts{}, read, share)
	line.clear()
	if _, failed := read(); failed != nil { // what it last said is better than nothing
		err = cmp.Or(err, failed)
	}
	acc := receivedOf(port, p, f, backend, latest, armed, unit.Now())
	if errors.Is(err, engine.ErrPortGone) {
		acc.PortGone, acc.Known = true, max(seconds(armed, known), 0)
		acc.Warnings = append(acc.Warnings, fmt.Sprintf("%s vanished: what came is known up to %.2f s after the start", port.Name, acc.Known))
	}
	if err != nil {
		acc.Warnings = append(acc.Warnings, "it ended early: "+sentence(err))
	}
	return cmp.Or(err, line.print(acc))
}

// arrived is all frames of a report, and in place of drops those that are
// missing: it may fall again, when frames come late.
func arrived(rep engine.MeterReport) portCounts {
	c := portCounts{frames: rep.Foreign, octets: rep.ForeignOctets, foreign: rep.Foreign}
	for _, r := range rep.Streams {
		c.frames += r.Frames
		c.octets += r.Octets
		c.dropped += uint64(missing(r.Span, r.Frames, r.Duplicate))
	}
	return c
}

// missing is how many of a span of sequence numbers, up to the highest, have not
// arrived. Below zero several senders wrote them.
func missing(span, frames, duplicate uint64) int64 {
	return int64(span) - int64(frames-duplicate)
}

// meterBackend is the one backend that may meter; "": any.
func (f *portFlags) meterBackend(want *meterFlags) string {
	if f.backend == "" && (want.hash || want.udp) {
		return "packet" // it sees frames of all queues in one order, and takes a filter
	}
	return f.backend
}

// openMeter is the first backend that meters the port as the flags ask, or that
// of --backend. Nothing is sent.
func (f *portFlags) openMeter(ctx context.Context, p *trafficPort, want *meterFlags) (engine.Meter, string, error) {
	var candidates []engine.Backend
	if name := f.meterBackend(want); name != "" {
		b, err := catalog.Open(name)
		if err != nil {
			return nil, "", usage(fmt.Errorf("--backend: %w", err))
		}
		candidates = append(candidates, b)
	} else {
		// Not afxdp: xdp/generic works wherever it does, and counts in the kernel.
		for _, name := range []string{"xdp", "xdp/generic", "packet"} {
			b, err := catalog.Open(name)
			if err != nil {
				return nil, "", err
			}
			candidates = append(candidates, b)
		}
	}
	var refused []string
	for _, b := range candidates {
		open := b.OpenMeter
		if s, ok := b.(engine.Sparer); ok {
			open = s.OpenSparing
		}
		m, err := open(ctx, p.Port)
		if err == nil {
			if err = want.setUp(m); err == nil {
				return m, b.Name(), nil
			}
			m.Close()
		}
		if ctx.Err() != nil || errors.As(err, new(*host.Missing)) {
			return nil, "", err
		}
		refused = append(refused, fmt.Sprintf("%s: %v", b.Name(), err))
	}
	return nil, "", &failure{exitMissing, fmt.Errorf("no backend meters %s as asked: %s", p.Name, strings.Join(refused, "; "))}
}

// setUp asks for what not every meter can.
func (f *meterFlags) setUp(m engine.Meter) error {
	if f.hash {
		h, ok := m.(engine.Hasher)
		if !ok {
			return errors.New("it cannot hash frames")
		}
		h.Hash(true)
	}
	if f.udp {
		c, ok := m.(engine.PlainCounter)
		if !ok {
			return errors.New("it has no filter for UDP")
		}
		return c.CountUDP()
	}
	if f.sink {
		s, ok := m.(engine.Sinker)
		if !ok {
			return errors.New("it cannot keep frames from the machine")
		}
		return s.Sink(true)
	}
	return nil
}
