// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/caps"
	"boxdyno/result"
)

// A process tree is accounted in control groups of its own. Which there are differs:
//
//	          CPU time                 peak memory                   kill
//	v2        cpu.stat                 memory.peak (Linux 5.19)      cgroup.kill (5.14)
//	v1        cpuacct.usage            memory.max_usage_in_bytes     each process in turn
//	neither   /proc/PID/stat, in ticks  /proc/PID/smaps_rollup, now and then
//
// and each may be there without the others: a v2 tree without controllers has
// cpu.stat and cgroup.kill alone.

// cgroups are the directories of one tree, each "" where there is none.
type cgroups struct {
	Unified string `json:"unified,omitempty"` // v2
	Memory  string `json:"memory,omitempty"`  // v1
	CPU     string `json:"cpu,omitempty"`     // v1 cpuacct
	Limited bool   `json:"limited,omitempty"` // a limit of memory holds
}

// A hierarchy is a mounted tree of control groups and our own place in it.
type hierarchy struct{ mount, own string }

// hierarchies reads proc/self/mounts and proc/self/cgroup, rooted at root.
func hierarchies(root fs.FS) (v2, memory, cpuacct hierarchy, err error) {
	mounts, err := fs.ReadFile(root, "proc/self/mounts")
	if err != nil {
		return v2, memory, cpuacct, err
	}
	self, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return v2, memory, cpuacct, err
	}
	own := map[string]string{} // by controller, "" is v2
	for line := range strings.Lines(string(self)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for name := range strings.SplitSeq(f[1], ",") {
				own[name] = f[2]
			}
		}
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch at, options := f[1], strings.Split(f[3], ","); {
		case f[2] == "cgroup2":
			v2 = hierarchy{at, own[""]}
		case f[2] == "cgroup" && slices.Contains(options, "memory"):
			memory = hierarchy{at, own["memory"]}
		}
		if f[2] == "cgroup" && slices.Contains(strings.Split(f[3], ","), "cpuacct") {
			cpuacct = hierarchy{f[1], own["cpuacct"]}
		}
	}
	return v2, memory, cpuacct, nil
}

// make makes a group below our own place, so that limits set from outside still
// hold, or where that is not possible below the root; "" where it cannot be made.
func (h hierarchy) make(name string, rootFirst bool) string {
	if h.mount == "" {
		return ""
	}
	places := []string{filepath.Join(h.mount, h.own), h.mount}
	if rootFirst {
		slices.Reverse(places)
	}
	for _, p := range places {
		dir := filepath.Join(p, name)
		if os.Mkdir(dir, 0o755) == nil {
			if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
				return dir
			}
			_ = os.Remove(dir)
		}
	}
	return ""
}

