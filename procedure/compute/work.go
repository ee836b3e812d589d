// SPDX-License-Identifier: Apache-2.0

// Package compute has the procedures that let programs compute on this machine: its CPUs,
// its memory, and ciphers on each path to them.
package compute

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/compute"
	"boxdyno/unit"
)

// A work is what procedures share that let a program do its work on this machine's CPUs
// and read how fast it said it was. A procedure embeds it, and makes a job of its own
// parameters:
//
//	Flags: work.flags     Check: work.check     Run: work.run(ctx, env, job)
//
//	known answer, a trial:  Worker.Prove
//	each round, a trial:    clock -> a copy started on each CPU, all standing still | all begin
//	                        -> wait for the last -> clock, while it is hot -> their figures
//
// A program that is missing is the procedure's error, so that the point is skipped with
// the remedy. One that computes a wrong answer, crashes or hangs fails its point, and
// the run goes on. Watts are telemetry's, in the trial's digests.
type work struct {
	parallel parallel
	coreType param.Count
	preset   param.Choice
	userland param.Userland // whose programs work, where the procedure declares it
}

// A job is what is done.
type job struct {
	worker subject.Worker
	// name is the subject's.
	name string
	// limit is how long a round may take from Begin on; one that takes longer hangs.
	limit time.Duration
	// together has one copy use all the CPUs, which it divides among its own threads or
	// processes; else there is a copy on each CPU.
	together bool
	// computes: it wants a CPU all the time. A round in which it did not get it is
	// invalid, for its figure is of a part of a CPU.
	computes bool
	// parts: the copies are parts of one work, of which the first has the figures; nil: each
	// is a work of its own.
	parts *compute.HPLPart
	// rounds is how often it is measured; 0: as preset says.
	rounds int
	// mean are metrics of which all copies together have the mean, and most those of
	// which they have the greatest; of all others they have the sum.
	mean, most []string
	// judge looks at a round's figures, and returns a sentence on what is wrong with
	// them; nil: nothing can be.
	judge func(vs []result.Value) string
}

func newWork() work {
	return work{parallel: parallel{text: "1", n: 1}, coreType: param.NewCount(0, 0, 15), preset: param.NewPreset(), userland: param.NewUserland()}
}

// flags declares the parameters that all such procedures have.
func (w *work) flags(fs *flag.FlagSet) {
	fs.Var(&w.parallel, "parallel", "`copies` at once, each on its own CPU: a number, all, or CPUs such as cpu0+2-3")
	fs.Var(&w.coreType, "core_type", "`type` of core on big.LITTLE, 0 the most capable; ignored if parallel is all or names CPUs")
	fs.Var(&w.preset, "preset", "quick or standard: how long, how often")
}

// check refuses what this machine does not have; bed may be nil.
func (w *work) check(bed *lab.Testbed) error {
	if bed == nil {
		return nil
	}
	_, err := w.cpus(&host.Local{}, bed.CPUs)
	return err
}

// cpus are those that copies run on, of those that may be used.
func (w *work) cpus(h *host.Local, allowed []int) ([]int, error) {
	for _, c := range w.parallel.cpus {
		if !slices.Contains(allowed, c) {
			return nil, fmt.Errorf("parallel %s: CPU %d is not one of those that boxdyno may use: %s", w.parallel.text, c, host.Words(allowed))
		}
	}
	switch {
	case w.parallel.cpus != nil:
		return w.parallel.cpus, nil
	case w.parallel.n == 0:
		return allowed, nil
	}
	types := h.CoreTypes(allowed)
	if w.coreType.Value >= len(types) {
		return nil, fmt.Errorf("core_type %d: the types of core of this machine are counted from 0 to %d", w.coreType.Value, len(types)-1)
	}
	t := types[w.coreType.Value]
	if w.parallel.n > len(t.CPUs) {
		return nil, fmt.Errorf("parallel %d: boxdyno may use %d CPUs of core type %d", w.parallel.n, len(t.CPUs), w.coreType.Value)
	}
	return slices.Sorted(slices.Values(t.CPUs[:w.parallel.n])), nil
}

// rounds is how often the work is measured at a point.
func (w *work) rounds() int { return param.Rounds(w.preset.Value) }

