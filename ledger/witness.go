// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// The causes in bpf/witness.c that are no errnos.
const (
	unresolved  = 1000
	queueFull   = 1001
	backlogFull = 1002
)

// causes are what the witness can name, with their counters' names. They stand once
// witnessProgram has returned.
var causes = map[uint32]string{
	uint32(unix.EINVAL):       "witness.blackhole",
	uint32(unix.EACCES):       "witness.prohibit",
	uint32(unix.EHOSTUNREACH): "witness.unreachable",
	unresolved:                "witness.unresolved",
	queueFull:                 "witness.queue_full",
	backlogFull:               "witness.backlog_full",
}

// reasonOf are those causes that a kernel gives as reasons of drops since 5.18.
var reasonOf = map[uint32]string{
	queueFull:   "SKB_DROP_REASON_NEIGH_QUEUEFULL",
	backlogFull: "SKB_DROP_REASON_CPU_BACKLOG",
}

// reasons are the reasons of drops that this kernel gives.
func reasons() []btf.EnumValue {
	spec, err := btf.LoadKernelSpec()
	var known *btf.Enum
	if err == nil {
		err = spec.TypeByName("skb_drop_reason", &known)
	}
	if err != nil {
		return nil
	}
	return known.Values
}

// witnessProgram is loaded once a process, at the first trial: that takes longer
// than all snapshots of a trial. It is attached while a book is open.
var witnessProgram = sync.OnceValues(func() (*witnessObjects, error) {
	_ = rlimit.RemoveMemlock() // before 5.11; later kernels need none
	given := reasons()
	for cause, name := range reasonOf {
		if !slices.ContainsFunc(given, func(v btf.EnumValue) bool { return v.Name == name }) {
			delete(causes, cause)
		}
	}
	var o witnessObjects
	return &o, loadWitnessObjects(&o, nil)
})

// A witness counts, in one namespace, the frames that end where the kernel has
// no counter of the namespace (bpf/witness.c).
type witness struct {
	netns  uint32 // inode
	counts *ebpf.Map
	link   link.Link
}

// openWitness watches the namespace at path ("" is this one). It is nil where the
// kernel has no BTF or no reasons of drops (before 5.17), or this process lacks
// CAP_BPF and CAP_PERFMON: the terms are then absent.
func openWitness(path string) *witness {
	if path == "" {
		path = "/proc/self/ns/net"
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	on, err := witnessProgram()
	if err != nil {
		return nil
	}
	w := &witness{netns: uint32(info.Sys().(*syscall.Stat_t).Ino), counts: on.Counts}
	zero := make([]uint64, ebpf.MustPossibleCPU())
	for cause := range causes {
		err := w.counts.Update(witnessKey{Netns: w.netns, Cause: cause}, zero, ebpf.UpdateNoExist)
		if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return nil // 256 namespaces are watched already
		}
	}
	if w.link, err = link.AttachTracing(link.TracingOptions{Program: on.Dropped}); err != nil {
		return nil
	}
	return w
}

func (w *witness) close() { w.link.Close() }

// read adds the counts so far to c.
func (w *witness) read(c counters) error {
	for cause, name := range causes {
		var perCPU []uint64
		if err := w.counts.Lookup(witnessKey{Netns: w.netns, Cause: cause}, &perCPU); err != nil {
			return fmt.Errorf("witness: read %s: %w", name, err)
		}
		for _, n := range perCPU {
			c[name] += n
		}
	}
	return nil
}
