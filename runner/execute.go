// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// An execution is a run under way. All of it stands in one goroutine.
type execution struct {
	o           Options
	bed         *lab.Testbed
	sink        Sink
	run         result.Run
	recs        []result.Record // the last of each ID, in order of appearance
	at          map[string]int  // index in recs
	origin      unit.Instant
	environment int   // index of the environment before
	broken      error // the sink's: after it nothing is written, or a cut line would end up amid whole ones
}

func (x *execution) write() error {
	if x.broken != nil {
		return x.broken
	}
	if err := x.sink.WriteRun(x.run); err != nil {
		x.broken = fmt.Errorf("keep the run: %w", err)
	}
	return x.broken
}

func (x *execution) append(r result.Record) error {
	if x.broken != nil {
		return x.broken
	}
	if err := x.sink.Append(r); err != nil {
		x.broken = fmt.Errorf("keep record %s: %w", r.ID, err)
		return x.broken
	}
	if i, ok := x.at[r.ID]; ok {
		x.recs[i] = r
	} else {
		x.at[r.ID] = len(x.recs)
		x.recs = append(x.recs, r)
	}
	return nil
}

func (x *execution) points(ctx context.Context, points []Point) error {
	var missing *host.Missing
	var first error
	durations := make([]time.Duration, len(points))
	var left time.Duration
	for i, pt := range points {
		p, err := pt.procedure(x.o.Catalogue)
		if err != nil {
			return err
		}
		_, durations[i] = p.Estimate()
		left += durations[i]
	}
	var took, estimated time.Duration // of the points that were measured
	togo := func() time.Duration {
		if estimated == 0 {
			return left
		}
		return time.Duration(float64(left) * float64(took) / float64(estimated))
	}
	for i, pt := range points {
		e := Event{Kind: PointStarts, Point: pt.ID, Index: i, Points: len(points), Left: togo()}
		x.o.Notify(e)
		begin := time.Now()
		at, done := x.at[pt.ID]
		done = done && kept(x.recs[at])
		rec, err := x.point(ctx, pt, e)
		left -= durations[i]
		if !done {
			took += time.Since(begin)
			estimated += durations[i]
		}
		switch {
		case err != nil && x.broken == nil && rec.Status == result.Skipped && errors.As(err, &missing):
			if first == nil {
				first = fmt.Errorf("%s was skipped: %w", pt.ID, missing)
			}
		case err != nil:
			return err
		}
		x.o.Notify(Event{Kind: PointDone, Point: pt.ID, Index: i + 1, Points: len(points), Left: togo(), Record: &rec})
	}
	return first
}

// point runs one procedure at one point, with its trials.
func (x *execution) point(ctx context.Context, pt Point, e Event) (result.Record, error) {
	rec := result.Record{ID: pt.ID, Procedure: pt.Procedure, Config: pt.Params, Repeat: pt.Repeat}
	trials := 0
	trial := func(ctx context.Context, r result.Record, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		e := e
		e.Kind, e.Text = Trial, r.ID
		x.o.Notify(e)
		r, err := x.one(ctx, r, true, f)
		e.Kind, e.Record = TrialDone, &r
		x.o.Notify(e)
		return r, err
	}
	env := &procedure.Env{Bed: x.bed, Log: x.o.Log}
	env.Trial = func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		trials++
		return trial(ctx, result.Record{
			ID: fmt.Sprintf("%s/%d%s", pt.ID, trials, words(cfg)), Parent: pt.ID, Procedure: pt.Procedure,
			Config: append(slices.Clip(pt.Params), cfg...), Repeat: pt.Repeat,
		}, f)
	}
	env.Once = func(ctx context.Context, key string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		what, _, _ := strings.Cut(key, "/")
		return trial(ctx, result.Record{ID: key, Parent: what, Procedure: what, Config: cfg, Repeat: 1}, f)
	}
	return x.one(ctx, rec, false, func(ctx context.Context) (procedure.Outcome, error) {
		p, err := pt.procedure(x.o.Catalogue)
		if err != nil {
			return procedure.Outcome{}, err
		}
		return p.Run(ctx, env)
	})
}

