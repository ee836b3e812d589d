// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"boxdyno/agent"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/service"
	"boxdyno/subject/tunnel"
	"boxdyno/telemetry"
	"boxdyno/tune"
)

// Peers is the name of the topology whose two gateways are two machines.
const Peers = "peers"

// peers are two gateways with one cable between them, each with a network on its loopback:
//
//	this machine, or a box          box
//	198.18.0.1 | port_a ==== cable under load ==== dut_a | 198.19.0.1
//	             192.0.2.1                      192.0.2.2
//	                 +------------ ssh, NATS ------------+
//
// All that is set is in a journal of the machine where it is (service.Gateway).
type peers struct {
	reached         // the box at end 1
	first   reached // a box at end 0; without a name: this machine
	port    string  // of end 0
	dut     string  // of end 1
	netns   string
	force   bool
	own     bool
}

func newPeers() Topology { return &peers{reached: newReached(), first: newReached()} }

func (p *peers) DialBy(dial link.Dial) { p.dial, p.first.dial = dial, dial }

func (p *peers) Flags(fs *flag.FlagSet) {
	p.reached.Flags(fs)
	fs.StringVar(&p.first.ssh, "ssh_a", "", "a box in the place of this machine, as the program ssh takes it: port_a is a port of that")
	fs.StringVar(&p.first.command, "ssh_command_a", "", "words of a command that runs a program on that box, in place of ssh")
	fs.StringVar(&p.first.program, "program_a", p.first.program, "the agent on that box")
	fs.StringVar(&p.port, "port_a", "", "interface that the DUT is wired to, such as eth1")
	fs.StringVar(&p.dut, "dut_a", "", "the DUT's interface at the other end of that cable")
	fs.StringVar(&p.netns, "netns", "", "network namespace that port_a is in, as a path; by default this one")
	fs.BoolVar(&p.force, "force", false, "use a port of this machine that others use")
	fs.BoolVar(&p.own, "force_own_connection", false, "use a port of this machine that others use, even that of your own connection")
}

// two says whether both gateways are boxes.
func (p *peers) two() bool { return p.first.ssh != "" || p.first.command != "" }

// duts are the ports that each box has.
func (p *peers) duts() []string {
	if p.two() && p.port != p.dut {
		return nil
	}
	return []string{p.dut}
}

// Sketch implements Topology: it asks no box.
func (p *peers) Sketch() (Facts, error) {
	if _, err := p.agent(); err != nil {
		return Facts{}, err
	}
	switch {
	case p.port == "":
		return Facts{}, errors.New("port_a is not given: add --set port_a=NAME; ip link shows the names")
	case p.dut == "":
		return Facts{}, errors.New("dut_a is not given: add --set dut_a=NAME; ip link on the DUT shows the names")
	case p.two() && p.netns != "":
		return Facts{}, errors.New("netns is this machine's, and ssh_a names a box: leave one of them out")
	}
	return Facts{Topology: Peers, Kind: result.KindReal, TesterCPU: -1, Apart: true, Spreads: true, DUTPorts: p.duts()}, nil
}

// A peer is one of the two, set up.
type peer struct {
	Gateway
	name    string     // for people: "this machine"
	conn    *link.Conn // nil: this machine
	there   agent.Identity
	allCPUs string // how it would spread flows over them, in words
	direct  func(on bool) error
	see     func(ctx context.Context) (service.GatewayState, error)
	spread  func(ctx context.Context, all bool) error // nil: this machine, whose CPUs are the tester's
	Tuner
	revert func(context.Context) ([]string, error) // its offloads; nil: nothing is set
}

