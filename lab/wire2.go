// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/internal/netns"
	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

// A wire2 is two ports of this machine, and between them a box that nobody can look into; and
// two more for the self-test, where there are such. Nothing is set on the ports, so that
// nothing has to be put back, whatever ends the process: test frames bear addresses that the
// tester's kernel does not know, and a responder answers for them.
type wire2 struct {
	netns string
	ends  [2]wireEnd
	loop  [2]string
	box   string
	force bool
	own   bool // even a port of the caller's own connection
	rate  unit.BitRate
	hosts int  // addresses of the tester at each end
	arm   bool // both ends are one port
}

// A wireEnd is one port and what its link is told.
type wireEnd struct {
	port               string
	address4, gateway4 netip.Addr
	address6, gateway6 netip.Addr
}

const (
	boxRoutes = "router"
	boxBridge = "bridge"
)

func newWire2() Topology { w := defaultWire(); return &w }

func defaultWire() wire2 {
	w := wire2{box: boxRoutes, hosts: testerHosts}
	for i, sd := range sides {
		w.ends[i] = wireEnd{
			address4: sd.net4.Addr().Next(), gateway4: sd.net4.Addr(),
			address6: sd.net6.Addr().Next(), gateway6: sd.net6.Addr(),
		}
	}
	return w
}

var endNames = [2]string{"a", "b"}

func (w *wire2) Flags(fs *flag.FlagSet) {
	for i := range w.ends {
		e, x := &w.ends[i], endNames[i]
		other := endNames[1-i]
		fs.StringVar(&e.port, "port_"+x, "", "interface that the box is wired to, such as eth1; not that of port_"+other)
		fs.Var(address(&e.address4, true), "address_"+x, "first IPv4 address of the tester at port_"+x)
		fs.Var(address(&e.gateway4, true), "gateway_"+x, "the box's IPv4 address there")
		fs.Var(address(&e.address6, false), "address6_"+x, "first IPv6 address of the tester at port_"+x)
		fs.Var(address(&e.gateway6, false), "gateway6_"+x, "the box's IPv6 address there")
		fs.StringVar(&w.loop[i], "loop_"+x, "", "interface that is wired to that of loop_"+other+", for the self-test")
	}
	fs.Var(oneOf(&w.box, boxRoutes, boxBridge), "box", "router, or bridge (a switch, or a firewall that is none's gateway)")
	fs.StringVar(&w.netns, "netns", "", "network namespace that the ports are in, as a path; by default this one")
	fs.BoolVar(&w.force, "force", false, "use ports that others use, and addresses that are public")
	fs.BoolVar(&w.own, "force_own_connection", false, "use ports that others use, even that of your own connection")
	addRateFlag(fs, &w.rate, "the links' own, where they say")
}

// address is a flag whose value is an IP address of one version.
func address(p *netip.Addr, v4 bool) parsed[netip.Addr] {
	text := func(a netip.Addr) string {
		if !a.IsValid() {
			return ""
		}
		return a.String()
	}
	return parsed[netip.Addr]{p, text, func(s string) (netip.Addr, error) {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Is4() != v4 || a.Zone() != "" || a.IsMulticast() || a.IsUnspecified() {
			return a, fmt.Errorf("%q is no %s address", s, map[bool]string{true: "IPv4", false: "IPv6"}[v4])
		}
		return a, nil
	}}
}

// check refuses parameters that contradict each other.
func (w *wire2) check(ends []wireEnd) error {
	names := map[string]bool{}
	for i, e := range ends {
		if e.port == "" {
			return fmt.Errorf("port_%s is not given: add --set port_%[1]s=NAME; ip link shows the names", endNames[i])
		}
		for _, pair := range [2][2]netip.Addr{{e.address4, e.gateway4}, {e.address6, e.gateway6}} {
			if host.Public(pair[0]) && !w.force {
				return fmt.Errorf("port_%s has the public address %v: give one of the lab, such as 198.18.0.2, or set force=true to send to it all the same", endNames[i], pair[0])
			}
			if slices.Contains(addressRun(pair[0], w.hosts), pair[1]) {
				return fmt.Errorf("gateway %v of port_%s is among the tester's %d addresses from %v on: give another one", pair[1], endNames[i], w.hosts, pair[0])
			}
		}
	}
	if (w.loop[0] == "") != (w.loop[1] == "") {
		return errors.New("one port of the loop is given: give loop_a and loop_b, or neither")
	}
	ports := []string{w.ends[0].port, w.ends[1].port, w.loop[0], w.loop[1]}
	if w.arm {
		ports = ports[1:]
	}
	for _, name := range ports {
		if name != "" && names[name] {
			return fmt.Errorf("port %s is given twice: each end needs a port of its own", name)
		}
		names[name] = true
	}
	return nil
}

func (w *wire2) Sketch() (Facts, error) { return w.sketch("wire2", w.ends[:]) }

