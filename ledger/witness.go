// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"os"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// unresolved is the cause in bpf/witness.c that is no errno.
const unresolved = 1000

// causes are what the witness can name, with their counters' names.
var causes = map[uint32]string{
	uint32(unix.EINVAL):       "witness.blackhole",
	uint32(unix.EACCES):       "witness.prohibit",
	uint32(unix.EHOSTUNREACH): "witness.unreachable",
	unresolved:                "witness.unresolved",
}

// kernelTypes saves decoding the kernel's BTF anew for every trial.
var kernelTypes = btf.NewCache()

// A witness counts, in one namespace, the frames that end where the kernel has
// no counter of the namespace (bpf/witness.c).
type witness struct {
	netns   uint32 // inode
	objects witnessObjects
	link    link.Link
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
	_ = rlimit.RemoveMemlock() // before 5.11; later kernels need none
	w := &witness{netns: uint32(info.Sys().(*syscall.Stat_t).Ino)}
	if err := w.open(); err != nil {
		w.close()
		return nil
	}
	return w
}

func (w *witness) open() error {
	if err := loadWitnessObjects(&w.objects, &ebpf.CollectionOptions{Cache: kernelTypes}); err != nil {
		return err
	}
	zero := make([]uint64, ebpf.MustPossibleCPU())
	for cause := range causes {
		if err := w.objects.Counts.Put(witnessKey{Netns: w.netns, Cause: cause}, zero); err != nil {
			return err
		}
	}
	var err error
	w.link, err = link.AttachTracing(link.TracingOptions{Program: w.objects.Dropped})
	return err
}

// read adds the counts so far to c.
func (w *witness) read(c counters) error {
	for cause, name := range causes {
		var perCPU []uint64
		if err := w.objects.Counts.Lookup(witnessKey{Netns: w.netns, Cause: cause}, &perCPU); err != nil {
			return fmt.Errorf("witness: read %s: %w", name, err)
		}
		for _, n := range perCPU {
			c[name] += n
		}
	}
	return nil
}

func (w *witness) close() {
	if w.link != nil {
		w.link.Close()
	}
	w.objects.Close()
}
