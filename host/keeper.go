// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/caps"
	"boxdyno/internal/guard"
)

// The descriptors of keeper and entry.
const (
	controlFD = 3 // an order; of a keeper then "signal N" lines until its end
	saidFD    = 4 // of a keeper: events
)

// KeepMain does the work of a keeper, or of an entry, where this process was started
// as one (Local.Start), or becomes a program of a Userland, and then does not return. Every program that starts processes
// calls it before anything else, for it also confines file capabilities, from its main goroutine, tests in their TestMain: that
// one has the main thread (internal/netns), with which a keeper's program dies, and
// whose CPUs an entry's program inherits.
func KeepMain() {
	if err := caps.Confine(); err != nil {
		fmt.Fprintln(os.Stderr, "boxdyno:", err)
		os.Exit(exitPrivilege)
	}
	if len(os.Args) >= 4 && os.Args[1] == userlandWord {
		os.Exit(userlandMain(os.Args[2:]))
	}
	if len(os.Args) != 2 {
		return
	}
	switch os.Args[1] {
	case keeperWord:
		os.Exit(keep())
	case entryWord:
		fmt.Fprintln(os.Stderr, "boxdyno:", enter()) // it returns only when it failed
		os.Exit(exitEntry)
	}
}

// exitEntry is the exit code of an entry that could not start its program.
const exitEntry = 125

// ignored are signals for the program, not for its keeper.
var ignored = []os.Signal{unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE}

func keep() int {
	unix.CloseOnExec(controlFD)
	unix.CloseOnExec(saidFD)
	control, said := os.NewFile(controlFD, "control"), json.NewEncoder(os.NewFile(saidFD, "said"))
	signal.Ignore(ignored...)
	lines := bufio.NewReader(control)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return exitEntry // boxdyno has ended
	}
	var k keeper
	if err := json.Unmarshal(text, &k.order); err != nil {
		return exitEntry
	}
	defer k.sweep()
	if err := k.begin(); err != nil {
		_ = said.Encode(keeperEvent{Error: err.Error()})
		k.killAll()
		return exitEntry
	}
	_ = said.Encode(keeperEvent{Started: &keeperTree{k.pid, k.groups, k.private}})
	defer guard.Watch(func(*guard.Fault) { k.killAll() })()
	guard.Go(func() { k.obey(lines) })
	end := k.wait()
	end.Trace = k.sweep()
	_ = said.Encode(keeperEvent{Ended: &end}) // nobody may listen any more
	return 0
}

type keeper struct {
	order
	groups  cgroups
	private bool
	pid     int
	swept   bool
}

// begin starts the program: an entry is started, moved into the control groups, and
// then told to become the program.
func (k *keeper) begin() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the subreaper of its children: %w", err)
	}
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if k.Private {
		attr.Unshareflags = unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
		if k.Network {
			attr.Unshareflags |= unix.CLONE_NEWNET
		}
	}
	if k.Bound {
		attr.Cloneflags = unix.CLONE_NEWPID
	}
	theirs, orders, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	defer orders.Close()
	start := func() (*os.Process, error) {
		return os.StartProcess("/proc/self/exe", []string{os.Args[0], entryWord}, &os.ProcAttr{
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, theirs}, Sys: attr,
		})
	}
	p, err := start()
	// EINVAL, ENOSPC: the kernel has no namespace of processes, or none left.
	refused := func() bool {
		return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSPC)
	}
	if attr.Cloneflags != 0 && refused() {
		attr.Cloneflags = 0
		p, err = start()
	}
	if attr.Unshareflags != 0 && refused() {
		attr.Unshareflags, k.Network = 0, false
		p, err = start()
	}
	if err != nil {
		return err
	}
	k.pid, k.private = p.Pid, attr.Unshareflags != 0
	_ = caps.Override(func() error {
		k.groups = makeCgroups(k.Name, k.Memory)
		k.groups.enter(k.pid)
		return nil
	})
	o := k.order
	o.Private, o.Network = k.private, k.private && k.Network
	return json.NewEncoder(orders).Encode(o)
}

