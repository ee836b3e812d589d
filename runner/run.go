// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/tune"
	"boxdyno/unit"
)

// A Sink keeps what a run finds: a *result.Bundle, or a test's slice. WriteRun
// is called first, once the testbed stands, and again when the run ends; Append
// must have its record on the disk when it returns.
//
// Sample keeps lines of telemetry, a result.TelemetryHead first and then
// result.Batch; one goroutine calls it beside the others, after the first WriteRun.
type Sink interface {
	WriteRun(result.Run) error
	Append(result.Record) error
	Sample(lines []byte) error
}

// Options are what a run needs beside its plan.
type Options struct {
	Catalogue Catalogue
	Header    result.Run      // what the caller knows: version, id, command, role, criteria...; of a resumed run its whole header
	Resume    bool            // Header and Done are of a run that broke off
	Done      []result.Record // its records
	Tune      *tune.Recipe    // applied to the DUT while the run lasts; nil: none. Of a resumed run its header has it
	Ablate    *Ablation       // a recipe that is taken apart; nil: none. Of a resumed run its header has it
	Log       *slog.Logger    // nil: discarded
	Notify    func(Event)     // nil: nobody watches
}

// An Event is a step of a run, for whoever watches.
type Event struct {
	Kind   EventKind
	Text   string         // Waiting: who measures; Note: a warning; Trial: which; Preparing: what goes on
	Point  string         // ID of the point
	Share  float64        // of the whole run's estimated time that is over, 0 to 1
	Left   time.Duration  // about what is to come
	Record *result.Record // TrialDone; PointPauses, PointDone

	Metrics []result.Metric // where there is a record: that its procedure declares
}

// EventKind says what happened.
type EventKind int

const (
	Waiting EventKind = iota // for the machine-wide lock
	Note                     // a warning, which the run's header holds too
	PointStarts
	Trial
	TrialDone
	PointPauses // until every other point has had its turn
	PointDone
	Preparing // a trial: the box is heated, or cools down
)

// idleLimit is the busy share of the CPUs above which a machine is not idle (METHOD: 2.5 %).
const idleLimit = 0.025

// idleWindow is how long the CPUs are watched.
const idleWindow = 400 * time.Millisecond

// Run carries out a resolved plan and returns the run's header and records as
// they stand in the sink. A point whose prerequisite is missing is skipped and
// the run goes on; the error then has a *SkippedError. Every other error ends the
// run: ctx's when it was interrupted, *PlanError before anything was measured.
// The testbed is taken down however the run ends; errors of that are joined.
func Run(ctx context.Context, p Plan, sink Sink, o Options) (result.Run, []result.Record, error) {
	x := newExecution(p, sink, o)
	err := x.carryOut(ctx)
	return x.run, x.recs, err
}

// A SkippedError is the first point of a run that was skipped, and what it lacks.
type SkippedError struct {
	Point   string
	Missing *host.Missing
}

// Error implements error.
func (e *SkippedError) Error() string { return e.Point + " was skipped: " + e.Missing.Error() }

// Unwrap returns what is missing.
func (e *SkippedError) Unwrap() error { return e.Missing }

func newExecution(p Plan, sink Sink, o Options) *execution {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Notify == nil {
		o.Notify = func(Event) {}
	}
	x := &execution{
		o: o, plan: p, sink: sink, run: o.Header, recs: slices.Clone(o.Done), at: map[string]int{},
		clock: clock{start: time.Now(), earlier: earlierPart(o.Done)},
	}
	for i, r := range x.recs {
		x.at[r.ID] = i
	}
	return x
}

// carryOut is the run in its stages. What a stage puts up is taken down in reverse
// order, however the run ends.
func (x *execution) carryOut(ctx context.Context) (err error) {
	points, err := x.o.points(x.plan)
	if err != nil {
		return err
	}
	if _, err := Check(x.o.Catalogue, points, nil); err != nil {
		return err
	}
	if x.o.Resume && !left(points, x.o.Done) {
		return nil
	}
	defer func() { err = errors.Join(err, x.takeDown()) }()
	if err := x.build(ctx, points); err != nil {
		return err
	}
	if err := x.tune(ctx); err != nil {
		return err
	}
	if points, err = x.ablate(ctx, points); err != nil {
		return err
	}
	x.header()
	x.settle(ctx)
	if err := x.watch(ctx); err != nil {
		return err
	}
	x.clock.set = time.Since(x.clock.start) // taking down measures no idle power
	x.idlePower(ctx)
	return x.finish(ctx, x.points(ctx, points))
}

