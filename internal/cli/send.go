// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"boxdyno/engine"
	"boxdyno/frame"
)

// sendFlags say what send sends.
type sendFlags struct {
	size, proto, ip  string
	srcIP, dstIP     string
	srcMAC, dstMAC   string
	srcPort, dstPort uint16
	vlan, qinq       string
	flows            int
	zipf             float64
	fields           []string
	unsigned         bool

	flood, target, sources string
	floodPort              uint16 // 0: the flood's own
	floodShare             float64
	apps                   bool
	alerts                 float64
	templates              string
}

func (a *app) send() *cobra.Command {
	var p portFlags
	var l loadFlags
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send -i INTERFACE",
		Short: "Send test frames, a flood or an application mix",
		Long: `Send makes frames and offers them to a port on an exact schedule, or flat out. By
itself it sends signed UDP frames: boxdyno meter at the other end tells what is
missing, doubled and out of order. With --flood it sends what a denial of service
looks like, with --apps conversations of many applications, with --templates
those of a folder of captures. Without --duration and --count it ends after 10 s.

Send to nobody who has not agreed: by itself to addresses for benchmarks
(198.18.0.0/15, 2001:2::/48), and in a lab that leads nowhere else.

Ctrl-C ends it with the account of what was sent (exit code 130).`,
		Example: `  sudo boxdyno send -i eth1 --frame-size 64 -t --duration 5s
  sudo boxdyno send -i eth1 --frame-size imix --rate 500Mbps --flows 1000 --json
  sudo boxdyno send -i eth1 --rate 100k --proto tcp --vlan 100 --field dport=list:80,443
  sudo boxdyno send -i eth1 --flood syn --target 198.19.0.2 --rate 1M
  sudo boxdyno send -i eth1 --apps --flood udp --flood-share 0.2 --rate 1Gbps`,
		Args: cobra.NoArgs,
	}
	p.add(a, cmd, "send to")
	l.add(cmd, &p)
	f.add(cmd)
	fs := cmd.Flags()
	fs.Float64VarP(&l.multiplier, "multiplier", "x", 0, "of --apps and --templates: their own times, `N` times as fast")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		every, err := p.interval(fs, "stats")
		if err != nil {
			return err
		}
		if err := f.conflicts(fs); err != nil {
			return err
		}
		load, err := l.load(fs, &p, f.timed())
		if err != nil {
			return err
		}
		if load.Duration == 0 && load.Count == 0 {
			load.Duration = defaultDuration
		}
		cpus, err := l.cpuList(load)
		if err != nil {
			return err
		}
		return do(func(ctx context.Context, _ []string) error {
			port, err := p.openPort()
			if err != nil {
				return err
			}
			if err := port.guard(p.forceFlags, "flood it", "choose another port"); err != nil {
				return err
			}
			o := &offer{command: "send"}
			spec, open, err := f.source(port, p.forceFlags, &load, o)
			if err == nil {
				err = o.spread(cpus, l.stream, spec, open)
			}
			if err != nil {
				return usage(err)
			}
			defer o.close()
			if err := o.fits(port); err != nil {
				return err
			}
			s := &sender{app: a, port: port, flags: &p, every: every, load: load, cpus: cpus}
			return s.run(ctx, o)
		})(cmd, nil)
	}
	return cmd
}

