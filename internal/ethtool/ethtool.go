// SPDX-License-Identifier: Apache-2.0

// Package ethtool asks a port's driver, and tells it, what ethtool(8) does, by ioctl
// (include/uapi/linux/ethtool.h), which every kernel has.
//
// It is our own because the memory that a question is about must stay where it is until
// the kernel has answered: a library that held its address as a number (safchain/ethtool
// up to v0.7.0) had the kernel write to where a goroutine's stack had been.
package ethtool

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Socket asks about the ports of one network namespace. It may be used by several
// goroutines at once. What is not supported is unix.EOPNOTSUPP or unix.EINVAL, by the
// driver; a port that is not there unix.ENODEV. Setting needs CAP_NET_ADMIN.
type Socket struct{ fd int }

// Open opens a socket in the namespace of the calling thread, where it stays.
func Open() (*Socket, error) {
	fd, err := OpenDescriptor()
	if err != nil {
		return nil, err
	}
	return &Socket{fd}, nil
}

// OpenDescriptor opens what a Socket asks by, for ioctls of one's own; the caller closes
// it.
func OpenDescriptor() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_GENERIC)
	}
	if err != nil {
		return -1, fmt.Errorf("open ethtool's socket: %w", err)
	}
	return fd, nil
}

// Close closes the socket.
func (s *Socket) Close() error { return unix.Close(s.fd) }

// ask has the kernel read and write what data points to, which begins with a command. Both
// structures hold pointers as such, so that the garbage collector sees them.
func (s *Socket) ask(port string, data unsafe.Pointer) error {
	req := &struct { // struct ifreq of net/if.h
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // the union has room for 24 octets on machines of 64 bit, and 16 on those of 32
	}{data: data}
	if len(port) >= len(req.name) {
		return unix.ENODEV
	}
	copy(req.name[:], port)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(req))); errno != 0 {
		return errno
	}
	return nil
}

// asked is what the kernel fills in for a command: T is its structure after the command.
func asked[T any](s *Socket, port string, command uint32) (T, error) {
	data := &struct {
		command uint32
		answer  T
	}{command: command}
	err := s.ask(port, unsafe.Pointer(data))
	return data.answer, err
}

// told gives the kernel a command with its structure.
func told[T any](s *Socket, port string, command uint32, what T) error {
	return s.ask(port, unsafe.Pointer(&struct {
		command uint32
		what    T
	}{command, what}))
}

// A Driver is who drives a port. What it does not tell is "".
type Driver struct{ Name, Version, Firmware, Bus string }

// Driver is the port's driver. A virtual port has no bus.
func (s *Socket) Driver(port string) (Driver, error) {
	i, err := unix.IoctlGetEthtoolDrvinfo(s.fd, port)
	if err != nil {
		return Driver{}, err
	}
	text := func(b [32]byte) string {
		if t := strings.TrimSpace(unix.ByteSliceToString(b[:])); t != "N/A" {
			return t
		}
		return ""
	}
	d := Driver{Name: text(i.Driver), Version: text(i.Version), Firmware: text(i.Fw_version), Bus: text(i.Bus_info)}
	if d.Name == "tun" { // it says "tap"
		d.Bus = ""
	}
	return d, nil
}

// A Link is what two ends have agreed on.
type Link struct {
	Speed  uint32 // Mbit/s; 0: not known
	Duplex string // "full", "half" or "": not known
}

// Link is the port's link, as its driver says: a virtual one's claim means nothing.
func (s *Socket) Link(port string) (l Link, err error) {
	c, err := asked[struct {
		_, _            uint32
		speed           uint16
		duplex, _, _, _ uint8
		_, _            uint8
		_, _            uint32
		speedHigh       uint16
		_, _            uint8
		_, _, _         uint32
	}](s, port, unix.ETHTOOL_GSET)
	if err != nil {
		return l, err
	}
	l.Speed = uint32(c.speedHigh)<<16 | uint32(c.speed)
	if l.Speed == 1<<32-1 || l.Speed == 1<<16-1 {
		l.Speed = 0
	}
	l.Duplex = map[uint8]string{0: "half", 1: "full"}[c.duplex]
	return l, nil
}

// PermanentAddress is the port's address as its maker gave it; nil where it has none, as a
// virtual one.
func (s *Socket) PermanentAddress(port string) (net.HardwareAddr, error) {
	const most = 32 // MAX_ADDR_LEN of linux/netdevice.h
	data := &struct {
		command, size uint32
		address       [most]byte
	}{command: unix.ETHTOOL_GPERMADDR, size: most}
	if err := s.ask(port, unsafe.Pointer(data)); err != nil {
		return nil, err
	}
	address := data.address[:min(data.size, most)]
	if strings.Trim(string(address), "\x00") == "" {
		return nil, nil
	}
	return net.HardwareAddr(address), nil
}
