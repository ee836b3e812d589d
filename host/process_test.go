// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"
)

// daemons forks a process that leaves its parent, its session and its process group.
const daemons = `(setsid sleep 1000 &) ; sleep 1000 & echo ready; wait`

// startAndHang is a boxdyno that is killed while it waits for its program.
func startAndHang(scratch string) {
	p, err := (&Local{}).Start(context.Background(), Cmd{Argv: []string{"sh", "-c", daemons}, Stdout: os.Stdout, Scratch: []string{scratch}, Private: true})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("keeper", p.keeper.Process.Pid)
	_ = p.Wait(context.Background())
	os.Exit(1)
}

func start(t *testing.T, c Cmd) *Process {
	t.Helper()
	p, err := (&Local{}).Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

// eventually waits for what other processes do.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func alive(pid int) bool {
	p, err := readProcess(os.DirFS("/"), pid)
	return err == nil && p.state != 'Z'
}

func gone(dirs ...string) bool {
	for _, d := range dirs {
		if _, err := os.Stat(d); err == nil {
			return false
		}
	}
	return true
}

func TestProcessEnds(t *testing.T) {
	var out bytes.Buffer
	p := start(t, Cmd{Argv: []string{"sh", "-c", "echo $WORD; pwd; exit 3"}, Env: []string{"WORD=hello"}, Dir: "/", Stdout: &out})
	var exit *Exit
	if err := p.Wait(t.Context()); !errors.As(err, &exit) || exit.Code != 3 {
		t.Errorf("exit code 3 is %v", err)
	}
	if out.String() != "hello\n/\n" {
		t.Errorf("it wrote %q", out.String())
	}
	p = start(t, Cmd{Argv: []string{"sh", "-c", "kill -9 $$"}})
	if err := p.Wait(t.Context()); !errors.As(err, &exit) || exit.Signal != unix.SIGKILL {
		t.Errorf("SIGKILL is %v", err)
	}
	var missing *Missing
	if _, err := (&Local{}).Start(t.Context(), Cmd{Argv: []string{"no-such-program"}}); !errors.As(err, &missing) {
		t.Errorf("a program that is not installed: %v", err)
	}
	if _, err := (&Local{}).Start(t.Context(), Cmd{Argv: []string{"true"}, Dir: "/no-such-folder"}); err == nil {
		t.Log("its start is seen at its end")
	}
}

// CPU time of children that have ended is in the account, in the groups and without.
// A variable that is set twice has its last value: a program's first one would be a
// folder of the user's for temporary files, where they stay if it is killed.
func TestProcessEnvironment(t *testing.T) {
	var out bytes.Buffer
	p := start(t, Cmd{Argv: []string{"env"}, Env: []string{"A=1", "B=2", "A=3"}, Stdout: &out})
	if err := p.Wait(t.Context()); err != nil || out.String() != "B=2\nA=3\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestProcessUsage(t *testing.T) {
	// Three children, one after the other, each busy for a while.
	const busy = `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`
	p := start(t, Cmd{Argv: []string{"sh", "-c", "(" + busy + "); (" + busy + "); ((" + busy + ")); echo done; sleep 1000"}})
	t.Logf("groups %+v", p.groups)
	s := &sampler{root: os.DirFS("/"), keeper: p.keeper.Process.Pid}
	eventually(t, "the children are over", func() bool {
		u, err := p.Usage()
		if err != nil {
			t.Fatal(err)
		}
		before := u.CPU
		time.Sleep(50 * time.Millisecond)
		u, _ = p.Usage()
		return u.CPU > 50*time.Millisecond && u.CPU-before < time.Millisecond
	})
	u, _ := p.Usage()
	sampled, err := s.look()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", u)
	t.Logf("%+v", sampled)
	if d := (u.CPU - sampled.CPU).Abs(); d > u.CPU/4+50*time.Millisecond {
		t.Errorf("groups say %v, /proc says %v", u.CPU, sampled.CPU)
	}
	if u.PeakMemory < 100<<10 || sampled.PeakMemory < 50<<10 {
		t.Errorf("peak memory %d, by samples %d", u.PeakMemory, sampled.PeakMemory)
	}
	if u.Processes != 2 || sampled.Processes != 2 {
		t.Errorf("processes: %d, by /proc %d, not sh and sleep", u.Processes, sampled.Processes)
	}
	if err := p.Stop(t.Context(), time.Second); err != nil {
		t.Error(err)
	}
	end, err := p.Usage()
	const ticks = 2 * 10 * time.Millisecond // of user and system: a sampled figure may be rounded up by so much
	if err != nil || end.CPU < u.CPU-ticks || end.PeakMemory == 0 || end.Source == "" {
		t.Errorf("in all %+v, %v", end, err)
	}
	if dirs := p.groups.dirs(); !gone(dirs...) {
		t.Errorf("%v are still there", dirs)
	}
}

