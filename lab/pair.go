// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"boxdyno/agent"
	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/ledger"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/service"
	"boxdyno/telemetry"
	"boxdyno/tune"
)

// A pair is a wire2 whose box runs our agent, so that the ledger has its places; without a
// second cable the DUT is a sensor. The control connection must not go by the cables under
// load: the address that ssh takes is the box's own on another network.
type pair struct {
	wire2
	reached
	dut      [2]string
	services string // managed; asIs, "": the box is configured
}

func newPair() Topology { return &pair{wire2: defaultWire(), reached: newReached(), services: managed} }

const (
	managed = "managed"
	asIs    = "as-is"
)

// manages says whether the agent sets the box up. A bridge is nobody's to configure.
func (p *pair) manages() bool { return p.services == managed && p.box == boxRoutes }

func (p *pair) Flags(fs *flag.FlagSet) {
	p.wire2.Flags(fs)
	p.reached.Flags(fs)
	fs.Var(oneOf(&p.services, managed, asIs), "services", "managed: the agent sets addresses, forwarding and services of the DUT, and puts them back; as-is: the DUT is configured")
	for i, x := range endNames {
		fs.StringVar(&p.dut[i], "dut_"+x, "", "the DUT's interface at the other end of port_"+x+"'s cable")
	}
}

// wires are the ends that have a cable to the DUT.
func (p *pair) wires() ([]wireEnd, error) {
	ends := p.ends[:]
	if p.ends[1].port == "" {
		if ends = ends[:1]; p.box == boxBridge {
			return nil, errors.New("box=bridge with one port: a bridge has two sides: give port_b and dut_b, or box=router")
		}
	}
	for i := range ends {
		if p.dut[i] == "" {
			return nil, fmt.Errorf("dut_%s is not given: add --set dut_%[1]s=NAME; ip link on the DUT shows the names", endNames[i])
		}
	}
	return ends, nil
}

// Sketch implements Topology: it does not ask the DUT.
func (p *pair) Sketch() (Facts, error) {
	if _, err := p.agent(); err != nil {
		return Facts{}, err
	}
	ends, err := p.wires()
	if err != nil {
		return Facts{}, err
	}
	f, err := p.sketch(Pair, ends)
	p.offer(&f)
	f.DUTPorts = p.dut[:len(ends)]
	return f, err
}

// offer has f offer the services that the agent can set.
func (p *pair) offer(f *Facts) {
	if p.manages() && len(f.Ports) == 2 {
		f.Services, f.AsIs, f.Spreads = Services, false, true
	}
}

// manage sets the tester's ports and the box up, and returns what was left out.
func (p *pair) manage(ctx context.Context, remote *link.Conn, ends []wireEnd, undo *cleanup) (reply agent.ManageReply, err error) {
	var names []string
	for _, e := range ends {
		if !slices.Contains(names, e.port) {
			names = append(names, e.port)
		}
	}
	up := tune.Recipe{Name: "links", Steps: []tune.Step{{Knob: "link", Target: tune.ForPorts, Value: "up"}}}
	applied, _, err := tune.New().Apply(ctx, up, tune.On{Host: &host.Local{Netns: p.netns}, Ports: names}, tune.Options{By: "run"})
	if err != nil {
		return reply, err
	}
	undo.add(func() error { _, err := applied.Revert(context.Background(), tune.Revert{}); return err })
	if !p.manages() {
		return reply, nil
	}
	if reply, err = agent.ServiceManage.Call(ctx, remote, agent.ManageArgs{Ports: p.portsOf(ends)}); err != nil {
		return reply, err
	}
	undo.add(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := agent.ServiceClose.Call(ctx, remote, agent.None{})
		if remote.Err() != nil {
			return nil // it puts everything back by itself
		}
		return err
	})
	return reply, nil
}

// portsOf are the box's ports at ends, as it sets them up for services.
func (p *pair) portsOf(ends []wireEnd) (ports []service.Port) {
	for i, e := range ends {
		port := service.Port{Name: p.dut[i], Addresses: []netip.Prefix{theirs(e.gateway4, sides[i].net4)}, Hops: []netip.Addr{e.address4}}
		if e.gateway6.IsValid() {
			port.Addresses, port.Hops = append(port.Addresses, theirs(e.gateway6, sides[i].net6)), append(port.Hops, e.address6)
		}
		ports = append(ports, port)
	}
	return ports
}

// theirs is the box's address a, with the prefix of the side's network if it is in that.
func theirs(a netip.Addr, side netip.Prefix) netip.Prefix {
	switch {
	case side.Contains(a):
		return netip.PrefixFrom(a, side.Bits())
	case a.Is4():
		return netip.PrefixFrom(a, 24)
	}
	return netip.PrefixFrom(a, 64)
}

