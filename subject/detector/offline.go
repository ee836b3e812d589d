// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/internal/program"
)

// An Evaluating is a Detector without a port: it makes ready, waits for Begin, and
// ends by itself.
type Evaluating struct {
	process *host.Process
	name    string
	log     program.Log
	ready   chan struct{}

	mu     sync.Mutex
	known  bool // ready is closed
	end    *Evaluation
	memory uint64 // the most that was seen
	wrong  error
}

// An Evaluation is what an Evaluating did. Its times are of one CPU.
type Evaluation struct {
	Windows  int64   `json:"windows"`  // evaluated
	Seconds  float64 `json:"seconds"`  // that took
	CPU      float64 `json:"cpu"`      // CPU time that took, s
	Features float64 `json:"features"` // time that features take for one frame, s
	Frames   int     `json:"frames"`   // of a synthetic window
	Compared int     `json:"compared"` // windows whose outputs were compared with this program's evaluator
	Differ   int     `json:"differ"`   // of them, those with another one
}

// Evaluate is Start without a port.
func (d *Detector) Evaluate(ctx context.Context, e subject.Env) (_ *Evaluating, err error) {
	if err := d.Check(ctx, e.Machine()); err != nil {
		return nil, err
	}
	argv, err := d.argv("")
	if err != nil {
		return nil, err
	}
	dir, err := host.MakeScratchIn(cmp.Or(e.Dir, os.TempDir()))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	r := &Evaluating{name: runtimePrefix + d.runtime.name, ready: make(chan struct{})}
	r.process, err = e.Machine().Start(ctx, host.Cmd{
		Argv: argv, Dir: dir, Stdout: &program.Lines{Take: r.take}, Stderr: &r.log, CPUs: e.CPUs, Scratch: []string{dir},
		Env: append(os.Environ(), "TMPDIR="+dir, "LC_ALL=C", "PYTHONDONTWRITEBYTECODE=1"),
	})
	return r, err
}

// take reads a line of its child.
func (r *Evaluating) take(line string) {
	var l struct {
		Ready bool
		End   *Evaluation
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch err := json.Unmarshal([]byte(line), &l); {
	case err != nil:
		if r.wrong == nil {
			r.wrong = fmt.Errorf("%s printed what is no figure: %.80q", r.name, line)
		}
	case l.End != nil:
		r.end = l.End
	case l.Ready && !r.known:
		r.known = true
		close(r.ready)
	}
}

// Ready waits until the model is loaded.
func (r *Evaluating) Ready(ctx context.Context) error {
	late := time.NewTimer(program.ReadyPatience)
	defer late.Stop()
	select {
	case <-r.ready:
		return nil
	case <-r.process.Done():
		return r.failed()
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		return fmt.Errorf("%s was not ready within %v", r.name, program.ReadyPatience)
	}
}

// Begin has it evaluate, once it is Ready.
func (r *Evaluating) Begin() error { return r.process.Signal(beginSignal) }

// beginSignal tells a child that is ready to work.
const beginSignal = syscall.SIGUSR1

// Wait waits for its end, and looks at its memory meanwhile.
func (r *Evaluating) Wait(ctx context.Context) (Evaluation, error) {
	t := time.NewTicker(capture.AskPause)
	defer t.Stop()
	for {
		select {
		case <-r.process.Done():
			if err := r.failed(); err != nil {
				return Evaluation{}, err
			}
			return *r.end, nil
		case <-ctx.Done():
			return Evaluation{}, ctx.Err()
		case <-t.C:
			now := r.process.Resident()
			r.mu.Lock()
			r.memory = max(r.memory, now)
			r.mu.Unlock()
		}
	}
}

// failed says why it ended without figures; it has ended.
func (r *Evaluating) failed() error {
	err := r.process.Wait(context.Background())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrong != nil {
		return r.wrong
	}
	err = program.Failed(r.process, err, r.name, program.LastLine(r.log.String()), 0)
	if err == nil && r.end == nil {
		err = fmt.Errorf("%s ended without figures", r.name)
	}
	return err
}

// Usage implements Running.
func (r *Evaluating) Usage() (result.Usage, error) {
	u, err := r.process.Usage()
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.Subject = r.name; err == nil && r.memory > 0 {
		u.PeakMemory = r.memory
	}
	return u, err
}

// Stop implements Running.
func (r *Evaluating) Stop(ctx context.Context) error { return r.process.Stop(ctx, program.StopGrace) }
