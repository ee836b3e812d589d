// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/guard"
	"boxdyno/internal/netns"
	"boxdyno/result"
)

// A program that is put under load runs with all its children in a tree that is accounted,
// and that ends with boxdyno, however boxdyno ends. Its parent is the keeper, this binary
// once more in a session of its own, which owns the control groups and starts the program.
// When the pipe from boxdyno ends, the keeper kills the tree and removes control groups and
// scratch folders. It is the subreaper, so nothing that forks twice escapes. If it is killed
// as well the program dies with it, all others of a tree that is Bound, too, and Sweep does
// the rest.

// A Cmd is a program to start, and what holds for it and all its children.
type Cmd struct {
	Argv           []string
	Env            []string // NAME=VALUE, of which the last of a name holds; nil: this process's
	Dir            string   // "": this process's
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	CPUs           []int    // that it may use; nil: all of this process's
	Memory         uint64   // bytes that the tree may have at most, where control groups can limit it (Process.Limited); 0: no limit
	Private        bool     // in mount, IPC, UTS and, unless the Local names one, network namespaces of its own, where privilege allows (Process.Private)
	Bound          bool     // the kernel ends all processes of the tree with the program, by a process namespace of its own, where privilege allows; the program is process 1 there
	Scratch        []string // folders of Scratch, removed with the tree
}

// A Process is a started Cmd with all its children.
type Process struct {
	PID     int  // of the program
	Limited bool // Cmd.Memory holds
	Private bool // Cmd.Private was possible

	name    string
	keeper  *exec.Cmd
	control io.WriteCloser
	groups  cgroups
	sampler *sampler // nil: groups know everything
	ended   chan struct{}
	final   keeperEnd // once ended
	stop    sync.Once
}

// An order is what a keeper is told.
type order struct {
	Name    string   `json:"name"` // of control groups
	Argv    []string `json:"argv"` // Argv[0] is a path
	Env     []string `json:"env"`
	Dir     string   `json:"dir,omitempty"`
	CPUs    []int    `json:"cpus,omitempty"`
	Memory  uint64   `json:"memory,omitempty"`
	Private bool     `json:"private,omitempty"`
	Network bool     `json:"network,omitempty"` // Private: a network namespace too
	Bound   bool     `json:"bound,omitempty"`
	Scratch []string `json:"scratch,omitempty"`
}

// A keeperEvent is what a keeper tells: first Started or Error, then Ended.
type keeperEvent struct {
	Error   string      `json:"error,omitempty"`
	Started *keeperTree `json:"started,omitempty"`
	Ended   *keeperEnd  `json:"ended,omitempty"`
}

type keeperTree struct {
	PID     int     `json:"pid"`
	Groups  cgroups `json:"groups"`
	Private bool    `json:"private"`
}

type keeperEnd struct {
	Code   int           `json:"code"`             // exit code of the program
	Signal int           `json:"signal,omitempty"` // that ended it
	Usage  *result.Usage `json:"usage,omitempty"`  // nil: nothing is known any more
	Trace  string        `json:"trace,omitempty"`  // what could not be removed

	OOMKills int `json:"oom_kills,omitempty"`
}

// An Exit is how a program ended that did not end with exit code 0.
type Exit struct {
	Name   string
	Code   int
	Signal syscall.Signal // 0: it ended by itself
}

func (e *Exit) Error() string {
	if e.Signal != 0 {
		return fmt.Sprintf("%s was ended by signal %v", e.Name, e.Signal)
	}
	return fmt.Sprintf("%s ended with exit code %d", e.Name, e.Code)
}

const (
	keeperWord = "keep-a-process"
	entryWord  = "enter-a-process"
	// startPatience is how long a keeper may take to start a program: two times this
	// binary's own start.
	startPatience = 20 * time.Second
	// killPatience is how long a killed tree may take to be gone: a process that waits
	// for a disk dies after it.
	killPatience = 20 * time.Second
	// A look at all processes costs a small board much: the pause before the next is
	// samplePause, and sampleRest times what the look took.
	samplePause = 100 * time.Millisecond
	sampleRest  = 50
)

var trees atomic.Int64

// ownName marks what belongs to this process: its ID, when it was started, and in which
// process namespace, so that it is not taken for another one of the same ID.
func ownName() string {
	p, err := readProcess(os.DirFS("/"), os.Getpid())
	if err != nil {
		return fmt.Sprintf("boxdyno-%d-0-%d", os.Getpid(), pidSpace())
	}
	return fmt.Sprintf("boxdyno-%d-%d-%d", p.pid, p.start, pidSpace())
}

