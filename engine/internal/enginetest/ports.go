// SPDX-License-Identifier: Apache-2.0

// Package enginetest is what tests of several backends share: ports, frames, sources, meters.
package enginetest

import (
	"net"
	"testing"

	"boxdyno/engine/internal/bpf"
	"boxdyno/engine/internal/ports"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Quiet is Pair without the kernel's own IPv6 frames.
func Quiet(t testing.TB) (a, b host.Port) {
	t.Helper()
	return Wire(t, testutil.Cable{A: "a", B: "b", Silent: true})
}

// Inject writes whole frames out of a port, past its queueing discipline.
func Inject(t testing.TB, p host.Port, frames ...[]byte) {
	t.Helper()
	if err := netns.Do(p.Netns, func() error { return write(p.Name, frames) }); err != nil {
		t.Fatal(err)
	}
}

// FromCPU0 is Inject from one CPU, so that all frames arrive on that one: the XDP
// meters judge order on each.
func FromCPU0(t testing.TB, p host.Port, frames ...[]byte) {
	t.Helper()
	thread, err := netns.Go(p.Netns, []int{0}, func() error { return write(p.Name, frames) })
	if err != nil {
		t.Fatal(err)
	}
	if err := thread.Wait(); err != nil {
		t.Fatal(err)
	}
}

// write works on this thread's namespace.
func write(port string, frames [][]byte) error {
	l, err := net.InterfaceByName(port)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		return err
	}
	for _, f := range frames {
		if err := unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: l.Index}); err != nil {
			return err
		}
	}
	return nil
}

// Down sets a port down.
func Down(t testing.TB, p host.Port) {
	t.Helper()
	if err := netns.Do(p.Netns, func() error {
		l, err := netlink.LinkByName(p.Name)
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(l)
	}); err != nil {
		t.Fatal(err)
	}
}

// Tests have the verifier refuse what is not aligned, as it does on riscv64.
func init() { bpf.ProgramFlags = unix.BPF_F_STRICT_ALIGNMENT }

// Pair makes two ports wired to each other in a namespace of their own.
func Pair(t testing.TB) (a, b host.Port) {
	t.Helper()
	return Wire(t, testutil.Cable{A: "a", B: "b"})
}

// Wire makes the two ports of a cable.
func Wire(t testing.TB, c testutil.Cable) (a, b host.Port) {
	t.Helper()
	path := c.Make(t)
	return host.Port{Netns: path, Name: c.A}, host.Port{Netns: path, Name: c.B}
}

// Stats is a port's counters.
func Stats(t testing.TB, p host.Port) (s netlink.LinkStatistics) {
	t.Helper()
	err := netns.Do(p.Netns, func() error {
		got, err := ports.Stats(p.Name)
		if err == nil {
			s = *got
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