// seconds is how long a program that runs for a time shall run in a round.
func (w *work) seconds() time.Duration {
	if w.preset.Value == "standard" {
		return 10 * time.Second
	}
	return time.Second
}

// around is what a round takes beside its work: start, end, two looks at the clock.
const workAround = 300 * time.Millisecond

// estimate is Estimate for rounds that take about d each.
func (w *work) estimate(d time.Duration) (int, time.Duration) {
	n := w.rounds() + 1
	return n, time.Duration(w.rounds())*(d+workAround) + time.Second
}

// run measures j. Its outcome has the median of the rounds for every figure, with least
// and greatest as its interval.
func (w *work) run(ctx context.Context, env *procedure.Env, j job) (o procedure.Outcome, err error) {
	s, o, err := w.begin(ctx, env, j)
	if err != nil || o.Status != result.Passed {
		return o, err
	}
	var all rounds
	invalid, times := 0, cmp.Or(j.rounds, w.rounds())
	for n := range times {
		rec, err := s.round(ctx, env, j, n)
		if err != nil {
			return o, err
		}
		if rec.Status == result.Invalid {
			invalid, o.Reason = invalid+1, rec.Reason
			continue
		}
		o.Usage, o.Copies = rec.Usage, rec.Copies
		all.add(rec.Values)
		if rec.Status != result.Passed {
			o.Status, o.Reason = rec.Status, rec.Reason
			break // it will not do better
		}
	}
	o.Values = all.values()
	if invalid > 0 {
		without(&o, invalid, times)
	}
	return o, nil
}

// without says that so many rounds were invalid, for o.Reason, and are in no figure.
func without(o *procedure.Outcome, invalid, rounds int) {
	switch {
	case o.Status == result.Passed && invalid == rounds:
		o.Status = result.Invalid
	case o.Status == result.Passed:
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d of %d rounds were invalid, and are in no figure: %s", invalid, rounds, o.Reason))
		o.Reason = ""
	}
}

// A session is a work whose program has proven itself.
type session struct {
	local *host.Local // with the userland that programs are of
	cpus  []int
	of    []result.Pair // what its figures are of
}

// begin checks and identifies j's program, and lets it prove itself. Where the outcome is
// not passed there is nothing to measure.
func (w *work) begin(ctx context.Context, env *procedure.Env, j job) (s session, o procedure.Outcome, err error) {
	local, err := w.userland.Local(ctx)
	if err == nil {
		err = j.worker.Check(ctx, local)
	}
	if err != nil {
		o, err = refused(ctx, err)
		return s, o, err
	}
	s.local = local
	if s.cpus, err = w.cpus(local, env.Bed.CPUs); err != nil {
		return s, o, err
	}
	of, err := j.worker.Identify(ctx, local)
	if err != nil {
		o, err = refused(ctx, err)
		return s, o, err
	}
	for _, p := range of {
		s.of = append(s.of, result.Pair{Key: p.Key, Value: strings.Join(strings.Fields(p.Value), "_")})
	}
	s.of = append(s.of, param.ProgramsOf(local)...)
	rec, err := env.Trial(ctx, s.config("known-answer"), func(ctx context.Context) (procedure.Outcome, error) {
		if err := j.worker.Prove(ctx, local); err != nil {
			return refused(ctx, err)
		}
		return procedure.Outcome{Status: result.Passed}, nil
	})
	return s, procedure.Outcome{Status: rec.Status, Reason: rec.Reason}, err
}

func (s *session) config(trial string, more ...result.Pair) []result.Pair {
	return slices.Concat([]result.Pair{{Key: "trial", Value: trial}}, more, []result.Pair{{Key: "on_cpus", Value: host.Words(s.cpus)}}, s.of)
}

// round is the trial of round n, which is counted from 0; more tells it from others of the
// same round.
func (s *session) round(ctx context.Context, env *procedure.Env, j job, n int, more ...result.Pair) (result.Record, error) {
	return env.Trial(ctx, s.config(strconv.Itoa(n+1), more...), func(ctx context.Context) (procedure.Outcome, error) { return j.round(ctx, env, s.local, s.cpus) })
}

// A rounds is the figures of several rounds, in the order in which they came first.
type rounds struct {
	all   map[string][]float64
	order []string
}

