// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func openPacket(t testing.TB, from []host.Port, to ...host.Port) (Transmitter, []Meter) {
	t.Helper()
	ctx := context.Background()
	b := newPacket()
	tx, err := b.OpenTransmitter(ctx, from, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tx.Close(); err != nil {
			t.Error(err)
		}
	})
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

// inject writes whole frames out of a port.
func inject(t testing.TB, p host.Port, frames ...[]byte) {
	t.Helper()
	var l *packetLane
	if err := netns.Do(p.Netns, func() (err error) { l, err = openLane(p); return err }); err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, f := range frames {
		if _, err := unix.Write(l.fd, f); err != nil {
			t.Fatal(err)
		}
	}
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
