// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"boxdyno/host"
	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/subject/tunnel"
	"boxdyno/tune"
	"boxdyno/unit"
)

// Gateways is the name of the topology of two gateways.
const Gateways = "gateways"

// A pair of gateways joins two networks over a cable between them, each in a nameless
// namespace of this machine; the tester is at the far sides, as in the sandbox. What goes
// from one network to the other takes the cable, or a tunnel through it that a subject builds
// (procedure vpn). The placements are the sandbox's, and so is what all CPUs are; what a
// tunnel's processes and kernel threads do may be on any of them.
type gateways struct {
	placement string // "": split where there are two CPUs
	mtu       int
	rate      unit.BitRate
}

func newGateways() Topology { return &gateways{mtu: defaultMTU} }

func (g *gateways) Flags(fs *flag.FlagSet) {
	fs.Var(oneOf(&g.placement, split, shared), "placement",
		"split (the gateways' work on a CPU of its own) or shared; by default split where two CPUs may be used")
	addLinkFlags(fs, &g.mtu, &g.rate)
}

// outers are the cable between the gateways.
var outers = [2]netip.Prefix{netip.MustParsePrefix("192.0.2.1/30"), netip.MustParsePrefix("192.0.2.2/30")}

func (g *gateways) Sketch() (Facts, error) {
	at, err := placed(g.placement)
	if err != nil {
		return Facts{}, err
	}
	return g.sketchAt(at)
}

func (g *gateways) sketchAt(at place) (Facts, error) {
	more, err := leftCPUs(at)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{
		MoreCPUs: more, Spreads: at.name == split,
		Topology: Gateways, Kind: result.KindSandbox, Placement: at.name, TesterCPU: at.tester, CPUs: at.cpus(),
		DUTCPUs: []int{at.dut}, DUTPorts: []string{sides[0].dut, outerName}, Services: []string{"route"}, Loop: loopPorts(unbuilt, g.mtu, g.rate),
	}
	for _, sd := range sides {
		f.Ports = append(f.Ports, Port{Port: host.Port{Host: "tester", Name: sd.tester}, MAC: sd.testerMAC, GatewayMAC: sd.dutMAC,
			MTU: g.mtu, Link: g.rate, Gateway4: sd.net4.Addr(), Addr4: sd.net4.Addr().Next()})
	}
	return f, nil
}

// outerName is a gateway's end of the cable to the other one.
const outerName = "outer"

// Build needs CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_BPF and, for placement split,
// CAP_SYS_NICE and CAP_DAC_OVERRIDE: a *host.Missing otherwise.
func (g *gateways) Build(ctx context.Context) (*Testbed, error) {
	tb, err := g.build(ctx)
	return withEngine(ctx, tb, err)
}

// build is Build without the engine.
func (g *gateways) build(ctx context.Context) (*Testbed, error) {
	tb, err := buildPlaced(g.placement, func(at place) (*Testbed, error) { return g.buildAt(ctx, at) })
	return tb, host.Permit("build two gateways", err)
}

func (g *gateways) buildAt(ctx context.Context, at place) (_ *Testbed, err error) {
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
	var gates [2]*space
	for i, label := range []string{"left", "right"} {
		if gates[i], err = newSpace(label, dutSysctls()); err != nil {
			return nil, err
		}
		undo.add(gates[i].close)
		if err := gates[i].up("lo"); err != nil { // a daemon may talk to itself
			return nil, err
		}
	}
	outer := [2]end{{gates[0], outerName, mac(7)}, {gates[1], outerName, mac(8)}}
	cables := [][2]end{outer, loopCable(tester)}
	for i, sd := range sides {
		cables = append(cables, [2]end{{tester, sd.tester, sd.testerMAC}, {gates[i], sd.dut, sd.dutMAC}})
	}
	if err := lay(cables, g.mtu, &undo); err != nil {
		return nil, err
	}
	programs, err := loadPrograms(Plant{})
	if err != nil {
		return nil, err
	}
	undo.add(programs.Close)
	for i, sd := range sides {
		var pass link.Link
		if pass, err = attach(gates[i], sd.dut, programs.Pass); err != nil {
			return nil, err
		}
		undo.add(pass.Close)
	}
	if err := raise(cables); err != nil {
		return nil, err
	}
	var threads []int
	for i, sd := range sides {
		if at.name == split {
			tid, err := gates[i].ownCPU(sd.dut, at.dut)
			if err != nil {
				return nil, fmt.Errorf("placement split: %w", err)
			}
			threads = append(threads, tid)
		}
	}
	ends := make([]Gateway, 2)
	for i, sd := range sides {
		other := outer[1-i]
		if err := gates[i].address(sd.dut, sd.net4, testerHosts, sd.testerMAC); err != nil {
			return nil, err
		}
		if err := gates[i].address(outer[i].name, outers[i], 0, other.mac); err != nil {
			return nil, err
		}
		if err := gates[i].neighbour(outer[i].name, outers[1-i].Addr(), other.mac); err != nil {
			return nil, err
		}
		ends[i] = LocalGateway(gates[i].Local, tunnel.Place{Port: outer[i].name, Outer: outers[i].Addr(), Net: sd.net4})
	}
	means := &gatewaysMeans{
		Tuner: TuneLocal(tune.On{Host: gates[0].Local, Ports: []string{sides[0].dut, outerName}}),
		gates: gates, tester: tester, outer: outer, cables: cables, cpu: at.dut,
	}
	if err := means.Direct(true); err != nil {
		return nil, err
	}
	if err := silence(ctx, tester, gates[0], gates[1]); err != nil {
		return nil, err
	}
	qos, idle := awake()
	if qos != nil {
		undo.add(qos.Close)
	}
	means.once = sync.OnceValue(undo.close)
	facts, err := g.sketchAt(at)
	if err != nil {
		return nil, err
	}
	means.more = facts.MoreCPUs
	tb := &Testbed{
		Facts: facts, Threads: threads, DUT: gates[0].Local, Gateways: ends, Sources: []ledger.Source{gatewayDrops(gates)},
		Settings: slices.Concat(at.settings(), spreadSettings(at, facts.MoreCPUs), []result.Pair{idle}, linkSettings(g.mtu, g.rate)), Means: means,
	}
	tb.Loop = loopPorts(tester, g.mtu, g.rate)
	for i := range tb.Ports {
		tb.Ports[i].Port = cables[2+i][0].port()
	}
	return tb, nil
}