// words is cfg as the end of a trial's ID: " rate=200000".
func words(cfg []result.Pair) string {
	var b strings.Builder
	for _, p := range cfg {
		fmt.Fprintf(&b, " %s=%s", p.Key, p.Value)
	}
	return b.String()
}

// one carries out f and keeps its record: first as running, so that an
// unfinished one shows where a box died. A finished record is returned as it is.
func (x *execution) one(ctx context.Context, r result.Record, judge bool, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
	if i, ok := x.at[r.ID]; ok && kept(x.recs[i]) {
		return x.recs[i], nil
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	r.Schema, r.Environment, r.Start, r.Status = result.Schema, x.environment, time.Now(), result.Running
	r.Begin = unit.Now() - x.origin
	r.End = r.Begin
	if err := x.append(r); err != nil {
		return r, err
	}
	used := measure()
	o, err := x.call(ctx, r.ID, f)
	r.End = unit.Now() - x.origin
	if x.broken != nil { // whatever f made of it
		return r, x.broken
	}
	r.Reason, r.Values, r.Load, r.Account, r.Warnings = o.Reason, o.Values, o.Load, o.Account, o.Warnings
	for _, p := range o.Phases {
		r.Phases = append(r.Phases, result.Phase{Name: p.Name, Begin: p.Begin - x.origin, End: p.End - x.origin})
	}
	if r.Load != nil && judge {
		r.Load.StealRatio, r.Load.ObserverCPU, r.Load.ObserverMem = used.until()
	}
	if err == nil {
		err = ctx.Err() // f may have ended early and not have said so
	}
	var missing *host.Missing
	switch {
	case errors.As(err, &missing):
		r.Status, r.Reason = result.Skipped, missing.Error()
	case err != nil && ctx.Err() != nil:
		r.Status, r.Reason = result.Aborted, "interrupted"
	case err != nil:
		r.Status, r.Reason = result.Aborted, err.Error()
	case judge:
		r.Status = o.Status
		r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
		r.Warnings = append(r.Warnings, verdict.Warnings(r, o.Ceiling)...)
	case o.Status == "":
		r.Status = result.Passed
	default:
		r.Status = o.Status
	}
	if kerr := x.append(r); kerr != nil {
		return r, errors.Join(kerr, err)
	}
	return r, err
}

// call turns a panic of f into an error, so that the run ends in order.
func (x *execution) call(ctx context.Context, id string, f func(context.Context) (procedure.Outcome, error)) (o procedure.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			x.o.Log.Error("panic", "in", id, "value", p, "stack", string(debug.Stack()))
			o, err = procedure.Outcome{}, fmt.Errorf("%s: a fault in boxdyno: panic: %v", id, p)
		}
	}()
	return f(ctx)
}

// A meter of what the machine and this process spent while a trial lasted.
type spent struct {
	cpu host.CPUTime
	own time.Duration
	ok  bool
}

func measure() spent {
	cpu, err := (&host.Local{}).CPUTime()
	own, _ := observer()
	return spent{cpu: cpu, own: own, ok: err == nil}
}

// until is the steal ratio of all CPUs since s, and what boxdyno itself cost.
func (s spent) until() (steal float64, cpu time.Duration, memory uint64) {
	if now, err := (&host.Local{}).CPUTime(); err == nil && s.ok {
		_, steal = now.Since(s.cpu)
	}
	cpu, memory = observer()
	return steal, cpu - s.own, memory
}

// observer is this process's time in user space (that in the kernel is the load
// itself) and the most memory that it has had.
func observer() (cpu time.Duration, memory uint64) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano()), uint64(u.Maxrss) << 10
}
