// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"boxdyno/internal/netns"
)

// Probes of what every privileged run needs. Each tries the thing itself and
// leaves nothing behind; nil is yes, a *Missing or ErrNotSupported is no, and any
// other error is "don't know".

// ProbeNamespace makes a network namespace.
func ProbeNamespace() error {
	ns, err := netns.New()
	if err != nil {
		return denied("make a network namespace", err)
	}
	return ns.Close()
}

// ProbeBPF loads the smallest XDP program.
func ProbeBPF() error {
	// r0 = XDP_PASS; exit
	insns := [2]uint64{0x00000002_000000b7, 0x95}
	license := [4]byte{'G', 'P', 'L'}
	attr := struct {
		progType, count    uint32
		insns, license     uint64
		logLevel, logSize  uint32
		logBuf             uint64
		kernVersion, flags uint32
		name               [16]byte
	}{progType: unix.BPF_PROG_TYPE_XDP, count: 2, insns: addr(&insns), license: addr(&license)}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	switch errno {
	case 0:
		return unix.Close(int(fd))
	case unix.ENOSYS, unix.EINVAL:
		return fmt.Errorf("load an XDP program: %w (%w)", ErrNotSupported, errno)
	}
	return denied("load a BPF program", errno)
}

func addr[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// ProbePacket opens a packet socket.
func ProbePacket() error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return fmt.Errorf("open a packet socket: %w", ErrNotSupported)
	}
	if err != nil {
		return denied("open a packet socket", err)
	}
	return unix.Close(fd)
}

// ProbeBTF looks for the kernel's own types, which name drop reasons.
func ProbeBTF() error {
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the kernel has no BTF: %w", ErrNotSupported)
	}
	return err
}

// denied makes "not permitted" a *Missing.
func denied(what string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return Privilege(what)
	}
	return fmt.Errorf("%s: %w", what, err)
}
