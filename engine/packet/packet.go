// SPDX-License-Identifier: Apache-2.0

// Package packet sends with sendmmsg(2) past the queueing discipline, and meters with a
// TPACKET_V3 ring. Its sender serves package afxdp too, with an Outlet in place of the socket:
//
//	round: schedule -> frame -> Queue; flush: Queue -> sendmmsg, or Outlet
package packet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"boxdyno/engine"
	"boxdyno/engine/internal/ports"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"golang.org/x/sys/unix"
)

// A Backend has AF_PACKET sockets. sendmmsg(2) past the queueing
// discipline sends, a TPACKET_V3 ring meters. It works on every Ethernet port
// and needs CAP_NET_RAW, and CAP_SYS_ADMIN to enter a namespace.
type Backend struct{}

// New makes the backend.
func New() engine.Backend { return Backend{} }

func (Backend) Name() string { return "packet" }

// Probe opens a ring on each port and sends one frame of the local experimental
// Ethernet type out of it.
func (b Backend) Probe(ctx context.Context, ports ...host.Port) error {
	for _, p := range ports {
		if err := b.probe(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (b Backend) probe(ctx context.Context, p host.Port) error {
	m, err := b.OpenMeter(ctx, p)
	if err != nil {
		return err
	}
	defer m.Close()
	var l *Lane
	if err := netns.Do(p.Netns, func() (err error) {
		l, err = openLane(p)
		return err
	}); err != nil {
		return err
	}
	defer l.close()
	buf := make([]byte, 60)
	copy(buf, []byte{2, 0, 0, 0, 0, 0xbd, 2, 0, 0, 0, 0, 0xbd, 0x88, 0xb5})
	if _, err := unix.Write(l.FD, buf); err != nil && err != unix.ENOBUFS { // a drop is an answer too
		return refused("send a frame from "+p.Name, err)
	}
	return nil
}

// refused sorts the answers of AF_PACKET: EPERM is a missing privilege, an
// option or family that the kernel does not know is its no, others are not known.
func refused(what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s: %w", what, host.Privilege("use packet sockets"))
	case slices.ContainsFunc([]error{unix.EAFNOSUPPORT, unix.ESOCKTNOSUPPORT, unix.EPROTONOSUPPORT, unix.ENOPROTOOPT, unix.EOPNOTSUPP, unix.EINVAL},
		func(no error) bool { return errors.Is(err, no) }):
		return fmt.Errorf("%s: %w (%v)", what, host.ErrNotSupported, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// A Lane is a port to send from. Frames go past its queueing discipline.
type Lane struct {
	Port host.Port
	FD   int
	MTU  int
	Out  Outlet // nil: fd
}

// An Outlet sends a lane's frames in place of its socket.
type Outlet interface {
	// Flush sends the queue's frames and empties it, as Sender.Flush does.
	Flush(s *Sender, q *Queue) error
	// Finish comes after the last flush, when the sender's thread has ended.
	Finish(q *Queue) error
}

// SendBuffer is what a lane may have under way: more than any port's ring, so
// that it is the port that says no.
const SendBuffer = 8 << 20

// openLane is called in the port's namespace.
func openLane(p host.Port) (_ *Lane, err error) {
	index, mtu, err := ports.Ethernet(p)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // protocol 0 receives nothing
	if err != nil {
		return nil, refused("open a packet socket on "+p.Name, err)
	}
	l := &Lane{Port: p, FD: fd, MTU: mtu}
	err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
	if err == nil && unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, SendBuffer) != nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, SendBuffer) // the kernel's limit is then the most
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: index})
	}
	if err != nil {
		l.close()
		return nil, refused("set up a packet socket on "+p.Name, err)
	}
	return l, nil
}

func (l *Lane) close() error { return unix.Close(l.FD) }

// dropped is the port's tx_dropped: its driver's drops, among them those of a
// veth whose peer's ring is full. A tap's are refusals, and 0.
func (l *Lane) dropped() (n uint64, err error) {
	err = netns.Do(l.Port.Netns, func() error {
		s, err := ports.Stats(l.Port.Name)
		if err != nil {
			return fmt.Errorf("read the counters of %s: %w", l.Port.Name, err)
		}
		if !ports.IsTap(l.Port.Name) {
			n = s.TxDropped
		}
		return nil
	})
	return n, err
}

// Ethernet's header and an 802.1Q tag, which the MTU does not count.
const etherHeader, etherTag = 14, 4

// fits refuses a frame that the port would answer with EMSGSIZE, of octets
// without FCS, tag of them its tag's.
func (l *Lane) fits(octets, tag int) error {
	if most := l.MTU + etherHeader + tag; octets > most {
		return fmt.Errorf("frames of %d octets with FCS are too long for port %s (its MTU of %d takes %d): omit or cut them, or raise the MTU",
			octets+unit.FCS, l.Port.Name, l.MTU, most+unit.FCS)
	}
	return nil
}

// fitsAll is fits for what a source filled.
func (l *Lane) fitsAll(w *frame.Window) error {
	for i := range w.Len() {
		b := w.Frame(i)
		if len(b) < etherHeader {
			return fmt.Errorf("a frame of %d octets is shorter than its Ethernet header", len(b))
		}
		if len(b) > l.MTU+etherHeader {
			tag := 0
			if binary.BigEndian.Uint16(b[12:]) == unix.ETH_P_8021Q {
				tag = etherTag
			}
			if err := l.fits(len(b), tag); err != nil {
				return err
			}
		}
	}
	return nil
}

// A Queue is a lane's frames for one system call.
type Queue struct {
	*Lane
	Len     int
	msgs    []mmsghdr
	Iovs    []unix.Iovec
	Streams []*Stream      // whose frame it is
	room    [1]unix.PollFd // to wait for
	Failed  uint64
	Batch   int // most frames that left in one flush
}

// mmsghdr is the kernel's struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

func newQueue(l *Lane, n int) Queue {
	q := Queue{Lane: l, msgs: make([]mmsghdr, n), Iovs: make([]unix.Iovec, n), Streams: make([]*Stream, n)}
	q.room[0] = unix.PollFd{Fd: int32(l.FD), Events: unix.POLLOUT}
	for i := range n {
		q.msgs[i].hdr.Iov = &q.Iovs[i]
		q.msgs[i].hdr.SetIovlen(1)
	}
	return q
}
