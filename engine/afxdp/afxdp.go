// SPDX-License-Identifier: Apache-2.0

// Package afxdp sends and meters with AF_XDP rings. It sends as package packet does, up to
// the flush.
//
//	send     packet.Sender -> Queue -> flush: UMEM, ring TX -> driver; ring completion -> memory
//	meter    driver -> bpf/redirect.c -> ring RX -> a thread a queue: tally -> ring fill
package afxdp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/ports"
	"boxdyno/engine/packet"
	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/internal/xsk"

	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// A Backend has one AF_XDP socket a queue, which a meter and a transmitter of
// the port share with rings of their own. It works on every Ethernet port whose driver
// runs XDP programs. It needs Linux 5.9, CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and
// CAP_IPC_LOCK for more memory than RLIMIT_MEMLOCK.
type Backend struct {
	busy  time.Duration // busy polling; 0: none
	modes []bool        // zero-copy? in the order in which they are tried

	// The kernel's part; tests have others.
	open   func(xsk.Config) (*xsk.Socket, error)
	attach func(port string, index, queues int, kernel bool) (*redirect, error)

	mu    sync.Mutex
	ports map[host.Port]*openPort
	name  string // of what was opened last
}

// New finds out by binding how the memory gets to each port: zero-copy, or a copy.
func New() engine.Backend { return newBackend(0, true, false) }

// NewCopy has the kernel copy frames.
func NewCopy() engine.Backend { return newBackend(0, false) }

// NewZeroCopy has the port read and write the rings' memory.
func NewZeroCopy() engine.Backend { return newBackend(0, true) }

// NewBusyPoll is NewZeroCopy without interrupts: sender and meter work the queues.
func NewBusyPoll() engine.Backend { return newBackend(20*time.Microsecond, true) }

func newBackend(busy time.Duration, modes ...bool) *Backend {
	return &Backend{busy: busy, modes: modes, open: xsk.Open, attach: attachRedirect, ports: map[host.Port]*openPort{}}
}

// Name has the mode once a port was opened; where ports differ, the last one's.
func (b *Backend) Name() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.name == "" {
		return "afxdp"
	}
	return "afxdp/" + b.name
}

