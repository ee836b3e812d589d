// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Main is what the program itself used since its start, without its children: CPU time
// in steps of 10 ms, and the most memory that it had, in octets (0: not known); ok is
// false once it is gone.
func (p *Process) Main() (cpu time.Duration, peak uint64, ok bool) {
	dir := "/proc/" + strconv.Itoa(p.PID)
	data, err := os.ReadFile(dir + "/stat")
	_, after, found := strings.Cut(string(data), ") ") // the name may hold blanks
	f := strings.Fields(after)
	if err != nil || !found || len(f) < 13 {
		return 0, 0, false
	}
	user, err := strconv.ParseUint(f[11], 10, 64)
	system, err2 := strconv.ParseUint(f[12], 10, 64)
	status, _ := os.ReadFile(dir + "/status") // gone meanwhile
	for l := range strings.Lines(string(status)) {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "VmHWM:" {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			peak = n << 10
		}
	}
	return time.Duration(user+system) * tick, peak, err == nil && err2 == nil
}
