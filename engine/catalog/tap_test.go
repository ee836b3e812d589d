// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"
	"unsafe"

	"boxdyno/engine"
	"boxdyno/engine/packet"
	"boxdyno/engine/xdp"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/unit"

	"golang.org/x/sys/unix"
)

// newTap makes a tap in a namespace; its other end is the file.
func newTap(t *testing.T, ns *netns.Namespace, name string) (fd int) {
	t.Helper()
	err := netns.Do(ns.Path(), func() (err error) {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		r, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
			return err
		}
		return os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
	})
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this kernel has no taps: modprobe tun")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := (&host.Local{Netns: ns.Path()}).Run(t.Context(), "", "ip", "link", "set", name, "up"); err != nil {
		t.Fatal(err)
	}
	return fd
}

// What finds no room in a tap was refused, each frame of it, by every backend: what was
// accepted is what the tap's reader gets.
func TestTapRefuses(t *testing.T) {
	testutil.Privileged(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	fd := newTap(t, ns, "t0")
	port := host.Port{Netns: ns.Path(), Name: "t0"}
	for _, b := range []engine.Backend{xdp.New(), packet.New()} {
		t.Run(b.Name(), func(t *testing.T) {
			tx, err := b.OpenTransmitter(t.Context(), []host.Port{port}, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Close()
			spec := frame.Spec{Sizes: []unit.FrameSize{64}, Flows: 1, SrcMAC: [6]byte{2, 1}, DstMAC: [6]byte{2, 2}, Src: netip.MustParseAddr("198.18.0.2"), Dst: netip.MustParseAddr("198.18.0.3"), SrcPort: frame.FirstPort, DstPort: frame.Port}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			const frames = 3000 // the tap takes 1,000
			sent, err := tx.Transmit(ctx, engine.Load{Rate: 50_000, Count: frames}, engine.Stream{ID: 1, Frames: spec})
			if err != nil {
				t.Fatal(err)
			}
			came, buf := uint64(0), make([]byte, 2048)
			for {
				n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
				if errno != 0 {
					break
				}
				if n >= 60 && buf[0] == 2 && buf[1] == 2 {
					came++
				}
			}
			r := sent[0]
			if r.Accepted != came || r.Accepted+r.Refused != frames || came < 500 || came > 2000 {
				t.Errorf("%d of %d frames were accepted, %d refused, and %d came", r.Accepted, frames, r.Refused, came)
			}
		})
	}
}
