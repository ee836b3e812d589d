// SPDX-License-Identifier: Apache-2.0

package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// Own is the CPU time of this process in user space and in the kernel, and the most memory
// that it has had, in octets; 0: not known.
func Own() (user, system time.Duration, memory uint64) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0, 0, 0
	}
	return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano()), uint64(u.Maxrss) << 10
}
