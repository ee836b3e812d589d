// SPDX-License-Identifier: Apache-2.0

// Package tunnel has the procedures that measure between two gateways, of this machine or with
// a box at one end or both: the way itself, and tunnels over it.
package tunnel

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/tunnel"
	"boxdyno/unit"
)

// VPNSpec is the row of vpn.
var VPNSpec = procedure.Spec{
	Name: "vpn", Needs: lab.TwoGateways, Standard: "RFC 2544 section 26.1, RFC 2285", Deviation: trial.BurstsDeviation, Lab: lab.Gateways, Alone: true,
	Quick: "streams through a tunnel are sent 3 times for 1 s and handshakes made 5 times, not 10 times for 10 s and 30 times",
	Doc:   "a tunnel between two gateways, of this machine or a box at one end, beside the path without it: TCP by iperf3, exact UDP without loss, handshakes, CPU a megabit",
	Names: []string{"tunnel", "cipher", "offloads", "traffic", "frame_size"}, Metrics: vpnMetrics, Joules: vpnJoules, New: newVPN,
}

// VPN measures a tunnel between two gateways, and the way without it, in turn:
//
//	offloads set
//	TCP:  stream without | up, handshakes, stream | stream, down | stream without | ...
//	UDP:  self-test, warm-ups, then overloads in such turns; search and latency with the tunnel
//
// The order is turned round each time, so that a drift of the machine is on both sides.
// The networks' own route is taken away before the tunnel comes up: what a tunnel does
// not carry is lost, and never passes in the clear.
type VPN struct {
	tunnel      param.Choice
	cipher      param.Choice
	offloads    param.Choice
	kind        param.Choice // of traffic
	connections param.Count
	trials      param.Count // of streams
	handshakes  param.Count
	userland    param.Userland // of what is a program
	dutCPUs     param.Choice
	frames      trial.Traffic // of it frame_size, preset and search
}

const (
	noTunnel   = "none"
	trafficTCP = "tcp"
	trafficUDP = "udp"
)

func newVPN() procedure.Procedure {
	p := &VPN{
		tunnel:   param.NewChoice("wireguard", append([]string{noTunnel}, tunnel.Names()...)),
		cipher:   param.NewChoice(tunnel.DefaultCipher, append([]string{tunnel.DefaultCipher}, tunnel.Ciphers()...)),
		offloads: param.NewChoice("off", offOn), kind: param.NewChoice(trial.BothWays, []string{trial.BothWays, trafficTCP, trafficUDP}),
		connections: param.NewCount(1, 1, mostConnections), trials: param.NewCount(0, 0, 1000), handshakes: param.NewCount(0, 0, 10_000), userland: param.NewUserland(), dutCPUs: trial.NewDUTCPUs(), frames: trial.NewTraffic([]string{"route"}),
	}
	p.frames.Mix = param.FrameMix{Mix: frame.Mix{Name: "1280", Sizes: []unit.FrameSize{1280}}}
	p.frames.Search.Of = append(p.frames.Search.Of, procedure.NoSearch)
	return p
}

// Flags implements Procedure.
func (p *VPN) Flags(fs *flag.FlagSet) {
	fs.Var(&p.tunnel, "tunnel", "what joins the gateways; none: the cable itself")
	fs.Var(&p.cipher, "cipher", "the tunnel's cipher; default: its first")
	fs.Var(&p.offloads, "offloads", "of the cable between the gateways: segmentation, checksums, merging on receipt; the tunnel's device keeps its own")
	fs.Var(&p.kind, "traffic", "tcp: iperf3 and handshakes; udp: the engine's frames; or both")
	fs.Var(&p.connections, "connections", "tcp: `how many` at once")
	fs.Var(&p.trials, "trials", "tcp: how `often` a stream is sent, with the tunnel and without; 0: as preset says")
	fs.Var(&p.handshakes, "handshakes", "tcp: how `often` a new session is made; 0: as preset says")
	p.userland.Declare(fs)
	fs.Var(&p.dutCPUs, "dut_cpus", trial.DUTCPUsUsage)
	fs.Var(&p.frames.Mix, "frame_size", "udp: `octets` with FCS of what goes into the tunnel, or a mix such as 64:7+594:4")
	fs.Var(&p.frames.Preset, "preset", "quick or standard: how long, how often")
	fs.Var(&p.frames.Search, "search", "udp: how the highest load without loss is found; preset: the search of the preset's name; none: it is not")
}