func (f *sendFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.size, "frame-size", "", "`octets` with FCS, or imix, 64:7,594:4,1518:1, sweep:64-1518:64, random:64-1518 (default 64, or the least that the headers need)")
	fs.StringVar(&f.proto, "proto", "udp", "`protocol`: udp, tcp or icmp")
	fs.StringVar(&f.ip, "ip", "4", "IP `version`: 4 or 6")
	fs.StringVar(&f.srcIP, "src-ip", "", "source `address` (default 198.18.0.2 or 2001:2:0:1::2)")
	fs.StringVar(&f.dstIP, "dst-ip", "", "destination `address` (default 198.19.0.2 or 2001:2:0:2::2)")
	fs.StringVar(&f.srcMAC, "src-mac", "", "source `MAC` (default: the port's)")
	fs.StringVar(&f.dstMAC, "dst-mac", "", "destination `MAC` (default: the neighbour's, if the kernel knows one, or the veth's other end; else an address that is nobody's)")
	fs.Uint16Var(&f.srcPort, "src-port", frame.FirstPort, "first source `port`")
	fs.Uint16Var(&f.dstPort, "dst-port", frame.Port, "destination `port`")
	fs.StringVar(&f.vlan, "vlan", "", "802.1Q tag: `ID[:PRIORITY]`")
	fs.StringVar(&f.qinq, "qinq", "", "two tags: `OUTER,INNER`")
	fs.IntVar(&f.flows, "flows", 1, "`number` of flows that frames belong to in turn, up to 1000000")
	fs.Float64Var(&f.zipf, "zipf", 0, "flows at random, flow f with a probability in proportion to 1/(f+1)^`S`")
	fs.StringArrayVar(&f.fields, "field", nil, "`NAME=VALUES`, a header field: ttl=9, sport=random:1024-65535, dst=counter:198.19.0.1-198.19.0.99, dport=list:80,443; several times (names: "+strings.Join(fieldNames(), ", ")+")")
	fs.BoolVar(&f.unsigned, "unsigned", false, "without signatures: a meter counts the frames as foreign")
	fs.StringVar(&f.flood, "flood", "", "a `kind` of flood: "+strings.Join(floodNames(), ", "))
	fs.StringVar(&f.target, "target", "", "`address` that is flooded (default: --dst-ip's)")
	fs.StringVar(&f.sources, "sources", "", "of --flood: the `prefix` that its source addresses are of (default: anywhere)")
	fs.Float64Var(&f.floodShare, "flood-share", 0.5, "of --flood with --apps or --templates: the flood's `share` of frames, 0 to 1")
	fs.BoolVar(&f.apps, "apps", false, "conversations of many applications, both directions, as at a mirror port")
	fs.Float64Var(&f.alerts, "alerts", 0.02, "of --apps: the `share` of flows, 0 to 1, that match a known signature of intrusion detection")
	fs.StringVar(&f.templates, "templates", "", "conversations from a `folder` of captures with a file of their rates")
	exclusive(cmd, "vlan", "qinq")
	exclusive(cmd, "apps", "templates")
	exclusive(cmd, "target", "dst-ip")
	for name, values := range map[string][]string{"proto": {"udp", "tcp", "icmp"}, "ip": {"4", "6"}, "frame-size": {"64", "imix", "sweep:64-1518:64", "random:64-1518"}, "flood": floodNames()} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

func fieldNames() (names []string) {
	for _, d := range frame.FieldDocs() {
		names = append(names, d[0])
	}
	return names
}

// timed says whether the frames have times of their own.
func (f *sendFlags) timed() bool { return f.apps || f.templates != "" }

// conflicts refuses flags that would have no effect.
func (f *sendFlags) conflicts(fs *pflag.FlagSet) error {
	with := "" // what decides
	var idle []string
	frames := []string{"frame-size", "proto", "src-port", "vlan", "qinq", "flows", "zipf", "field", "unsigned"}
	switch {
	case f.flood != "" && !f.timed():
		with, idle = "--flood", append(frames, "src-ip", "alerts", "flood-share")
	case f.apps:
		with, idle = "--apps", append(frames, "src-ip")
	case f.templates != "":
		with, idle = "--templates", append(frames, "src-ip", "alerts")
	default:
		with, idle = "signed frames", []string{"alerts"}
	}
	if f.flood == "" {
		idle = append(idle, "flood-share", "target", "sources")
		if f.timed() {
			idle = append(idle, "dst-ip", "dst-port", "src-mac", "dst-mac")
		}
	} else if fs.Changed("dst-port") {
		f.floodPort = f.dstPort
	}
	if fs.Changed("zipf") && f.flows == 1 && !slices.Contains(idle, "zipf") {
		return errors.New("--zipf says how popular flows are, and there is one: give --flows, such as --flows 1000")
	}
	for _, name := range idle {
		if fs.Changed(name) {
			return fmt.Errorf("--%s has no effect with %s: leave it out", name, with)
		}
	}
	return nil
}

