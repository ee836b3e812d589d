// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"boxdyno/engine/internal/bpf"
	"boxdyno/host"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A Refusals counts redirects that the kernel, or a tap, refuses; it costs nothing
// where none are and no port is a tap. A nil one counts none.
type Refusals struct {
	coll  *ebpf.Collection
	links []link.Link
}

// openRefusalTrace is nil on a kernel without BTF. taps are the indexes of the ports that
// are taps.
func openRefusalTrace(taps [maxLanes]uint32) (*Refusals, error) {
	r, err := loadRefusalTrace(taps)
	if errors.Is(err, host.ErrNotSupported) || errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return r, err
}

func loadRefusalTrace(taps [maxLanes]uint32) (*Refusals, error) {
	spec, err := loadSender()
	if err != nil {
		return nil, fmt.Errorf("read the refusal trace: %w", err)
	}
	delete(spec.Programs, senderProgSend)
	var pids unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &pids); err != nil {
		return nil, fmt.Errorf("identify the sender's namespace of processes: %w", err)
	}
	if err := setVariables(spec, map[string]any{
		senderVarTaps: taps, senderVarPidsIno: pids.Ino,
		senderVarPidsDev: uint64(unix.Major(pids.Dev))<<20 | uint64(unix.Minor(pids.Dev)), // as the kernel has it
	}); err != nil {
		return nil, err
	}
	if taps == [maxLanes]uint32{} && !refusesLate() {
		delete(spec.Programs, senderProgDevmapXmit)
	}
	coll, err := bpf.Load(spec, nil)
	if err != nil {
		return nil, bpf.Refused("load the refusal trace", err)
	}
	r := &Refusals{coll: coll}
	for _, p := range coll.Programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return nil, errors.Join(bpf.Refused("trace redirect errors", err), r.close())
		}
		r.links = append(r.links, l)
	}
	return r, nil
}

// refusesLate says whether this kernel has ports without net_device.xdp_features
// (before Linux 6.3): it learns only when it sends that a port takes no frames.
func refusesLate() bool {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return false
	}
	var device *btf.Struct
	return kernel.TypeByName("net_device", &device) == nil &&
		!slices.ContainsFunc(device.Members, func(m btf.Member) bool { return m.Name == "xdp_features" })
}

// watch counts from now on the refusals of send, the second lane's apart.
func (r *Refusals) watch(send *ebpf.Program, second int) error {
	if r == nil {
		return nil
	}
	info, err := send.Info()
	if err != nil {
		return fmt.Errorf("identify the sender: %w", err)
	}
	id, _ := info.ID()
	return errors.Join(
		r.coll.Variables[senderVarRedirectErrors].Set(&[maxLanes]uint64{}),
		r.coll.Variables[senderVarSecondIfindex].Set(uint32(second)),
		r.coll.Variables[senderVarSenderId].Set(uint32(id)),
	)
}

// here says that this thread, which is locked, is the one that sends.
func (r *Refusals) here() error {
	if r == nil {
		return nil
	}
	return r.coll.Variables[senderVarSenderTid].Set(uint32(unix.Gettid()))
}

func (r *Refusals) Read() (n [maxLanes]uint64, err error) {
	if r == nil {
		return n, nil
	}
	return n, r.coll.Variables[senderVarRedirectErrors].Get(&n)
}

func (r *Refusals) close() error {
	if r == nil {
		return nil
	}
	var err error
	for _, l := range r.links {
		err = errors.Join(err, l.Close())
	}
	r.coll.Close()
	return err
}
