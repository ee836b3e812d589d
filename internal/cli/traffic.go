// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"boxdyno/engine"
	"boxdyno/unit"
)

// What send, replay and meter share. The way of a command:
//
//	flags -> source (frame) -> port found, refused where it must not be flooded
//	      -> backend chosen by probing -> one transmitter a CPU, all at once
//	      -> port's counters, an interval line now and then -> settled -> account

// portFlags say which port, how it is reached and what is printed.
type portFlags struct {
	port, netns, backend string
	linkRate             string
	stats, duration      string
	json, gaps           bool
	forceFlags
}

func (f *portFlags) add(a *app, cmd *cobra.Command, doing string) {
	fs := cmd.Flags()
	fs.StringVarP(&f.port, "intf1", "i", "", "`interface` to "+doing)
	fs.StringVar(&f.netns, "netns", "", "network namespace of the interface: its `name`, or a path such as /proc/123/ns/net")
	fs.StringVar(&f.backend, "backend", "", "`backend` (boxdyno list backends; default: the first that works on the interface)")
	fs.StringVar(&f.linkRate, "link-rate", "", "bit `rate` that shares of line rate are of (default: the link's own, else 1Gbps)")
	fs.BoolVar(&f.json, "json", false, "print JSON: one document; with --stats one object a line")
	fs.BoolVar(&f.gaps, "gaps", false, "histograms of the gaps between frames")
	_ = cmd.RegisterFlagCompletionFunc("intf1", func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
		all, _ := net.Interfaces() // none: nothing to complete
		for _, i := range all {
			names = append(names, i.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("backend", a.completing(cobra.ShellCompDirectiveNoFileComp, "backends"))
}

// interval is how often a line is printed; 0: never.
func (f *portFlags) interval(fs *pflag.FlagSet, name string) (time.Duration, error) {
	if !fs.Changed(name) {
		if f.json {
			return 0, nil
		}
		return time.Second, nil
	}
	d, err := parseDuration(f.stats)
	if err != nil {
		return 0, fmt.Errorf("--%s: %w", name, err)
	}
	if d != 0 && d < 50*time.Millisecond {
		return 0, fmt.Errorf("--%s %s: want at least 0.05 s, or 0 for none", name, f.stats)
	}
	return d, nil
}

// loadFlags say how frames are offered. Short ones are tcpreplay's.
type loadFlags struct {
	topspeed         bool
	mbps, pps, rate  string
	multiplier       float64
	count, limit     uint64
	pattern, late    string
	seed             uint64
	cpus             string
	stream           uint16
	unique, coalesce bool
}

func (f *loadFlags) add(cmd *cobra.Command, p *portFlags) {
	fs := cmd.Flags()
	fs.BoolVarP(&f.topspeed, "topspeed", "t", false, "as fast as the port takes them")
	fs.StringVarP(&f.mbps, "mbps", "M", "", "`Mbit/s` of layer 2, FCS included")
	fs.StringVarP(&f.pps, "pps", "p", "", "`frames` a second")
	fs.StringVar(&f.rate, "rate", "", "`rate` in frame/s (200k) or in layer-2 bit/s (2Mbps)")
	fs.Uint64Var(&f.count, "count", 0, "end after `N` frames")
	fs.Uint64VarP(&f.limit, "limit", "L", 0, "the same as --count")
	fs.StringVar(&p.duration, "duration", "", "end after `seconds`, or 5s, 2m; 0: not before Ctrl-C")
	fs.StringVar(&f.pattern, "pattern", "constant", "gaps: `constant`, poisson, or bursts:N (N frames back to back, bursts at equal gaps)")
	fs.StringVar(&f.late, "late", "make-up", "late frames: `make-up` (sent without a burst, the mean stays exact) or shift (the schedule moves)")
	fs.Uint64Var(&f.seed, "seed", 1, "`number` that decides all that is random")
	fs.StringVar(&f.cpus, "cpus", "", "`CPUs` that send at once, such as 0,1 or 0-3, each with its share of the rate (default: one, any)")
	fs.Uint16Var(&f.stream, "stream", 0, "`number` of the first stream, in the signatures")
	fs.BoolVar(&f.coalesce, "coalesce", false, "frames that are due within 40 us, at most 32, leave together: less work for both ends")
	p.forceFlags.add(cmd, "send even where others use the port, or to public addresses")
	fs.StringVar(&p.stats, "stats", "", "print a line every `seconds` (default 1, with --json none)")
	exclusive(cmd, "count", "limit")
	for _, v := range [][2]string{{"pattern", "constant poisson bursts:32"}, {"late", "make-up shift"}} {
		_ = cmd.RegisterFlagCompletionFunc(v[0], cobra.FixedCompletions(strings.Fields(v[1]), cobra.ShellCompDirectiveNoFileComp))
	}
}

// endless is a duration that nobody waits for.
const endless = 365 * 24 * time.Hour

// defaultDuration is how long send sends if it is not told.
const defaultDuration = 10 * time.Second

// load is what the flags ask of all streams together. timed says that the
// source has times of its own.
func (f *loadFlags) load(fs *pflag.FlagSet, p *portFlags, timed bool) (l engine.Load, err error) {
	var given []string
	for _, name := range []string{"topspeed", "mbps", "pps", "rate", "multiplier"} {
		if fs.Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return l, fmt.Errorf("%s exclude each other", strings.Join(given, " and "))
	}
	switch {
	case fs.Changed("topspeed") && !f.topspeed:
		return l, errors.New("--topspeed=false says nothing: give --rate")
	case f.topspeed:
	case fs.Changed("mbps"):
		v, err := positive(f.mbps)
		if err != nil {
			return l, fmt.Errorf("--mbps %w, such as 100", err)
		}
		l.Bits = unit.BitRate(v * 1e6)
	case fs.Changed("pps"):
		if l.Rate, err = unit.ParseFrameRate(f.pps); err != nil {
			return l, fmt.Errorf("--pps: %w", err)
		}
	case fs.Changed("rate"):
		if l.Rate, l.Bits, err = parseRate(f.rate); err != nil {
			return l, fmt.Errorf("--rate: %w", err)
		}
	case fs.Changed("multiplier"):
		if !(f.multiplier > 0) || math.IsInf(f.multiplier, 0) {
			return l, fmt.Errorf("--multiplier %v: want a positive number, such as 2", f.multiplier)
		}
		l.Speed = f.multiplier
	case timed:
		l.Speed = 1
	default:
		return l, errors.New("how fast? Give --rate 200k, --rate 100Mbps or --topspeed")
	}
	if l.Speed > 0 && !timed {
		return l, errors.New("--multiplier is for frames that have times of their own: give --rate or --topspeed")
	}
	switch {
	case l.Rate != 0 && (l.Rate < 1e-3 || l.Rate > 1e9):
		return l, fmt.Errorf("%s: want 0.001 to 1e9 frame/s", given[0])
	case l.Bits != 0 && (l.Bits < 1 || l.Bits > 1e12):
		return l, fmt.Errorf("%s: want 1 to 1e12 bit/s", given[0])
	case l.Speed != 0 && (l.Speed < 1e-3 || l.Speed > 1e6):
		return l, fmt.Errorf("%s: want 0.001 to 1e6", given[0])
	}
	for _, name := range []string{"late", "coalesce"} {
		if f.topspeed && fs.Changed(name) {
			return l, fmt.Errorf("--%s has no effect with --topspeed, which has no schedule: leave it out", name)
		}
	}
	if err := f.spread(&l); err != nil {
		return l, err
	}
	for _, c := range []struct {
		name  string
		value uint64
	}{{"count", f.count}, {"limit", f.limit}} {
		if fs.Changed(c.name) {
			if c.value == 0 {
				return l, fmt.Errorf("--%s 0: want 1 or more", c.name)
			}
			l.Count = c.value
		}
	}
	if fs.Changed("duration") {
		if l.Duration, err = parseDuration(p.duration); err != nil {
			return l, fmt.Errorf("--duration: %w", err)
		}
		if l.Duration == 0 || l.Duration > endless {
			l.Duration = endless
		}
	}
	l.Unique, l.Alone, l.Seed, l.Gaps = f.unique, !f.topspeed && !f.coalesce, f.seed, p.gaps
	return l, nil
}

// spread reads how frames are spread about the rate.
func (f *loadFlags) spread(l *engine.Load) error {
	kind, n, hasN := strings.Cut(f.pattern, ":")
	switch {
	case kind == "constant" && !hasN:
	case kind == "poisson" && !hasN:
		l.Pattern = engine.Poisson
	case kind == "bursts":
		l.Pattern, l.Burst = engine.Bursts, 32
		if hasN {
			v, err := strconv.ParseUint(n, 10, 16)
			if err != nil || v == 0 {
				return fmt.Errorf("--pattern %s: want bursts:N with N from 1 to 65535", f.pattern)
			}
			l.Burst = int(v)
		}
	default:
		return fmt.Errorf("--pattern %q: want constant, poisson or bursts:N", f.pattern)
	}
	if l.Pattern != engine.Constant && l.Rate == 0 {
		return fmt.Errorf("--pattern %s spreads frames about a frame rate: give --rate, such as --rate 200k", f.pattern)
	}
	switch f.late {
	case "make-up":
	case "shift":
		l.Late = engine.Shift
	default:
		return fmt.Errorf("--late %q: want make-up or shift", f.late)
	}
	return nil
}

// share is stream i's part of a load of n streams at once. A stream's random
// numbers differ by its own number.
func share(l engine.Load, i, n int) engine.Load {
	l.Rate /= unit.FrameRate(n)
	l.Bits /= unit.BitRate(n)
	if l.Count > 0 {
		rest := uint64(i) < l.Count%uint64(n)
		if l.Count /= uint64(n); rest {
			l.Count++
		}
	}
	return l
}

// parseRate reads frame/s (200k) or layer-2 bit/s (2Mbps).
func parseRate(s string) (unit.FrameRate, unit.BitRate, error) {
	if strings.HasSuffix(s, "bps") || strings.HasSuffix(s, "bit/s") {
		b, err := unit.ParseBitRate(s)
		return 0, b, err
	}
	r, err := unit.ParseFrameRate(s)
	if err != nil {
		err = fmt.Errorf("rate %q: want frame/s such as 200k, or layer-2 bit/s such as 2Mbps", s)
	}
	return r, 0, err
}

// parseDuration reads "5", "0.5", "5s", "2m".
func parseDuration(s string) (time.Duration, error) {
	if v, err := strconv.ParseFloat(s, 64); err == nil && v >= 0 && v <= endless.Seconds() {
		return time.Duration(math.Round(v * 1e9)), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("duration %q: want seconds such as 5, or 500ms, 5s, 2m", s)
	}
	return d, nil
}

func positive(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q: want a positive number", s)
	}
	return v, nil
}

// parseNumbers reads "0,1" or "0-3": whole numbers from 0 to most, each once.
func parseNumbers(s string, most int) (all []int, err error) {
	bad := fmt.Errorf("%q: want whole numbers from 0 to %d such as 0,1 or 0-3, each once", s, most)
	for _, part := range strings.Split(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.ParseUint(from, 10, 31)
		b, errB := strconv.ParseUint(to, 10, 31)
		if errA != nil || errB != nil || a > b || b > uint64(most) {
			return nil, bad
		}
		for n := int(a); n <= int(b); n++ {
			if slices.Contains(all, n) {
				return nil, bad
			}
			all = append(all, n)
		}
	}
	return all, nil
}

// cpuList is one entry a sender of the load; -1: any CPU.
func (f *loadFlags) cpuList(l engine.Load) ([]int, error) {
	if f.cpus == "" {
		return []int{-1}, nil
	}
	cpus, err := parseNumbers(f.cpus, 1023)
	if err != nil {
		return nil, fmt.Errorf("--cpus %w", err)
	}
	if len(cpus) > engine.MaxStreams {
		return nil, fmt.Errorf("--cpus %s: at most %d can send at once", f.cpus, engine.MaxStreams)
	}
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		return nil, fmt.Errorf("--cpus: find out which CPUs there are: %w", err)
	}
	for _, cpu := range cpus {
		if !own.IsSet(cpu) {
			return nil, fmt.Errorf("--cpus %s: this process may not run on CPU %d: nproc and taskset -p $$ show where it may", f.cpus, cpu)
		}
	}
	if l.Count > 0 && l.Count < uint64(len(cpus)) {
		return nil, fmt.Errorf("--cpus %s: %s cannot be divided among them", f.cpus, plural(l.Count, "frame"))
	}
	return cpus, nil
}

// usage is an error of the command line (exit code 2) that shows only once the
// work has begun: a file, an interface.
func usage(err error) error { return &failure{exitUsage, err} }
