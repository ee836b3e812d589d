// SPDX-License-Identifier: Apache-2.0

// Package bpf loads and attaches the engine's programs. Its headers are what programs of
// several rooms share.
package bpf

import (
	"errors"
	"fmt"

	"boxdyno/engine"
	"boxdyno/host"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Attach works on this thread's namespace.
func Attach(port string, index int, prog *ebpf.Program, mode link.XDPAttachFlags) (link.Link, error) {
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: index, Flags: mode})
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("attach XDP to %s: another XDP program is there; end what attached it, or use backend packet: %w", port, err)
	}
	if err != nil {
		return nil, Refused("attach XDP to "+port, err)
	}
	return l, nil
}

// Gone says that a meter's port has vanished: its program's link, which may be nil, then hangs on none.
func Gone(l link.Link, port string) error {
	if l == nil {
		return nil
	}
	info, err := l.Info()
	if err != nil {
		return fmt.Errorf("read the meter of %s: %w", port, err)
	}
	if x := info.XDP(); x != nil && x.Ifindex == 0 {
		return fmt.Errorf("meter frames on %s: %w", port, engine.ErrPortGone)
	}
	return nil
}

// ProgramFlags go with every program of the engine. Tests have the verifier refuse loads and
// stores that are not aligned, as it does on riscv64.
var ProgramFlags uint32

// Load loads a spec's programs, with maps in place of its own.
func Load(spec *ebpf.CollectionSpec, maps map[string]*ebpf.Map) (*ebpf.Collection, error) {
	for _, p := range spec.Programs {
		p.Flags |= ProgramFlags
	}
	return ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: maps})
}

// Refused sorts the answers of bpf(2): EPERM is a missing privilege, EINVAL and
// EOPNOTSUPP are the kernel's no, others are not known.
func Refused(what string, err error) error {
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

// What a program keeps from the stack (common.h).
const (
	KeepsNothing uint32 = iota
	Drops
	Screens
)

// Sink is what a program keeps for engine.Sinker.
func Sink(on bool) uint32 {
	if on {
		return Drops
	}
	return KeepsNothing
}