// gatewaysMeans are those of gateways that stand.
type gatewaysMeans struct {
	Tuner
	once
	gates  [2]*space
	tester *space
	outer  [2]end
	cables [][2]end // the outer one, the loop's, those of sides
	cpu    int      // that does the gateways' work
	more   []int    // that they may use beside
	spread bool     // over them
}

// Path implements Pather.
func (m *gatewaysMeans) Path(from, to int, loop bool) ledger.Path {
	if loop {
		return loopPath(m.tester, from, to)
	}
	return throughGateways(m.cables[2+from], m.cables[2+to], m.outer, from)
}

// Serve implements Server.
func (m *gatewaysMeans) Serve(_ context.Context, s Service) error {
	if err := onlyRoutes(s); err != nil {
		return err
	}
	return errors.Join(m.Direct(true), m.over(s.AllCPUs))
}

// onlyRoutes refuses what two gateways do not do.
func onlyRoutes(s Service) error {
	if s.Kind != "route" || s.Networks > 1 {
		return fmt.Errorf("service %s with %d networks: the gateways route one network each", s.Kind, s.Networks)
	}
	return nil
}

// over has flows that the gateways receive go to all of their CPUs, or to none but where they
// are received. Where they have no more, nothing is to do.
func (m *gatewaysMeans) over(all bool) (err error) {
	if len(m.more) == 0 || all == m.spread {
		return nil
	}
	var cpus []int
	if all {
		cpus = append([]int{m.cpu}, m.more...)
	}
	m.spread = all
	for i, s := range m.gates {
		err = errors.Join(err, s.spread(sides[i].dut, cpus), s.spread(outerName, cpus))
	}
	return err
}

// Offloads implements Joiner.
func (m *gatewaysMeans) Offloads(on bool) error { return switchOffloads(m.outer, on) }

// Direct implements Joiner.
func (m *gatewaysMeans) Direct(on bool) error {
	for i, s := range m.gates {
		l, err := s.nl.LinkByName(outerName)
		if err != nil {
			return fmt.Errorf("find the cable of the %s: %w", s.Label, err)
		}
		to := sides[1-i].net4.Masked()
		r := &netlink.Route{LinkIndex: l.Attrs().Index, Gw: outers[1-i].Addr().AsSlice(), Priority: 100,
			Dst: &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), 32)}}
		what := s.nl.RouteReplace
		if !on {
			what = s.nl.RouteDel
		}
		if err := what(r); err != nil && (on || !errors.Is(err, errNoRoute)) {
			return fmt.Errorf("route %v over the cable of the %s: %w", to, s.Label, err)
		}
	}
	return nil
}

// throughGateways is the path from the tester's end of one cable through both gateways
// to that of another. What the gateways' stacks deliver to themselves are a tunnel's
// datagrams, so only their ports are read, and gatewayDrops.
func throughGateways(in, out, outer [2]end, from int) ledger.Path {
	hop := func(e end) ledger.Hop {
		return ledger.Hop{Place: result.DUTNIC, Host: e.at.Local, Port: e.port(), PortAlone: true}
	}
	return ledger.Path{Name: in[1].name + "-to-" + out[1].name, Hops: []ledger.Hop{
		{Place: result.Tester, Host: in[0].at.Local, Port: in[0].port()},
		hop(in[1]), hop(outer[from]), hop(outer[1-from]), hop(out[1]),
		{Place: result.MeterAt, Host: out[0].at.Local, Port: out[0].port()},
	}}
}