func (p *VPN) tcp() bool { return p.kind.Value != trafficUDP }

// udp says whether the engine's frames are sent: only where they can come to the gateways.
// bed may be nil.
func (p *VPN) udp(bed *lab.Testbed) bool {
	return p.kind.Value != trafficTCP && !(bed != nil && bed.Apart)
}

// Needs implements Needing: frames alone need ports.
func (p *VPN) Needs() (need lab.Capability, service string) {
	if p.kind.Value == trafficUDP {
		need = lab.Ports
	}
	return need, ""
}

// mostDatagram is what a tunnel's datagrams, of packets of its MTU, do not exceed.
const mostDatagram = 1500

// largest is the largest frame whose packet fits into every tunnel.
const largest = unit.FrameSize(tunnel.MTU + 14 + unit.FCS)

// named is the tunnel of the parameters, nil for none; an error says that it lacks the cipher.
func (p *VPN) named() (*tunnel.Tunnel, error) {
	switch {
	case p.tunnel.Value != noTunnel:
		return tunnel.New(p.tunnel.Value, p.cipher.Value)
	case p.cipher.Value != tunnel.DefaultCipher:
		return nil, fmt.Errorf("cipher %s: tunnel none enciphers nothing", p.cipher.Value)
	}
	return nil, nil
}

// Check implements Procedure. A tunnel that lacks the cipher is left to Run, which skips
// it: of axes of tunnels and ciphers, not all pairs are there.
func (p *VPN) Check(bed *lab.Testbed) error {
	if err := checkGateways(bed, &p.userland, p.dutCPUs.Value); err != nil {
		return err
	}
	if p.udp(bed) {
		if p.frames.Mix.Name == frame.IMIX.Name {
			return fmt.Errorf("frame_size imix: its frames of 1518 octets do not fit into a tunnel, which takes %d: give a mix such as 64:7+594:4+%d:1", largest, largest)
		}
		if m := slices.Max(p.frames.Mix.Sizes); m > largest {
			return fmt.Errorf("frame_size %d: a tunnel takes frames of up to %d octets (its MTU is %d)", m, largest, tunnel.MTU)
		}
		if err := p.frames.Check(bed); err != nil {
			return err
		}
	}
	if bed == nil || p.tunnel.Value == noTunnel {
		return nil
	}
	for _, port := range bed.Ports {
		if port.MTU < mostDatagram {
			return fmt.Errorf("mtu %d: the datagrams of a tunnel are of up to %d octets, and would be cut into fragments: give --set mtu=%d", port.MTU, mostDatagram, mostDatagram)
		}
	}
	return nil
}

// vpnHandshakes is how often a preset makes a new session.
func (p *VPN) sessions() int {
	switch {
	case p.handshakes.Value > 0:
		return p.handshakes.Value
	case p.frames.Preset.Value == "standard":
		return 30
	}
	return 5
}

// streams is how often a stream is sent, and how long.
func (p *VPN) streams() (trials int, length time.Duration) {
	trials, length = streamEffort(p.frames.Preset.Value)
	if p.trials.Value > 0 {
		trials = p.trials.Value
	}
	return trials, length
}

// Estimate implements Procedure.
func (p *VPN) Estimate() (trials int, d time.Duration) {
	const session, around = 500 * time.Millisecond, 60 * time.Millisecond
	up, sides := 2*time.Second, 2
	if tunnel, err := p.named(); err == nil && tunnel != nil {
		up += tunnel.Settles()
	}
	if p.tunnel.Value == noTunnel {
		sides = 1
	}
	if p.tcp() {
		n, each := p.streams()
		trials += sides * n
		d += time.Duration(sides*n)*(each+streamAround) + up*time.Duration((sides-1)*(n+1)/2)
		if sides > 1 {
			trials++
			d += time.Duration(p.sessions()) * session
		}
	}
	if p.udp(nil) {
		e := vpnEffort(p.frames.Preset.Value)
		s := p.frames.Searching()
		n := sides*(e.Overloads+1) + 4
		each := 2*(s.Rest+s.Overload) + time.Duration(sides)*(e.WarmUp+time.Duration(e.Overloads)*e.Overload) + e.Latency + up*time.Duration((sides-1)*(e.Overloads+1)/2)
		if p.frames.Search.Value != procedure.NoSearch {
			more, longer := p.frames.Searching().Estimate()
			n, each = n+more, each+longer
		}
		trials += n
		d += each + time.Duration(n)*(around+e.Settle)
	}
	return trials, d
}

