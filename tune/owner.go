// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// self is this process as journals name it.
func self() (owner, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return owner{}, fmt.Errorf("tell this start of the machine from others: %w", err)
	}
	o := owner{Boot: strings.TrimSpace(string(boot)), PID: os.Getpid()}
	o.Started, err = started(o.PID)
	return o, err
}

// alive says whether the process lives that began a journal since this boot: its
// number may be another's by now. Of one without a first line only that is known.
func alive(o owner) bool {
	at, err := started(o.PID)
	return err == nil && (at == o.Started || o.Started == 0)
}

// started is when a process did, in clock ticks after boot (proc_pid_stat(5), field
// 22). The name before it may hold anything. A zombie is dead.
func started(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return 0, fmt.Errorf("process %d is no more", pid)
	}
	return strconv.ParseUint(f[19], 10, 64)
}