// pidSpace is the process namespace that /proc/self/stat is of; 0: not known.
func pidSpace() uint64 {
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// MakeScratch makes an empty folder for a Cmd's temporary files, which goes with the
// tree that it is given to, or at the latest by Sweep. It is in $TMPDIR.
func MakeScratch() (string, error) { return MakeScratchIn(os.TempDir()) }

// MakeScratchIn is MakeScratch in another folder. There Sweep does not come: what was
// left by processes of boxdyno that were killed together with their keepers is removed
// by the next call.
func MakeScratchIn(parent string) (string, error) {
	var errs []error
	for _, dir := range leftIn(parent) {
		errs = append(errs, os.RemoveAll(dir))
	}
	if err := errors.Join(errs...); err != nil {
		return "", fmt.Errorf("remove what a killed run has left: %w", err)
	}
	dir, err := os.MkdirTemp(parent, ownName()+"-")
	if err != nil {
		return "", fmt.Errorf("make a folder for temporary files: %w", err)
	}
	return dir, nil
}

// lastOfEach leaves of each variable's settings the last one: getenv(3) finds the first.
func lastOfEach(env []string) (out []string) {
	last := map[string]int{}
	for i, v := range env {
		name, _, _ := strings.Cut(v, "=")
		last[name] = i
	}
	for i, v := range env {
		if name, _, _ := strings.Cut(v, "="); last[name] == i {
			out = append(out, v)
		}
	}
	return out
}

// Start starts c in the host's namespace. A program that is not installed is a
// *Missing. The process must run KeepMain first thing. ctx is for the start alone.
func (l *Local) Start(ctx context.Context, c Cmd) (*Process, error) {
	path, args, err := l.resolve(c.Argv)
	if err != nil {
		return nil, err
	}
	o := order{
		Name: fmt.Sprintf("%s-%d", ownName(), trees.Add(1)), Argv: append([]string{path}, args...), Env: c.Env, Dir: c.Dir,
		CPUs: c.CPUs, Memory: c.Memory, Private: c.Private, Network: l.Netns == "", Bound: c.Bound, Scratch: c.Scratch,
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	o.Env = lastOfEach(o.Env)
	p, err := l.start(ctx, c, o)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	return p, nil
}

func (l *Local) start(ctx context.Context, c Cmd, o order) (_ *Process, err error) {
	theirs, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	events, said, err := os.Pipe()
	if err != nil {
		control.Close()
		return nil, err
	}
	defer said.Close()
	p := &Process{name: filepath.Base(c.Argv[0]), control: control, ended: make(chan struct{})}
	p.keeper = exec.Command("/proc/self/exe", keeperWord)
	p.keeper.Stdin, p.keeper.Stdout, p.keeper.Stderr = c.Stdin, guard.Writer(c.Stdout), guard.Writer(c.Stderr)
	p.keeper.ExtraFiles = []*os.File{theirs, said}
	p.keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C is boxdyno's to answer
	p.keeper.WaitDelay = time.Second
	if err := netns.Do(l.Netns, p.keeper.Start); err != nil {
		control.Close()
		events.Close()
		return nil, err
	}
	said.Close()
	lines := json.NewDecoder(bufio.NewReader(events))
	first := make(chan keeperEvent, 1)
	guard.Go(func() {
		defer close(p.ended)
		defer events.Close()
		p.final = keeperEnd{Code: -1}
		for {
			var e keeperEvent
			if err := lines.Decode(&e); err != nil {
				break
			}
			if e.Ended != nil {
				p.final = *e.Ended
			} else {
				first <- e
			}
		}
		close(first)
		_ = p.keeper.Wait() // what it had to say it said
	})
	fail := func(err error) (*Process, error) {
		control.Close()
		<-p.ended
		return nil, err
	}
	if err := json.NewEncoder(control).Encode(o); err != nil {
		return fail(err)
	}
	late := time.NewTimer(startPatience)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return fail(ctx.Err())
	case <-late.C:
		return fail(fmt.Errorf("it was not started within %v", startPatience))
	case e, ok := <-first:
		switch {
		case !ok:
			return fail(errors.New("its keeper ended at once: does this program call KeepMain?"))
		case e.Started == nil:
			return fail(errors.New(e.Error))
		}
		p.PID, p.groups, p.Private = e.Started.PID, e.Started.Groups, e.Started.Private
		p.Limited = p.groups.Limited
	}
	if _, cpu, memory := p.groups.usage(); !cpu || !memory {
		p.sampler = &sampler{root: os.DirFS("/"), keeper: p.keeper.Process.Pid}
		guard.Go(p.sample)
	}
	return p, nil
}

func (p *Process) sample() {
	for {
		begin := time.Now()
		_, _ = p.sampler.look()
		t := time.NewTimer(max(samplePause, sampleRest*time.Since(begin)))
		select {
		case <-p.ended:
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// Done is closed once the program and all its children are gone.
func (p *Process) Done() <-chan struct{} { return p.ended }

// PIDs are the processes of the tree now.
func (p *Process) PIDs() (pids []int) {
	if pids = p.groups.pids(); len(pids) > 0 {
		return pids
	}
	ps, _ := processes(os.DirFS("/"))
	for _, d := range descendants(ps, p.keeper.Process.Pid) {
		pids = append(pids, d.pid)
	}
	return pids
}

// Resident is the memory that the tree has now: the sum of its processes' proportional
// shares, or of all that they use where the shares may not be read.
func (p *Process) Resident() (octets uint64) {
	for _, pid := range p.PIDs() {
		octets += residentMemory(os.DirFS("/"), pid)
	}
	return octets
}

// OOMKills is how many processes of the tree the kernel killed because its memory was
// used up; known once it has ended, and only where control groups count it.
func (p *Process) OOMKills() int {
	select {
	case <-p.ended:
		return p.final.OOMKills
	default:
		return 0
	}
}

// Usage is what the tree used since it was started; after its end, in all.
func (p *Process) Usage() (result.Usage, error) {
	select {
	case <-p.ended:
		return p.finalUsage()
	default:
	}
	u, cpu, memory := p.groups.usage()
	if p.sampler != nil {
		s, err := p.sampler.look()
		if err != nil {
			return u, fmt.Errorf("what %s used: %w", p.name, err)
		}
		u = mixed(u, s, cpu, memory)
	}
	select {
	case <-p.ended: // it ended while we looked
		return p.finalUsage()
	default:
		return u, nil
	}
}

func (p *Process) finalUsage() (result.Usage, error) {
	if p.final.Usage == nil {
		return result.Usage{}, fmt.Errorf("what %s used is not known: its keeper was killed", p.name)
	}
	u := *p.final.Usage
	if p.sampler != nil && u.PeakMemory == 0 {
		p.sampler.mu.Lock()
		u.PeakMemory = p.sampler.peak
		p.sampler.mu.Unlock()
		u.Source += ", " + sampleSource
	}
	return u, nil
}

// mixed is u of control groups with what they do not know from samples s.
func mixed(u, s result.Usage, cpu, memory bool) result.Usage {
	if !cpu && !memory {
		return s
	}
	if !cpu {
		u.CPU, u.User, u.System = s.CPU, s.User, s.System
	}
	if !memory {
		u.PeakMemory = s.PeakMemory
	}
	u.Source += ", " + sampleSource
	return u
}

// Signal sends s to the program, not to its children.
func (p *Process) Signal(s syscall.Signal) error {
	_, err := fmt.Fprintf(p.control, "signal %d\n", int(s))
	return err
}

// Kill ends the whole tree by SIGKILL, and waits until it is gone.
func (p *Process) Kill() error {
	p.stop.Do(func() { p.control.Close() })
	return p.gone()
}

// gone waits for the end of the tree.
func (p *Process) gone() error {
	select {
	case <-p.ended:
	case <-time.After(killPatience + 5*time.Second):
		return fmt.Errorf("%s or a child of it could not be killed within %v", p.name, killPatience)
	}
	if p.final.Trace != "" {
		return fmt.Errorf("end %s: %s", p.name, p.final.Trace)
	}
	return nil
}

// Stop asks the program to end by SIGINT; what is left after grace, and when ctx
// ends, is killed. When it returns, the tree, its control groups and its scratch
// folders are gone, or the error says what is not. How the program ended is for Wait
// to say.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	_ = p.Signal(unix.SIGINT) // it may have ended
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.ended:
	case <-ctx.Done():
	case <-t.C:
	}
	return p.Kill()
}

// Wait waits until the program has ended, and its children with it. Its error is an
// *Exit where the program failed, and ctx's where that ended first; the tree then
// still runs.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.ended:
	}
	p.stop.Do(func() { p.control.Close() })
	switch f := p.final; {
	case f.Code < 0 && f.Signal == 0:
		return fmt.Errorf("%s: its keeper was killed", p.name)
	case f.Trace != "":
		return fmt.Errorf("end %s: %s", p.name, f.Trace)
	case f.Code != 0 || f.Signal != 0:
		return &Exit{Name: p.name, Code: f.Code, Signal: syscall.Signal(f.Signal)}
	}
	return nil
}

