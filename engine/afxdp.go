// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/internal/xsk"

	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// The afxdp backend: one AF_XDP socket a queue, which a meter and a transmitter of
// the port share with rings of their own. It works on every Ethernet port whose driver
// runs XDP programs. It needs Linux 5.9, CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and
// CAP_IPC_LOCK for more memory than RLIMIT_MEMLOCK.
type afxdp struct {
	busy  time.Duration // busy polling; 0: none
	modes []bool        // zero-copy? in the order in which they are tried

	// The kernel's part; tests have others.
	open   func(xsk.Config) (*xsk.Socket, error)
	attach func(port string, index, queues int, kernel bool) (*redirect, error)

	mu    sync.Mutex
	ports map[host.Port]*afxdpPort
	name  string // of what was opened last
}

// A mode says how the memory gets to the port. Which one a port has is found out
// by binding.
func newAFXDP() Backend         { return openAFXDP(0, true, false) }
func newAFXDPCopy() Backend     { return openAFXDP(0, false) }
func newAFXDPZeroCopy() Backend { return openAFXDP(0, true) }
func newAFXDPBusyPoll() Backend { return openAFXDP(20*time.Microsecond, true) }

func openAFXDP(busy time.Duration, modes ...bool) *afxdp {
	return &afxdp{busy: busy, modes: modes, open: xsk.Open, attach: attachRedirect, ports: map[host.Port]*afxdpPort{}}
}

// Name has the mode once a port was opened; where ports differ, the last one's.
func (b *afxdp) Name() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.name == "" {
		return "afxdp"
	}
	return "afxdp/" + b.name
}

// Probe opens a meter and a transmitter on each port and sends one frame of the
// local experimental Ethernet type.
func (b *afxdp) Probe(ctx context.Context, ports ...host.Port) error {
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

func (b *afxdp) probe(ctx context.Context, p host.Port) error {
	t, err := b.OpenTransmitter(ctx, []host.Port{p}, -1)
	if err != nil {
		return err
	}
	defer t.Close()
	buf := make([]byte, 60)
	copy(buf, []byte{2, 0, 0, 0, 0, 0xbd, 2, 0, 0, 0, 0, 0xbd, 0x88, 0xb5})
	return t.(*afxdpTransmitter).probe(buf)
}

// xskError sorts the answers of AF_XDP.
func xskError(what string, err error) error {
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
	// afxdpSends is a queue's frames under way to the port at most, and so is
	// afxdpSendMemory its memory; long frames may need it all earlier.
	afxdpSends      = 2048
	afxdpSendMemory = 1024 // chunks
	// afxdpReceives is the frames that a queue may receive while its meter does
	// not run.
	afxdpReceives = 4096
	// Over all queues there are afxdpMemory chunks to send from and as many to
	// receive into, if that leaves each queue its least.
	afxdpMemory       = 8192
	afxdpLeastSend    = 128
	afxdpLeastReceive = 256
)

// part is how many of most a queue has, a power of two, too.
func part(most, least, queues int) int {
	for most > least && most*queues > afxdpMemory {
		most /= 2
	}
	return most
}

// An afxdpPort is a port's sockets.
type afxdpPort struct {
	port      host.Port
	index     int
	mtu       int
	queues    []*afxdpQueue // nil where not open
	sending   int           // queues that frames can be sent by: the first ones
	receiving int           // those that frames come by: the first ones, too
	redirect  *redirect     // nil: not needed
	mode      string        // of the queue that was opened last
}

// name is the mode, with who runs the redirecting program if not the driver.
func (p *afxdpPort) name() string {
	if p.redirect != nil && p.redirect.generic {
		return p.mode + "+generic"
	}
	return p.mode
}

// An afxdpQueue is a queue's socket and who uses it.
type afxdpQueue struct {
	*xsk.Socket
	zeroCopy bool
	meter    bool
	sender   bool
	sending  atomic.Bool // a Transmit is under way
	memory   *sendMemory
}

// queue opens the socket of queue n of p, or shares it. Called in the port's
// namespace with b.mu held.
func (b *afxdp) queue(p *afxdpPort, n int) (*afxdpQueue, error) {
	if q := p.queues[n]; q != nil {
		return q, nil
	}
	c := xsk.Config{
		Index: p.index, Queue: n, Sends: afxdpSends, SendBuffer: sendBuffer, BusyPoll: b.busy,
		Receive: part(afxdpReceives, afxdpLeastReceive, p.receiving), Send: part(afxdpSendMemory, afxdpLeastSend, len(p.queues)),
	}
	what := fmt.Sprintf("AF_XDP on %s", p.port.Name)
	var no error
	for _, c.ZeroCopy = range b.modes {
		s, err := b.open(c)
		if err != nil {
			if no = xskError(what, err); !errors.Is(no, host.ErrNotSupported) {
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
		p.queues[n] = &afxdpQueue{Socket: s, zeroCopy: c.ZeroCopy, memory: newSendMemory(c.Receive, c.Send)}
		p.mode = mode(c)
		return p.queues[n], nil
	}
	return nil, no
}

// redirect attaches the redirecting program, unless it is: to the driver, or else,
// where it may be, to the kernel.
func (b *afxdp) redirect(p *afxdpPort, kernel bool) (err error) {
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
func (b *afxdp) enter(p host.Port, f func(*afxdpPort) error) error {
	return netns.Do(p.Netns, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		open := b.ports[p]
		if open == nil {
			index, mtu, err := ethernet(p)
			if err != nil {
				return err
			}
			sending, receiving := queues(p)
			open = &afxdpPort{
				port: p, index: index, mtu: mtu, sending: sending, receiving: receiving, queues: make([]*afxdpQueue, max(sending, receiving)),
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
func (b *afxdp) sweep(p *afxdpPort) (err error) {
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
