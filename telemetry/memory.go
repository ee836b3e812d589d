// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"

	"boxdyno/result"
	"boxdyno/unit"
)

const kibi, bytesUnit = 1024, unit.Symbol("B")

func meminfo(key, help string) want {
	return want{key: key, name: "node_memory_" + key + "_bytes", unit: bytesUnit, scale: kibi, help: help}
}

// memoryWants are of /proc/meminfo (Documentation/filesystems/proc.rst).
var memoryWants = []want{
	meminfo("MemTotal", "memory that the kernel manages"),
	meminfo("MemFree", "memory not used for anything"),
	meminfo("MemAvailable", "memory that programs could have without swapping"),
	meminfo("Buffers", "cache of block devices"),
	meminfo("Cached", "cache of files"),
	meminfo("SwapTotal", "swap space"),
	meminfo("SwapFree", "swap space not used"),
	meminfo("Dirty", "memory that must still be written to disk"),
	meminfo("Writeback", "memory being written to disk"),
	meminfo("AnonPages", "memory of programs that no file holds"),
	meminfo("Shmem", "shared memory and tmpfs"),
	meminfo("Slab", "the kernel's own objects, socket buffers among them"),
	meminfo("SUnreclaim", "those of them that cannot be freed under pressure"),
	meminfo("Percpu", "the kernel's memory per CPU"),
}

func vmstat(key, help string) want {
	return want{key: key, name: "node_vmstat_" + key, unit: "1", counter: true, help: help}
}

// pagingWants are of /proc/vmstat: what happens when memory runs short.
var pagingWants = []want{
	vmstat("pgmajfault", "page faults that had to read from disk"),
	vmstat("pswpin", "pages read from swap"),
	vmstat("pswpout", "pages written to swap"),
	vmstat("pgscan_direct", "pages that programs searched themselves because none was free"),
	vmstat("pgsteal_direct", "pages that programs so freed"),
	vmstat("allocstall_normal", "allocations that had to free memory first"),
	vmstat("allocstall_movable", "allocations of programs that had to free memory first"),
	vmstat("oom_kill", "processes killed because memory ran out"),
}

// newMemory reads /proc/meminfo and /proc/vmstat.
func newMemory(_ context.Context, m *Machine) (Collector, error) {
	c := &files{}
	add := func(name string, wants []want) error {
		return c.add(m.root(), name, func(data []byte) ([]result.Series, func([]byte, []float64) error, error) {
			series, k := newKeyed(wants, data, nil)
			return series, k.parse, nil
		})
	}
	return c.done(errors.Join(add("proc/meminfo", memoryWants), add("proc/vmstat", pagingWants)))
}