// makeCgroups makes what this machine and this user's privilege allow, and limits
// the tree's memory where limit is not 0.
func makeCgroups(name string, limit uint64) (c cgroups) {
	v2, memory, cpuacct, err := hierarchies(os.DirFS("/"))
	if err != nil {
		return c
	}
	// A session's own group hands no controllers on; the root may.
	handed, _ := os.ReadFile(filepath.Join(v2.mount, "cgroup.subtree_control"))
	c.Unified = v2.make(name, slices.Contains(strings.Fields(string(handed)), "memory"))
	if c.Unified == "" || !exists(c.Unified, "memory.current") {
		c.Memory = memory.make(name, false)
	}
	if c.Unified == "" {
		c.CPU = cpuacct.make(name, false)
	}
	if limit == 0 {
		return c
	}
	text := []byte(strconv.FormatUint(limit, 10))
	for _, f := range []string{filepath.Join(c.Unified, "memory.max"), filepath.Join(c.Memory, "memory.limit_in_bytes")} {
		if filepath.IsAbs(f) && os.WriteFile(f, text, 0) == nil {
			c.Limited = true
		}
	}
	return c
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

func (c *cgroups) dirs() (dirs []string) {
	for _, d := range []string{c.Unified, c.Memory, c.CPU} {
		if d != "" && !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// enter moves a process into the groups; one that may not be entered is given up.
func (c *cgroups) enter(pid int) {
	for _, d := range []*string{&c.Unified, &c.Memory, &c.CPU} {
		if *d == "" {
			continue
		}
		if os.WriteFile(filepath.Join(*d, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0) != nil {
			_ = os.Remove(*d)
			*d = ""
		}
	}
	c.Limited = c.Limited && (c.Memory != "" || c.Unified != "")
}

// pids are the processes in the groups, as this process's PID namespace sees them.
func (c *cgroups) pids() (pids []int) {
	for _, d := range c.dirs() {
		pids = append(pids, groupPIDs(d)...)
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

func groupPIDs(dir string) (pids []int) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // gone meanwhile
		}
		text, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for _, f := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// kill sends SIGKILL to everything in the groups, once.
func (c *cgroups) kill() {
	for _, d := range c.dirs() {
		killGroup(d)
	}
}

func killGroup(dir string) {
	if caps.Override(func() error { return os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) }) == nil {
		return
	}
	for _, pid := range groupPIDs(dir) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// remove removes the groups, which must be empty; groups that a program made below
// them go with them.
func (c *cgroups) remove() error {
	var errs []error
	for _, d := range c.dirs() {
		errs = append(errs, removeGroup(d))
	}
	return errors.Join(errs...)
}

func removeGroup(dir string) error {
	var dirs []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs)
	for _, d := range dirs {
		// A process that was just killed is still in its group for a moment.
		for end := time.Now().Add(2 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			err := caps.Override(func() error { return syscall.Rmdir(d) })
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
				return fmt.Errorf("remove the control group %s: %w", d, err)
			}
		}
	}
	return nil
}

// usage is what the groups' processes, those that have ended too, used so far;
// cpu and memory say whether it is known.
func (c *cgroups) usage() (u result.Usage, cpu, memory bool) {
	var sources []string
	if text, err := os.ReadFile(filepath.Join(c.Unified, "cpu.stat")); c.Unified != "" && err == nil {
		if u.CPU, u.User, u.System, cpu = cpuStat(text); cpu {
			sources = append(sources, "cpu.stat")
		}
	}
	if c.CPU != "" && !cpu {
		total, err := readNumber(c.CPU, "cpuacct.usage")
		user, _ := readNumber(c.CPU, "cpuacct.usage_user")
		system, _ := readNumber(c.CPU, "cpuacct.usage_sys")
		if cpu = err == nil; cpu {
			u.CPU, u.User, u.System = time.Duration(total), time.Duration(user), time.Duration(system)
			sources = append(sources, "cpuacct.usage")
		}
	}
	for _, f := range []struct{ dir, name string }{{c.Unified, "memory.peak"}, {c.Memory, "memory.max_usage_in_bytes"}} {
		if f.dir == "" || memory {
			continue
		}
		if n, err := readNumber(f.dir, f.name); err == nil {
			u.PeakMemory, memory = n, true
			sources = append(sources, f.name)
		}
	}
	u.Processes, u.Source = len(c.pids()), strings.Join(sources, ", ")
	return u, cpu, memory
}

// oomKills is how many processes of the groups the kernel killed because their memory
// was used up.
func (c *cgroups) oomKills() (n int) {
	for _, f := range []string{filepath.Join(c.Unified, "memory.events"), filepath.Join(c.Memory, "memory.oom_control")} {
		text, err := os.ReadFile(f)
		if !filepath.IsAbs(f) || err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if w := strings.Fields(line); len(w) == 2 && w[0] == "oom_kill" {
				k, _ := strconv.Atoi(w[1])
				n = max(n, k)
			}
		}
	}
	return n
}

// cpuStat reads a v2 cpu.stat (Documentation/admin-guide/cgroup-v2.rst).
func cpuStat(text []byte) (total, user, system time.Duration, ok bool) {
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) != 2 {
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		d := time.Duration(n) * time.Microsecond
		switch f[0] {
		case "usage_usec":
			total, ok = d, true
		case "user_usec":
			user = d
		case "system_usec":
			system = d
		}
	}
	return total, user, system, ok
}

func readNumber(dir, name string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}