// Sweep removes what processes of this user's boxdyno that were killed together with
// their keepers have left: processes in their control groups, the groups, scratch folders.
func Sweep() error {
	var errs []error
	v2, memory, cpuacct, err := hierarchies(os.DirFS("/"))
	if err == nil {
		for _, h := range []hierarchy{v2, memory, cpuacct} {
			for _, place := range slices.Compact([]string{h.mount, filepath.Join(h.mount, h.own)}) {
				for _, dir := range leftIn(place) {
					killGroup(dir)
					errs = append(errs, removeGroup(dir))
				}
			}
		}
	}
	for _, dir := range leftIn(os.TempDir()) {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// leftIn are the folders in dir that belong to a boxdyno of this user that is gone. One
// of another process namespace may live, and cannot be seen from here.
func leftIn(dir string) (left []string) {
	if dir == "" {
		return nil
	}
	found, _ := filepath.Glob(filepath.Join(dir, "boxdyno-*-*-*-*"))
	for _, f := range found {
		w := strings.Split(strings.TrimPrefix(filepath.Base(f), "boxdyno-"), "-")
		pid, err := strconv.Atoi(w[0])
		start, serr := strconv.ParseUint(w[1], 10, 64)
		if err != nil || serr != nil || start == 0 || w[2] != strconv.FormatUint(pidSpace(), 10) {
			continue
		}
		info, err := os.Lstat(f)
		if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
			continue
		}
		if p, err := readProcess(os.DirFS("/"), pid); err == nil && p.start == start {
			continue
		}
		left = append(left, f)
	}
	return left
}
