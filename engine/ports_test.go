// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"net"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// openOn opens a transmitter of b and a meter on each of to.
func openOn(t testing.TB, b Backend, from []host.Port, to ...host.Port) (Transmitter, []Meter) {
	t.Helper()
	ctx := context.Background()
	var meters []Meter
	for _, p := range to {
		m, err := b.OpenMeter(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(m.Close(), m.Close()); err != nil {
				t.Error(err)
			}
		})
		meters = append(meters, m)
	}
	tx, err := b.OpenTransmitter(ctx, from, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(tx.Close(), tx.Close()); err != nil {
			t.Error(err)
		}
	})
	return tx, meters
}

func arm(t testing.TB, m Meter, timing bool, streams ...uint16) {
	t.Helper()
	if err := m.Arm(context.Background(), timing, streams...); err != nil {
		t.Fatal(err)
	}
}

func readMeter(t testing.TB, m Meter) MeterReport {
	t.Helper()
	r, err := m.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// quiet is pair without the kernel's own IPv6 frames.
func quiet(t testing.TB) (a, b host.Port) {
	t.Helper()
	return ports(t, testutil.Cable{A: "a", B: "b", Silent: true})
}

// inject writes whole frames out of a port, past its queueing discipline.
func inject(t testing.TB, p host.Port, frames ...[]byte) {
	t.Helper()
	if err := netns.Do(p.Netns, func() error { return write(p.Name, frames) }); err != nil {
		t.Fatal(err)
	}
}

// fromCPU0 is inject from one CPU, so that all frames arrive on that one: the XDP
// meters judge order on each.
func fromCPU0(t testing.TB, p host.Port, frames ...[]byte) {
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

func down(t testing.TB, p host.Port) {
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