// later has undo called when the run ends, before what was put up earlier is undone.
func (x *execution) later(undo func() error) { x.undo = append(x.undo, undo) }

func (x *execution) takeDown() (err error) {
	for _, undo := range x.undo {
		defer func() { err = errors.Join(err, undo()) }()
	}
	return nil
}

// measures says whether others could disturb the run. In memory nothing is measured.
func (x *execution) measures() bool { return x.bed.Kind != result.KindMemory }

// build builds the testbed, checks that it has what the points need, and waits for
// the machine-wide lock. The lock is kept until the testbed is gone: taking it down
// disturbs whoever measures next.
func (x *execution) build(ctx context.Context, points []Point) error {
	if err := host.Sweep(); err != nil {
		x.o.Notify(Event{Kind: Note, Text: "remove what a killed run has left: " + err.Error()})
	}
	topology, err := x.o.Catalogue.topology(x.plan.Lab)
	if err != nil {
		return err
	}
	if x.bed, err = topology.Build(ctx); err != nil {
		return fmt.Errorf("build the testbed: %w", err)
	}
	unlock := func() {}
	x.later(func() error { unlock(); return nil })
	x.later(func() error {
		if err := x.bed.Close(); err != nil {
			return fmt.Errorf("take the testbed down: %w", err)
		}
		return nil
	})
	if _, err := Check(x.o.Catalogue, points, x.bed); err != nil {
		return err
	}
	if err := x.fits(ctx, points); err != nil {
		return err
	}
	x.beside = procedure.NewSurroundings(x.bed)
	if !x.measures() {
		return nil
	}
	waits := time.Now()
	release := func() {} // who carries out a box's own procedures has it to itself
	if boxOf(x.bed) == nil {
		release, err = host.Lock(ctx, func(holder string) { x.o.Notify(Event{Kind: Waiting, Text: holder}) })
	}
	if err != nil {
		return err
	}
	unlock = release
	x.clock.start = x.clock.start.Add(time.Since(waits))
	return nil
}

// settle learns how fast and how busy the machine is before anything is loaded.
func (x *execution) settle(ctx context.Context) {
	if x.measures() {
		x.idle(ctx, "before")
		if boxOf(x.bed) == nil {
			x.steady = steady{virtual: x.run.Machines[0].Virtual != "", running: (&host.Local{}).Running}
			if cpus := x.bed.CPUs; len(cpus) > 0 {
				x.steady.speed = func() ([]float64, error) { return host.Speed(cpus...) }
			}
			x.steady.learn(ctx)
		}
	}
	x.later(x.leave)
	x.beside.Say = func(text string) { x.o.Notify(Event{Kind: Preparing, Text: text}) }
	x.beside.Warn = x.warn
	x.later(x.beside.Close)
}

// finish ends what runs beside the trials and writes the header for the last time.
// err is what ended the points.
func (x *execution) finish(ctx context.Context, err error) error {
	err = errors.Join(err, x.beside.Close())
	x.unwatch()
	if x.broken != nil {
		return err
	}
	if err == nil && x.measures() {
		x.idle(ctx, "after")
	}
	x.after()
	return errors.Join(err, x.write())
}

// left says whether a resumed run has anything to do.
func left(points []Point, done []result.Record) bool {
	keep := map[string]bool{}
	for _, r := range done {
		keep[r.ID] = kept(r)
	}
	return slices.ContainsFunc(points, func(p Point) bool { return !keep[p.ID] })
}

// kept says whether a resumed run takes the record as it is. What was skipped is
// tried again: its prerequisite may be there now.
func kept(r result.Record) bool { return r.Finished() && r.Status != result.Skipped }

// topology is that of e, with its parameters set.
func (c Catalogue) topology(e Entry) (lab.Topology, error) {
	spec, err := c.lab(e.Use, e.at)
	if err != nil {
		return nil, err
	}
	t := spec.New()
	if d, ok := t.(lab.Dialling); ok {
		d.DialBy(c.Dial)
	}
	fs := flags(t)
	for _, s := range e.Set {
		if err := apply(fs, []result.Pair{{Key: s.Key, Value: s.Values[0].Text}}); err != nil {
			return nil, &PlanError{At: s.at, Err: err}
		}
	}
	return t, nil
}

