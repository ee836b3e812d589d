// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"github.com/vishvananda/netlink"
)

// The packet backend: AF_PACKET sockets. sendmmsg(2) past the queueing
// discipline sends, a TPACKET_V3 ring meters. It works on every Ethernet port
// and needs CAP_NET_RAW, and CAP_SYS_ADMIN to enter a namespace.
type packet struct{}

func newPacket() Backend { return packet{} }

func (packet) Name() string { return "packet" }

// Probe opens a ring on each port and sends one frame of the local experimental
// Ethernet type out of it.
func (b packet) Probe(ctx context.Context, ports ...host.Port) error {
	for _, p := range ports {
		if err := b.probe(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (b packet) probe(ctx context.Context, p host.Port) error {
	m, err := b.OpenMeter(ctx, p)
	if err != nil {
		return err
	}
	defer m.Close()
	var l *packetLane
	if err := netns.Do(p.Netns, func() (err error) {
		l, err = openLane(p)
		return err
	}); err != nil {
		return err
	}
	defer l.close()
	buf := make([]byte, 60)
	copy(buf, []byte{2, 0, 0, 0, 0, 0xbd, 2, 0, 0, 0, 0, 0xbd, 0x88, 0xb5})
	if _, err := unix.Write(l.fd, buf); err != nil && err != unix.ENOBUFS { // a drop is an answer too
		return packetError("send a frame from "+p.Name, err)
	}
	return nil
}

// packetError sorts the answers of AF_PACKET: EPERM is a missing privilege, an
// option or family that the kernel does not know is its no, others are not known.
func packetError(what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s: %w", what, host.Privilege("use packet sockets"))
	case slices.ContainsFunc([]error{unix.EAFNOSUPPORT, unix.ESOCKTNOSUPPORT, unix.EPROTONOSUPPORT, unix.ENOPROTOOPT, unix.EOPNOTSUPP, unix.EINVAL},
		func(no error) bool { return errors.Is(err, no) }):
		return fmt.Errorf("%s: %w (%v)", what, host.ErrNotSupported, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// ethernet is p's index and MTU, seen from its namespace.
func ethernet(p host.Port) (index, mtu int, err error) {
	l, err := netlink.LinkByName(p.Name)
	if err != nil {
		return 0, 0, fmt.Errorf("find port %s: %w", p.Name, err)
	}
	a := l.Attrs()
	if a.EncapType != "ether" && a.EncapType != "loopback" {
		return 0, 0, fmt.Errorf("packet sockets on %s: its link type is %s, want Ethernet: %w", p.Name, a.EncapType, host.ErrNotSupported)
	}
	return a.Index, a.MTU, nil
}

// A packetLane is a port to send from. Frames go past its queueing discipline.
type packetLane struct {
	port host.Port
	fd   int
	mtu  int
	out  outlet // nil: fd
}

// An outlet sends a lane's frames in place of its socket.
type outlet interface {
	// flush sends the queue's frames and empties it, as packetSender.flush does.
	flush(s *packetSender, q *sendQueue) error
	// finish comes after the last flush, when the sender's thread has ended.
	finish(q *sendQueue) error
}

// sendBuffer is what a lane may have under way: more than any port's ring, so
// that it is the port that says no.
const sendBuffer = 8 << 20

// openLane is called in the port's namespace.
func openLane(p host.Port) (_ *packetLane, err error) {
	index, mtu, err := ethernet(p)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // protocol 0 receives nothing
	if err != nil {
		return nil, packetError("open a packet socket on "+p.Name, err)
	}
	l := &packetLane{port: p, fd: fd, mtu: mtu}
	err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
	if err == nil && unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer) != nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer) // the kernel's limit is then the most
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: index})
	}
	if err != nil {
		l.close()
		return nil, packetError("set up a packet socket on "+p.Name, err)
	}
	return l, nil
}

func (l *packetLane) close() error { return unix.Close(l.fd) }

// dropped is the port's tx_dropped: its driver's drops, among them those of a
// veth whose peer's ring is full. A tap's are refusals, and 0.
func (l *packetLane) dropped() (n uint64, err error) {
	err = netns.Do(l.port.Netns, func() error {
		s, err := linkStats(l.port.Name)
		if err != nil {
			return fmt.Errorf("read the counters of %s: %w", l.port.Name, err)
		}
		if !isTap(l.port.Name) {
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
func (l *packetLane) fits(octets, tag int) error {
	if most := l.mtu + etherHeader + tag; octets > most {
		return fmt.Errorf("frames of %d octets with FCS are too long for port %s (its MTU of %d takes %d): omit or cut them, or raise the MTU",
			octets+unit.FCS, l.port.Name, l.mtu, most+unit.FCS)
	}
	return nil
}

// fitsAll is fits for what a source filled.
func (l *packetLane) fitsAll(w *frame.Window) error {
	for i := range w.Len() {
		b := w.Frame(i)
		if len(b) < etherHeader {
			return fmt.Errorf("a frame of %d octets is shorter than its Ethernet header", len(b))
		}
		if len(b) > l.mtu+etherHeader {
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

// A sendQueue is a lane's frames for one system call.
type sendQueue struct {
	*packetLane
	n      int
	msgs   []mmsghdr
	iovs   []unix.Iovec
	stream []*packetStream // whose frame it is
	room   [1]unix.PollFd  // to wait for
	failed uint64
	batch  int // most frames that left in one flush
}

// mmsghdr is the kernel's struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

func newSendQueue(l *packetLane, n int) sendQueue {
	q := sendQueue{packetLane: l, msgs: make([]mmsghdr, n), iovs: make([]unix.Iovec, n), stream: make([]*packetStream, n)}
	q.room[0] = unix.PollFd{Fd: int32(l.fd), Events: unix.POLLOUT}
	for i := range n {
		q.msgs[i].hdr.Iov = &q.iovs[i]
		q.msgs[i].hdr.SetIovlen(1)
	}
	return q
}
