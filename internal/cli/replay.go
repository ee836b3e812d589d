// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"boxdyno/engine"
	"boxdyno/frame"
)

// replayFlags are what replay has besides portFlags and loadFlags.
type replayFlags struct {
	loop                     uint64
	cut, refuse, hash        bool
	rewriteMAC               string
	pnat, srcIPMap, dstIPMap string
	fixSums                  bool
}

func (a *app) replay() *cobra.Command {
	var p portFlags
	var l loadFlags
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay -i INTERFACE FILE...",
		Short: "Send the frames of capture files",
		Long: `Replay sends the frames of captures (pcap, pcapng, as they are or packed with gzip
or zstd; - is standard input), file after file: at their own times, faster, at a
rate, or flat out. The flags that tcpreplay has too mean the same; bits per second
count the FCS.

Ctrl-C ends it with the account of what was sent (exit code 130).`,
		Example: `  sudo boxdyno replay -i eth1 web.pcap
  sudo boxdyno replay -i eth1 -t --loop 10 --unique-ip web.pcap.zst
  sudo boxdyno replay -i eth1 --rate 500Mbps --duration 60 --loop 0 a.pcapng b.pcapng`,
		Args: needs("FILE...", "give a capture"),
	}
	p.add(a, cmd, "send to")
	l.add(cmd, &p)
	fs := cmd.Flags()
	fs.Float64VarP(&l.multiplier, "multiplier", "x", 0, "the captures' own times, `N` times as fast")
	fs.Uint64VarP(&f.loop, "loop", "l", 1, "send the captures `N` times; 0: until --duration, --count or Ctrl-C ends it")
	fs.BoolVar(&l.unique, "unique-ip", false, "each pass over the captures has IP addresses of its own")
	fs.BoolP("preload-pcap", "K", false, "accepted for tcpreplay's sake: frames are always in memory before they are due")
	fs.BoolVar(&f.cut, "cut", false, "cut packets that are longer than the port carries")
	fs.BoolVar(&f.refuse, "refuse", false, "leave them out (the default); the account says how many")
	fs.StringVar(&f.rewriteMAC, "rewrite-mac", "", "MAC addresses of all frames: `SOURCE,DESTINATION`, of which one may be empty")
	fs.StringVar(&f.pnat, "pnat", "", "move addresses: `FROM:TO,...`, such as 10.0.0.0/8:198.18.0.0/15 or [2001:db8::/32]:[2001:2::/48]")
	fs.StringVar(&f.srcIPMap, "srcipmap", "", "the same for source addresses: `FROM:TO,...`")
	fs.StringVar(&f.dstIPMap, "dstipmap", "", "the same for destination addresses: `FROM:TO,...`")
	fs.BoolVar(&f.fixSums, "fixcsum", false, "compute IP, TCP, UDP and ICMP checksums anew: captures of a sending host often lack them")
	fs.BoolVar(&f.hash, "hash", false, "tell the SHA-256 over one pass's frames in order, as boxdyno meter --hash does")
	exclusive(cmd, "cut", "refuse")
	exclusive(cmd, "hash", "unique-ip")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		every, err := p.interval(fs, "stats")
		if err != nil {
			return err
		}
		load, err := l.load(fs, &p, true)
		if err != nil {
			return err
		}
		load.Passes = f.loop
		if f.loop == 0 && load.Duration == 0 && load.Count == 0 {
			load.Duration = endless
		}
		cpus, err := l.cpuList(load)
		if err != nil {
			return err
		}
		opts, err := f.options()
		if err != nil {
			return err
		}
		if slices.Contains(args, "-") && (len(args) > 1 || len(cpus) > 1 || f.hash) {
			return errors.New("standard input can be read once only: no other file, no --cpus and no --hash go with -")
		}
		return do(func(ctx context.Context, args []string) error {
			port, err := p.openPort()
			if err != nil {
				return err
			}
			if err := port.guard(p.forceFlags, "flood it", "choose another port"); err != nil {
				return err
			}
			opts.Context = ctx
			if f.loop == 1 {
				opts.Keep = 1 // nothing is read twice
			}
			opts.Longest = port.mtu + 14
			s := &sender{app: a, port: port, flags: &p, every: every, load: load, cpus: cpus}
			err = f.send(ctx, s, args, opts, l.stream)
			// What a backend carries may be less than what the port does.
			if long := (*engine.TooLongError)(nil); errors.As(err, &long) && long.Limit-4 < opts.Longest && !slices.Contains(args, "-") {
				opts.Longest = long.Limit - 4 // of a VLAN tag
				err = f.send(ctx, s, args, opts, l.stream)
			}
			return err
		})(cmd, args)
	}
	return cmd
}

