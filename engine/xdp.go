// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"
	"unsafe"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// The xdp backend: BPF_PROG_RUN with live frames sends, a native XDP program
// meters. It needs Linux 5.18, a port whose driver is a redirect target, and
// CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.
type xdp struct{}

func newXDP() Backend { return &xdp{} }

func (*xdp) Name() string { return "xdp/native" }

// Probe opens a meter on every port, sends one frame of the local experimental
// Ethernet type out of each and looks whether the port counts it.
func (x *xdp) Probe(ctx context.Context, ports ...host.Port) error {
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
	before, err := linkStats(port)
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
		return refused("probe xdp: load a program", err)
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
	if err := trace.watch(prog, 0); err != nil {
		return err
	}
	if err := runLive(prog, frame, 1, 1); err != nil {
		return refused("probe xdp: run live frames", err)
	}
	// Asked before the port's counter, which counts what others send from it, too.
	if n, err := trace.read(); err != nil || n[0] > 0 {
		return errors.Join(err, fmt.Errorf("xdp on %s: the port takes no redirected frame: %w", port, host.ErrNotSupported))
	}
	for range 20 {
		after, err := linkStats(port)
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

// attachXDP works on this thread's namespace.
func attachXDP(port string, index int, prog *ebpf.Program, mode link.XDPAttachFlags) (link.Link, error) {
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: index, Flags: mode})
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("attach XDP to %s: another XDP program is there; end what attached it, or use backend packet: %w", port, err)
	}
	if err != nil {
		return nil, refused("attach XDP to "+port, err)
	}
	return l, nil
}

// programFlags go with every program of the engine. Tests have the verifier refuse loads and
// stores that are not aligned, as it does on riscv64.
var programFlags uint32

// newCollection loads a spec's programs, with maps in place of its own.
func newCollection(spec *ebpf.CollectionSpec, maps map[string]*ebpf.Map) (*ebpf.Collection, error) {
	for _, p := range spec.Programs {
		p.Flags |= programFlags
	}
	return ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: maps})
}

// refused sorts the answers of bpf(2): EPERM is a missing privilege, EINVAL and
// EOPNOTSUPP are the kernel's no, others are not known.
func refused(what string, err error) error {
	var verifier *ebpf.VerifierError // comes with EACCES, too
	switch {
	case errors.As(err, &verifier):
		return fmt.Errorf("%s: %w (%v)", what, host.ErrNotSupported, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s: %w", what, host.Privilege("use BPF"))
	case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("%s: %w (%v)", what, host.ErrNotSupported, err)
	}
	return fmt.Errorf("%s: %w", what, err)
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