func TestProcessStop(t *testing.T) {
	scratch, err := MakeScratch()
	if err != nil {
		t.Fatal(err)
	}
	out, w := io.Pipe()
	p := start(t, Cmd{Argv: []string{"sh", "-c", "trap '' INT; " + daemons}, Stdout: w, Scratch: []string{scratch}})
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	pids := p.PIDs()
	if len(pids) < 3 {
		t.Errorf("processes %v: want the shell and both sleeps", pids)
	}
	if err := p.Stop(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
	if !gone(append(p.groups.dirs(), scratch)...) {
		t.Errorf("%v or %s are still there", p.groups.dirs(), scratch)
	}
}

// Whoever is killed, nothing is left: boxdyno, or boxdyno and then the keeper.
func TestProcessesEndWithBoxdyno(t *testing.T) {
	for _, both := range []bool{false, true} {
		scratch := filepath.Join(t.TempDir(), ownName()+"-test")
		if err := os.Mkdir(scratch, 0o700); err != nil {
			t.Fatal(err)
		}
		boxdyno := exec.Command("/proc/self/exe", "start-and-hang", scratch)
		out, err := boxdyno.StdoutPipe()
		if err == nil {
			err = boxdyno.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for buf := make([]byte, 100); !strings.Contains(text.String(), "ready") || !strings.Contains(text.String(), "keeper "); {
			n, err := out.Read(buf)
			text.Write(buf[:n])
			if err != nil {
				t.Fatalf("%v after %q", err, text.String())
			}
		}
		_, rest, _ := strings.Cut(text.String(), "keeper ")
		keeper, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			t.Fatal(err)
		}
		ps, _ := processes(os.DirFS("/"))
		tree := descendants(ps, keeper)
		if len(tree) < 3 {
			t.Fatalf("the tree is %+v", tree)
		}
		if both {
			if err := unix.Kill(keeper, unix.SIGSTOP); err != nil { // it cannot do its work
				t.Fatal(err)
			}
		}
		_ = boxdyno.Process.Kill()
		_ = boxdyno.Wait()
		if both {
			_ = unix.Kill(keeper, unix.SIGKILL)
			eventually(t, "the program ends with its keeper", func() bool { return !alive(tree[0].pid) })
			t.Setenv("TMPDIR", filepath.Dir(scratch))
			eventually(t, "Sweep succeeds", func() bool { return Sweep() == nil })
			// Without control groups nothing says whose the orphans are.
			if g := makeCgroups(ownName()+"-probe", 0); len(g.dirs()) == 0 {
				for _, p := range tree {
					_ = unix.Kill(p.pid, unix.SIGKILL)
				}
			} else if err := g.remove(); err != nil {
				t.Error(err)
			}
			_ = os.RemoveAll(scratch) // it bears this process's name, which lives
		}
		for _, p := range tree {
			eventually(t, fmt.Sprintf("process %d is gone (keeper killed: %v)", p.pid, both), func() bool { return !alive(p.pid) })
		}
		eventually(t, "scratch folder is gone", func() bool { return gone(scratch) })
		name := fmt.Sprintf("boxdyno-%d-", boxdyno.Process.Pid)
		v2, memory, cpuacct, _ := hierarchies(os.DirFS("/"))
		eventually(t, "control groups are gone", func() bool {
			for _, h := range []hierarchy{v2, memory, cpuacct} {
				for _, dir := range []string{h.mount, filepath.Join(h.mount, h.own)} {
					if left, _ := filepath.Glob(filepath.Join(dir, name+"*")); h.mount != "" && len(left) > 0 {
						return false
					}
				}
			}
			return true
		})
	}
}

func TestMemoryLimit(t *testing.T) {
	p := start(t, Cmd{Argv: []string{"sh", "-c", "head -c 300000000 /dev/zero | tail"}, Memory: 50 << 20})
	if !p.Limited {
		t.Skip("no control group limits memory here: run it as root, on a machine with the memory controller")
	}
	_ = p.Wait(t.Context())
	u, err := p.Usage()
	if err != nil || u.PeakMemory > 60<<20 || u.PeakMemory < 40<<20 {
		t.Errorf("limited to 50 MiB it used %d: %v", u.PeakMemory, err)
	}
}

func TestPrivate(t *testing.T) {
	var out bytes.Buffer
	shm := fmt.Sprintf("/dev/shm/boxdyno-test-%d", os.Getpid())
	t.Cleanup(func() { os.Remove(shm) })
	p := start(t, Cmd{Argv: []string{"sh", "-c", "touch " + shm + "; cat /sys/class/net/lo/flags; readlink /proc/self/ns/net"}, Stdout: &out, Private: true})
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	own, _ := os.Readlink("/proc/self/ns/net")
	if !p.Private {
		t.Skip("no namespaces of its own: not permitted; run it as root")
	}
	if strings.Contains(out.String(), own) {
		t.Errorf("it ran in our network namespace: %s", out.String())
	}
	if !gone(shm) {
		t.Error("its shared memory is in our /dev/shm")
	}
}

func TestHierarchies(t *testing.T) {
	for _, c := range []struct {
		name, mounts, self  string
		v2, memory, cpuacct hierarchy
	}{
		{"Debian 12", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n", "0::/user.slice/user-0.slice/session-1.scope\n",
			hierarchy{"/sys/fs/cgroup", "/user.slice/user-0.slice/session-1.scope"}, hierarchy{}, hierarchy{}},
		{"hybrid", "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
			"5:cpu,cpuacct:/a\n4:memory:/b\n0::/c\n", hierarchy{"/sys/fs/cgroup/unified", "/c"}, hierarchy{"/sys/fs/cgroup/memory", "/b"}, hierarchy{"/sys/fs/cgroup/cpu,cpuacct", "/a"}},
		{"none", "proc /proc proc rw 0 0\n", "", hierarchy{}, hierarchy{}, hierarchy{}},
	} {
		root := fstest.MapFS{"proc/self/mounts": {Data: []byte(c.mounts)}, "proc/self/cgroup": {Data: []byte(c.self)}}
		v2, memory, cpuacct, err := hierarchies(root)
		if err != nil || v2 != c.v2 || memory != c.memory || cpuacct != c.cpuacct {
			t.Errorf("%s: %v %v %v %v", c.name, v2, memory, cpuacct, err)
		}
	}
}

func TestCPUStat(t *testing.T) {
	total, user, system, ok := cpuStat([]byte("usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_periods 0\n"))
	if !ok || total != 1500*time.Microsecond || user != time.Millisecond || system != 500*time.Microsecond {
		t.Error(total, user, system, ok)
	}
	if _, _, _, ok := cpuStat([]byte("nr_periods 0\n")); ok {
		t.Error("no usage is no zero")
	}
}

// The name of a program may hold spaces and brackets.
func TestReadProcess(t *testing.T) {
	stat := "42 (a) b (c) S 7 42 42 0 -1 4194560 100 0 0 0 11 12 13 14 20 0 1 0 9876 1000 200\n"
	p, err := readProcess(fstest.MapFS{"proc/42/stat": {Data: []byte(stat)}}, 42)
	if err != nil || p != (process{42, 7, 'S', 24 * tick, 26 * tick, 9876}) {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "42 (a", "42 (a) S 1 2", strings.Replace(stat, " 11 ", " x ", 1)} {
		if _, err := readProcess(fstest.MapFS{"proc/42/stat": {Data: []byte(bad)}}, 42); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestLeftIn(t *testing.T) {
	dir := t.TempDir()
	here, away := fmt.Sprintf("boxdyno-1-1-%d-7", pidSpace()), fmt.Sprintf("boxdyno-1-1-%d-7", pidSpace()+1)
	another := fmt.Sprintf("boxdyno-99999999-4-%d-5", pidSpace())
	for _, name := range []string{ownName() + "-1", here, "boxdyno-bench-5-x", away, another, "boxdyno-1-1-7"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	left := leftIn(dir)
	if len(left) != 2 || filepath.Base(left[0]) != here || filepath.Base(left[1]) != another {
		t.Errorf("left are %v: want neither what lives, nor what is of process namespace %d", left, pidSpace()+1)
	}
	if os.Geteuid() != 0 {
		return
	}
	// What another user put there neither stops this one nor is removed.
	if err := os.Chown(filepath.Join(dir, here), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := MakeScratchIn(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, here)); err != nil || !gone(filepath.Join(dir, another)) {
		t.Errorf("of another user: %v; of this one: gone %v", err, gone(filepath.Join(dir, another)))
	}
}