// kindOf returns the kind of a run on a testbed of kind bed: emulated where any of its
// machines is, whatever the tester is. In memory no machine is measured.
func kindOf(bed string, machines []result.Machine) string {
	if bed != result.KindMemory && slices.ContainsFunc(machines, func(m result.Machine) bool { return m.Kind == result.KindEmulated }) {
		return result.KindEmulated
	}
	return bed
}

// header fills in what is said once, and finds the run's origin.
func (x *execution) header() {
	run, p := &x.run, x.plan
	machine := (&host.Local{}).Identify()
	others := x.bed.Machines
	if boxOf(x.bed) != nil {
		machine, others = others[0], others[1:]
	}
	if x.bed.Kind == result.KindSandbox && machine.Kind == result.KindReal {
		machine.Kind = result.KindSandbox
	}
	x.environment = len(run.Environments)
	env := x.settings()
	now := time.Now()
	if x.o.Resume {
		x.origin = resumedOrigin(x.recs, unit.Now(), now.Sub(run.Start))
		if len(run.Machines) > 0 {
			was := run.Machines[0]
			switch {
			case was.Name != machine.Name || was.Board != machine.Board || was.CPU != machine.CPU || was.Kernel != machine.Kernel:
				x.warn(fmt.Sprintf("the run was begun on %s and is resumed on %s: do not compare its points with each other", describe(was), describe(machine)))
			case was.BootID != machine.BootID:
				x.warn("the machine was started anew between two parts of the run")
			}
		}
		if len(run.Environments) > 0 {
			for _, c := range changes(run.Environments[0], env) {
				x.warn("since the run was begun " + c)
			}
		}
	} else {
		x.origin = unit.Now()
		run.Schema = result.Schema
		run.Start = now
		run.Machines = append([]result.Machine{machine}, others...)
		run.Topology, run.Kind, run.Seed, run.Preset = x.bed.Topology, kindOf(x.bed.Kind, run.Machines), p.Seed, p.PresetsUsed()
		run.Plan, _ = json.Marshal(p) // strings and numbers only
		for _, e := range p.Procedures {
			spec, _ := x.o.Catalogue.procedure(e.Use, e.at) // Resolve found it
			for _, m := range spec.Metrics {
				if !slices.ContainsFunc(run.Metrics, func(o result.Metric) bool { return o.Name == m.Name }) {
					run.Metrics = append(run.Metrics, m)
				}
			}
			if !slices.ContainsFunc(run.Procedures, func(o result.Procedure) bool { return o.Name == spec.Name }) {
				run.Procedures = append(run.Procedures, spec.Declaration())
			}
		}
		run.Backend = backends(x.bed)
		run.Deviations = append(deviations(x.o.Catalogue, p), run.Deviations...)
	}
	run.Environments = append(slices.Clone(run.Environments), env)
	for _, w := range x.bed.Warnings {
		x.warn(w)
	}
	x.concerns(env, "")
	for _, p := range x.bed.Planted {
		x.warn("planted limit: " + p + "; figures that it bounds are its own, not the machine's")
	}
}

// PresetsUsed names the presets of a resolved plan's procedures: a procedure's own
// one goes before the plan's.
func (p Plan) PresetsUsed() string {
	var names []string
	for _, e := range p.Procedures {
		if s := e.Get("preset"); s != nil {
			for _, w := range s.Values {
				if !slices.Contains(names, w.Text) {
					names = append(names, w.Text)
				}
			}
		}
	}
	return cmp.Or(strings.Join(names, ", "), p.Preset)
}