// Build needs CAP_NET_ADMIN at both ends. Whatever is not there, here or there, is a
// *host.Missing.
func (p *peers) Build(ctx context.Context) (_ *Testbed, err error) {
	facts, err := p.Sketch()
	if err != nil {
		return nil, err
	}
	var undo cleanup
	defer func() {
		if err != nil {
			err = errors.Join(err, undo.close())
		}
	}()
	second, err := p.box(ctx, &p.reached, 1, p.dut, &undo)
	if err != nil {
		return nil, err
	}
	var first *peer
	if p.two() {
		first, err = p.box(ctx, &p.first, 0, p.port, &undo)
	} else {
		first, err = p.here(ctx, second, &undo)
	}
	if err != nil {
		return nil, err
	}
	both := [2]*peer{first, second}
	if err := p.linked(ctx, both); err != nil {
		return nil, err
	}
	undo.add(func() error { return plainBoth(both) })
	var gates [2]tunnel.Gate
	var places [2]tunnel.Place
	for i, e := range both {
		gates[i], places[i] = e.Machine, e.Place
	}
	for from := range both {
		_, err := tunnel.Through(ctx, gates, places, from, wayPatience, func() error { return nil })
		if ctx.Err() != nil || second.conn.Err() != nil {
			return nil, err
		}
		if err != nil {
			return nil, p.noWay(both, err.Error())
		}
	}
	if err := p.wiredAsSaid(ctx, both); err != nil {
		return nil, err
	}
	clock, err := second.conn.Clock(ctx, clockReadings)
	if err != nil {
		return nil, err
	}
	at, _ := p.agent() // Sketch knows that it has no error
	tb := &Testbed{
		Facts: facts, Gateways: []Gateway{first.Gateway, second.Gateway}, Subjects: agent.Machine{Conn: second.conn},
		Warnings: []string{"topology " + Peers + " has not been seen on hardware by its authors: it is tested with virtual cables"},
		Settings: append(p.settings(both), farSettings(at, second.conn, clock)...),
		Means:    &peersMeans{sync.OnceValue(undo.close), p, both},
	}
	for _, e := range both {
		if e.conn != nil {
			tb.Machines = append(tb.Machines, e.there.Machine)
			tb.FarCPUs = max(tb.FarCPUs, e.there.Machine.CPUs)
		}
	}
	return tb, nil
}

const (
	outerMTU    = 1500
	wayPatience = 5 * time.Second
)

// noWay is a cable that is not as it was said.
func (p *peers) noWay(both [2]*peer, why string) error {
	return &host.Missing{What: fmt.Sprintf("a cable from %s of %s to %s of %s: %s", p.port, both[0].name, p.dut, both[1].name, why),
		Hint: "check that these two are its ends, and that no firewall drops 198.18.0.0/15 and 192.0.2.0/30"}
}

// wiredAsSaid refuses ports at which others answer than the two: a machine answers for its
// addresses at all of its ports. Small frames would make fragments of tunnels' datagrams.
func (p *peers) wiredAsSaid(ctx context.Context, both [2]*peer) error {
	var now [2]service.GatewayState
	for i, e := range both {
		var err error
		if now[i], err = e.see(ctx); err != nil {
			return err
		}
		if n := now[i].MTU; n < outerMTU {
			return &host.Missing{What: fmt.Sprintf("an MTU of %d at %s of %s, which has %d: a tunnel's datagrams would be cut into fragments", outerMTU, e.Port, e.name, n), Remedy: [][]string{{"ip", "link", "set", e.Port, "mtu", fmt.Sprint(outerMTU)}}}
		}
	}
	for i := range both {
		if got, want := now[i].Peer, now[1-i].MAC; got != want {
			return p.noWay(both, fmt.Sprintf("at %s %v answers, and %s is %v", both[i].Port, net.HardwareAddr(got[:]), both[1-i].Port, net.HardwareAddr(want[:])))
		}
	}
	return nil
}

// wayOf is what end i of the two needs.
func wayOf(i int, port string) service.Way {
	return service.Way{Port: port, Outer: outers[i], Inner: sides[i].net4.Addr(), Peer: outers[1-i].Addr(), To: sides[1-i].net4.Masked()}
}

func placeOf(i int, port string) tunnel.Place {
	return tunnel.Place{Port: port, Outer: outers[i].Addr(), Net: sides[i].net4}
}

