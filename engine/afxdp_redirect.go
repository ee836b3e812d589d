// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"

	"boxdyno/host"
	"boxdyno/internal/xsk"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// A redirect is the XDP program of a metered port. It gives every frame to the
// socket of the queue that it came by, with the time before it:
//
//	stamp 8 | frame        stamp: ns of CLOCK_MONOTONIC; none where the driver has no metadata
//
// What neighbours need to find each other (ARP, ICMPv6 133 to 137), and what
// comes by a queue without a socket, goes to the kernel. The former is counted.
type redirect struct {
	prog            *ebpf.Program
	sockets, passed *ebpf.Map
	link            link.Link
	generic         bool
}

// passedFrames is the value of map passed.
type passedFrames struct{ Frames, Octets uint64 }

const stampLen = 8

// attachRedirect works on this thread's namespace.
func attachRedirect(port string, index, queues int) (_ *redirect, err error) {
	r := &redirect{}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if r.sockets, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(queues)}); err != nil {
		return nil, refused("make a map of AF_XDP sockets", err)
	}
	if r.passed, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 16, MaxEntries: 1}); err != nil {
		return nil, refused("make a map of counters", err)
	}
	if r.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: redirectProgram(r.sockets.FD(), r.passed.FD()), License: "Dual BSD/GPL"}); err != nil {
		return nil, refused("load the redirecting program", err)
	}
	for _, r.generic = range []bool{false, true} {
		mode := link.XDPAttachFlags(link.XDPDriverMode)
		if r.generic {
			mode = link.XDPGenericMode
		}
		r.link, err = attachXDP(port, index, r.prog, mode)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, host.ErrNotSupported) {
			break
		}
	}
	return nil, err
}

// struct xdp_md
const (
	mdData, mdDataEnd, mdDataMeta, mdQueue = 0, 4, 8, 16

	etherARP, etherIPv6 = 0x0806, 0x86dd
	icmp6               = 58
)

func redirectProgram(sockets, passed int) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, mdData, asm.Word),
		asm.LoadMem(asm.R8, asm.R6, mdDataEnd, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Add.Imm(asm.R2, 14),
		asm.JGT.Reg(asm.R2, asm.R8, "redirect"),
		asm.LoadMem(asm.R3, asm.R7, 12, asm.Half),
		asm.HostTo(asm.BE, asm.R3, asm.Half),
		asm.JEq.Imm(asm.R3, etherARP, "pass"),
		asm.JNE.Imm(asm.R3, etherIPv6, "redirect"),
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Add.Imm(asm.R2, 14+40+1),
		asm.JGT.Reg(asm.R2, asm.R8, "redirect"),
		asm.LoadMem(asm.R3, asm.R7, 14+6, asm.Byte),
		asm.JNE.Imm(asm.R3, icmp6, "redirect"),
		asm.LoadMem(asm.R3, asm.R7, 14+40, asm.Byte),
		asm.JLT.Imm(asm.R3, 133, "redirect"),
		asm.JGT.Imm(asm.R3, 137, "redirect"),

		asm.Sub.Reg(asm.R8, asm.R7).WithSymbol("pass"), // octets
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, passed),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "passed"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord),
		asm.Add.Reg(asm.R1, asm.R8),
		asm.StoreMem(asm.R0, 8, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, xdpPass).WithSymbol("passed"),
		asm.Return(),

		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol("redirect"),
		asm.Mov.Imm(asm.R2, -stampLen),
		asm.FnXdpAdjustMeta.Call(),
		asm.JNE.Imm(asm.R0, 0, "send"),
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R2, asm.R6, mdDataMeta, asm.Word),
		asm.LoadMem(asm.R3, asm.R6, mdData, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R2),
		asm.Add.Imm(asm.R1, stampLen),
		asm.JGT.Reg(asm.R1, asm.R3, "send"),
		asm.StoreMem(asm.R2, 0, asm.R0, asm.DWord),

		asm.LoadMapPtr(asm.R1, sockets).WithSymbol("send"),
		asm.LoadMem(asm.R2, asm.R6, mdQueue, asm.Word),
		asm.Mov.Imm(asm.R3, xdpPass), // without a socket (Linux 5.3)
		asm.FnRedirectMap.Call(),
		asm.Return(),
	}
}

const xdpPass = 2

// add gives frames that come by queue n to s from now on.
func (r *redirect) add(n int, s *xsk.Socket) error {
	if err := r.sockets.Put(uint32(n), uint32(s.FD())); err != nil {
		return refused(fmt.Sprintf("give queue %d to its socket", n), err)
	}
	return nil
}

// remove leaves queue n to the kernel. That it has no socket is well.
func (r *redirect) remove(n int) error {
	if err := r.sockets.Delete(uint32(n)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("take queue %d from its socket: %w", n, err)
	}
	return nil
}

// counted is what went to the kernel since the program was loaded.
func (r *redirect) counted() (sum passedFrames, err error) {
	var perCPU []passedFrames
	if err := r.passed.Lookup(uint32(0), &perCPU); err != nil {
		return sum, fmt.Errorf("read the redirecting program's counters: %w", err)
	}
	for _, c := range perCPU {
		sum.Frames += c.Frames
		sum.Octets += c.Octets
	}
	return sum, nil
}

// Close detaches the program; the kernel does so too when this process ends.
func (r *redirect) Close() (err error) {
	if r.link != nil {
		err = r.link.Close()
	}
	if r.prog != nil {
		err = errors.Join(err, r.prog.Close())
	}
	for _, m := range []*ebpf.Map{r.sockets, r.passed} {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}
