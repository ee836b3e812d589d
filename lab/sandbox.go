// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/roll"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/service"
	"boxdyno/tune"
	"boxdyno/unit"
)

// A sandbox is a tester and a DUT in two nameless namespaces of this machine: p0 and p1
// over veth pairs to lan and wan of a DUT that forwards, and a pair for the self-test.
// Shared, one CPU does it all. Split, a pinned thread polls lan on the DUT's CPU, and the
// meter's port stays in softirq there: on the tester's its ring would overflow while the
// sender has its time slice, and the loss would look like the box's. So the meter's cost is
// in the DUT's figure. The tester's addresses are in frames only, so that its kernel answers
// nothing. A frame that XDP sends to a port without a program vanishes uncounted: every
// receiving port has a meter.
type sandbox struct {
	placement string // "": split where there are two CPUs
	mtu       int
	rate      unit.BitRate
	plant     Plant
}

func newSandbox() Topology { return &sandbox{mtu: defaultMTU} }

func (s *sandbox) Flags(fs *flag.FlagSet) {
	fs.Var(oneOf(&s.placement, split, shared), "placement",
		"split (the DUT's work on a CPU of its own) or shared; by default split where two CPUs may be used")
	addLinkFlags(fs, &s.mtu, &s.rate)
	s.plant.flags(fs)
}

// A side is one of the DUT's two links.
type side struct {
	tester, dut       string // the ends' names
	testerMAC, dutMAC [6]byte
	net4, net6        netip.Prefix // the DUT's; the tester's addresses follow it
}

// nets are the DUT's networks there, of IPv6 where the kernel has that.
func (s side) nets() []netip.Prefix {
	if !hasIPv6() {
		return []netip.Prefix{s.net4}
	}
	return []netip.Prefix{s.net4, s.net6}
}

var sides = [2]side{
	{"p0", "lan", mac(1), mac(2), netip.MustParsePrefix("198.18.0.1/16"), netip.MustParsePrefix("2001:2:0:1::1/64")},
	{"p1", "wan", mac(4), mac(3), netip.MustParsePrefix("198.19.0.1/16"), netip.MustParsePrefix("2001:2:0:2::1/64")},
}

// mac is a locally administered address.
func mac(n byte) [6]byte { return [6]byte{0x02, 0xbd, 0, 0, 0, n} }

// testerHosts is how many addresses flows may take on a side (frame.Spec).
const testerHosts = frame.MaxFlows / frame.FlowPorts

func (s *sandbox) Sketch() (Facts, error) {
	at, err := placed(s.placement)
	if err != nil {
		return Facts{}, err
	}
	return s.sketchAt(at)
}

func (s *sandbox) sketchAt(at place) (Facts, error) {
	more, err := leftCPUs(at)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{
		MoreCPUs: more, Spreads: at.name == split,
		Topology: "sandbox", Kind: result.KindSandbox, Placement: at.name, TesterCPU: at.tester, CPUs: at.cpus(),
		DUTCPUs: []int{at.dut}, Services: Services, Planted: s.plant.planted(s.mtu), Loop: loopPorts(unbuilt, s.mtu, s.rate),
	}
	if at.name == split {
		if f.Senders, err = sendersBeside(at.tester, at.dut); err != nil {
			return Facts{}, err
		}
	}
	for _, sd := range sides {
		p := Port{Port: host.Port{Host: "tester", Name: sd.tester}, MAC: sd.testerMAC, GatewayMAC: sd.dutMAC, MTU: s.mtu, Link: s.rate}
		p.Gateway4, p.Addr4 = sd.net4.Addr(), sd.net4.Addr().Next()
		if hasIPv6() {
			p.Gateway6, p.Addr6 = sd.net6.Addr(), sd.net6.Addr().Next()
		}
		f.Ports, f.DUTPorts = append(f.Ports, p), append(f.DUTPorts, sd.dut)
	}
	return f, nil
}