func (r *rounds) add(vs []result.Value) {
	if r.all == nil {
		r.all = map[string][]float64{}
	}
	for _, v := range vs {
		if r.all[v.Metric] == nil {
			r.order = append(r.order, v.Metric)
		}
		r.all[v.Metric] = append(r.all[v.Metric], v.Value)
	}
}

func (r *rounds) values() (vs []result.Value) {
	for _, m := range r.order {
		vs = append(vs, declared.Spread(m, r.all[m]))
	}
	return vs
}

// refused is what becomes of a point whose program cannot run or does not compute what
// it should: a *host.Missing skips it.
func refused(ctx context.Context, err error) (procedure.Outcome, error) {
	var missing *host.Missing
	if errors.As(err, &missing) || ctx.Err() != nil {
		return procedure.Outcome{}, err
	}
	return procedure.Outcome{Status: result.Failed, Reason: procedure.Sentence(err)}, nil
}

// round is a trial.
func (j *job) round(ctx context.Context, env *procedure.Env, local *host.Local, cpus []int) (o procedure.Outcome, err error) {
	places := [][]int{cpus}
	if !j.together {
		places = nil
		for _, c := range cpus {
			places = append(places, []int{c})
		}
	}
	var runs []*subject.Working
	defer func() {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), procedure.StopPatience)
		defer stop()
		for _, r := range runs {
			err = errors.Join(err, r.Stop(end))
		}
		if j.parts != nil {
			j.parts.End()
		}
	}()
	if v, ok := host.Slowest(cpus...); ok {
		o.Values = append(o.Values, declared.Value("loop_before_rps", v))
	}
	for _, on := range places {
		r, err := j.worker.Start(ctx, subject.Env{Host: local, CPUs: on})
		if err != nil {
			return refused(ctx, err)
		}
		runs = append(runs, r.(*subject.Working))
	}
	var before []result.Usage
	for _, r := range runs {
		if err := r.Ready(ctx); err != nil {
			return refused(ctx, err)
		}
		u, _ := r.Usage() // a tree that nobody can account for is told of at its end
		before = append(before, u)
	}
	if err := env.Await(ctx); err != nil {
		return o, err
	}
	begin := unit.Now()
	for _, r := range runs {
		if err := r.Begin(); err != nil {
			return refused(ctx, err)
		}
	}
	if err := j.wait(ctx, runs); err != nil {
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
		return refused(ctx, err)
	}
	end := unit.Now()
	o.Phases = []result.Phase{{Name: "work", Begin: begin, End: end}}
	hot, isHot := host.Slowest(cpus...) // before they have cooled down
	var copies []result.Copy
	var took, memory float64
	for i, r := range runs {
		vs, err := r.Wait(ctx)
		if err != nil && j.parts != nil {
			err = subject.AtLimit(err, time.Duration(end-begin), j.limit)
		}
		if err != nil {
			return refused(ctx, err)
		}
		copies = append(copies, result.Copy{CPU: places[i][0], Values: vs})
		if u, err := r.Usage(); err == nil {
			u = u.Since(before[i])
			u.PeakMemory -= min(u.PeakMemory, before[i].PeakMemory) // of the gate, which stays
			took, memory = took+u.CPU.Seconds(), memory+float64(u.PeakMemory)
			o.Usage = append(o.Usage, u)
		}
	}
	if isHot {
		o.Values = append(o.Values, declared.Value("loop_after_rps", hot))
	}
	own := j.sum(copies)
	o.Values = append(o.Values, own...)
	if !j.together && j.parts == nil {
		o.Copies = copies
	}
	o.Values = append(o.Values, declared.Value("copies", float64(len(cpus))), declared.Value("work_s", float64(end-begin)/1e9))
	if len(o.Usage) == len(runs) {
		o.Values = append(o.Values, declared.Value("work_cpu_s", took))
		if memory > 0 {
			o.Values = append(o.Values, declared.Value("subject_memory_bytes", memory))
		}
	}
	o.Status = result.Passed
	if why := j.starved(runs, cpus); why != "" {
		o.Status, o.Reason = result.Invalid, why
		return o, nil
	}
	if j.judge != nil {
		if why := j.judge(own); why != "" {
			o.Status, o.Reason = result.Failed, why
		}
	}
	return o, nil
}

