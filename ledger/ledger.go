// SPDX-License-Identifier: Apache-2.0

// Package ledger closes the books of a trial: it reads the kernel's counters
// before and after, and says where every frame went.
//
//	       tester            DUT                                tester
//	path:  p0 ====== lan | XDP > backlog > tc > nft > IP > qdisc | wan ====== p1
//	         ^        ^       ^                                      ^         ^
//	         sends    receives                                       sends     receives
//
//	snapshot.go     all counters at one instant, once they rest
//	dictionary.go   what each counter means, at which place, what it would count twice
//	proc.go         counters of a namespace and of the machine, from /proc
//	sockets.go      counters of ports, queues, tc and nftables, by netlink and ethtool
//	witness.go      frames that have no counter, named by a BPF program
//	account.go      growth of the counters -> terms -> the equation
//
// No term is computed by subtraction. What no counter names stays unexplained.
package ledger

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"boxdyno/host"
	"boxdyno/result"
)

// A Hop is one link end on a path.
type Hop struct {
	Place result.Place // Tester, DUTNIC (port of the DUT) or MeterAt
	Host  *host.Local  // nil: a black box, without counters
	Port  host.Port
	// PortAlone: of its host nothing but the port is read, for the stack delivers
	// frames to the host itself that have not ended (a tunnel's).
	PortAlone bool
	Names     map[string]string // of the port's counters ("qdisc drops") that only one thing can move here; nil: the dictionary's
}

// A Path is the hops from a transmitter to a meter, in a frame's order: tester
// port, DUT ingress, DUT egress, meter port; without a DUT tester port and meter
// port. Each first of a pair sends over a link to the second. The topology fills
// it in, because only it knows the wiring.
type Path struct {
	Name string // "lan-to-wan"
	Hops []Hop
}

// A Source adds counters that are no kernel's: a BPF program's, a subject's own,
// the memory wire's. Names and values are cumulative; their growth is the term,
// a drop.
type Source interface {
	Count(ctx context.Context) ([]result.Term, error)
}

// Ends is what tester and meter say of the whole trial, all streams together.
// Accepted includes the frames that a full receive ring behind the tester's veth
// did not take (tx_dropped of its port): they are the DUT's loss. LocalDrops are
// the meter's own losses; Unhanded are those of them that XDP could not hand to the meter's
// socket, which some drivers count among their own.
// Duplicate is the part of Received that had come before.
type Ends struct{ Intended, Accepted, Refused, NotSent, Received, Duplicate, LocalDrops, Unhanded uint64 }

const (
	readGap       = 20 * time.Millisecond // between two reads that must be equal
	settleMost    = 2 * time.Second
	linkMost      = 10 * time.Second
	neighbourMost = 30 * time.Second // while frames wait for somebody's address
)

// A Book keeps the account of trials over the same paths, one after the other:
// each begins with Begin and ends with Balance. It holds sockets and a BPF program
// until Close.
type Book struct {
	// Settle is the least time that Balance waits before it reads; 0: as short as
	// the counters allow.
	Settle time.Duration
	// Virtual is for paths in memory, where time passes only while frames are sent:
	// what was under way has arrived, and Balance reads once.
	Virtual bool

	bare    bool       // without witnesses
	hosts   []*stackOf // of the DUT
	ports   []*portOf
	sockets map[string]*sockets // by namespace
	more    []Source
	remotes []RemoteBook
	terms   []term
	label   string // of the meter's host
	before  snapshot
}

// A stackOf is one namespace of the DUT whose stack is read.
type stackOf struct {
	local   *host.Local
	sockets *sockets // nil for a recorded tree
	witness *witness // nil where there is none

	sharing    sharing
	deliveries *deliveries // nil: what it delivers to itself is not counted by port
	undivided  string      // why, in a shared namespace
}

// A portOf is one port whose counters are read, each once.
type portOf struct {
	port    host.Port
	index   int
	sockets *sockets
	driver  driver
	label   string          // of its host
	root    fs.FS           // of a recorded tree; else nil
	want    map[string]bool // counters
	ethtool []string        // those of want that the driver itself keeps
	egress  bool            // of the DUT
}