// box sets a box up as end i.
func (p *peers) box(ctx context.Context, at *reached, i int, port string, undo *cleanup) (*peer, error) {
	to, err := at.agent()
	if err != nil {
		return nil, err
	}
	conn, err := at.hold(ctx, to, undo)
	if err != nil {
		return nil, err
	}
	e := &peer{Gateway: Gateway{Place: placeOf(i, port), Machine: agent.Machine{Conn: conn}}, name: to.Name, conn: conn, Tuner: tuneBox{conn, []string{port}}}
	if e.there, err = agent.Identify.Call(ctx, conn, agent.IdentifyArgs{Ports: []string{port}}); err != nil {
		return nil, err
	}
	if len(e.there.Ports) != 1 {
		return nil, fmt.Errorf("the agent on %s answers for %d of 1 ports: install this version there", to.Name, len(e.there.Ports))
	}
	if c := e.there.Ports[0].Control; c != "" {
		return nil, controlApart(fmt.Sprintf("%s of %s %s", port, to.Name, c))
	}
	opened, err := agent.GatewayOpen.Call(ctx, conn, wayOf(i, port))
	if err != nil {
		return nil, err
	}
	e.allCPUs = opened.AllCPUs
	undo.add(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), asking)
		defer cancel()
		_, err := agent.GatewayClose.Call(ctx, conn, agent.None{})
		if conn.Err() != nil {
			return nil // it puts everything back by itself
		}
		return err
	})
	e.direct = func(on bool) error {
		ctx, cancel := context.WithTimeout(context.Background(), asking)
		defer cancel()
		_, err := agent.GatewayDirect.Call(ctx, conn, on)
		return err
	}
	e.spread = func(ctx context.Context, all bool) error {
		_, err := agent.GatewaySpread.Call(ctx, conn, all)
		return err
	}
	e.see = func(ctx context.Context) (service.GatewayState, error) {
		return agent.GatewaySee.Call(ctx, conn, agent.None{})
	}
	return e, nil
}

// here sets this machine up as end 0; other is the box.
func (p *peers) here(ctx context.Context, other *peer, undo *cleanup) (*peer, error) {
	n := &nic{Port: host.Port{Host: "tester", Netns: p.netns, Name: p.port}}
	if err := netns.Do(p.netns, func() error { return n.free(p.force, p.own) }); err != nil {
		return nil, host.Permit("use port "+p.port, err)
	}
	for _, c := range other.there.Control {
		carries, err := n.Carries(host.Connection{Peer: c.Local, Local: c.Peer})
		if err != nil {
			return nil, err
		}
		if carries {
			return nil, controlApart(fmt.Sprintf("%s of this machine carries the connection to %s", p.port, other.name))
		}
	}
	g, err := service.OpenGateway(ctx, p.netns, wayOf(0, p.port), "run")
	if err != nil {
		return nil, host.Permit("set this machine up as a gateway", err)
	}
	undo.add(g.Close)
	local := &host.Local{Label: "tester", Netns: p.netns}
	return &peer{
		Gateway: LocalGateway(local, placeOf(0, p.port)), name: "this machine", direct: g.Direct,
		see:   func(context.Context) (service.GatewayState, error) { return g.See() },
		Tuner: TuneLocal(tune.On{Host: local, Ports: []string{p.port}}),
	}, nil
}

// controlApart refuses a cable under load that carries the control connection.
func controlApart(what string) error {
	return &host.Missing{What: "a control connection on another network than the load: " + what, Hint: "reach the box by a network of its own, or measure other ports"}
}