// leastOverload is how long overload lasts at least: programs and their queues hold a
// thousand packets and more, which come out once it has ended.
const leastOverload = time.Second

func vpnEffort(preset string) trial.Effort {
	e := trial.EffortOf(preset)
	e.Overload = max(e.Overload, leastOverload)
	return e
}

// errTunnel ends a point whose tunnel failed; the trial's record says how.
var errTunnel = errors.New("the tunnel failed")

// A vpnPoint is one tunnel being measured.
type vpnPoint struct {
	*VPN
	env     *procedure.Env
	tunnel  *tunnel.Tunnel    // nil: none
	up      *tunnel.Tunneling // nil: it is down
	cpus    []int             // for its programs; nil: any
	upOn    []int             // cpus when it came up
	startup []float64
	failed  string
	out     procedure.Outcome
}

// Run implements Procedure.
func (p *VPN) Run(ctx context.Context, env *procedure.Env) (_ procedure.Outcome, err error) {
	tunnel, err := p.named()
	if err != nil {
		return procedure.Outcome{Status: result.Skipped, Reason: err.Error()}, nil
	}
	local, err := p.userland.Local(ctx)
	if err != nil {
		return procedure.Outcome{}, err
	}
	env = atGateways(env, local)
	m := &vpnPoint{VPN: p, env: env, tunnel: tunnel, out: procedure.Outcome{Status: result.Passed}}
	bed := env.Bed
	if m.tunnel != nil {
		for i, g := range bed.Gateways {
			if i > 0 && !bed.Apart {
				break
			}
			if err := g.Machine.CheckTunnel(ctx, p.tunnel.Value, p.cipher.Value); err != nil {
				return m.out, err
			}
		}
	}
	cable := cableOf(bed)
	if err := cable.Offloads(p.offloads.Value == "on"); err != nil {
		return m.out, err
	}
	if p.kind.Value != trafficTCP && !p.udp(bed) {
		m.out.Warnings = append(m.out.Warnings, "no frames: they come to gateways of this machine alone; stream with protocol=udp sends datagrams")
	}
	flows := flowsOf(p.connections.Value)
	if !p.tcp() {
		flows = trial.Flows{N: 1}
	}
	leave, few, err := spread(ctx, bed, p.dutCPUs.Value, flows)
	if err != nil {
		return m.out, err
	}
	m.out.Warnings = append(m.out.Warnings, few...)
	defer func() {
		err = errors.Join(err, m.down(ctx), cable.Direct(true), cable.Offloads(false), leave())
	}()
	streams := p.tcp()
	if lacks := withIperf(ctx, bed); streams && lacks != nil {
		if !p.udp(bed) {
			return m.out, lacks
		}
		streams = false
		m.out.Warnings = append(m.out.Warnings, "no TCP: "+lacks.Error())
	}
	for _, step := range []struct {
		wanted bool
		do     func(context.Context) error
	}{
		{p.udp(bed), m.selfTested}, // before anything is lost
		{streams, m.streamed},
		{p.tcp() && !streams, m.sessionsMade},
		{p.udp(bed), m.forwarded},
	} {
		if !step.wanted || m.out.Status == result.Invalid {
			continue
		}
		err := step.do(ctx)
		if errors.Is(err, errTunnel) {
			m.out.Status, m.out.Reason = result.Failed, m.failed
			break
		}
		if err != nil {
			return m.out, err
		}
	}
	if len(m.startup) > 0 {
		m.out.Values = append(m.out.Values, figures.Spread("startup_s", m.startup))
	}
	m.relate()
	return m.out, nil
}

// turns does something with and without the tunnel n times each, the other one first
// each time, and ends with the tunnel; without one it is only done with.
func (m *vpnPoint) turns(n int, do func(n int, with bool) error) error {
	for i := range n {
		with := (n-1-i)%2 == 1 // which is first
		for range 2 {
			if with || m.tunnel != nil {
				if err := do(i, with); err != nil {
					return err
				}
			}
			with = !with
		}
	}
	return nil
}