// obey passes signals on, and kills the tree once boxdyno has ended or wants it to.
func (k *keeper) obey(lines *bufio.Reader) {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		if n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "signal "))); err == nil {
			_ = unix.Kill(k.pid, syscall.Signal(n))
		}
	}
	k.killAll()
}

// killAll ends every process of the tree. It goes on for as long as there are any: a
// process may fork while it is looked for.
func (k *keeper) killAll() {
	for range killPatience / (10 * time.Millisecond) {
		k.groups.kill()
		tree := 0
		ps, _ := processes(os.DirFS("/"))
		for _, d := range descendants(ps, os.Getpid()) {
			if d.state != 'Z' {
				tree++
				_ = unix.Kill(d.pid, unix.SIGKILL)
			}
		}
		if tree == 0 && len(k.groups.pids()) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// wait reaps the tree until nothing is left of it, and returns how the program ended.
func (k *keeper) wait() (end keeperEnd) {
	end.Code = -1
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil { // ECHILD: nobody is left
			break
		}
		if pid == k.pid {
			if status.Signaled() {
				end.Code, end.Signal = 0, int(status.Signal())
			} else {
				end.Code = status.ExitStatus()
			}
			guard.Go(k.killAll)
		}
	}
	end.OOMKills = k.groups.oomKills()
	u, cpu, _ := k.groups.usage()
	u.Processes = 0
	if !cpu {
		var r unix.Rusage
		if unix.Getrusage(unix.RUSAGE_CHILDREN, &r) == nil {
			u.User, u.System = time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
			u.CPU = u.User + u.System
			u.Source = strings.TrimPrefix(u.Source+", getrusage", ", ")
		}
	}
	end.Usage = &u
	return end
}

// sweep removes control groups and scratch folders, once, and says what it could not.
func (k *keeper) sweep() (trace string) {
	if k.swept {
		return ""
	}
	k.swept = true
	err := k.groups.remove()
	for _, dir := range k.Scratch {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// enter reads the order and becomes the program.
func enter() error {
	unix.CloseOnExec(controlFD)
	var o order
	if err := json.NewDecoder(os.NewFile(controlFD, "control")).Decode(&o); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("its keeper has ended")
		}
		return err
	}
	if o.Private {
		if err := furnish(o.Network, o.Memory); err != nil {
			return err
		}
	}
	if len(o.CPUs) > 0 {
		var set unix.CPUSet
		for _, c := range o.CPUs {
			set.Set(c)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return fmt.Errorf("pin %s to CPUs %v: %w", o.Argv[0], o.CPUs, err)
		}
	}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // no core files
	// Where memory ends this tree goes first.
	_ = caps.Override(func() error { return os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) })
	if err := os.Chdir(cmp.Or(o.Dir, ".")); err != nil {
		return err
	}
	// What the keeper ignores would stay ignored, and a shell could not even trap it; what
	// is caught is as it is by default again after exec(2).
	signal.Notify(make(chan os.Signal, 1), ignored...)
	return fmt.Errorf("start %s: %w", o.Argv[0], syscall.Exec(o.Argv[0], o.Argv, o.Env))
}

// furnish gives private namespaces what programs expect there: POSIX shared memory
// that goes with them, and a loopback that is up.
func furnish(network bool, memory uint64) error {
	if _, err := os.Stat("/dev/shm"); err == nil {
		options := "mode=1777"
		if memory > 0 { // what is in it counts against the limit
			options += fmt.Sprintf(",size=%d", memory/4)
		}
		if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			return fmt.Errorf("mount a /dev/shm of its own: %w", err)
		}
	}
	if !network {
		return nil
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("set its loopback up: %w", err)
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(uint16(net.FlagUp)) // IFF_UP is 1
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r); err != nil {
		return fmt.Errorf("set its loopback up: %w", err)
	}
	return nil
}