// deviations is what the plan's procedures and the searches of their presets do
// otherwise than the standards.
func deviations(c Catalogue, p Plan) (out []string) {
	for _, e := range p.Procedures {
		spec, _ := c.procedure(e.Use, e.at) // Resolve found it
		if spec.Deviation != "" && !slices.Contains(out, spec.Deviation) {
			out = append(out, spec.Deviation)
		}
		set := e.Get("preset")
		if spec.Quick != "" && set != nil && slices.ContainsFunc(set.Values, func(w Word) bool { return w.Text == "quick" }) && !slices.Contains(out, spec.Quick) {
			out = append(out, spec.Quick)
		}
		if set == nil || !slices.ContainsFunc(spec.Metrics, func(m result.Metric) bool { return m.Name == searchedRate }) {
			continue
		}
		names := set.Values
		if how := e.Get("search"); how != nil { // one that is no search's name follows preset
			names = append(slices.Clip(how.Values), names...)
			if !slices.ContainsFunc(how.Values, func(w Word) bool { return w.Text == "preset" }) {
				names = how.Values
			}
		}
		for _, w := range names {
			if s, err := search.Get(w.Text); err == nil && s.Deviation != "" && !slices.Contains(out, s.Deviation) {
				out = append(out, s.Deviation)
			}
		}
	}
	return out
}

func describe(m result.Machine) string {
	return strings.TrimSpace(m.Name + " (" + m.CPU + ", Linux " + m.Kernel + ")")
}

func backends(bed *lab.Testbed) (out []result.Pair) {
	if bed.Engine != nil {
		out = append(out, result.Pair{Key: "engine", Value: bed.Engine.Name()})
	}
	for _, t := range bed.Tried {
		v := "works"
		if t.Err != nil {
			v = t.Err.Error()
		}
		out = append(out, result.Pair{Key: t.Name, Value: v})
	}
	return out
}

// settings is the environment, and how the testbed was built.
func (x *execution) settings() []result.Pair {
	env := surroundings(x.bed)
	if x.bed.Placement != "" {
		env = append(env, result.Pair{Key: "placement", Value: x.bed.Placement})
	}
	settings := x.bed.Settings
	if o, ok := x.bed.Means.(lab.Observer); ok {
		settings = append(slices.Clip(settings), o.Observe()...)
	}
	for _, s := range settings {
		if result.Get(env, s.Key) == "" {
			env = append(env, s)
		}
	}
	return env
}

// resumedOrigin is an origin after which everything comes later than all of done,
// by as much as the wall clock says, if that can be true.
func resumedOrigin(done []result.Record, now unit.Instant, wall time.Duration) unit.Instant {
	last := unit.Instant(0)
	for _, r := range done {
		last = max(last, r.Begin, r.End)
	}
	return now - max(last+1, unit.Instant(wall))
}

// changes says what differs between two environments. What only one of them has
// is no change: some settings are readable for root alone.
func changes(before, after []result.Pair) (out []string) {
	for _, p := range before {
		if slices.Contains(host.Drifting, p.Key) {
			continue
		}
		if v := result.Get(after, p.Key); v != p.Value && v != "" && p.Value != "" {
			out = append(out, fmt.Sprintf("%s changed from %q to %q", p.Key, p.Value, v))
		}
	}
	return out
}

func (x *execution) warn(text string) {
	if !slices.Contains(x.run.Warnings, text) {
		x.run.Warnings = append(x.run.Warnings, text)
	}
	x.o.Notify(Event{Kind: Note, Text: text})
}

// idle warns where the machine is busy with something else.
func (x *execution) idle(ctx context.Context, when string) {
	look, env := (&host.Local{}).Busy, x.run.Environments[x.environment]
	if box := boxOf(x.bed); box != nil {
		look, env = box.Busy, nil
	}
	if busy, err := look(ctx, idleWindow); err == nil && busy > idleLimit { // no answer, no warning
		x.warn(notIdle(when, busy, env))
	}
}

// notIdle is the warning. env is how a machine that sends is set up, else nil.
func notIdle(when string, busy float64, env []result.Pair) string {
	text := fmt.Sprintf("the machine was not idle %s the run: its CPUs were %.1f %% busy, and idle is at most %.1f %%", when, 100*busy, 100*idleLimit)
	if result.Get(env, host.BySession) == "1" {
		text += "; the sender goes before programs of its own session only: end the others, or set kernel.sched_autogroup_enabled=0"
	}
	return text
}

// after notes the environment once more, and what of it changed.
func (x *execution) after() {
	env := x.settings()
	for _, c := range changes(x.run.Environments[x.environment], env) {
		x.warn("while the run lasted " + c)
	}
	x.concerns(env, "after the run: ")
	x.run.Environments = append(x.run.Environments, env)
}
