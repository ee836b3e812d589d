// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/far"
	"boxdyno/result"
	"boxdyno/telemetry"
	"boxdyno/tune"
	"boxdyno/unit"
)

// An execution is a run under way. All of it stands in one goroutine.
type execution struct {
	o           Options
	plan        Plan
	bed         *lab.Testbed
	others      map[string]*another // testbeds of points that are not measured in bed, by topology
	sink        Sink
	run         result.Run
	recs        []result.Record // the last of each ID, in order of appearance
	at          map[string]int  // index in recs
	origin      unit.Instant
	environment int // index of the environment before
	steady      steady
	beside      *procedure.Surroundings // of trials
	tuned       []result.Setting        // by the run's recipe, or the part of it that is in force
	parts       []tune.Recipe           // of the recipe that is taken apart; nil: none is
	dut         lab.Tuner               // applies them
	sampler     *telemetry.Sampler      // nil: nothing is watched
	every       []*visited
	clock       clock               // of the budget
	stored      map[string][]stored // finished trials of an earlier part, by point
	began       time.Time           // when the first point was visited
	earned      time.Duration       // estimates of the trials that were carried out since
	mu          sync.Mutex          // of warnings
	warnings    []string            // of other goroutines, not given out yet
	undo        []func() error      // of what stands, in the order in which it was put up
	broken      error               // the sink's: after it nothing is written, or a cut line would end up amid whole ones
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

// A stored trial is one of an earlier part of the run.
type stored struct {
	kind string
	left []time.Duration // result.Record.Left
}

// A visited is a point and how far its procedure has come.
type visited struct {
	Point
	rec    result.Record
	trials int                      // so far, those of an earlier part of the run too
	left   []time.Duration          // what Env.Left answered since the latest
	lasted map[string]time.Duration // the latest trial of each kind
	most   int                      // estimated
	time   time.Duration
	visits int
	due    int               // visits to come, about, before the first
	found  procedure.Outcome // by its visits
	script *script           // nil before the first
	begun  bool
	over   bool
}

func (v *visited) share() float64 {
	if v.over || v.most == 0 {
		return 1
	}
	return min(float64(v.trials)/float64(v.most), 1)
}

// points visits the points in the order of the schedule, again those whose procedures
// pause (Env.Pause), until none does or the budget is spent.
func (x *execution) points(ctx context.Context, points []Point) (first error) {
	for _, pt := range points {
		p, err := pt.procedure(x.o.Catalogue)
		if err != nil {
			return err
		}
		v := &visited{Point: pt, lasted: map[string]time.Duration{}, rec: result.Record{ID: pt.ID, Procedure: pt.Procedure, Config: pt.config(), Repeat: pt.Repeat}}
		v.most, v.time = p.Estimate()
		x.every = append(x.every, v)
	}
	x.began = time.Now()
	defer func() {
		for _, v := range x.every {
			if v.script != nil {
				v.script.stop()
			}
			if v.begun && !v.over && x.broken == nil {
				_, _ = x.end(ctx, v.rec, procedure.Outcome{}, errUnfinished, false)
			}
		}
	}()
	s, err := x.schedule()
	if err != nil {
		return err
	}
	for {
		i, more := s.next(x.clock.spent())
		if !more {
			break
		}
		v := x.every[i]
		x.notify(v, Event{Kind: PointStarts})
		begin := time.Now()
		err := x.visit(ctx, v)
		s.visited(i, time.Since(begin))
		var missing *host.Missing
		switch {
		case err != nil && x.broken == nil && v.rec.Status == result.Skipped && errors.As(err, &missing):
			if first == nil {
				first = &SkippedError{v.ID, missing}
			}
		case err != nil:
			return err
		}
		for i := range s.slots {
			x.look(s, i)
		}
		kind := PointPauses
		if v.over {
			kind = PointDone
		}
		x.notify(v, Event{Kind: kind, Record: &v.rec})
	}
	if x.plan.Budget > 0 {
		if err := x.stop(ctx); err != nil {
			return err
		}
	}
	return first
}

// notify tells of e, which befell v, with how far the run has come.
func (x *execution) notify(v *visited, e Event) {
	var all, left time.Duration
	for _, v := range x.every {
		all += v.time
		left += time.Duration(float64(v.time) * (1 - v.share()))
	}
	e.Point, e.Share, e.Left = v.ID, 1, left
	if spec, err := x.o.Catalogue.procedure(v.Procedure, v.at); err == nil && e.Record != nil {
		e.Metrics = spec.Metrics
	}
	if all > 0 {
		e.Share = 1 - float64(left)/float64(all)
	}
	defer func() { x.o.Notify(e) }()
	if x.earned > 0 {
		e.Left = time.Duration(float64(left) * float64(time.Since(x.began)) / float64(x.earned))
	}
	if b := x.plan.Budget; b > 0 {
		e.Left = max(0, min(e.Left, b-x.clock.spent()))
		e.Share = max(e.Share, min(1, float64(x.clock.spent())/float64(b)))
	}
}

var errUnfinished = errors.New("the run ended before this point was visited again")

// visit takes v's procedure as far as it goes without a pause.
func (x *execution) visit(ctx context.Context, v *visited) (err error) {
	if i, ok := x.at[v.ID]; ok && kept(x.recs[i]) {
		v.rec, v.over = x.recs[i], true
		return nil
	}
	if !v.begun {
		if err := x.begin(ctx, &v.rec); err != nil {
			return err
		}
		v.begun = true
		v.script = perform(func(pause func(procedure.Outcome) bool) (procedure.Outcome, error) {
			return called(ctx, x, v.ID, func(ctx context.Context) (o procedure.Outcome, err error) {
				p, err := v.procedure(x.o.Catalogue)
				if err != nil {
					return o, err
				}
				bed, err := x.testbed(ctx, v.Point)
				if err != nil {
					return o, err
				}
				env := x.env(v, bed)
				env.Pause = x.pause(v, pause)
				if box := boxOf(bed); box != nil && box.Conn() != nil && far.Carries(v.Procedure) {
					return far.Run(ctx, box.Conn(), v.Procedure, v.Params, env, nil)
				}
				return p.Run(ctx, env)
			})
		})
	}
	v.visits++
	o, paused, err := x.varied(ctx, v)
	if err == nil && ctx.Err() == nil && paused {
		v.rec.Values, v.found = o.Values, o
		return nil
	}
	v.over = true
	v.script.stop()
	v.rec, err = x.end(ctx, v.rec, o, err, false)
	return err
}

// pause is v's Env.Pause. What is not to be visited again goes on at once.
func (x *execution) pause(v *visited, pause func(procedure.Outcome) bool) func(procedure.Outcome) bool {
	once := v.once()
	return func(found procedure.Outcome) bool {
		if found.Extra && (x.plan.Budget == 0 || once) {
			return false
		}
		if once {
			v.rec.Values = found.Values
			return true
		}
		return pause(found)
	}
}

// once says whether a point has one visit: the DUT is heated once, and a lab of the point's
// own does not stay.
func (pt Point) once() bool { return heated(pt) || pt.Lab != "" }

// heated says whether the DUT is heated before the point's trials.
func heated(pt Point) bool {
	b, _, err := procedure.ParseBeside(pt.Params)
	return err == nil && b.Heat.On()
}

// env is where v's procedure runs.
func (x *execution) env(v *visited, bed *lab.Testbed) *procedure.Env {
	trials := func(ctx context.Context, rs []result.Record, f func(context.Context) ([]procedure.Outcome, error)) ([]result.Record, error) {
		for _, r := range rs {
			x.notify(v, Event{Kind: Trial, Text: r.ID})
		}
		if i := slices.IndexFunc(rs, func(r result.Record) bool { return r.Parent == v.ID }); i >= 0 {
			rs[i].Left, v.left = v.left, nil
		}
		carriedOut, err := x.trials(ctx, rs, f)
		for i, r := range rs {
			if r.Parent == v.ID {
				v.trials++
				v.lasted[result.Get(r.Config, "trial")] = time.Duration(r.End - r.Begin)
				if carriedOut[i] {
					x.earned += v.time / time.Duration(max(v.most, 1))
				}
			}
			x.notify(v, Event{Kind: TrialDone, Text: r.ID, Record: &r})
		}
		return rs, err
	}
	trial := func(ctx context.Context, r result.Record, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		rs, err := trials(ctx, []result.Record{r}, func(ctx context.Context) ([]procedure.Outcome, error) {
			o, err := f(ctx)
			return []procedure.Outcome{o}, err
		})
		return rs[0], err
	}
	env := &procedure.Env{Bed: bed, Criteria: x.criteria(v), Repeat: v.Repeat, Seed: x.plan.Seed}
	if x.plan.Budget > 0 {
		env.Spent = func(kind string) bool {
			if stored := x.stored[v.ID]; v.trials < len(stored) {
				return stored[v.trials].kind != kind // an earlier part of the run ended the visit here, or did not
			}
			return x.clock.spent()+v.lasted[kind] >= x.visiting()
		}
		env.Left = func() time.Duration {
			left := x.left(v)
			if stored := x.stored[v.ID]; v.trials < len(stored) && len(stored[v.trials].left) > 0 {
				was := stored[v.trials].left
				left = was[min(len(v.left), len(was)-1)]
			}
			v.left = append(v.left, left)
			return left
		}
	}
	if x.sampler != nil {
		env.Traffic = x.sampler.Traffic
	}
	id := func(cfg []result.Pair, n int) string { return fmt.Sprintf("%s/%d%s", v.ID, v.trials+n, words(cfg)) }
	env.Unfinished = func(cfg []result.Pair) *result.Record {
		i, ok := x.at[id(cfg, 1)]
		if !ok || !x.o.Resume || x.recs[i].Status != result.Running {
			return nil
		}
		return &x.recs[i]
	}
	own := func(cfg []result.Pair, n int) result.Record {
		return result.Record{
			ID: id(cfg, n), Parent: v.ID, Procedure: v.Procedure,
			Config: append(slices.Clip(v.config()), cfg...), Repeat: v.Repeat,
		}
	}
	env.Trial = func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		return trial(ctx, own(cfg, 1), f)
	}
	env.Trials = func(ctx context.Context, cfgs [][]result.Pair, f func(context.Context) ([]procedure.Outcome, error)) ([]result.Record, error) {
		var rs []result.Record
		for i, cfg := range cfgs {
			rs = append(rs, own(cfg, i+1))
		}
		return trials(ctx, rs, f)
	}
	env.Shared = func(ctx context.Context, name string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		id, params, err := x.o.Catalogue.sibling(x.plan, v.Point, name)
		if err != nil {
			return result.Record{}, err
		}
		return trial(ctx, result.Record{
			ID: id + "/" + strings.TrimSpace(words(cfg)), Parent: id, Procedure: name, Config: append(params, cfg...), Repeat: v.Repeat,
		}, f)
	}
	env.Akin = func(but ...string) []result.Record { return x.akin(v, but) }
	env.Once = func(ctx context.Context, key string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		what, _, _ := strings.Cut(key, "/")
		return trial(ctx, result.Record{ID: key, Parent: what, Procedure: what, Config: cfg, Repeat: 1}, f)
	}
	return env
}

// akin is v's Env.Akin. Records stand in the order in which they were begun, in a resumed
// run too.
func (x *execution) akin(v *visited, but []string) (found []result.Record) {
	beside := map[string]bool{} // points of v's repeat in v's testbed
	for _, o := range x.every {
		beside[o.ID] = o.Repeat == v.Repeat && o.lab.Use == v.lab.Use
	}
	for _, r := range x.recs[:x.at[v.ID]] {
		differs := func(p result.Pair) bool {
			return !slices.Contains(but, p.Key) && result.Get(r.Config, p.Key) != p.Value
		}
		if r.Procedure == v.Procedure && beside[r.Parent] && kept(r) && !slices.ContainsFunc(v.config(), differs) {
			found = append(found, r)
		}
	}
	return found
}

// words is cfg as the end of a trial's ID: " rate=200000".
func words(cfg []result.Pair) string {
	var b strings.Builder
	for _, p := range cfg {
		fmt.Fprintf(&b, " %s=%s", p.Key, p.Value)
	}
	return b.String()
}
