// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MemoryAvailable is how many bytes programs can have before the machine swaps
// (MemAvailable of proc/meminfo); 0: not known.
func (l *Local) MemoryAvailable() (n uint64) {
	_ = l.View(func(root fs.FS) error {
		n = meminfo(root, "MemAvailable")
		return nil
	})
	return n
}

// meminfo is one of proc/meminfo, in octets; 0 where there is none.
func meminfo(root fs.FS, key string) uint64 {
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == key+":" {
			kib, _ := strconv.ParseUint(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// LimitsMemory says whether Cmd.Memory is held here, which takes a memory controller
// and the privilege to use it. It finds out by making a control group.
func LimitsMemory() bool {
	c := makeCgroups(fmt.Sprintf("%s-%d", ownName(), trees.Add(1)), 1<<40)
	limited := c.Limited
	return c.remove() == nil && limited
}

// Free is how many bytes an ordinary user can still write to the file system of dir.
func Free(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("room on the file system of %s: %w", dir, &os.PathError{Op: "statfs", Path: dir, Err: err})
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// Booted is when this machine was started, by its wall clock.
func Booted() (time.Time, error) {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Time{}, fmt.Errorf("read how long the machine is up: %w", err)
	}
	return time.Now().Add(-time.Duration(up.Nano())), nil
}
