// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/catalog"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/unit"
)

// An offer is what send and replay offer to a port.
type offer struct {
	command string
	what    string   // in words: "64 B UDP, 1 flow"
	notes   []string // what was chosen for the user, and what the account must say
	streams []engine.Stream
	classes []string     // of the source; signed frames of class c carry their stream's number + c
	mean    unit.BitRate // of conversations whose frames come at their own times; 0: none was asked
	total   uint64       // frames of all passes; 0: not known
	close   func() error
}

// sourceNotes are what the sources had to leave out or change, each said once.
func (o *offer) sourceNotes() (all []string) {
	for _, s := range o.streams {
		if s.Source == nil {
			continue
		}
		for _, n := range s.Source.Notes() {
			if !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	return all
}

// spread makes one stream a CPU: of one spec, or of a source that open opens
// anew for each of them and that is then cut by flows.
func (o *offer) spread(cpus []int, first uint16, spec *frame.Spec, open func() (frame.Source, error)) error {
	o.close = func() error {
		var err error
		for _, s := range o.streams {
			if s.Source != nil {
				err = errors.Join(err, s.Source.Close())
			}
		}
		return err
	}
	id := int(first)
	for i := range cpus {
		s := engine.Stream{ID: uint16(id)}
		step := 1
		if spec != nil {
			s.Frames = *spec
		} else {
			src, err := open()
			if err != nil {
				return errors.Join(err, o.close())
			}
			if len(cpus) > 1 {
				whole := src
				if src, err = frame.Shard(whole, i, len(cpus)); err != nil {
					return errors.Join(usage(fmt.Errorf("--cpus: %w", err)), whole.Close(), o.close())
				}
			}
			s.Source = src
			o.classes = src.Shape().Classes
			step = max(len(o.classes), 1)
		}
		if id += step; id > 1<<16 {
			return errors.Join(usage(fmt.Errorf("--stream %d: the last stream's number would be %d, and the largest is 65535", first, id-1)), o.close())
		}
		o.streams = append(o.streams, s)
	}
	return nil
}

// fits refuses sources whose frames are longer than the port carries.
func (o *offer) fits(p *trafficPort) error {
	for _, s := range o.streams {
		if s.Source == nil {
			continue
		}
		if n := s.Source.Shape().Longest; n > p.longest() {
			return usage(fmt.Errorf("frames of up to %d octets with FCS need an MTU of %d, and %s has %d", n+unit.FCS, n-14, p.Name, p.mtu))
		}
	}
	return nil
}

// openLanes opens one transmitter a CPU, of the backend that --backend names, or
// else of the first that sends from the port and has room for all of them. probed is
// how many frames left the port to find that out.
func (f *portFlags) openLanes(ctx context.Context, p *trafficPort, cpus []int) (b engine.Backend, lanes []engine.Transmitter, probed uint64, err error) {
	if f.backend != "" {
		b, err := catalog.Open(f.backend)
		if err != nil {
			return nil, nil, 0, usage(fmt.Errorf("--backend: %w", err))
		}
		lanes, err := openOn(ctx, b, p, cpus)
		if errors.Is(err, host.ErrNotSupported) {
			err = &failure{exitMissing, err}
		}
		return b, lanes, 0, err
	}
	var refused []string
	for _, s := range catalog.All {
		b := s.New()
		var err error
		if asker, ok := b.(engine.Asker); ok {
			var frames uint64
			frames, err = asker.AskTransmit(ctx, p.Port)
			probed += frames
		}
		if err == nil {
			if lanes, err = openOn(ctx, b, p, cpus); err == nil {
				return b, lanes, probed, nil
			}
		}
		if ctx.Err() != nil || errors.As(err, new(*host.Missing)) {
			return nil, nil, 0, beforeAny(ctx, err)
		}
		refused = append(refused, fmt.Sprintf("%s: %v", b.Name(), err))
	}
	return nil, nil, 0, &failure{exitMissing, fmt.Errorf("no backend works on %s: %s", p.Name, strings.Join(refused, "; "))}
}

func openOn(ctx context.Context, b engine.Backend, p *trafficPort, cpus []int) (lanes []engine.Transmitter, err error) {
	for _, cpu := range cpus {
		t, err := b.OpenTransmitter(ctx, []host.Port{p.Port}, cpu)
		if err != nil {
			for _, t := range lanes {
				t.Close()
			}
			return nil, err
		}
		lanes = append(lanes, t)
	}
	return lanes, nil
}

// A sender offers to a port from several CPUs at once.
type sender struct {
	app   *app
	port  *trafficPort
	flags *portFlags
	every time.Duration // of interval lines; 0: none
	load  engine.Load   // of all streams together
	cpus  []int         // one a stream; -1: any

	backend string
	probed  uint64 // frames that left the port to find a backend; in no amount
	begun   bool   // the header is printed
}

// Run sends the offer and prints its account. A missing privilege is a
// *host.Missing; ctx ends it early, with the account and exit code 130.
func (s *sender) run(ctx context.Context, o *offer) error {
	b, lanes, probed, err := s.flags.openLanes(ctx, s.port, s.cpus)
	if err != nil {
		return err
	}
	defer func() {
		for _, t := range lanes {
			t.Close()
		}
	}()
	s.backend = b.Name()
	read := s.port.sent
	if s.probed += probed; probed > 0 {
		read = s.port.settled // the probe's frame may still be under way
	}
	before, err := read()
	if err != nil {
		return err
	}
	line := newTicker(s.app, s.flags, s.every)
	header := s.header(o)
	if s.begun {
		header = ""
	}
	s.begun = true
	if err := line.begin(header); err != nil {
		return err
	}
	reports, err := s.transmit(ctx, lanes, o, line, before)
	line.clear()
	interrupted := ctx.Err() != nil
	accepted := uint64(0)
	for _, r := range reports {
		accepted += r.Accepted
	}
	if interrupted {
		err = nil
	} else if err != nil && accepted == 0 {
		return err
	}
	wire, gone := s.port.settled()
	if gone != nil {
		wire = line.seen
		err = cmp.Or(err, gone)
	}
	acc := s.account(o, reports, wire.since(before), interrupted || err != nil)
	if err != nil {
		acc.Interrupted = interrupted
		acc.Warnings = append(acc.Warnings, "it ended early: "+sentence(err))
	}
	if gone != nil {
		acc.Warnings = append(acc.Warnings, "wire and dropped are what "+s.port.Name+" had counted when it was last read")
	}
	if failed := line.print(acc); err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	if interrupted {
		return &failure{exitInterrupted, errors.New("interrupted; the account is of what was sent until then")}
	}
	return nil
}

// transmit runs all streams at once. One that fails ends the others.
func (s *sender) transmit(ctx context.Context, lanes []engine.Transmitter, o *offer, line *ticker, before portCounts) ([]engine.TxReport, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reports := make([]engine.TxReport, len(lanes))
	var all guard.Group
	for i, t := range lanes {
		all.Go(func() {
			rs, err := t.Transmit(ctx, share(s.load, i, len(lanes)), o.streams[i])
			if len(rs) > 0 {
				reports[i] = rs[0]
			}
			if err != nil {
				cancel(err) // the first counts
			}
		})
	}
	done := make(chan struct{})
	guard.Go(func() { all.Wait(); close(done) })
	err := line.watch(done, before, s.port.sent, s.progress(o))
	if err != nil {
		cancel(err)
	}
	<-done
	return reports, context.Cause(ctx)
}

// progress is the share of the load that is done after frames and d; 0: not known.
func (s *sender) progress(o *offer) func(frames uint64, d time.Duration) float64 {
	return func(frames uint64, d time.Duration) float64 {
		of := 0.0
		for _, total := range []uint64{s.load.Count, o.total} {
			if total > 0 {
				of = max(of, float64(frames)/float64(total))
			}
		}
		if s.load.Duration > 0 && s.load.Duration < endless {
			of = max(of, d.Seconds()/s.load.Duration.Seconds())
		}
		return min(of, 1)
	}
}

// header is what a person is told beforehand.
func (s *sender) header(o *offer) string {
	var b rows
	b.add(o.command, "%s", o.what)
	port := s.port.describeText() + ", backend " + s.backend
	if s.cpus[0] >= 0 {
		port += ", CPU " + strings.Trim(fmt.Sprint(s.cpus), "[]")
	}
	b.add("port", "%s", port)
	return strings.TrimSuffix(b.String(), "\n")
}

// describeText is the port in words.
func (p *trafficPort) describeText() string {
	if p.driver == "" {
		return p.Name
	}
	return p.Name + " (" + p.driver + ")"
}

func seconds(from, to unit.Instant) float64 { return float64(to-from) / 1e9 }