// sketch looks whether the ports are there; who may not enter their namespace learns
// that from Build.
func (w *wire2) sketch(name string, ends []wireEnd) (f Facts, _ error) {
	if err := w.check(ends); err != nil {
		return f, err
	}
	cpus, err := host.AllowedCPUs()
	if err != nil {
		return f, err
	}
	cpu := cpus[len(cpus)-1]
	f = Facts{Topology: name, Kind: result.KindReal, TesterCPU: cpu, CPUs: []int{cpu}}
	if f.Senders, err = sendersBeside(cpu, -1); err != nil {
		return f, err
	}
	if len(ends) == 2 {
		f.Services, f.AsIs, f.Bridge = wiredServices, true, w.box == boxBridge
	}
	for _, e := range ends {
		f.Ports = append(f.Ports, Port{Port: host.Port{Host: "tester", Netns: w.netns, Name: e.port}, Link: w.rate,
			Addr4: e.address4, Gateway4: e.gateway4, Addr6: e.address6, Gateway6: e.gateway6})
	}
	for i, name := range w.loop {
		if name == "" {
			continue
		}
		mine, other := sides[i], sides[1-i]
		f.Loop = append(f.Loop, Port{Port: host.Port{Host: "tester", Netns: w.netns, Name: name}, Link: w.rate,
			Addr4: mine.net4.Addr().Next(), Gateway4: other.net4.Addr().Next(),
			Addr6: mine.net6.Addr().Next(), Gateway6: other.net6.Addr().Next()})
	}
	for _, ports := range [][]Port{f.Ports, f.Loop} {
		for i := range ports {
			err := netns.Do(w.netns, func() error {
				l, err := ethernet(netlink.LinkByName, ports[i].Name)
				if err == nil {
					ports[i].MTU, ports[i].MAC = l.Attrs().MTU, [6]byte(l.Attrs().HardwareAddr)
				}
				return err
			})
			if err != nil && !errors.Is(err, fs.ErrPermission) {
				return Facts{}, err
			}
		}
	}
	return f, nil
}

// Build needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF: a *host.Missing otherwise.
// Ports that are not there, down, unplugged or somebody else's are one, too, and so
// is a box that does not answer.
func (w *wire2) Build(ctx context.Context) (*Testbed, error) {
	wired, err := w.open(ctx, w.ends[:])
	if err != nil {
		return nil, err
	}
	tb := wired.testbed("wire2")
	tb.Bridge = w.box == boxBridge
	tb.Sources = []ledger.Source{&blackBox{wired.ends}}
	tb.Means = &wiredMeans{wired: wired, once: sync.OnceValue(wired.undo.close), label: "box", far: [2]string{"side a", "side b"}}
	return wired.engine(ctx, tb)
}

// A wiredEnd is a port with its responder.
type wiredEnd struct {
	*nic
	*responder
	wireEnd
	gateway [6]byte // MAC address of what frames go to
	ipv6    string  // "yes", or why not
}

// wired is ports that are open, with what they found at the other end.
type wired struct {
	*wire2
	ends    []*wiredEnd
	loops   []*nic
	tester  *host.Local
	shields []string
	undo    cleanup
	idle    result.Pair
	cpu     int
	senders []int // CPUs beside
}

// open makes ends ready and learns who is at the other end of their cables.
func (w *wire2) open(ctx context.Context, ends []wireEnd) (_ *wired, err error) {
	if err := w.check(ends); err != nil {
		return nil, err
	}
	out := &wired{wire2: w, tester: &host.Local{Label: "tester", Netns: w.netns}}
	defer func() {
		if err != nil {
			err = host.Permit("use the ports", errors.Join(err, out.undo.close()))
		}
	}()
	cpus, err := host.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	out.cpu = cpus[len(cpus)-1]
	if out.senders, err = sendersBeside(out.cpu, -1); err != nil {
		return nil, err
	}
	for i, e := range ends {
		end := &wiredEnd{wireEnd: e}
		if w.arm && i > 0 {
			end.nic = out.ends[0].nic
		} else if end.nic, err = out.nic(e.port); err != nil {
			return nil, err
		}
		out.ends = append(out.ends, end)
	}
	for _, name := range w.loop {
		if name != "" {
			n, err := out.nic(name)
			if err != nil {
				return nil, err
			}
			out.loops = append(out.loops, n)
		}
	}
	for _, e := range out.ends {
		owned := slices.Concat(addressRun(e.address4, w.hosts), addressRun(e.address6, w.hosts))
		e.responder, err = newResponder(e.nic.Port, e.index, e.nic.mac, func(a netip.Addr) bool { return slices.Contains(owned, a) })
		if err != nil {
			return nil, err
		}
		out.undo.add(e.responder.close)
	}
	if err := out.plugged(ctx); err != nil {
		return nil, err
	}
	if err := out.meet(ctx); err != nil {
		return nil, err
	}
	talk, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	out.undo.add(func() error { stop(); <-ended; return nil })
	guard.Go(func() { defer close(ended); out.talk(talk) })
	qos, idle := awake()
	if out.idle = idle; qos != nil {
		out.undo.add(qos.Close)
	}
	return out, nil
}

