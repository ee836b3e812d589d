// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/result"
)

// Where there are no control groups, a tree is a keeper's descendants: it is the
// subreaper, so that a process whose parent has died becomes its child.

// tick is the unit of times in /proc/PID/stat (USER_HZ, the same on all architectures
// that Go runs on).
const tick = 10 * time.Millisecond

// A process is what /proc/PID/stat says of one (proc(5)).
type process struct {
	pid, ppid    int
	state        byte
	user, system time.Duration // its own, and of the children that it has waited for
	start        uint64        // ticks since the machine was started
}

// processes reads all that proc, mounted at root's proc, shows.
func processes(root fs.FS) ([]process, error) {
	entries, err := fs.ReadDir(root, "proc")
	if err != nil {
		return nil, err
	}
	var ps []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := readProcess(root, pid); err == nil {
			ps = append(ps, p)
		}
	}
	return ps, nil
}

func readProcess(root fs.FS, pid int) (p process, err error) {
	text, err := fs.ReadFile(root, path.Join("proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return p, err
	}
	end := bytes.LastIndexByte(text, ')') // the name may hold anything
	if end < 0 {
		return p, fmt.Errorf("proc/%d/stat has no name", pid)
	}
	f := strings.Fields(string(text[end+1:]))
	if len(f) < 20 {
		return p, fmt.Errorf("proc/%d/stat has %d fields", pid, len(f)+2)
	}
	number := func(i int) uint64 {
		n, perr := strconv.ParseUint(f[i-3], 10, 64) // fields are counted from 1, and two are before the name's end
		if perr != nil && err == nil {
			err = fmt.Errorf("proc/%d/stat: field %d: %w", pid, i, perr)
		}
		return n
	}
	p = process{pid: pid, ppid: int(number(4)), state: f[0][0], start: number(22)}
	p.user = time.Duration(number(14)+number(16)) * tick
	p.system = time.Duration(number(15)+number(17)) * tick
	return p, err
}

// descendants are those of root among ps, without itself.
func descendants(ps []process, root int) (out []process) {
	tree := []int{root}
	for i := 0; i < len(tree); i++ {
		for _, p := range ps {
			if p.ppid == tree[i] && p.pid != root && !slices.Contains(tree, p.pid) {
				tree = append(tree, p.pid)
				out = append(out, p)
			}
		}
	}
	return out
}

// A sampler adds up what a keeper's descendants used, and looks at their memory now
// and then: a peak between two looks is missed.
type sampler struct {
	root   fs.FS
	keeper int

	mu   sync.Mutex
	peak uint64
	last result.Usage
}

const sampleSource = "sampled: ticks of /proc/PID/stat, memory of /proc/PID/smaps_rollup"

func (s *sampler) look() (result.Usage, error) {
	ps, err := processes(s.root)
	if err != nil {
		return result.Usage{}, err
	}
	tree := descendants(ps, s.keeper)
	u := result.Usage{Processes: len(tree), Source: sampleSource}
	var memory uint64
	for _, p := range tree {
		u.User += p.user
		u.System += p.system
		memory += residentMemory(s.root, p.pid)
	}
	for _, p := range ps {
		if p.pid == s.keeper { // it has waited for those whose parents had died
			u.User += p.user
			u.System += p.system
		}
	}
	u.CPU = u.User + u.System
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peak = max(s.peak, memory)
	if u.PeakMemory = s.peak; u.CPU < s.last.CPU { // one that has ended and is not yet waited for
		u.CPU, u.User, u.System = s.last.CPU, s.last.User, s.last.System
	}
	s.last = u
	return u, nil
}

// residentMemory is a process's proportional share of the memory it uses, or all of
// it where the share may not be read; 0 for one that is gone.
func residentMemory(root fs.FS, pid int) uint64 {
	dir := path.Join("proc", strconv.Itoa(pid))
	if text, err := fs.ReadFile(root, dir+"/smaps_rollup"); err == nil {
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "Pss:" {
				n, _ := strconv.ParseUint(f[1], 10, 64)
				return n << 10
			}
		}
	}
	text, err := fs.ReadFile(root, dir+"/statm")
	if err != nil {
		return 0
	}
	var size, resident uint64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return resident * uint64(unix.Getpagesize())
}
