// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"

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
// veth whose peer's ring is full.
func (l *packetLane) dropped() (n uint64, err error) {
	err = netns.Do(l.port.Netns, func() error {
		s, err := linkStats(l.port.Name)
		if err != nil {
			return fmt.Errorf("read the counters of %s: %w", l.port.Name, err)
		}
		n = s.TxDropped
		return nil
	})
	return n, err
}

// fits refuses frames that the port would answer with EMSGSIZE.
func (l *packetLane) fits(b *frame.Builder) error {
	const header = 14 // Ethernet's, which the MTU does not count
	for i, v := range b.Variants {
		if v.Len > l.mtu+header {
			return fmt.Errorf("frame size %d is too long for port %s, whose MTU is %d", b.Spec.Sizes[i], l.port.Name, l.mtu)
		}
	}
	return nil
}