// linked waits until both ends have a link.
func (p *peers) linked(ctx context.Context, both [2]*peer) error {
	for begin := time.Now(); ; {
		down := ""
		for _, e := range both {
			now, err := e.see(ctx)
			if err != nil {
				return err
			}
			if !now.Carrier {
				down = e.Port + " of " + e.name
			}
		}
		if down == "" {
			return nil
		}
		if time.Since(begin) > plugIn {
			return &host.Missing{What: fmt.Sprintf("a link on %s: it is not up after %v", down, plugIn), Hint: "check that its cable is in, and that the port at the other end is switched on"}
		}
		if err := host.Pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// settings are how both were built, for the record.
func (p *peers) settings(both [2]*peer) []result.Pair {
	kv := []result.Pair{{Key: "port_a", Value: p.port}, {Key: "dut_a", Value: p.dut}}
	if p.two() {
		kv = append(kv, result.Pair{Key: "dut_first", Value: both[0].name})
	}
	var spreads []string
	for _, e := range both {
		if e.conn != nil {
			spreads = append(spreads, e.allCPUs)
		}
	}
	return append(kv, result.Pair{Key: "dut_cpus_all", Value: strings.Join(spreads, "; ")})
}

// peersMeans are those of peers that stand.
type peersMeans struct {
	once
	peers *peers
	both  [2]*peer
}

// Direct implements Joiner.
func (m *peersMeans) Direct(on bool) error {
	return errors.Join(m.both[0].direct(on), m.both[1].direct(on))
}

// Serve implements Server: the boxes among both use all of their CPUs, or work as they are
// tuned.
func (m *peersMeans) Serve(ctx context.Context, s Service) error {
	if err := onlyRoutes(s); err != nil {
		return err
	}
	if err := m.Direct(true); err != nil {
		return err
	}
	var errs []error
	for _, e := range m.both { // each, whatever the other says: none stays spread that is not to be
		if e.spread != nil {
			errs = append(errs, e.spread(ctx, s.AllCPUs))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return m.peers.linked(ctx, m.both) // a driver may have reset it
}

// Offloads implements Joiner.
func (m *peersMeans) Offloads(on bool) error { return peersOffloads(m.both, on) }

// Watch implements Watcher: it is the second's telemetry.
func (m *peersMeans) Watch(names []string, warn func(string)) telemetry.Spec {
	return WatchBox(m.both[1].conn, names, result.MachineDUT, warn)
}

// Observe implements Observer.
func (m *peersMeans) Observe() (kv []result.Pair) {
	for i, e := range m.both {
		if e.conn == nil {
			kv = append(kv, result.Pair{Key: "link_" + m.peers.port, Value: m.peers.state()})
			continue
		}
		kv = append(kv, observeBox(e.conn, []string{"dut_first_", "dut_"}[i], []string{e.Port})...)
	}
	return kv
}

// state is that of this machine's port.
func (p *peers) state() (text string) {
	port := host.Port{Netns: p.netns, Name: p.port}
	_ = netns.Do(p.netns, func() error {
		driver, speed := host.Driver(p.port, "unknown driver")
		text = port.Link(driver, speed > 0)
		return nil
	})
	return text
}

// Tune implements Tuner: it applies a recipe to the boxes among both. Its settings are the
// first's, then the second's.
func (m *peersMeans) Tune(ctx context.Context, r tune.Recipe, by string) (func(context.Context) ([]string, error), []result.Setting, error) {
	var reverts []func(context.Context) ([]string, error)
	var all []result.Setting
	revert := func(ctx context.Context) (notes []string, err error) {
		for _, f := range slices.Backward(reverts) {
			more, ferr := f(ctx)
			notes, err = append(notes, more...), errors.Join(err, ferr)
		}
		return notes, err
	}
	for _, e := range m.both {
		if e.conn == nil {
			continue
		}
		f, settings, err := e.Tune(ctx, r, by)
		all = append(all, settings...)
		if err != nil {
			_, rerr := revert(context.WithoutCancel(ctx))
			return nil, all, errors.Join(err, rerr)
		}
		reverts = append(reverts, f)
	}
	return revert, all, nil
}

// offloadKnobs are those of a cable between peers, in the order in which they can be switched
// off; merging by drivers is off in any case.
var offloadKnobs = []string{"gro", "ufo", "tso", "gso", "sg", "tx-checksum", "rx-checksum"}

// peersOffloads switches the offloads of the cable on or off; what a port has fixed stays.
func peersOffloads(both [2]*peer, on bool) error {
	r := tune.Recipe{Name: "offloads"}
	for _, name := range []string{"lro", "gro-hw", "gro-list", "gro-udp"} {
		r.Steps = append(r.Steps, tune.Step{Knob: name, Target: tune.ForPorts, Value: "off"})
	}
	knobs, value := slices.Clone(offloadKnobs), "off"
	if on {
		slices.Reverse(knobs)
		value = "on"
	}
	for _, name := range knobs {
		r.Steps = append(r.Steps, tune.Step{Knob: name, Target: tune.ForPorts, Value: value})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*asking)
	defer cancel()
	if err := plainBoth(both); err != nil {
		return err
	}
	for _, e := range both {
		revert, _, err := e.Tune(ctx, r, "offloads of a cable")
		if err != nil {
			return fmt.Errorf("switch offloads of %s of %s: %w", e.Port, e.name, err)
		}
		e.revert = revert
	}
	return (&peers{}).linked(ctx, both) // a driver may have reset it
}

// plainBoth puts the offloads of both ports back, the last one first: a tap offers what the
// virtual machine's own port takes.
func plainBoth(both [2]*peer) error { return errors.Join(both[1].plain(), both[0].plain()) }

// plain puts the port's offloads back.
func (e *peer) plain() error {
	if e.revert == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	notes, err := e.revert(ctx)
	e.revert = nil
	if e.conn != nil && e.conn.Err() != nil {
		return nil // it puts them back by itself
	}
	if err != nil {
		return fmt.Errorf("put offloads of %s of %s back: %s: %w", e.Port, e.name, strings.Join(notes, "; "), err)
	}
	return nil
}
