// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject/internal/program"
)

// A Worker is a program that works to its end by itself and tells how fast it did. Its
// Running is a *Working.
type Worker interface {
	Subject
	// Identify is what its figures are of: version, compiler and flags, driver, CPU
	// features. Its order is always the same.
	Identify(ctx context.Context, h *host.Local) ([]result.Pair, error)
	// Prove has it work out something whose result is known, before it is timed: an
	// error says what came out instead. It takes a second at most on a small board.
	Prove(ctx context.Context, h *host.Local) error
}

// A Command is a command that works to its end, and how its figures are read.
type Command struct {
	Name   string   // in sentences, and in its usage
	Argv   []string // Argv[0] is found on PATH
	Env    []string // beside this process's, where LC_ALL is C
	Dir    string   // a scratch folder (host.MakeScratchIn) that it works in, which goes with it; "": none
	Stdin  *os.File // nil: it reads nothing. Start closes it
	Stdout *os.File // nil: Worked.Stdout. Start closes it
	Memory uint64   // bytes that it may have, where control groups can limit it; 0: no limit
	// Why is the line of its standard error that says why it failed; nil: the last one.
	Why func(stderr string) string
	// Read makes the figures of what it did. An error is a sentence on what is wrong
	// with its output.
	Read func(w Worked) ([]result.Value, error)
}

// A Worked is what a Command did from Begin to its end.
type Worked struct {
	Stdout, Stderr string        // the first 64 KiB of each
	Elapsed        time.Duration // from its start to its end, loading of the program included
}

// A Working is a Command that stands at its start until Begin, so that several begin
// together:
//
//	Command.Start -> Ready -> Begin -> Wait, or Stop
type Working struct {
	program Command
	process *host.Process
	stdout  program.Log
	stderr  program.Log
	begun   bool

	mu   sync.Mutex
	told *worked
}

// Start starts p, which then waits for Begin. Where it fails nothing is left, and p's
// files are closed.
func (p Command) Start(ctx context.Context, e Env) (_ *Working, err error) {
	for _, f := range []*os.File{p.Stdin, p.Stdout} {
		if f != nil {
			defer f.Close()
		}
	}
	defer func() {
		if err != nil && p.Dir != "" {
			err = errors.Join(err, os.RemoveAll(p.Dir))
		}
	}()
	// The gate is this machine's in any case: it starts the userland's program.
	outside := *e.Machine()
	userland := outside.Userland
	if err := outside.Has(p.Argv[0]); err != nil {
		return nil, err
	}
	outside.Userland = nil
	text, err := json.Marshal(userland)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &Working{program: p}
	c := host.Cmd{
		Argv: append([]string{self, gateWord, string(text)}, p.Argv...), Env: append(append(os.Environ(), "LC_ALL=C"), p.Env...), Dir: p.Dir,
		Stdout: &w.stdout, CPUs: e.CPUs, Memory: p.Memory,
	}
	c.Stderr = &program.Lines{Take: w.take}
	if p.Stdin != nil {
		c.Stdin = p.Stdin
	}
	if p.Stdout != nil {
		c.Stdout = p.Stdout
	}
	if p.Dir != "" {
		c.Scratch = []string{p.Dir}
	}
	w.process, err = outside.Start(ctx, c)
	return w, err
}

// take reads a line of the standard error of gate and program.
func (w *Working) take(line string) {
	if told, ok := parseWorked(line); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = &told
		return
	}
	_, _ = w.stderr.Write([]byte(line + "\n"))
}

// Ready waits until it stands at its start.
func (w *Working) Ready(ctx context.Context) error {
	late := time.NewTimer(program.ReadyPatience)
	defer late.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		if stopped(w.process.PID) {
			return nil
		}
		select {
		case <-look.C:
		case <-w.process.Done():
			return w.failed()
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return fmt.Errorf("%s was not ready within %v", w.program.Name, program.ReadyPatience)
		}
	}
}

// stopped says whether a process is in state T.
func stopped(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, ok := strings.Cut(string(data), ") ")
	return err == nil && ok && strings.HasPrefix(rest, "T")
}

// Begin lets it work, once it is Ready.
func (w *Working) Begin() error {
	w.begun = true
	return w.process.Signal(unix.SIGCONT)
}

// Done is closed once it and all its children are gone.
func (w *Working) Done() <-chan struct{} { return w.process.Done() }

// Wait returns its own figures once it has ended, or a sentence on why it has none.
func (w *Working) Wait(ctx context.Context) ([]result.Value, error) {
	select {
	case <-w.process.Done():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := w.failed(); err != nil {
		return nil, err
	}
	vs, err := w.program.Read(Worked{Stdout: w.stdout.String(), Stderr: w.stderr.String(), Elapsed: w.Elapsed()})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.program.Name, err)
	}
	return vs, nil
}

// AllDone waits until all of runs, which are parts of one work, have ended. Where one cannot
// go on, which broken says, it returns without the others: with the error of one that
// failed, or ErrBroken. It returns the cause of ctx's end, too. nil is never broken.
func AllDone(ctx context.Context, runs []*Working, broken <-chan struct{}) error {
	for _, r := range runs {
		select {
		case <-r.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-broken:
			time.Sleep(brokenGrace)
			for _, r := range runs {
				select {
				case <-r.Done():
					if err := r.failed(); err != nil {
						return err
					}
				default:
				}
			}
			return ErrBroken
		}
	}
	return nil
}

// ErrBroken is of works of which another part failed.
var ErrBroken = errors.New("another part of the work failed")

// brokenGrace is how long a part that fails takes to end.
const brokenGrace = time.Second

// AtLimit is the error of a part of a work that failed after a time. It names the limit of
// the work where that was near: the machine whose time is over first ends the parts of all.
func AtLimit(err error, after, limit time.Duration) error {
	if err == nil || after < limit-limit/10 {
		return err
	}
	return fmt.Errorf("%w, after %v of the %v that it may take: another machine, whose time was over, may have ended it", err, after.Round(time.Second), limit.Round(time.Second))
}

// CPUShare is the CPU time that it had, with its children, as a share of the time from
// its start to its end, once it has ended: 1 is a CPU all the time, more is several.
func (w *Working) CPUShare() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told == nil || w.told.Elapsed <= 0 {
		return 0
	}
	return float64(w.told.User+w.told.System) / float64(w.told.Elapsed)
}

// Elapsed is the time from its start to its end, once it has ended.
func (w *Working) Elapsed() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told == nil {
		return 0
	}
	return w.told.Elapsed
}

// failed says why it ended without having worked; it has ended.
func (w *Working) failed() error {
	err := w.process.Wait(context.Background()) // all that it said is read then
	w.mu.Lock()
	defer w.mu.Unlock()
	signal := syscall.Signal(0)
	if w.told != nil {
		signal = syscall.Signal(w.told.Signal)
	}
	said := strings.TrimSpace(w.stderr.String())
	why := program.LastLine(cmp.Or(said, w.stdout.String()))
	if w.program.Why != nil && said != "" {
		why = w.program.Why(said)
	}
	err = program.Failed(w.process, err, w.program.Name, why, signal)
	if err == nil && w.told == nil {
		err = fmt.Errorf("%s ended without having worked", w.program.Name)
	}
	return err
}

// Usage implements Running.
func (w *Working) Usage() (result.Usage, error) {
	u, err := w.process.Usage()
	u.Subject = w.program.Name
	return u, err
}

// Stop implements Running.
func (w *Working) Stop(ctx context.Context) error {
	if w.begun {
		return w.process.Stop(ctx, program.StopGrace)
	}
	return w.process.Kill() // it stands, and could not obey
}
