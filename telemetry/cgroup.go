// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"path"
	"strings"

	"boxdyno/result"
)

// cgroupFile is one file of the process's own control group. Names are cAdvisor's where they have _total;
// node_exporter has none.
type cgroupFile struct {
	controller string // of version 1, "" for version 2
	name       string
	wants      []want // keyed; one without key: the file is one number
}

// cgroupFiles are of version 2 (Documentation/admin-guide/cgroup-v2.rst) and of version
// 1 (cgroup-v1/). A hybrid has parts of both; a number is read from the first file
// that has it.
var cgroupFiles = []cgroupFile{
	{"", "cpu.stat", []want{
		{key: "usage_usec", name: cgroupCPU, unit: "s", scale: 1e-6, counter: true, help: helpCgroupCPU},
		{key: "nr_periods", name: cgroupPeriods, unit: "1", counter: true, help: helpCgroupPeriods},
		{key: "nr_throttled", name: cgroupThrottles, unit: "1", counter: true, help: helpCgroupThrottles},
		{key: "throttled_usec", name: cgroupThrottled, unit: "s", scale: 1e-6, counter: true, help: helpCgroupThrottled},
	}},
	{"", "memory.current", []want{{name: cgroupMemory, unit: bytesUnit, help: helpCgroupMemory}}},
	{"", "memory.peak", []want{{name: cgroupPeak, unit: bytesUnit, help: helpCgroupPeak}}},
	{"", "memory.events", []want{
		{key: "oom_kill", name: cgroupOOM, unit: "1", counter: true, help: helpCgroupOOM},
		{key: "max", name: "boxdyno_cgroup_memory_limit_hits_total", unit: "1", counter: true, help: helpCgroupFail},
	}},
	{"cpuacct", "cpuacct.usage", []want{{name: cgroupCPU, unit: "s", scale: 1e-9, counter: true, help: helpCgroupCPU}}},
	{"cpu", "cpu.stat", []want{
		{key: "nr_periods", name: cgroupPeriods, unit: "1", counter: true, help: helpCgroupPeriods},
		{key: "nr_throttled", name: cgroupThrottles, unit: "1", counter: true, help: helpCgroupThrottles},
		{key: "throttled_time", name: cgroupThrottled, unit: "s", scale: 1e-9, counter: true, help: helpCgroupThrottled},
	}},
	{"memory", "memory.usage_in_bytes", []want{{name: cgroupMemory, unit: bytesUnit, help: helpCgroupMemory}}},
	{"memory", "memory.max_usage_in_bytes", []want{{name: cgroupPeak, unit: bytesUnit, help: helpCgroupPeak}}},
	{"memory", "memory.oom_control", []want{{key: "oom_kill", name: cgroupOOM, unit: "1", counter: true, help: helpCgroupOOM}}},
	{"memory", "memory.failcnt", []want{{name: "boxdyno_cgroup_memory_limit_hits_total", unit: "1", counter: true, help: helpCgroupFail}}},
}

const (
	cgroupCPU       = "container_cpu_usage_seconds_total"
	cgroupPeriods   = "container_cpu_cfs_periods_total"
	cgroupThrottles = "container_cpu_cfs_throttled_periods_total"
	cgroupThrottled = "container_cpu_cfs_throttled_seconds_total"
	cgroupMemory    = "container_memory_usage_bytes"
	cgroupPeak      = "container_memory_max_usage_bytes"
	cgroupOOM       = "container_oom_events_total"

	helpCgroupCPU       = "CPU time of the control group that this process is in"
	helpCgroupPeriods   = "periods in which the group ran under a limit of CPU time"
	helpCgroupThrottles = "periods in which it had used up its CPU time"
	helpCgroupThrottled = "time for which it was kept from running, summed over CPUs"
	helpCgroupMemory    = "memory of the group, its file cache included"
	helpCgroupPeak      = "most memory that the group had"
	helpCgroupOOM       = "processes of the group killed because memory ran out"
	helpCgroupFail      = "times the group hit its limit of memory"
)

// newCgroup reads the process's own control group.
func newCgroup(_ context.Context, m *Machine) (Collector, error) {
	c, root := &files{}, m.root()
	dirs := cgroupDirs(sysFile(root, "proc/self/cgroup"), sysFile(root, "proc/self/mountinfo"))
	had := map[string]bool{}
	var errs []error
	for _, f := range cgroupFiles {
		dir, ok := dirs[f.controller]
		if !ok {
			continue
		}
		errs = append(errs, c.add(root, dir.path+"/"+f.name, func(data []byte) ([]result.Series, func([]byte, []float64) error, error) {
			var wants []want
			for _, w := range f.wants {
				if !had[w.name] {
					wants = append(wants, w)
				}
			}
			labels := label("id", dir.id)
			if len(wants) == 1 && wants[0].key == "" {
				had[wants[0].name] = true
				return []result.Series{wants[0].series(labels)}, (&keyed{wants: wants, counts: make([]counter, 1)}).parseOne, nil
			}
			series, k := newKeyed(wants, data, labels)
			for _, s := range series {
				had[s.Name] = true
			}
			return series, k.parse, nil
		}))
	}
	return c.done(errors.Join(errs...))
}

// parseOne is the parser of a file that is one number.
func (k *keyed) parseOne(data []byte, dst []float64) error {
	n, err := oneNumber(data)
	if err == nil {
		dst[0] = k.value(0, n)
	}
	return err
}

// A cgroupDir is a group's directory, without the first slash, and its path in the
// hierarchy.
type cgroupDir struct{ path, id string }

// cgroupDirs finds the process's groups by controller, version 2 as "": lines
// "4:memory:/user" of /proc/self/cgroup (cgroups(7)) and where /proc/self/mountinfo
// (proc_pid_mountinfo(5)) says that their hierarchies are mounted.
func cgroupDirs(groups, mounts string) map[string]cgroupDir {
	dirs := map[string]cgroupDir{}
	for line := range strings.Lines(mounts) {
		head, tail, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(head), strings.Fields(tail)
		if !ok || len(f) < 5 || len(g) < 3 || g[0] != "cgroup" && g[0] != "cgroup2" {
			continue
		}
		for line := range strings.Lines(groups) {
			p := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if len(p) != 3 {
				continue
			}
			below, ok := relative(p[2], f[3])
			if !ok {
				continue
			}
			dir := cgroupDir{path: path.Join(strings.TrimPrefix(f[4], "/"), below), id: p[2]}
			if g[0] == "cgroup2" {
				if p[1] == "" {
					dirs[""] = dir
				}
				continue
			}
			for controller := range strings.SplitSeq(p[1], ",") {
				if controller != "" && strings.Contains(","+g[2]+",", ","+controller+",") {
					dirs[controller] = dir
				}
			}
		}
	}
	return dirs
}

// relative is a group's path below the root of a mount.
func relative(group, root string) (string, bool) {
	if root == "/" {
		return group, true
	}
	below, ok := strings.CutPrefix(group, root)
	return below, ok && (below == "" || below[0] == '/')
}