// source is what the flags describe: a spec for the fastest way, or how a source
// is opened. It may change the load's pace to the source's own.
func (f *sendFlags) source(port *trafficPort, force forceFlags, load *engine.Load, o *offer) (*frame.Spec, func() (frame.Source, error), error) {
	ends, err := f.ends(port, force, o)
	if err != nil {
		return nil, nil, err
	}
	if f.timed() || f.flood != "" {
		open, err := f.mixture(port, force, ends, load, o)
		return nil, open, err
	}
	s, err := f.synthetic(ends, force)
	if err != nil {
		return nil, nil, err
	}
	if need := s.Mix.Largest().Buffer() - 14 - 4*len(s.VLANs); need > port.mtu {
		return nil, nil, fmt.Errorf("--frame-size %s: it needs an MTU of %d, and %s has %d", f.size, need, port.Name, port.mtu)
	}
	o.what = f.words(s)
	if spec, ok := plain(s); ok {
		return &spec, nil, spec.Check()
	}
	if err := s.Check(); err != nil {
		return nil, nil, err
	}
	return nil, func() (frame.Source, error) { return frame.NewSynthetic(s) }, nil
}

// synthetic reads the flags of frames that are all alike.
func (f *sendFlags) synthetic(e ends, force forceFlags) (s frame.Synthetic, err error) {
	s.SrcMAC, s.DstMAC, s.Src, s.Dst = e.srcMAC, e.dstMAC, e.src, e.dst
	s.Protocol, s.SrcPort, s.DstPort, s.Flows, s.Unsigned = frame.Protocol(f.proto), f.srcPort, f.dstPort, f.flows, f.unsigned
	if f.flows < 1 {
		return s, fmt.Errorf("--flows %d: want 1 to %d", f.flows, frame.MaxFlows)
	}
	if f.zipf != 0 {
		if s.Popularity, err = frame.ParsePopularity(fmt.Sprintf("zipf:%g", f.zipf)); err != nil {
			return s, fmt.Errorf("--zipf: %w", err)
		}
	}
	if tags := f.vlan + f.qinq; tags != "" {
		if s.VLANs, err = frame.ParseVLANs(tags); err != nil {
			return s, fmt.Errorf("--vlan, --qinq: %w", err)
		}
		if want := map[bool]int{true: 2, false: 1}[f.qinq != ""]; len(s.VLANs) != want {
			return s, fmt.Errorf("--vlan has one tag and --qinq two: %q", tags)
		}
	}
	size := f.size
	if size == "" {
		size = strconv.Itoa(int(s.Smallest()))
	}
	if s.Mix, err = frame.ParseMix(size); err != nil {
		return s, fmt.Errorf("--frame-size: %w", err)
	}
	for _, text := range f.fields {
		spec, err := frame.ParseField(text)
		if err != nil {
			return s, fmt.Errorf("--field: %w", err)
		}
		for _, a := range spec.Targets() {
			if err := force.target("field "+text, a); err != nil {
				return s, err
			}
		}
		s.Fields = append(s.Fields, spec)
	}
	return s, nil
}

// plain is s as the spec of frames that the backends make fastest, where it is one.
func plain(s frame.Synthetic) (frame.Spec, bool) {
	spec := frame.Spec{
		Sizes: s.Mix.Sizes, Flows: s.Flows, SrcMAC: s.SrcMAC, DstMAC: s.DstMAC,
		Src: s.Src, Dst: s.Dst, SrcPort: s.SrcPort, DstPort: s.DstPort,
	}
	ok := (s.Protocol == frame.UDP || s.Protocol == "") && len(s.VLANs) == 0 && len(s.Fields) == 0 && !s.Unsigned &&
		s.Popularity == frame.Popularity{} && len(spec.Sizes) <= frame.MaxSizes && s.Mix.Largest() <= frame.MaxSize
	return spec, ok
}

// words describe synthetic frames.
func (f *sendFlags) words(s frame.Synthetic) string {
	size := s.Mix.Name + " octets"
	if s.Mix.Name == frame.IMIX.Name {
		size = "IMIX"
	}
	text := fmt.Sprintf("%s, %s over IPv%s", size, strings.ToUpper(f.proto), f.ip)
	for i, v := range s.VLANs {
		text += fmt.Sprintf("%s%d", []string{", VLAN ", "."}[i], v.ID)
	}
	text += ", " + plural(s.Flows, "flow")
	if f.zipf > 0 {
		text += fmt.Sprintf(" (Zipf %g)", f.zipf)
	}
	for _, field := range f.fields {
		text += ", " + field
	}
	if s.Unsigned {
		text += ", unsigned"
	}
	return fmt.Sprintf("%s, from %v to %v", text, s.Src, s.Dst)
}