// Build needs CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_BPF and, for placement split,
// CAP_SYS_NICE and CAP_DAC_OVERRIDE: a *host.Missing otherwise.
func (s *sandbox) Build(ctx context.Context) (*Testbed, error) {
	tb, err := s.build(ctx)
	return withEngine(ctx, tb, err)
}

// build is Build without the engine.
func (s *sandbox) build(ctx context.Context) (*Testbed, error) {
	tb, err := buildPlaced(s.placement, func(at place) (*Testbed, error) { return s.buildAt(ctx, at) })
	return tb, host.Permit("build a sandbox", err)
}

// buildAt is host.ErrNotSupported where this machine has no placement split.
func (s *sandbox) buildAt(ctx context.Context, at place) (_ *Testbed, err error) {
	var undo cleanup
	defer func() {
		if err != nil {
			err = errors.Join(err, undo.close())
		}
	}()
	tester, err := newSpace("tester", testerSysctls())
	if err != nil {
		return nil, err
	}
	undo.add(tester.close)
	dut, err := newSpace("dut", dutSysctls())
	if err != nil {
		return nil, err
	}
	undo.add(dut.close)

	var cables [][2]end // those of sides, and the loop's
	for _, sd := range sides {
		cables = append(cables, [2]end{{tester, sd.tester, sd.testerMAC}, {dut, sd.dut, sd.dutMAC}})
	}
	cables = append(cables, loopCable(tester))
	if err := lay(cables, s.mtu, &undo); err != nil {
		return nil, err
	}

	programs, err := loadPrograms(s.plant)
	if err != nil {
		return nil, err
	}
	undo.add(programs.Close)
	drops, err := service.LoadDrops(false)
	if err != nil {
		return nil, err
	}
	undo.add(drops.Close)
	svc := &services{dut: dut, programs: programs, drops: drops, plant: s.plant, cpu: at.dut}
	for i, sd := range sides {
		if svc.xdp[i], err = attach(dut, sd.dut, svc.port(i)); err != nil {
			return nil, err
		}
		undo.add(func() error { return svc.xdp[i].Close() }) // it may be another one by then
	}
	if err := raise(cables); err != nil {
		return nil, err
	}
	var threads []int
	for _, sd := range sides {
		if at.name == split {
			tid, err := dut.ownCPU(sd.dut, at.dut)
			if err != nil {
				return nil, fmt.Errorf("placement split: %w", err)
			}
			threads = append(threads, tid)
		}
		if err := dut.addresses(sd); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(svc.lose(), svc.shape(s.mtu), svc.rule(ctx)); err != nil {
		return nil, fmt.Errorf("plant a limit: %w", err)
	}
	if err := silence(ctx, tester, dut); err != nil {
		return nil, err
	}
	err = svc.breakIt(ctx)
	if svc.stop != nil {
		undo.add(svc.stop)
	}
	if err != nil {
		return nil, err
	}

	qos, idle := awake()
	if qos != nil {
		undo.add(qos.Close)
	}
	facts, err := s.sketchAt(at)
	if err != nil {
		return nil, err
	}
	svc.more, svc.senders = facts.MoreCPUs, facts.Senders
	facts.Loop = loopPorts(tester, s.mtu, s.rate)
	tb := &Testbed{Facts: facts, Threads: threads, DUT: dut.Local, Means: &sandboxMeans{
		services: svc, Tuner: TuneLocal(tune.On{Host: dut.Local, Ports: facts.DUTPorts}), once: sync.OnceValue(undo.close),
		tester: tester, cables: cables,
	}}
	tb.Settings = slices.Concat(at.settings(), spreadSettings(at, tb.MoreCPUs), []result.Pair{idle}, linkSettings(s.mtu, s.rate), s.plant.settings(s.mtu))
	if at.name == split {
		tb.Fixed = []result.Pair{{Key: "threaded", Value: "the sandbox needs threaded NAPI itself: without it the DUT's receive work would move to the tester's CPU"}}
	}
	for i := range tb.Ports {
		tb.Ports[i].Port = cables[i][0].port()
	}
	return tb, nil
}

// sandboxMeans are those of a sandbox that stands.
type sandboxMeans struct {
	*services
	Tuner
	once
	tester *space
	cables [][2]end
}

// Path implements Pather.
func (m *sandboxMeans) Path(from, to int, loop bool) ledger.Path {
	if loop {
		return loopPath(m.tester, from, to)
	}
	return throughDUT(m.cables[from], m.cables[to], m.names())
}

// OpenRoll implements Caller, while the service is Listening.
func (m *sandboxMeans) OpenRoll(_ context.Context, r *frame.Roll) (engine.Meter, error) {
	return roll.Open(m.cables[0][1].port(), r, true)
}

// addresses gives the DUT's end of a side its own, and the tester's as permanent
// neighbours.
func (s *space) addresses(sd side) error {
	for _, n := range sd.nets() {
		if err := s.address(sd.dut, n, testerHosts, sd.testerMAC); err != nil {
			return err
		}
	}
	return nil
}

// throughDUT is the path from the tester's end of one cable to that of another;
// names are what counters of the DUT's ports stand for.
func throughDUT(in, out [2]end, names map[string]string) ledger.Path {
	return ledger.Path{Name: in[1].name + "-to-" + out[1].name, Hops: []ledger.Hop{
		{Place: result.Tester, Host: in[0].at.Local, Port: in[0].port()},
		{Place: result.DUTNIC, Host: in[1].at.Local, Port: in[1].port(), Names: names},
		{Place: result.DUTNIC, Host: out[1].at.Local, Port: out[1].port(), Names: names},
		{Place: result.MeterAt, Host: out[0].at.Local, Port: out[0].port()},
	}}
}

// testerSysctls keep the tester's kernel silent.
func testerSysctls() [][2]string {
	if !hasIPv6() {
		return nil
	}
	return [][2]string{{"net/ipv6/conf/all/disable_ipv6", "1"}, {"net/ipv6/conf/default/disable_ipv6", "1"}}
}

// dutSysctls make a router with strict reverse path filter (RFC 3704) that says
// nothing by itself.
func dutSysctls() [][2]string {
	kv := [][2]string{
		{"net/ipv4/ip_forward", "1"},
		{"net/ipv4/conf/all/rp_filter", "1"},
		{"net/ipv4/conf/default/rp_filter", "1"},
		{"net/ipv4/conf/all/send_redirects", "0"},
		{"net/ipv4/conf/default/send_redirects", "0"},
		{"net/ipv4/conf/all/log_martians", "0"},
		{"net/ipv4/conf/default/log_martians", "0"},
	}
	if !hasIPv6() {
		return kv
	}
	return append(kv, [][2]string{
		{"net/ipv6/conf/all/forwarding", "1"},
		{"net/ipv6/conf/default/forwarding", "1"},
		{"net/ipv6/conf/default/accept_dad", "0"},
		{"net/ipv6/conf/default/dad_transmits", "0"},
		{"net/ipv6/conf/default/autoconf", "0"},
		{"net/ipv6/conf/default/accept_ra", "0"},
		{"net/ipv6/conf/default/router_solicitations", "0"},
		{"net/ipv6/conf/default/addr_gen_mode", "1"}, // no link-local address
		// Multicast reports cannot be switched off: have them over in a moment.
		{"net/ipv6/conf/default/mldv1_unsolicited_report_interval", "1"},
		{"net/ipv6/conf/default/mldv2_unsolicited_report_interval", "1"},
	}...)
}

// silence waits until no counter of the spaces has moved for 60 ms.
func silence(ctx context.Context, spaces ...*space) error {
	const most = 3 * time.Second
	var last uint64
	still := 0
	for begin := time.Now(); still < 3; {
		var sum uint64
		for _, s := range spaces {
			n, err := s.frames()
			if err != nil {
				return fmt.Errorf("read link counters of the %s: %w", s.Label, err)
			}
			sum += n
		}
		if still++; sum != last {
			last, still = sum, 0
		}
		if time.Since(begin) > most {
			return fmt.Errorf("the new links do not fall silent within %v", most)
		}
		if err := host.Pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
