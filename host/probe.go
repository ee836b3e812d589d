// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"

	"boxdyno/internal/netns"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
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
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("load an XDP program: %w (%w)", ErrNotSupported, err)
	}
	if err != nil {
		return denied("load a BPF program", err)
	}
	return prog.Close()
}

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

// Permit makes what the kernel does not permit a *Missing; other errors stay. The
// verifier's no comes with EACCES, too, and is not a question of privilege.
func Permit(what string, err error) error {
	var missing *Missing
	var verifier *ebpf.VerifierError
	if errors.As(err, &missing) || errors.As(err, &verifier) || !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return err
	}
	return Privilege(fmt.Sprintf("%s (%v)", what, err))
}

// denied makes "not permitted" a *Missing.
func denied(what string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return Privilege(what)
	}
	return fmt.Errorf("%s: %w", what, err)
}
