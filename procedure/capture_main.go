// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/subject"
)

// A mainProcess is a subject's first process alone, without its children, as the
// published study watched it.
type mainProcess struct {
	pid    int
	since  time.Time
	before time.Duration
	known  bool
}

// A mainUse is what it used over the window.
type mainUse struct {
	cpu    time.Duration
	window time.Duration
	memory uint64
	known  bool
}

// clockTicks is USER_HZ, which is 100 on every architecture that boxdyno runs on.
const clockTicks = 100

// mainOf begins the window; a subject that does not tell its process is not known.
func mainOf(r subject.Running) mainProcess {
	p, ok := r.(interface{ PID() int })
	if !ok {
		return mainProcess{}
	}
	m := mainProcess{pid: p.PID(), since: time.Now()}
	m.before, m.known = mainCPU(m.pid)
	return m
}

// mainCPU is utime and stime of proc_pid_stat(5).
func mainCPU(pid int) (time.Duration, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, after, ok := strings.Cut(string(data), ") ") // the name may hold blanks
	f := strings.Fields(after)
	if err != nil || !ok || len(f) < 13 {
		return 0, false
	}
	user, err := strconv.ParseUint(f[11], 10, 64)
	system, err2 := strconv.ParseUint(f[12], 10, 64)
	return time.Duration(user+system) * time.Second / clockTicks, err == nil && err2 == nil
}

// mainPeak is VmHWM of proc_pid_status(5) in octets.
func mainPeak(pid int) uint64 {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for l := range strings.Lines(string(data)) {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "VmHWM:" {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// over waits for what is left of the window and reads what the process used in it.
func (m mainProcess) over(ctx context.Context, c *capturing, left time.Duration) (u mainUse, err error) {
	for until := time.Now().Add(left); time.Now().Before(until); {
		if err := c.pause(ctx); err != nil {
			return u, err
		}
		if c.live != nil {
			c.note()
		}
	}
	if !m.known {
		return u, nil
	}
	now, ok := mainCPU(m.pid)
	return mainUse{cpu: now - m.before, window: time.Since(m.since), memory: mainPeak(m.pid), known: ok}, nil
}

func (u mainUse) values() (vs []result.Value) {
	if !u.known {
		return nil
	}
	vs = append(vs, value("main_cpu_share", u.cpu.Seconds()/u.window.Seconds()))
	if u.memory > 0 {
		vs = append(vs, value("main_memory_bytes", float64(u.memory)))
	}
	return vs
}