func (w *wired) nic(name string) (*nic, error) {
	n, err := openNIC(host.Port{Host: "tester", Netns: w.netns, Name: name}, w.force, w.own)
	if err != nil {
		return nil, err
	}
	w.undo.add(n.close)
	shield, err := n.setShield()
	if err == nil && !slices.Contains(w.shields, shield) {
		w.shields = append(w.shields, shield)
	}
	return n, err
}

// plugIn is how long a link may take to come up, after a driver reset it, too.
const plugIn = 10 * time.Second

// plugged waits until all links are up.
func (w *wired) plugged(ctx context.Context) error {
	for begin := time.Now(); ; {
		down := ""
		for _, n := range w.nics() {
			up, err := n.carrier()
			if err != nil {
				return err
			}
			if !up {
				down = n.Name
			}
		}
		if down == "" {
			return nil
		}
		if time.Since(begin) > plugIn {
			return &host.Missing{What: fmt.Sprintf("a link on %s: it is not up after %v", down, plugIn),
				Hint: "check that its cable is in, and that the port at the other end is switched on"}
		}
		if err := host.Pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (w *wired) nics() (all []*nic) {
	for _, e := range w.ends {
		if !slices.Contains(all, e.nic) {
			all = append(all, e.nic)
		}
	}
	return append(all, w.loops...)
}

// meet learns the MAC addresses that frames go to, and makes the box learn the
// tester's.
func (w *wired) meet(ctx context.Context) error {
	errs := make([]error, len(w.ends))
	var all guard.Group
	for i, e := range w.ends {
		all.Go(func() {
			if w.box == boxBridge {
				errs[i] = e.across(ctx, w.ends[1-i])
			} else {
				errs[i] = e.atGateway(ctx)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return w.greet()
}

// atGateway asks for the box's addresses.
func (e *wiredEnd) atGateway(ctx context.Context) error {
	var all guard.Group
	var err4, err6 error
	var mac4, mac6 [6]byte
	all.Go(func() { mac4, err4 = e.resolve(ctx, e.address4, e.gateway4) })
	if e.gateway6.IsValid() {
		all.Go(func() { mac6, err6 = e.resolve(ctx, e.address6, e.gateway6) })
	}
	all.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err4, errNoAnswer):
		return &host.Missing{
			What: fmt.Sprintf("an answer on port %s: nobody answered ARP for %v (asked %d times from %v)", e.nic.Name, e.gateway4, questions, e.address4),
			Hint: "give the box that address there, with a prefix that contains the asking one, or set gateway_a, gateway_b to its own; check that the cables are not swapped; a bridge or switch needs box=bridge",
		}
	case err4 != nil:
		return err4
	}
	e.gateway, e.ipv6 = mac4, "yes"
	switch {
	case !e.gateway6.IsValid():
		e.ipv6 = "no: no address of it is known"
	case errors.Is(err6, errNoAnswer):
		e.ipv6 = fmt.Sprintf("no: nobody answered for %v", e.gateway6)
	case err6 != nil:
		e.ipv6 = "no: " + err6.Error()
	case mac6 != mac4:
		e.ipv6 = fmt.Sprintf("no: %v is at another MAC address than %v", e.gateway6, e.gateway4)
	}
	return nil
}

// across asks through a box that is nobody's gateway for the port at its other side.
func (e *wiredEnd) across(ctx context.Context, far *wiredEnd) error {
	mac, err := e.resolve(ctx, e.address4, far.address4)
	switch {
	case errors.Is(err, errNoAnswer):
		return &host.Missing{
			What: fmt.Sprintf("a way from port %s to port %s: an ARP request for %v went in %d times and no answer came back", e.nic.Name, far.nic.Name, far.address4, questions),
			Hint: "check that both ports of the box are in one bridge or VLAN; one that has just come up may block for half a minute (spanning tree); a router takes box=router",
		}
	case err != nil:
		return err
	case mac != far.nic.mac:
		return &host.Missing{What: fmt.Sprintf("the address %v for the tester alone: it is also at another MAC address behind port %s", far.address4, e.nic.Name), Hint: "give other addresses by address_a and address_b"}
	}
	e.gateway, e.ipv6 = mac, "yes"
	return nil
}

// greet makes the box know the tester's addresses before it has to send there: a
// router asks each once, a bridge learns the port.
func (w *wired) greet() error {
	for i, e := range w.ends {
		if w.box == boxBridge {
			if err := e.announce([]netip.Addr{e.address4}); err != nil {
				return err
			}
			continue
		}
		err := e.introduce(e.gateway4, addressRun(e.address4, w.hosts))
		if err == nil && e.ipv6 == "yes" {
			err = e.introduce(e.gateway6, addressRun(e.address6, w.hosts))
		}
		if err != nil {
			return fmt.Errorf("introduce the tester at port_%s: %w", endNames[i], err)
		}
	}
	return nil
}

// talkGap is below the 300 s that switches remember a port for.
const talkGap = 60 * time.Second

// talk announces the ports again and again where a bridge would forget the one that
// only receives. A router needs none: it asks, and is answered.
func (w *wired) talk(ctx context.Context) {
	for w.box == boxBridge && host.Pause(ctx, talkGap) == nil {
		_ = w.greet() // a port that is gone shows in the trial
	}
}
