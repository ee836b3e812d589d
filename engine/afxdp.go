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
	"boxdyno/internal/netns"
	"boxdyno/internal/xsk"

	"github.com/cilium/ebpf/rlimit"
	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"
)

// The afxdp backend: AF_XDP sockets, one a queue, whose memory the port (or, in
// copy mode, the kernel) reads and writes. It works on every Ethernet port whose
// driver runs XDP programs, also where that is no redirect target, and needs
// CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, CAP_IPC_LOCK for more memory than
// RLIMIT_MEMLOCK, and Linux 5.9.
//
// A queue has one socket, which a meter and a transmitter of the same port share:
// they use rings of their own in it.
type afxdp struct {
	busy  time.Duration // busy polling; 0: none
	modes []bool        // zero-copy? in the order in which they are tried

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
	return &afxdp{busy: busy, modes: modes, ports: map[host.Port]*afxdpPort{}}
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

const (
	// afxdpSends is a queue's frames under way to the port at most, and so is
	// afxdpSendMemory its memory; long frames may need it all earlier.
	afxdpSends      = 2048
	afxdpSendMemory = 1024 // chunks
	// afxdpReceives is the frames that a port may receive while its meter does not
	// run, over all queues; a queue has at least 512.
	afxdpReceives = 8192
)

// An afxdpPort is a port's sockets.
type afxdpPort struct {
	port     host.Port
	index    int
	mtu      int
	queues   []*afxdpQueue // nil where not open
	sending  int           // queues that frames can be sent by: the first ones
	redirect *redirect     // nil: not needed
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
	receive := afxdpReceives
	for receive > 512 && receive*len(p.queues) > afxdpReceives || receive > 4096 {
		receive /= 2
	}
	c := xsk.Config{
		Index: p.index, Queue: n, Receive: receive, Send: afxdpSendMemory, Sends: afxdpSends,
		SendBuffer: sendBuffer, BusyPoll: b.busy,
	}
	what := fmt.Sprintf("AF_XDP on %s", p.port.Name)
	var errs error
	for _, c.ZeroCopy = range b.modes {
		s, err := xsk.Open(c)
		if err == nil {
			q := &afxdpQueue{Socket: s, zeroCopy: c.ZeroCopy, memory: newSendMemory(receive, afxdpSendMemory)}
			p.queues[n] = q
			b.name = mode(c)
			if c.ZeroCopy {
				// Drivers set their zero-copy queues up with an XDP program only.
				err = b.attach(p)
			}
			return q, err
		}
		errs = xskError(what, err)
		if !errors.Is(errs, host.ErrNotSupported) {
			break
		}
	}
	return nil, errs
}

// attach attaches the redirecting program, unless it is.
func (b *afxdp) attach(p *afxdpPort) (err error) {
	if p.redirect != nil {
		return nil
	}
	if p.redirect, err = attachRedirect(p.port.Name, p.index, len(p.queues)); err != nil {
		return err
	}
	if p.redirect.generic {
		b.name += "+generic"
	}
	return nil
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
			all, sending := queues(p)
			open = &afxdpPort{port: p, index: index, mtu: mtu, queues: make([]*afxdpQueue, all), sending: sending}
			b.ports[p] = open
		}
		err := f(open)
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

// queues is how many queues p has, and how many of them send; 1 where it does not
// say.
func queues(p host.Port) (all, sending int) {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return 1, 1
	}
	defer e.Close()
	c, err := e.GetChannels(p.Name)
	if err != nil {
		return 1, 1
	}
	return int(max(1, c.CombinedCount+max(c.RxCount, c.TxCount))), int(max(1, c.CombinedCount+c.TxCount))
}