// Programs that compute have 98 % and more of an idle CPU; shorter ones than
// starvable have as much less as it takes to start them.
const (
	leastShare = 0.95
	starvable  = 500 * time.Millisecond
)

// starved says that a copy did not have the CPU that it wanted.
func (j *job) starved(runs []*subject.Working, cpus []int) string {
	for i, r := range runs {
		if share := r.CPUShare(); j.computes && !j.together && r.Elapsed() >= starvable && share < leastShare {
			return fmt.Sprintf("%s had %.1f %% of CPU %d, and %.0f %% is the least: something else ran there", j.name, 100*share, cpus[i], 100*leastShare)
		}
	}
	return ""
}

// wait waits for the last of runs to end. One that does not in the job's limit is an error,
// and so is a part that fails.
func (j *job) wait(ctx context.Context, runs []*subject.Working) error {
	ctx, cancel := context.WithTimeoutCause(ctx, j.limit, fmt.Errorf("%s hung: it did not end within %v and was killed", j.name, j.limit))
	defer cancel()
	if j.parts == nil {
		return subject.AllDone(ctx, runs, nil)
	}
	begun := time.Now()
	err := subject.AllDone(ctx, runs, j.parts.Broken())
	if errors.Is(err, subject.ErrBroken) {
		err = j.parts.Why()
	}
	if ctx.Err() == nil {
		err = subject.AtLimit(err, time.Since(begun), j.limit)
	}
	return err
}

// sum is the figures of all copies together.
func (j *job) sum(copies []result.Copy) (out []result.Value) {
	for _, c := range copies {
		for _, v := range c.Values {
			i := slices.IndexFunc(out, func(o result.Value) bool { return o.Metric == v.Metric })
			switch {
			case i < 0:
				if slices.Contains(j.mean, v.Metric) {
					v.Value /= float64(len(copies))
				}
				out = append(out, v)
			case slices.Contains(j.mean, v.Metric):
				out[i].Value += v.Value / float64(len(copies))
			case slices.Contains(j.most, v.Metric):
				out[i].Value = max(out[i].Value, v.Value)
			default:
				out[i].Value += v.Value
			}
		}
	}
	return out
}

// A parallel is how many copies work at once, and where.
type parallel struct {
	text string
	n    int   // 0: one on every CPU
	cpus []int // nil: any
}

func (p *parallel) String() string { return p.text }

func (p *parallel) Set(s string) error {
	set := parallel{text: s}
	if list, ok := strings.CutPrefix(s, "cpu"); ok {
		set.cpus = host.ParseCPUs(strings.ReplaceAll(list, "+", ","))
		slices.Sort(set.cpus)
		if set.cpus = slices.Compact(set.cpus); set.cpus == nil {
			return fmt.Errorf("%q names no CPUs: want such as cpu3 and cpu0+2-3", s)
		}
	} else if s != "all" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > param.MostCPUs {
			return fmt.Errorf("%q is neither a number from 1 to %d, nor all, nor CPUs such as cpu0+2-3", s, param.MostCPUs)
		}
		set.n = n
	}
	*p = set
	return nil
}

// workMetrics are those that a work has by itself.
var workMetrics = []result.Metric{
	{Name: "copies", Label: "CPUs", Unit: "1", Exact: true, Help: "CPUs that worked at once"},
	{Name: "work_s", Label: "time", Unit: "s", Help: "from the beginning of all copies to the end of the last"},
	{Name: "work_cpu_s", Label: "CPU time", Unit: "s", Help: "CPU time of all copies together"},
	{Name: "subject_memory_bytes", Label: "memory", Unit: "B", Better: -1, Help: "most memory of each copy's process tree, of all together"},
	{Name: "loop_before_rps", Unit: "1/s", Better: 1, Help: "clock before a round: rounds a second of a counted loop, on the slowest of the CPUs"},
	{Name: "loop_after_rps", Unit: "1/s", Better: 1, Help: "the same just after it, still hot"},
}

// declared are the metrics of all procedures of this room.
var declared = metrics.List(slices.Concat(cpuMetrics, hashMetrics, memoryMetrics, codecMetrics, hplMetrics, metrics.List(compute.HPLPartMetrics), cryptoMetrics))