// clockReadings are enough for one of them to go undisturbed.
const clockReadings = 32

// Build needs what wire2's does, here; on the DUT the ledger's privileges. Whatever
// is not there, here or there, is a *host.Missing.
func (p *pair) Build(ctx context.Context) (*Testbed, error) {
	var set agent.ManageReply
	tb, w, err := p.stand(ctx, func(remote *link.Conn, ends []wireEnd, undo *cleanup) (err error) {
		set, err = p.manage(ctx, remote, ends, undo)
		return err
	})
	if err != nil {
		return nil, err
	}
	p.offer(&tb.Facts)
	tb.Warnings = append(tb.Warnings, set.Warnings...)
	if set.AllCPUs != "" {
		tb.Settings = append(tb.Settings, result.Pair{Key: "dut_cpus_all", Value: set.AllCPUs})
	}
	if p.manages() && len(w.ends) == 2 {
		tb.Means = managedMeans{tb.Means.(*pairMeans)}
	}
	return w.engine(ctx, tb)
}

// stand is Build without an engine; prepare makes both machines ready until undo.
func (p *pair) stand(ctx context.Context, prepare func(remote *link.Conn, ends []wireEnd, undo *cleanup) error) (_ *Testbed, _ *wired, err error) {
	at, err := p.agent()
	if err != nil {
		return nil, nil, err
	}
	ends, err := p.wires()
	if err != nil {
		return nil, nil, err
	}
	if err := p.check(ends); err != nil {
		return nil, nil, err
	}
	var undo cleanup
	remote, err := p.hold(ctx, at, &undo)
	defer func() {
		if err != nil {
			err = errors.Join(err, undo.close())
		}
	}()
	if err != nil {
		return nil, nil, err
	}
	there, err := agent.Identify.Call(ctx, remote, agent.IdentifyArgs{Ports: p.dut[:len(ends)]})
	if err != nil {
		return nil, nil, err
	}
	if len(there.Ports) != len(ends) {
		return nil, nil, fmt.Errorf("the agent on %s answers for %d of %d ports: install this version there", at.Name, len(there.Ports), len(ends))
	}
	clock, err := remote.Clock(ctx, clockReadings)
	if err != nil {
		return nil, nil, err
	}
	if err := p.apart(at.Name, ends, there); err != nil {
		return nil, nil, err
	}
	if err := prepare(remote, ends, &undo); err != nil {
		return nil, nil, err
	}
	w, err := p.open(ctx, ends)
	if err != nil {
		return nil, nil, err
	}
	undo.add(w.undo.close)
	for i, e := range w.ends {
		port := there.Ports[i]
		if p.box == boxRoutes && e.gateway != port.MAC {
			return nil, nil, &host.Missing{
				What: fmt.Sprintf("a cable from port %s to %s of the DUT: %v is answered for by %v, and %s is %v",
					e.nic.Name, port.Name, e.gateway4, net.HardwareAddr(e.gateway[:]), port.Name, net.HardwareAddr(port.MAC[:])),
				Hint: "look whether the two cables are swapped, or dut_a and dut_b",
			}
		}
	}
	tb := w.testbed(Pair)
	tb.Machines, tb.FarCPUs, tb.DUTPorts = []result.Machine{there.Machine}, there.Machine.CPUs, p.dut[:len(ends)]
	tb.Subjects = agent.Machine{Conn: remote}
	tb.Sources = []ledger.Source{&remoteDUT{remote, w.ends, p.arm}}
	tb.Settings = append(append(tb.Settings, result.Pair{Key: "services", Value: cmp.Or(p.services, asIs)}), farSettings(at, remote, clock)...)
	tb.Means = &pairMeans{
		wiredMeans: wiredMeans{wired: w, once: sync.OnceValue(undo.close), label: dutLabel, far: p.dut},
		tuneBox:    tuneBox{remote, p.dut[:len(ends)]},
	}
	return tb, w, nil
}

// pairMeans are those of a pair that stands. Its box is tuned, watched and asked by its agent.
type pairMeans struct {
	wiredMeans
	tuneBox
}

// Resources implements Lender.
func (m *pairMeans) Resources() (host.Resources, error) {
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	return agent.Resources.Call(ctx, m.conn, agent.None{})
}

// Receive implements Receiver.
func (m *pairMeans) Receive(ctx context.Context) (result.DUTWork, error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	return agent.ReceiveRead.Call(ctx, m.conn, m.tuneBox.ports)
}