// Probe opens a meter and a transmitter on each port and sends one frame of the
// local experimental Ethernet type.
func (b *Backend) Probe(ctx context.Context, ports ...host.Port) error {
	_ = rlimit.RemoveMemlock() // kernels before 5.11 account BPF memory there
	for _, p := range ports {
		m, err := b.OpenMeter(ctx, p)
		if err != nil {
			return err
		}
		defer m.Close()
	}
	for _, p := range ports {
		if err := b.probe(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) probe(ctx context.Context, p host.Port) error {
	t, err := b.OpenTransmitter(ctx, []host.Port{p}, -1)
	if err != nil {
		return err
	}
	defer t.Close()
	buf := make([]byte, 60)
	copy(buf, []byte{2, 0, 0, 0, 0, 0xbd, 2, 0, 0, 0, 0, 0xbd, 0x88, 0xb5})
	return t.(*Transmitter).probe(buf)
}

// refused sorts the answers of AF_XDP.
func refused(what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s: %w", what, host.Privilege("use AF_XDP sockets"))
	case errors.Is(err, unix.ENOBUFS):
		return fmt.Errorf("%s: the memory for frames is more than this process may lock; give it cap_ipc_lock or a higher limit (ulimit -l), or use backend packet: %w", what, err)
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: another program has an AF_XDP socket there; end it, or give the port more queues (ethtool -L): %w", what, err)
	case errors.Is(err, unix.ENETDOWN):
		return fmt.Errorf("%s: the port is down: %w", what, err)
	case errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%s: the port is gone: %w", what, err)
	case slices.ContainsFunc([]error{unix.EAFNOSUPPORT, unix.ESOCKTNOSUPPORT, unix.EPROTONOSUPPORT, unix.ENOPROTOOPT, unix.EOPNOTSUPP, unix.EINVAL},
		func(no error) bool { return errors.Is(err, no) }):
		return fmt.Errorf("%s: %w (%v)", what, host.ErrNotSupported, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// A port's memory for frames is 64 MiB at most, beyond 32 queues 1.5 MiB a queue.
const (
	// mostSends is a queue's frames under way to the port at most, and so is
	// sendChunks its memory; long frames may need it all earlier.
	mostSends  = 2048
	sendChunks = 1024 // chunks
	// mostReceives is the frames that a queue may receive while its meter does
	// not run.
	mostReceives = 4096
	// Over all queues there are allChunks chunks to send from and as many to
	// receive into, if that leaves each queue its least.
	allChunks    = 8192
	leastSend    = 128
	leastReceive = 256
)

// part is how many of most a queue has, a power of two, too.
func part(most, least, queues int) int {
	for most > least && most*queues > allChunks {
		most /= 2
	}
	return most
}

// An openPort is a port's sockets.
type openPort struct {
	port      host.Port
	index     int
	mtu       int
	queues    []*queueSocket // nil where not open
	sending   int            // queues that frames can be sent by: the first ones
	receiving int            // those that frames come by: the first ones, too
	redirect  *redirect      // nil: not needed
	mode      string         // of the queue that was opened last
}

// name is the mode, with who runs the redirecting program if not the driver.
func (p *openPort) name() string {
	if p.redirect != nil && p.redirect.generic {
		return p.mode + "+generic"
	}
	return p.mode
}

// A queueSocket is a queue's socket and who uses it.
type queueSocket struct {
	*xsk.Socket
	zeroCopy bool
	meter    bool
	sender   bool
	sending  atomic.Bool // a Transmit is under way
	memory   *sendMemory
}

// queue opens the socket of queue n of p, or shares it. Called in the port's
// namespace with b.mu held.
func (b *Backend) queue(p *openPort, n int) (*queueSocket, error) {
	if q := p.queues[n]; q != nil {
		return q, nil
	}
	c := xsk.Config{
		Index: p.index, Queue: n, Sends: mostSends, SendBuffer: packet.SendBuffer, BusyPoll: b.busy,
		Receive: part(mostReceives, leastReceive, p.receiving), Send: part(sendChunks, leastSend, len(p.queues)),
	}
	what := fmt.Sprintf("AF_XDP on %s", p.port.Name)
	var no error
	for _, c.ZeroCopy = range b.modes {
		s, err := b.open(c)
		if err != nil {
			if no = refused(what, err); !errors.Is(no, host.ErrNotSupported) {
				break
			}
			continue
		}
		if c.ZeroCopy {
			// Drivers set their zero-copy queues up with an XDP program only.
			if err := b.redirect(p, false); err != nil {
				no = errors.Join(fmt.Errorf("%s: zero-copy: %w", what, err), s.Close())
				continue
			}
		}
		p.queues[n] = &queueSocket{Socket: s, zeroCopy: c.ZeroCopy, memory: newSendMemory(c.Receive, c.Send)}
		p.mode = mode(c)
		return p.queues[n], nil
	}
	return nil, no
}

// redirect attaches the redirecting program, unless it is: to the driver, or else,
// where it may be, to the kernel.
func (b *Backend) redirect(p *openPort, kernel bool) (err error) {
	switch {
	case p.redirect == nil:
		p.redirect, err = b.attach(p.port.Name, p.index, len(p.queues), kernel)
	case p.redirect.generic && !kernel:
		err = fmt.Errorf("the driver of %s runs no XDP program: %w", p.port.Name, host.ErrNotSupported)
	}
	return err
}

func mode(c xsk.Config) string {
	name := "copy"
	if c.ZeroCopy {
		name = "zero-copy"
	}
	if c.BusyPoll > 0 {
		name += "+busy-poll"
	}
	return name
}

// enter calls f in p's namespace with what is open of p.
func (b *Backend) enter(p host.Port, f func(*openPort) error) error {
	return netns.Do(p.Netns, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		open := b.ports[p]
		if open == nil {
			index, mtu, err := ports.Ethernet(p)
			if err != nil {
				return err
			}
			sending, receiving := queues(p)
			open = &openPort{
				port: p, index: index, mtu: mtu, sending: sending, receiving: receiving, queues: make([]*queueSocket, max(sending, receiving)),
			}
			b.ports[p] = open
		}
		err := f(open)
		if err == nil {
			b.name = open.name()
		}
		return errors.Join(err, b.sweep(open))
	})
}

// sweep closes what nobody uses.
func (b *Backend) sweep(p *openPort) (err error) {
	redirected, used := false, false
	for i, q := range p.queues {
		if q == nil {
			continue
		}
		if !q.meter && !q.sender {
			err = errors.Join(err, q.Close())
			p.queues[i] = nil
			continue
		}
		redirected, used = redirected || q.meter || q.zeroCopy, true
	}
	if !redirected && p.redirect != nil {
		err = errors.Join(err, p.redirect.Close())
		p.redirect = nil
	}
	if !used {
		delete(b.ports, p.port)
	}
	return err
}

// SendQueues implements engine.Limited.
func (b *Backend) SendQueues(p host.Port) (n int, err error) {
	err = netns.Do(p.Netns, func() error { n, _ = queues(p); return nil })
	return n, err
}

// queues is by how many queues p sends and receives; 1 where it does not say.
func queues(p host.Port) (sending, receiving int) {
	e, err := ethtool.Open()
	if err != nil {
		return 1, 1
	}
	defer e.Close()
	c, err := e.Channels(p.Name)
	if err != nil {
		return 1, 1
	}
	return int(max(1, c.CombinedCount+c.TxCount)), int(max(1, c.CombinedCount+c.RxCount))
}
