// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"unsafe"

	"boxdyno/engine"
	"boxdyno/engine/internal/bpf"
	"boxdyno/engine/xdp"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Ends are both ends of a new-connection load, or one of them, on their
// ports. A trial goes
//
//	Begin -> Open (paced SYNs) -> [hold -> Finish (paced FINs)] -> Read
//
// Not safe for concurrent use, but for Read.
type Ends struct {
	spec    Spec
	ends    *ebpf.Collection
	links   []link.Link
	tx      *xdp.Transmitter // nil without a client
	senders map[senderKind]*xdp.Program
	memory  []byte // of the map conns
	conns   []connEntry
	first   uint32 // number of the trial's first connection
	setup   connSetup
	opened  uint64 // SYNs of the trial
	fins    uint64
	begin   unit.Instant
	lastSYN unit.Instant
}

// A senderKind is a sender: of SYNs or of FINs.
type senderKind struct {
	xdp.Pace
	closing bool
}

// Open attaches the ends to their ports, in whose namespace others'
// frames go on to the stack. It needs Linux 5.18, native XDP with XDP_TX on both
// ports and live frames on the client's: host.ErrNotSupported (wrapped) where
// there is none.
func Open(ctx context.Context, s Spec) (_ *Ends, err error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("open connections: %w", err)
	}
	_ = rlimit.RemoveMemlock() // kernels before 5.11 account BPF memory there
	c := &Ends{spec: s, senders: map[senderKind]*xdp.Program{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.load(); err != nil {
		return nil, err
	}
	if s.Client.Name != "" {
		t, err := (&xdp.Backend{}).OpenTransmitter(ctx, []host.Port{s.Client}, s.CPU)
		if err != nil {
			return nil, err
		}
		c.tx = t.(*xdp.Transmitter)
	}
	if err := c.find(); err != nil {
		return nil, err
	}
	c.setup = c.spec.setup(0, c.index(), false)
	if err := errors.Join(
		configure(c.ends, &c.setup, s),
		c.attach(s.Client, connProgClient),
		c.attach(s.Server, connProgServer),
	); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Ends) index() int {
	if c.tx == nil {
		return 0
	}
	return c.tx.Indexes[0]
}

// find sees whether a port is a veth whose far end may have no XDP program.
func (c *Ends) find() error {
	for _, p := range []host.Port{c.spec.Client, c.spec.Server} {
		if !c.spec.Bare || p.Name == "" {
			continue
		}
		err := netns.Do(p.Netns, func() error {
			l, err := netlink.LinkByName(p.Name)
			if err == nil {
				c.spec.redirects = c.spec.redirects || l.Type() == "veth"
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("open connections on %s: %w", p.Name, err)
		}
	}
	return nil
}

// load loads the programs of the ends and maps the connections into memory.
func (c *Ends) load() error {
	spec, err := loadConn()
	if err != nil {
		return fmt.Errorf("read the connections' programs: %w", err)
	}
	delete(spec.Programs, connProgOpening)
	delete(spec.Programs, connProgClosing)
	spec.Maps[connMapConns].MaxEntries = uint32(c.spec.Most)
	if c.ends, err = bpf.Load(spec, nil); err != nil {
		return bpf.Refused("load the connections' ends", err)
	}
	page := os.Getpagesize()
	length := (int(unsafe.Sizeof(connEntry{}))*c.spec.Most + page - 1) &^ (page - 1)
	c.memory, err = unix.Mmap(c.ends.Maps[connMapConns].FD(), 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %d connections into memory: %w", c.spec.Most, err)
	}
	c.conns = unsafe.Slice((*connEntry)(unsafe.Pointer(&c.memory[0])), c.spec.Most)
	return nil
}

// configure writes what a trial is into a collection.
func configure(coll *ebpf.Collection, setup *connSetup, s Spec) error {
	var request [maxRequest]byte
	var first, more [maxSegment]byte
	copy(request[:], s.request())
	copy(first[:], s.octets(0, min(s.segment(), s.Response())))
	copy(more[:], s.octets(s.segment(), s.segment()))
	err := errors.Join(
		coll.Variables[connVarCfg].Set(setup),
		coll.Variables[connVarRequest].Set(&request),
		coll.Variables[connVarResponseFirst].Set(&first),
		coll.Variables[connVarResponseMore].Set(&more),
	)
	if err != nil {
		return fmt.Errorf("set up connections: %w", err)
	}
	return nil
}

func (c *Ends) attach(p host.Port, prog string) error {
	if p.Name == "" {
		return nil
	}
	return netns.Do(p.Netns, func() error {
		iface, err := net.InterfaceByName(p.Name)
		if err != nil {
			return fmt.Errorf("open connections on %s: %w", p.Name, err)
		}
		l, err := bpf.Attach(p.Name, iface.Index, c.ends.Programs[prog], link.XDPDriverMode)
		if err == nil {
			c.links = append(c.links, l)
		}
		return err
	})
}

// Begin forgets the last trial. The next one's connections have other numbers
// than those before, as long as there are, so that no address and port comes back
// while the box or a server may remember it. With hold, they stay open until
// Finish.
func (c *Ends) Begin(hold bool) error {
	c.first = uint32((uint64(c.first) + c.opened) % c.spec.Numbers())
	clear(c.conns[:min(c.opened, uint64(len(c.conns)))])
	c.opened, c.fins, c.begin, c.lastSYN = 0, 0, 0, 0
	c.setup = c.spec.setup(c.first, c.index(), hold)
	cpus, err := ebpf.PossibleCPU()
	if err == nil {
		err = errors.Join(
			c.ends.Maps[connMapClientStats].Put(uint32(0), make([]connClientCounts, cpus)),
			c.ends.Maps[connMapServerStats].Put(uint32(0), make([]connServerCounts, cpus)),
			c.ends.Variables[connVarCfg].Set(&c.setup),
		)
	}
	if err != nil {
		return fmt.Errorf("begin a trial of connections: %w", err)
	}
	return nil
}

// Open offers connections by l: Rate is SYNs a second (0: flat out), each leaving
// when it is due. It returns when the last one has left, or ctx has ended.
func (c *Ends) Open(ctx context.Context, l engine.Load) (engine.TxReport, error) {
	most := uint64(c.spec.Most)
	if l.Count == 0 || l.Count > most {
		l.Count = most
	}
	r, first, last, err := c.send(ctx, l, false)
	c.opened, c.begin, c.lastSYN = r.Accepted+r.Refused, first, last
	return r, err
}

// Finish has the client close what it holds open, in the order of opening and at
// a rate of FINs a second (0: flat out).
func (c *Ends) Finish(ctx context.Context, rate unit.FrameRate) (engine.TxReport, error) {
	if c.opened == 0 {
		return engine.TxReport{}, nil
	}
	r, _, _, err := c.send(ctx, engine.Load{Rate: rate, Count: c.opened}, true)
	c.fins = r.Accepted + r.Refused
	return r, err
}

func (c *Ends) send(ctx context.Context, l engine.Load, closing bool) (r engine.TxReport, first, last unit.Instant, err error) {
	if c.tx == nil {
		return r, 0, 0, errors.New("offer connections: there is no client's port")
	}
	l.Alone = true
	stream := engine.Stream{ID: 1}
	if err := l.Check(stream); err != nil {
		return r, 0, 0, fmt.Errorf("offer connections: %w", err)
	}
	sc, err := xdp.NewSchedule(l, 1, stream.ID, 64, 0)
	if err != nil {
		return r, 0, 0, err
	}
	p, err := c.sender(senderKind{sc.Pace, closing})
	if err != nil {
		return r, 0, 0, err
	}
	vars := p.Coll.Variables
	err = errors.Join(vars[connVarCfg].Set(&c.setup), vars[connVarIssued].Set(uint64(0)), vars[connVarSkipped].Set(uint64(0)),
		vars[connVarSenderFirst].Set(uint64(0)), vars[connVarSenderLast].Set(uint64(0)))
	if err != nil {
		return r, 0, 0, fmt.Errorf("set up the sender of connections: %w", err)
	}
	err = c.tx.Run(ctx, p, sc, xdp.Run{Longest: unit.MinFrame.Buffer(), Most: sc.Expected(l, l.Frames(stream))})
	var issued, skipped, at, end uint64
	refusals, rerr := c.tx.Refusals.Read()
	rerr = errors.Join(rerr, vars[connVarIssued].Get(&issued), vars[connVarSkipped].Get(&skipped),
		vars[connVarSenderFirst].Get(&at), vars[connVarSenderLast].Get(&end))
	if rerr != nil {
		return r, 0, 0, errors.Join(err, fmt.Errorf("read the sender's counts: %w", rerr))
	}
	issued = min(issued, uint64(len(c.conns))) - skipped
	if closing {
		l.Count -= skipped
	}
	first, last = unit.Instant(at), unit.Instant(end)
	r, rerr = sc.Report(p, l, stream, 0, 1, xdp.Sent{
		Issued: issued, Refused: refusals[0], Octets: issued * uint64(unit.MinFrame), First: first, Last: last,
	})
	err = cmp.Or(err, rerr)
	if err == nil {
		err = cmp.Or(c.tx.Gone([]engine.TxReport{r}), ctx.Err())
	}
	return r, first, last, err
}

// sender loads each kind once.
func (c *Ends) sender(k senderKind) (*xdp.Program, error) {
	if p := c.senders[k]; p != nil {
		return p, nil
	}
	spec, err := loadConn()
	if err != nil {
		return nil, fmt.Errorf("read the connections' programs: %w", err)
	}
	prog, other := connProgOpening, connProgClosing
	if k.closing {
		prog, other = other, prog
	}
	for _, name := range []string{other, connProgClient, connProgServer} {
		delete(spec.Programs, name)
	}
	delete(spec.Maps, connMapClientStats)
	delete(spec.Maps, connMapServerStats)
	if err := k.Specialize(spec); err != nil {
		return nil, err
	}
	conns := c.ends.Maps[connMapConns]
	spec.Maps[connMapConns].MaxEntries = conns.MaxEntries()
	p, err := xdp.LoadProgram(spec, prog, map[string]*ebpf.Map{connMapConns: conns})
	if err != nil {
		return nil, err
	}
	if err := configure(p.Coll, &c.setup, c.spec); err != nil {
		p.Coll.Close()
		return nil, err
	}
	c.senders[k] = p
	return p, nil
}

// Close detaches the ends.
func (c *Ends) Close() error {
	var errs []error
	for _, l := range c.links {
		errs = append(errs, l.Close())
	}
	if c.tx != nil {
		errs = append(errs, c.tx.Close())
	}
	for _, p := range c.senders {
		p.Coll.Close()
	}
	if c.memory != nil {
		errs = append(errs, unix.Munmap(c.memory))
	}
	if c.ends != nil {
		c.ends.Close()
	}
	return errors.Join(errs...)
}
