// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"
)

// CPUs is what every CPU and some threads had done at one instant:
//
//	/proc/stat                  ticks by kind; the machine's whole time, in steps of 4 to 10 ms
//	/proc/net/softnet_stat      polls of receive work that ended before the work did, frames dropped by full backlogs
//	/proc/softirqs              softirqs for received frames
//	/proc/PID/schedstat         ns that a thread ran, and that it was ready and had to wait
//
// What the machine does not tell is left out.
type CPUs struct {
	ticks   map[int][8]uint64 // user nice system idle iowait irq softirq steal
	netRx   map[int]uint64
	squeeze map[int]uint64
	dropped map[int]uint64
	threads map[int][2]time.Duration // by thread id: ran, waited
}

// CPUsHere reads the counters of all CPUs of this machine and of the threads; about 0.2 ms.
func CPUsHere(threads ...int) (CPUs, error) { return readCPUs(os.DirFS("/"), threads) }

func readCPUs(root fs.FS, threads []int) (CPUs, error) {
	c := CPUs{ticks: map[int][8]uint64{}, netRx: map[int]uint64{}, squeeze: map[int]uint64{}, dropped: map[int]uint64{}, threads: map[int][2]time.Duration{}}
	data, err := fs.ReadFile(root, "proc/stat")
	if err != nil {
		return c, fmt.Errorf("read CPU times: %w", err)
	}
	for l := range strings.Lines(string(data)) {
		f := strings.Fields(l)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		cpu, err := strconv.Atoi(f[0][3:])
		if err != nil {
			continue // the sum
		}
		if c.ticks[cpu], err = ticksOf(f); err != nil {
			return c, err
		}
	}
	if len(c.ticks) == 0 {
		return c, fmt.Errorf("read CPU times: /proc/stat names no CPU")
	}
	c.softirqs(root)
	c.softnet(root)
	for _, tid := range threads {
		data, err := fs.ReadFile(root, "proc/"+strconv.Itoa(tid)+"/schedstat")
		if f := strings.Fields(string(data)); err == nil && len(f) == 3 {
			ran, err := strconv.ParseInt(f[0], 10, 64)
			waited, err2 := strconv.ParseInt(f[1], 10, 64)
			if err == nil && err2 == nil {
				c.threads[tid] = [2]time.Duration{time.Duration(ran), time.Duration(waited)}
			}
		}
	}
	return c, nil
}

// softirqs reads the row NET_RX; the first line names the columns.
func (c CPUs) softirqs(root fs.FS) {
	data, _ := fs.ReadFile(root, "proc/softirqs")
	var columns []string
	for l := range strings.Lines(string(data)) {
		f := strings.Fields(l)
		switch {
		case columns == nil:
			columns = f
		case len(f) == len(columns)+1 && f[0] == "NET_RX:":
			for i, name := range columns {
				cpu, err := strconv.Atoi(strings.TrimPrefix(name, "CPU"))
				n, err2 := strconv.ParseUint(f[1+i], 10, 64)
				if err == nil && err2 == nil {
					c.netRx[cpu] = n
				}
			}
		}
	}
}

// softnet reads dropped and time_squeeze; the 13th column, where there is one (Linux 5.10),
// is the CPU.
func (c CPUs) softnet(root fs.FS) {
	data, _ := fs.ReadFile(root, "proc/self/net/softnet_stat")
	line := 0
	for l := range strings.Lines(string(data)) {
		f := strings.Fields(l)
		if len(f) < 3 {
			continue
		}
		cpu := line
		line++
		if len(f) >= 13 {
			if n, err := strconv.ParseUint(f[12], 16, 32); err == nil {
				cpu = int(n)
			}
		}
		if n, err := strconv.ParseUint(f[2], 16, 64); err == nil {
			c.squeeze[cpu] = n
		}
		if n, err := strconv.ParseUint(f[1], 16, 64); err == nil {
			c.dropped[cpu] = n
		}
	}
}

// Since is what each CPU did from before to c, in ascending order of CPUs. Where
// no tick went by, shares are 0.
func (c CPUs) Since(before CPUs) (out []result.CPU) {
	most := -1
	for cpu := range c.ticks {
		most = max(most, cpu)
	}
	for cpu := range most + 1 {
		now, ok := c.ticks[cpu]
		was, had := before.ticks[cpu]
		if !ok || !had {
			continue
		}
		var d [8]float64
		var total float64
		for i := range d {
			d[i] = max(0, float64(now[i])-float64(was[i])) // iowait may go back
			total += d[i]
		}
		r := result.CPU{CPU: cpu,
			Polls:    int64(uint32(c.netRx[cpu]) - uint32(before.netRx[cpu])),
			Squeezed: int64(uint32(c.squeeze[cpu]) - uint32(before.squeeze[cpu])),
		}
		if total > 0 {
			r.User, r.System, r.Idle = (d[0]+d[1])/total, d[2]/total, (d[3]+d[4])/total
			r.IRQ, r.SoftIRQ, r.Steal = d[5]/total, d[6]/total, d[7]/total
		}
		out = append(out, r)
	}
	return out
}

// Dropped is how many frames full backlogs of all CPUs dropped from before to c.
func (c CPUs) Dropped(before CPUs) (n int64) {
	for cpu, now := range c.dropped {
		n += int64(uint32(now) - uint32(before.dropped[cpu]))
	}
	return n
}

// Thread is how long a thread ran from before to c, and was ready and did not run.
func (c CPUs) Thread(before CPUs, tid int) (ran, waited time.Duration) {
	now, was := c.threads[tid], before.threads[tid]
	return now[0] - was[0], now[1] - was[1]
}

// Threads is how long the threads together ran from before to c, and for how long
// at least one of them was ready and none of them ran: while one waits the others
// may have the CPU. A thread that still runs may lack its last tick.
func (c CPUs) Threads(before CPUs) (ran, waited time.Duration) {
	for tid, now := range c.threads {
		ran += now[0] - before.threads[tid][0]
	}
	for tid, now := range c.threads {
		was := before.threads[tid]
		others := ran - (now[0] - was[0])
		waited = max(waited, now[1]-was[1]-others)
	}
	return ran, waited
}