// send opens the captures and sends them.
func (f *replayFlags) send(ctx context.Context, s *sender, names []string, opts frame.CaptureOptions, first uint16) error {
	o := &offer{command: "replay", what: captures(names)}
	open := func() (frame.Source, error) { return openCaptures(names, opts) }
	if err := o.spread(s.cpus, first, nil, open); err != nil {
		return beforeAny(ctx, err)
	}
	defer o.close()
	if f.hash {
		sum, err := digest(open)
		if err != nil {
			return beforeAny(ctx, err)
		}
		o.notes = append(o.notes, "SHA-256 of one pass: "+sum)
	}
	for _, s := range o.streams {
		o.total += s.Source.Shape().Frames
	}
	o.total *= f.loop
	if !o.streams[0].Source.Shape().Timed && s.load.Speed > 0 {
		return usage(errors.New("its packets have no times: give --rate or --topspeed"))
	}
	return s.run(ctx, o)
}

// beforeAny is err, unless Ctrl-C is what ended the reading.
func beforeAny(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return &failure{exitInterrupted, errors.New("interrupted before any frame was sent")}
}

// longest is the longest frame that the port carries, without FCS: with one VLAN
// tag, as the kernel allows.
func (p *trafficPort) longest() int { return p.mtu + 14 + 4 }

func captures(names []string) string {
	var short []string
	for _, n := range names {
		short = append(short, filepath.Base(n))
	}
	return strings.Join(short, ", ")
}

func (f *replayFlags) options() (o frame.CaptureOptions, err error) {
	if f.cut {
		o.LongFrames = frame.Cut
	}
	o.Rewrite.FixSums = f.fixSums
	if f.rewriteMAC != "" {
		src, dst, ok := strings.Cut(f.rewriteMAC, ",")
		if !ok {
			return o, fmt.Errorf("--rewrite-mac %q: want SOURCE,DESTINATION, of which one may be empty", f.rewriteMAC)
		}
		for _, m := range []struct {
			text string
			to   *[6]byte
		}{{src, &o.Rewrite.SrcMAC}, {dst, &o.Rewrite.DstMAC}} {
			if m.text == "" {
				continue
			}
			if *m.to, err = parseMAC(m.text); err != nil {
				return o, fmt.Errorf("--rewrite-mac %w", err)
			}
		}
	}
	for _, m := range []struct {
		flag, text string
		to         *[]frame.AddressMap
	}{{"pnat", f.pnat, &o.Rewrite.Both}, {"srcipmap", f.srcIPMap, &o.Rewrite.Src}, {"dstipmap", f.dstIPMap, &o.Rewrite.Dst}} {
		if m.text == "" {
			continue
		}
		if *m.to, err = frame.ParseAddressMaps(m.text); err != nil {
			return o, fmt.Errorf("--%s: %w", m.flag, err)
		}
	}
	return o, nil
}

func parseMAC(s string) (mac [6]byte, err error) {
	m, err := net.ParseMAC(s)
	if err != nil || len(m) != 6 {
		return mac, fmt.Errorf("%q: want a MAC address such as 02:00:00:00:00:01", s)
	}
	copy(mac[:], m)
	return mac, nil
}

// digest is that of one pass over a source.
func digest(open func() (frame.Source, error)) (string, error) {
	src, err := open()
	if err != nil {
		return "", err
	}
	defer src.Close()
	sum := engine.NewDigest()
	w := frame.Window{Blob: make([]byte, 4<<20), Entries: make([]frame.Entry, 1<<14)}
	for {
		w.Reset()
		err := src.Fill(&w)
		for i := range w.Len() {
			sum.Add(w.Frame(i))
		}
		if err == io.EOF {
			return sum.Sum(), nil
		}
		if err != nil {
			return "", err
		}
	}
}