// without is Env.Trial with the networks' own way and no tunnel.
func (m *vpnPoint) without(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
	return m.env.Trial(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) {
		if err := errors.Join(m.down(ctx), cableOf(m.env.Bed).Direct(true)); err != nil {
			return procedure.Outcome{}, err
		}
		return f(ctx)
	})
}

// through is Env.Trial with the tunnel up. A tunnel that does not come up, or is gone
// at the trial's end, fails the trial and the point.
func (m *vpnPoint) through(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
	rec, err := m.env.Trial(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) {
		fresh, err := m.open(ctx)
		if err != nil {
			var missing *host.Missing
			if errors.As(err, &missing) || errors.Is(err, subject.ErrLost) || ctx.Err() != nil {
				return procedure.Outcome{}, err
			}
			m.failed = procedure.Sentence(err)
			return procedure.Outcome{Status: result.Failed, Reason: m.failed}, nil
		}
		o, err := f(ctx)
		if fresh {
			o.Values = append(o.Values, figures.Value("startup_s", m.up.Startup.Seconds()))
			o.Warnings = append(o.Warnings, "cipher "+m.up.Cipher+" by "+m.up.Driver)
		}
		if m.up != nil {
			if gone := m.up.Ended(); gone != nil && err == nil {
				m.failed = "the tunnel went down: " + procedure.Sentence(gone)
				o.Status, o.Reason = result.Failed, m.failed
			}
		}
		return o, err
	})
	if err != nil {
		return rec, err
	}
	if v := rec.Value("startup_s"); v != nil {
		m.startup = append(m.startup, v.Value)
	}
	m.out.Warnings = addNew(m.out.Warnings, rec.Warnings)
	if m.failed == "" && rec.Status == result.Failed && strings.HasPrefix(rec.Reason, "the tunnel ") {
		m.failed = rec.Reason // of an earlier part of a resumed run
	}
	if m.failed != "" {
		err = errTunnel
	}
	return rec, err
}

// settled is through with a tunnel that is as it is in use, and not as after a handshake.
func (m *vpnPoint) settled(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
	return m.through(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) {
		if m.up != nil {
			if err := m.up.Settle(ctx); err != nil {
				return procedure.Outcome{}, err
			}
		}
		return f(ctx)
	})
}

// open brings the tunnel up where it is not, or runs on other CPUs; fresh: it did.
func (m *vpnPoint) open(ctx context.Context) (fresh bool, err error) {
	if m.up != nil && !slices.Equal(m.upOn, m.cpus) {
		if err := m.down(ctx); err != nil {
			return false, err
		}
	}
	if m.tunnel == nil || m.up != nil {
		return false, nil
	}
	if err := cableOf(m.env.Bed).Direct(false); err != nil {
		return false, err
	}
	var gates [2]tunnel.Gate
	var places [2]tunnel.Place
	for i, g := range m.env.Bed.Gateways {
		gates[i], places[i] = g.Machine, g.Place
	}
	up, err := m.tunnel.Join(ctx, gates, places, m.cpus)
	if err == nil {
		m.up, m.upOn = up, m.cpus
		err = up.Ready(ctx)
	}
	if err != nil {
		return false, fmt.Errorf("the tunnel is not up: %w", err)
	}
	return true, nil
}

// down takes the tunnel away where it is up.
func (m *vpnPoint) down(ctx context.Context) error {
	if m.up == nil {
		return nil
	}
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), procedure.StopPatience)
	defer stop()
	up := m.up
	m.up = nil
	return up.Stop(end)
}

// relate lays what went through the tunnel beside what went without.
func (m *vpnPoint) relate() {
	find := func(name string) *result.Value {
		if i := slices.IndexFunc(m.out.Values, func(v result.Value) bool { return v.Metric == name }); i >= 0 {
			return &m.out.Values[i]
		}
		return nil
	}
	if with, without := find("goodput_bps"), find("baseline_goodput_bps"); with != nil && without != nil && without.Value > 0 {
		m.out.Values = append(m.out.Values, figures.Value("goodput_share", with.Value/without.Value))
	}
	if with, without := find("forwarding_rate_fps"), find("baseline_forwarding_fps"); with != nil && without != nil && without.Value > 0 {
		m.out.Values = append(m.out.Values, figures.Value("forwarding_share", with.Value/without.Value))
	}
}