// Open finds every counter on paths, those of a port, of a namespace and of the
// machine once, however many paths they lie on. Hosts that stand on recorded
// trees have no ports. It needs CAP_NET_ADMIN (a *host.Missing otherwise); with
// CAP_BPF and CAP_PERFMON it also names what only a tracepoint sees.
func Open(paths []Path, more ...Source) (*Book, error) {
	return openBook(false, paths, more)
}

// OpenBare is Open without the tracepoint, for a DUT that is told to throw frames
// away: the tracepoint sees every packet dropped, and cost tc a sixth of its rate.
func OpenBare(paths []Path, more ...Source) (*Book, error) {
	return openBook(true, paths, more)
}

func openBook(bare bool, paths []Path, more []Source) (*Book, error) {
	b := &Book{bare: bare, sockets: map[string]*sockets{}, more: more, label: "tester"}
	err := b.find(paths)
	if err == nil {
		err = b.openRemotes(context.Background(), paths)
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return b, nil
}

// Begin snapshots every counter: a trial begins. A driver that was tuned may have reset its
// link, which has 10 s to come up.
func (b *Book) Begin(ctx context.Context) (err error) {
	for start := time.Now(); ; {
		if b.before, err = b.read(ctx); err != nil {
			return fmt.Errorf("begin an account: %w", err)
		}
		if !slices.ContainsFunc(b.before.links(), func(l Link) bool { return l.Down }) || time.Since(start) > linkMost {
			return nil
		}
		if err := host.Pause(ctx, readGap); err != nil {
			return err
		}
	}
}

// find opens what the paths lie on and makes the list of terms.
func (b *Book) find(paths []Path) error {
	backlogs := map[string]bool{} // namespaces with a port whose frames go through a backlog, the drops of which its peer counts
	for _, p := range paths {
		for i, h := range p.Hops {
			if h.Place == result.MeterAt && h.Host != nil {
				b.label = h.Host.Label
			}
			if h.Host == nil {
				continue
			}
			if h.Place == result.DUTNIC && !h.PortAlone {
				if err := b.addHost(h.Host); err != nil {
					return err
				}
			}
			if h.Host.Root != nil && h.Port.Name == "" {
				continue
			}
			dir := direction(i % 2)
			port, at, err := b.addPort(h)
			if err != nil {
				return fmt.Errorf("port %s: %w", h.Port.Name, err)
			}
			var far *Hop
			if dir == sends && i+1 < len(p.Hops) {
				far = &p.Hops[i+1]
			}
			terms := portTerms(at, port.driver, dir, h, far)
			for k := range terms {
				terms[k].always = terms[k].always && (terms[k].passed || i == len(p.Hops)-1)
			}
			b.terms = append(b.terms, terms...)
			port.egress = port.egress || dir == sends && h.Place == result.DUTNIC
			if dir == receives && port.driver.buffers && port.root == nil {
				link, err := port.sockets.route.LinkByIndex(port.index)
				if err != nil {
					return fmt.Errorf("port %s: %w", h.Port.Name, err)
				}
				has, err := port.sockets.buffered(link)
				if err != nil {
					return err
				}
				if !has {
					backlogs[h.Port.Netns] = true
				}
			}
		}
	}
	for i, h := range b.hosts {
		b.terms = append(b.terms, stackTerms(i, h.local.Label, h.sharing, backlogs[h.local.Netns], len(backlogs) > 0)...)
		if h.sharing == shared {
			b.countDeliveries(h)
		}
	}
	b.terms = once(b.terms)
	for _, t := range b.terms {
		if t.scope == ofPort {
			p := b.ports[t.at]
			p.want[t.counter] = true
		}
	}
	for _, p := range b.ports {
		p.ethtool = driverCounters(p.want)
	}
	return nil
}

func (b *Book) addHost(l *host.Local) error {
	same := func(h *stackOf) bool {
		return h.local == l || h.local.Root == nil && l.Root == nil && h.local.Netns == l.Netns
	}
	if slices.ContainsFunc(b.hosts, same) {
		return nil
	}
	h := &stackOf{local: l, sharing: unshared}
	b.hosts = append(b.hosts, h)
	if l.Root != nil {
		return nil
	}
	if l.Netns == "" {
		h.sharing = shared
	}
	var err error
	if h.sockets, err = b.socketsOf(l.Netns); err != nil {
		return err
	}
	if !b.bare {
		h.witness = openWitness(l.Netns)
	}
	return nil
}

// countDeliveries counts by port what a machine delivers to itself.
func (b *Book) countDeliveries(h *stackOf) {
	var ports []int
	for _, p := range b.ports {
		if p.port.Netns == h.local.Netns && p.root == nil {
			ports = append(ports, p.index)
		}
	}
	var err error
	if h.deliveries, err = countDeliveries(h.local.Netns, h.sockets.route, ports); err != nil {
		h.undivided = "packets of other ports are among them, and none are counted by port: " + err.Error()
	}
}

func (b *Book) addPort(h Hop) (*portOf, int, error) {
	for i, p := range b.ports {
		if p.port.Netns == h.Port.Netns && p.port.Name == h.Port.Name {
			return p, i, nil
		}
	}
	if root := h.Host.Root; root != nil {
		name, err := recordedDriver(root, h.Port.Name)
		if err != nil {
			return nil, 0, err
		}
		p := &portOf{port: h.Port, driver: driverOf(name), label: h.Host.Label, root: root, want: map[string]bool{}}
		b.ports = append(b.ports, p)
		return p, len(b.ports) - 1, nil
	}
	s, err := b.socketsOf(h.Port.Netns)
	if err != nil {
		return nil, 0, err
	}
	link, err := s.route.LinkByName(h.Port.Name)
	if err != nil {
		return nil, 0, err
	}
	d, err := s.ethtool.Driver(h.Port.Name)
	if err != nil {
		d.Name = link.Type() // a port without ethtool
	}
	p := &portOf{port: h.Port, index: link.Attrs().Index, sockets: s, driver: driverOf(d.Name), label: h.Host.Label, want: map[string]bool{}}
	b.ports = append(b.ports, p)
	return p, len(b.ports) - 1, nil
}

func (b *Book) socketsOf(netns string) (*sockets, error) {
	if s := b.sockets[netns]; s != nil {
		return s, nil
	}
	s, err := openSockets(netns)
	if err != nil {
		return nil, err
	}
	b.sockets[netns] = s
	return s, nil
}

// Balance waits until the counters stand still (two equal reads 20 ms apart, after
// Settle, at most 2 s; at most 30 s while frames in the DUT wait for somebody's
// address), then asks for the ends and makes the account: a meter read earlier
// would miss what was still under way. While frames are missing it goes on
// reading, and asking for the ends, up to those 2 s. Counters that do not come to
// rest make an account that is not Settled, not an error. A link that was lost since Begin
// is ErrLink.
func (b *Book) Balance(ctx context.Context, ends func(context.Context) (Ends, error)) (result.Account, error) {
	for start := time.Now(); ; {
		a, err := b.balance(ctx, ends)
		if err != nil {
			return result.Account{}, fmt.Errorf("balance the account: %w", err)
		}
		// Counters stand still, too, while the CPU that works off a ring is held
		// up: what is missing may be under way yet.
		if a.Unexplained <= 0 || !a.Settled || b.Virtual || time.Since(start) > settleMost {
			return a, nil
		}
		if err := host.Pause(ctx, readGap); err != nil {
			return result.Account{}, fmt.Errorf("balance the account: %w", err)
		}
	}
}

func (b *Book) balance(ctx context.Context, ends func(context.Context) (Ends, error)) (result.Account, error) {
	after, settled, err := b.settle(ctx)
	if err == nil {
		err = held(b.before.links(), after.links())
	}
	if err != nil {
		return result.Account{}, err
	}
	e, err := ends(ctx)
	if err != nil {
		return result.Account{}, fmt.Errorf("read tester and meter: %w", err)
	}
	a := b.account(after, e)
	a.Settled = settled
	return a, nil
}

// Close lets go of what the book holds.
func (b *Book) Close() {
	for _, h := range b.hosts {
		if h.witness != nil {
			h.witness.close()
		}
		if h.deliveries != nil {
			h.deliveries.close()
		}
	}
	for _, s := range b.sockets {
		s.close()
	}
	for _, r := range b.remotes {
		r.Close()
	}
	b.hosts, b.sockets, b.remotes = nil, nil, nil
}
