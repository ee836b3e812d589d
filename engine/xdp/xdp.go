// SPDX-License-Identifier: Apache-2.0

// Package xdp sends with BPF_PROG_RUN and live frames, and meters with an XDP program. In
// its mode generic, sockets send as package packet has them.
//
//	xdp.go       what works here, and the system call
//	send.go      a sender of specs: bpf/sender.c, and what the kernel refused
//	reel.go      windows of a source in the kernel's memory
//	replay.go    a sender of a source: bpf/replay.c
//	schedule.go  the schedule of both, as ../internal/bpf/pace.h keeps it
//	meter.go     bpf/meter.c
package xdp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"
	"unsafe"

	"boxdyno/engine"
	"boxdyno/engine/internal/bpf"
	"boxdyno/engine/internal/ports"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// A Backend is xdp/native: BPF_PROG_RUN with live frames sends, a native XDP program
// meters. It needs Linux 5.18, a port whose driver is a redirect target, and
// CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.
type Backend struct{}

// New makes the native backend.
func New() engine.Backend { return &Backend{} }

func (*Backend) Name() string { return "xdp/native" }

// Probe opens a meter on every port, sends one frame of the local experimental
// Ethernet type out of each and looks whether the port counts it.
func (x *Backend) Probe(ctx context.Context, ports ...host.Port) error {
	_ = rlimit.RemoveMemlock() // kernels before 5.11 account BPF memory there
	for _, p := range ports {
		m, err := x.OpenMeter(ctx, p)
		if err != nil {
			return err
		}
		defer m.Close()
	}
	for _, p := range ports {
		if err := netns.Do(p.Netns, func() error { return probeSend(p.Name) }); err != nil {
			return err
		}
	}
	return nil
}

// probeSend works on this thread's namespace.
func probeSend(port string) error {
	iface, err := net.InterfaceByName(port)
	if err != nil {
		return fmt.Errorf("probe xdp on %s: %w", port, err)
	}
	before, err := ports.Stats(port)
	if err != nil {
		return fmt.Errorf("read %s's counters: %w", port, err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP,
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R1, int32(iface.Index)),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnRedirect.Call(),
			asm.Return(),
		},
		License: "Dual BSD/GPL",
	})
	if err != nil {
		return bpf.Refused("probe xdp: load a program", err)
	}
	defer prog.Close()
	frame := make([]byte, unit.MinFrame.Buffer())
	copy(frame, []byte{2, 0, 0, 0, 0, 0xbd})
	copy(frame[6:], iface.HardwareAddr)
	frame[12], frame[13] = 0x88, 0xb5
	trace, err := openRefusalTrace([maxLanes]uint32{})
	if err != nil {
		return err
	}
	defer trace.close()
	if err := errors.Join(trace.watch(prog, 0), trace.here()); err != nil {
		return err
	}
	if err := runLive(prog, frame, 1, 1); err != nil {
		return bpf.Refused("probe xdp: run live frames", err)
	}
	// Asked before the port's counter, which counts what others send from it, too.
	if n, err := trace.Read(); err != nil || n[0] > 0 {
		return errors.Join(err, fmt.Errorf("xdp on %s: the port takes no redirected frame: %w", port, host.ErrNotSupported))
	}
	for range 20 {
		after, err := ports.Stats(port)
		if err != nil {
			return fmt.Errorf("read %s's counters: %w", port, err)
		}
		if after.TxPackets > before.TxPackets {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("xdp on %s: a redirected frame did not leave the port: %w", port, host.ErrNotSupported)
}

// testRun is union bpf_attr's test member (include/uapi/linux/bpf.h).
type testRun struct {
	fd, retval           uint32
	sizeIn, sizeOut      uint32
	dataIn, dataOut      uint64
	repeat, duration     uint32
	ctxSizeIn, ctxOut    uint32
	ctxIn, ctxOutPointer uint64
	flags, cpu           uint32
	batch, _             uint32
}

const (
	bpfProgTestRun = 10
	liveFrames     = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES
	endless        = 1<<31 - 1
)

// runLive runs prog repeat times on this thread with live frames that begin as
// frame, in batches. EINTR is an error as any other: cilium/ebpf's own Run would
// begin again.
func runLive(prog *ebpf.Program, frame []byte, repeat, batch int) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&frame[0])
	attr := testRun{
		fd:     uint32(prog.FD()),
		sizeIn: uint32(len(frame)),
		dataIn: uint64(uintptr(unsafe.Pointer(&frame[0]))),
		repeat: uint32(repeat),
		flags:  liveFrames,
		batch:  uint32(batch),
	}
	pin.Pin(&attr)
	_, _, errno := unix.Syscall(unix.SYS_BPF, bpfProgTestRun, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return errno
	}
	return nil
}
