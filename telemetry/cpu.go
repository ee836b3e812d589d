// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"io/fs"
	"strconv"

	"boxdyno/result"
)

// userHz is the unit of times in /proc, USER_HZ: 100 on every architecture that
// Go has, whatever the kernel's own HZ is.
const userHz = 100

// cpuModes are the columns of a "cpu" line of /proc/stat
// (Documentation/filesystems/proc.rst, 1.8). Old kernels lack the last ones. Guest
// time is part of user and nice, so it has a name of its own.
var cpuModes = []struct {
	mode  string
	guest bool
}{
	{mode: "user"}, {mode: "nice"}, {mode: "system"}, {mode: "idle"}, {mode: "iowait"}, {mode: "irq"}, {mode: "softirq"}, {mode: "steal"},
	{mode: "user", guest: true}, {mode: "nice", guest: true},
}

// statLines are the other lines of interest; of "intr" the first number.
var statLines = []struct {
	key, name, help string
	gauge           bool
}{
	{key: "intr", name: "node_intr_total", help: "interrupts served"},
	{key: "ctxt", name: "node_context_switches_total", help: "context switches"},
	{key: "processes", name: "node_forks_total", help: "processes and threads started"},
	{key: "procs_running", name: "node_procs_running", help: "tasks that run or could", gauge: true},
	{key: "procs_blocked", name: "node_procs_blocked", help: "tasks that wait for a disk", gauge: true},
}

var cpuPrefix = []byte("cpu")

// newCPUTime reads /proc/stat: CPU time in steps of 10 ms, and what it says of the
// whole machine. A CPU that is off is absent.
var newCPUTime = one("proc/stat", func(root fs.FS, data []byte) ([]result.Series, func([]byte, []float64) error, error) {
	c := newStat(cpuList(root, "present"), data)
	return c.series(), c.parse, nil
})

// stat is the parser of /proc/stat.
type stat struct {
	cpus   cpuIndex
	modes  int
	clocks []clock // modes of each CPU
	counts []counter
}

// newStat knows the present CPUs and those in data, which tells how many columns
// this kernel has.
func newStat(present []int, data []byte) *stat {
	c := &stat{}
	for text := scan(data); ; {
		l, ok := text.line()
		if !ok {
			break
		}
		cpu, ok := cpuOf(l.field(), cpuPrefix)
		if !ok {
			continue
		}
		present = append(present, cpu)
		n := 0
		for l.field() != nil {
			n++
		}
		c.modes = min(n, len(cpuModes))
	}
	c.cpus = indexCPUs(present)
	c.clocks = make([]clock, len(c.cpus.list)*c.modes)
	c.counts = make([]counter, len(statLines))
	return c
}

func (c *stat) series() (all []result.Series) {
	for _, cpu := range c.cpus.list {
		for _, m := range cpuModes[:c.modes] {
			s := result.Series{Name: "node_cpu_seconds_total", Unit: "s", Counter: true, Help: "time of a CPU by what it did",
				Labels: []result.Pair{{Key: "cpu", Value: strconv.Itoa(cpu)}, {Key: "mode", Value: m.mode}}}
			if m.guest {
				s.Name, s.Help = "node_cpu_guest_seconds_total", "time of a CPU for virtual machines, also counted as user or nice"
			}
			all = append(all, s)
		}
	}
	for _, s := range statLines {
		all = append(all, result.Series{Name: s.name, Unit: "1", Counter: !s.gauge, Help: s.help})
	}
	return all
}

func (c *stat) parse(data []byte, dst []float64) error {
	for text := scan(data); ; {
		l, ok := text.line()
		if !ok {
			return nil
		}
		whole, key := l, l.field()
		if cpu, ok := cpuOf(key, cpuPrefix); ok {
			first := c.cpus.of(cpu) * c.modes
			if first < 0 {
				continue
			}
			for i := first; i < first+c.modes; i++ {
				n, ok := l.number()
				if !ok {
					return malformed(whole)
				}
				dst[i] = c.clocks[i].next(n) / userHz
			}
			continue
		}
		for i := range statLines {
			if string(key) != statLines[i].key {
				continue
			}
			n, ok := l.number()
			if !ok {
				return malformed(whole)
			}
			if at := len(c.clocks) + i; statLines[i].gauge {
				dst[at] = float64(n)
			} else {
				dst[at] = c.counts[i].next(n)
			}
		}
	}
}
