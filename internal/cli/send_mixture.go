// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/unit"
)

func floodNames() (names []string) {
	for _, k := range frame.Floods {
		names = append(names, k.Name)
	}
	return names
}

// mixPass is the longest pass over an application mix; further passes have other
// addresses.
const mixPass = time.Minute

// mixture is what --flood, --apps and --templates describe: how its source is
// opened. It may change the load's pace to the source's own.
func (f *sendFlags) mixture(port *trafficPort, force forceFlags, e ends, load *engine.Load, o *offer) (func() (frame.Source, error), error) {
	var flood func() (frame.Source, error)
	if f.flood != "" {
		spec := frame.Flood{
			Name: f.flood, SrcMAC: e.srcMAC, DstMAC: e.dstMAC, Port: f.floodPort, Seed: load.Seed,
			Target: netip.PrefixFrom(e.dst, e.dst.BitLen()),
		}
		var err error
		if f.sources != "" {
			if spec.Sources, err = netip.ParsePrefix(f.sources); err != nil {
				return nil, fmt.Errorf("--sources %q: want a prefix such as 198.18.0.0/16", f.sources)
			}
		}
		flood = func() (frame.Source, error) { return frame.NewFlood(spec) }
		o.what = fmt.Sprintf("%s flood on %v", f.flood, e.dst)
		if !f.timed() {
			return flood, nil
		}
	}
	// Conversations begin at the rate that was asked, and their frames come at
	// their own times; among a flood all frames are paced alike.
	var rate unit.BitRate
	if load.Bits > 0 && flood == nil {
		rate, load.Bits, load.Speed = load.Bits, 0, 1
		o.mean = rate
	}
	load.Unique = true
	base, what := f.conversations(port, force, load, rate)
	if flood == nil {
		o.what = what
		return base, nil
	}
	o.what = fmt.Sprintf("%s, and %g of all frames %s", what, f.floodShare, o.what)
	return func() (frame.Source, error) {
		b, err := base()
		if err != nil {
			return nil, err
		}
		fl, err := flood()
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		src, err := frame.Blend(b, fl, f.floodShare, load.Seed)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--flood-share: %w", err), b.Close(), fl.Close())
		}
		return src, nil
	}, nil
}

// conversations is the source of --apps or --templates, at a mean rate (0: its own).
func (f *sendFlags) conversations(port *trafficPort, force forceFlags, load *engine.Load, rate unit.BitRate) (func() (frame.Source, error), string) {
	pass := mixPass
	if load.Duration > 0 {
		pass = min(pass, load.Duration)
	}
	if n := mostFrames(load); n > 0 && rate == 0 { // about 200 kframe/s at their own rate of 1 Gbit/s
		pass = min(pass, time.Second+time.Duration(n/100e3*1e9))
	}
	var clients, servers netip.Prefix // of IPv4 they are the source's own
	if f.ip == "6" {
		clients, servers = netip.MustParsePrefix("2001:2:0:1::/64"), netip.MustParsePrefix("2001:2:0:2::/64")
	}
	if f.apps {
		m := frame.AppMix{Seed: load.Seed, Rate: rate, Duration: pass, AlertShare: &f.alerts, MTU: min(port.mtu, 3000), Clients: clients, Servers: servers}
		return func() (frame.Source, error) { return frame.NewAppMix(m) },
			fmt.Sprintf("application mix, %g of its flows with an alert", f.alerts)
	}
	t := frame.TemplateOptions{Seed: load.Seed, Rate: rate, Duration: pass, Clients: clients, Servers: servers}
	return func() (frame.Source, error) {
		s, err := frame.OpenTemplates(f.templates, t)
		if err != nil {
			return nil, err
		}
		for _, a := range s.Targets() {
			if err := force.target("templates "+f.templates, a); err != nil {
				return nil, errors.Join(err, s.Close())
			}
		}
		return s, nil
	}, "conversations from " + filepath.Base(f.templates)
}

// mostFrames is how many frames a load can have, by its count or rate; 0: not known.
func mostFrames(l *engine.Load) float64 {
	if l.Count > 0 {
		return float64(l.Count)
	}
	return float64(l.Rate) * l.Duration.Seconds()
}
