// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
	"unsafe"

	"boxdyno/engine"
	"boxdyno/engine/internal/ports"
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

// tapNamespace makes a namespace whose first port is tap t0.
func tapNamespace(t *testing.T) (fd int, port host.Port) {
	t.Helper()
	testutil.Privileged(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	return newTap(t, ns, "t0"), host.Port{Netns: ns.Path(), Name: "t0"}
}

func openTap(t *testing.T, b engine.Backend, port host.Port) engine.Transmitter {
	t.Helper()
	tx, err := b.OpenTransmitter(t.Context(), []host.Port{port}, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Close() })
	return tx
}

var tapSpec = frame.Spec{Sizes: []unit.FrameSize{64}, Flows: 1, SrcMAC: [6]byte{2, 1}, DstMAC: [6]byte{2, 2}, Src: netip.MustParseAddr("198.18.0.2"), Dst: netip.MustParseAddr("198.18.0.3"), SrcPort: frame.FirstPort, DstPort: frame.Port}

// fillTap sends more frames to a tap than it takes, and compares what was accepted with what
// the tap's reader gets.
func fillTap(t *testing.T, tx engine.Transmitter, fd int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const frames = 3000 // the tap takes 1,000
	sent, err := tx.Transmit(ctx, engine.Load{Rate: 50_000, Count: frames}, engine.Stream{ID: 1, Frames: tapSpec})
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
}

// What finds no room in a tap was refused, each frame of it, by every backend: what was
// accepted is what the tap's reader gets.
func TestTapRefuses(t *testing.T) {
	fd, port := tapNamespace(t)
	for _, b := range []engine.Backend{xdp.New(), packet.New()} {
		t.Run(b.Name(), func(t *testing.T) { fillTap(t, openTap(t, b, port), fd) })
	}
}

// Another sender's tap refuses frames, too, and has the same index in its own namespace: its
// refusals are not counted. Signals interrupt the sender, and its counts go on.
func TestTapRefusesBesideAnother(t *testing.T) {
	fd, port := tapNamespace(t)
	_, other := tapNamespace(t)
	tx, beside := openTap(t, xdp.New(), port), openTap(t, xdp.New(), other)
	dropped := func() (index int, n uint64) {
		if err := netns.Do(other.Netns, func() error {
			mine, err := net.InterfaceByName(other.Name)
			if err != nil {
				return err
			}
			s, err := ports.Stats(other.Name)
			index, n = mine.Index, s.TxDropped
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return index, n
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		_, err := beside.Transmit(ctx, engine.Load{Rate: 50_000, Duration: time.Hour}, engine.Stream{ID: 2, Frames: tapSpec})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the other sender: %v", err)
		}
	})
	for n := uint64(0); n == 0; time.Sleep(time.Millisecond) {
		_, n = dropped()
	}
	all.Go(func() {
		for range 8 {
			tasks, _ := os.ReadDir("/proc/self/task")
			for _, task := range tasks {
				tid, _ := strconv.Atoi(task.Name())
				_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG) // it may have ended
			}
			time.Sleep(30 * time.Millisecond)
		}
	})
	index, before := dropped()
	fillTap(t, tx, fd)
	if same := tx.(*xdp.Transmitter).Indexes[0]; same != index {
		t.Fatalf("the taps have indexes %d and %d: the test needs one", same, index)
	}
	if _, after := dropped(); after == before {
		t.Error("the other tap refused no frame meanwhile: the test shows nothing")
	}
}