// OpenRoll implements Caller.
func (m *pairMeans) OpenRoll(ctx context.Context, r *frame.Roll) (engine.Meter, error) {
	meter, err := agent.Machine{Conn: m.conn}.OpenRoll(ctx, m.tuneBox.ports[0], r)
	if err != nil {
		return nil, err
	}
	if err := m.amid(ctx); err != nil { // some drivers reset their link when an XDP program comes
		return nil, errors.Join(err, meter.Close())
	}
	return meter, nil
}

// Talk implements Talker.
func (m *pairMeans) Talk(ctx context.Context) (func() error, error) { return m.talks(ctx, m.ends[0]) }

// Watch implements Watcher.
func (m *pairMeans) Watch(names []string, warn func(string)) telemetry.Spec {
	return WatchBox(m.conn, names, result.MachineDUT, warn)
}

// Observe implements Observer: what the links are, and what the box says of itself.
func (m *pairMeans) Observe() []result.Pair {
	return append(m.wiredMeans.Observe(), observeBox(m.conn, "dut_", m.tuneBox.ports)...)
}

// managedMeans are those of a pair whose box the agent sets up.
type managedMeans struct{ *pairMeans }

// Serve implements Server.
func (m managedMeans) Serve(ctx context.Context, s Service) error {
	if s.Kind == Listening { // a port of a card needs nothing for it
		s.Kind = "route"
	}
	_, err := agent.ServiceSet.Call(ctx, m.conn, s)
	return err
}

// observeBox is what the box behind c says of itself and of ports, each key after prefix.
func observeBox(c *link.Conn, prefix string, ports []string) (kv []result.Pair) {
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	now, err := agent.Identify.Call(ctx, c, agent.IdentifyArgs{Ports: ports})
	if err != nil {
		return []result.Pair{{Key: prefix + "state", Value: err.Error()}}
	}
	for _, s := range now.Environment {
		kv = append(kv, result.Pair{Key: prefix + s.Key, Value: s.Value})
	}
	for _, port := range now.Ports {
		kv = append(kv, result.Pair{Key: prefix + "link_" + port.Name, Value: port.Link})
	}
	return kv
}

// apart refuses cables under load that carry the control connection, at either end.
func (p *pair) apart(box string, ends []wireEnd, there agent.Identity) error {
	for i, e := range ends {
		if c := there.Ports[i].Control; c != "" {
			return controlApart(fmt.Sprintf("%s of %s %s", there.Ports[i].Name, box, c))
		}
		for _, c := range there.Control {
			port := host.Port{Netns: p.netns, Name: e.port}
			carries, err := port.Carries(host.Connection{Peer: c.Local, Local: c.Peer})
			if err != nil {
				return err
			}
			if carries {
				return controlApart(fmt.Sprintf("%s of this machine carries the connection to %s", e.port, box))
			}
		}
	}
	return nil
}

const dutLabel = agent.Label

// remoteDUT is the DUT's own counters, read there.
type remoteDUT struct {
	remote *link.Conn
	ends   []*wiredEnd
	bare   bool // whatever the tester's own ledger is
}

// Count takes the tester's own neighbour discovery off what the DUT's IP layer counts
// as delivered to it; all else are terms of its readings. ARP is not IP.
func (d *remoteDUT) Count(context.Context) (terms []result.Term, _ error) {
	for _, e := range d.ends {
		if n := e.nd.Load(); n > 0 {
			terms = append(terms, result.Term{Place: result.Routing, Host: dutLabel, Name: "less the tester's neighbour discovery",
				From: "responder on " + e.nic.Name, N: -int64(n)})
		}
	}
	return terms, nil
}

// Open opens the ledger of the paths there.
func (d *remoteDUT) Open(ctx context.Context, paths []ledger.Path, bare bool) (ledger.RemoteBook, error) {
	args := agent.LedgerArgs{Bare: bare || d.bare}
	for _, p := range paths {
		rp := agent.Path{Name: p.Name}
		for _, h := range p.Hops {
			rp.Hops = append(rp.Hops, agent.Hop{Place: h.Place, Host: h.Port.Host, Port: h.Port.Name, Mine: h.Host == nil})
		}
		args.Paths = append(args.Paths, rp)
	}
	id, err := agent.LedgerOpen.Call(ctx, d.remote, args)
	if err != nil {
		return nil, err
	}
	return &remoteBook{d.remote, id}, nil
}

type remoteBook struct {
	remote *link.Conn
	id     int
}

// Read reads every counter there.
func (b *remoteBook) Read(ctx context.Context) (ledger.Reading, error) {
	return agent.LedgerRead.Call(ctx, b.remote, b.id)
}

func (b *remoteBook) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, _ = agent.LedgerClose.Call(ctx, b.remote, b.id) // it ends with the connection, too
}
