// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/internal/netns"
)

// Promiscuous has the port receive frames for other stations until lower is called, or this
// process ends. It needs CAP_NET_RAW (a *Missing otherwise).
func (p Port) Promiscuous() (lower func() error, err error) {
	fd := -1
	err = netns.Do(p.Netns, func() error {
		l, err := netlink.LinkByName(p.Name)
		if err != nil {
			return fmt.Errorf("find port %s: %w", p.Name, err)
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		err = unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(l.Attrs().Index), Type: unix.PACKET_MR_PROMISC})
		if err != nil {
			err = errors.Join(err, unix.Close(fd))
		}
		return err
	})
	if err != nil {
		return nil, Permit("make port "+p.Name+" promiscuous", err)
	}
	return func() error { return unix.Close(fd) }, nil
}

// Announce sends one frame of a station mac from the port, so that switches learn where that
// is. The frame is for nobody (IEEE 802, local experimental). It needs CAP_NET_RAW (a
// *Missing otherwise).
func (p Port) Announce(mac [6]byte) error {
	err := netns.Do(p.Netns, func() error {
		l, err := netlink.LinkByName(p.Name)
		if err != nil {
			return fmt.Errorf("find port %s: %w", p.Name, err)
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		frame := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac[:]...)
		frame = append(append(frame, 0x88, 0xb5), make([]byte, 46)...)
		err = unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index})
		return errors.Join(err, unix.Close(fd))
	})
	return Permit("announce a station at port "+p.Name, err)
}

// Cable says whether the port is an end of a veth.
func (p Port) Cable() bool {
	kind := ""
	_ = netns.Do(p.Netns, func() error {
		l, err := netlink.LinkByName(p.Name)
		if err == nil {
			kind = l.Type()
		}
		return err
	})
	return kind == "veth"
}
