// SPDX-License-Identifier: Apache-2.0

package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/detector"
	"boxdyno/unit"
)

// mostDiffer is the share of windows for which a library may say something else than
// this program: ONNX Runtime computes in single precision, and a sum close to the limit
// may fall on either side.
const mostDiffer = 1e-3

// synthetic measures without frames:
//
//	one process a CPU: start -> windows and model made -> ready | all begin at once:
//	features for a fourth of the time -> model for the time -> end
func (p *Infer) synthetic(ctx context.Context, env *procedure.Env, d *detector.Detector) (o procedure.Outcome, err error) {
	cpus := boxCPUs(env.Bed)
	if n := p.cpus.Value; n > 0 {
		cpus = cpus[len(cpus)-n:] // interrupts mostly come to the first
	}
	var words []string
	for _, c := range cpus {
		words = append(words, strconv.Itoa(c))
	}
	all := map[string][]float64{}
	for n := range p.rounds() {
		cfg := []result.Pair{{Key: "trial", Value: "synthetic"}, {Key: "n", Value: strconv.Itoa(n)}, {Key: "on_cpus", Value: strings.Join(words, "+")}}
		rec, err := env.Trial(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) { return p.evaluate(ctx, env, d, cpus) })
		if err != nil {
			return o, err
		}
		if rec.Status != result.Passed {
			o.Status, o.Reason = rec.Status, rec.Reason
		}
		for _, w := range rec.Warnings {
			if !slices.Contains(o.Warnings, w) {
				o.Warnings = append(o.Warnings, w)
			}
		}
		o.Usage = rec.Usage
		for _, v := range rec.Values {
			all[v.Metric] = append(all[v.Metric], v.Value)
		}
		if rec.Status == result.Failed && len(rec.Values) == 0 {
			return o, nil // it will not do better
		}
	}
	for _, m := range inferMetrics {
		if vs := all[m.Name]; len(vs) > 0 {
			o.Values = append(o.Values, figures.Spread(m.Name, vs))
		}
	}
	if o.Status == "" {
		o.Status = result.Passed
	}
	return o, nil
}

// An evaluating is a *detector.Evaluating, here or on a box.
type evaluating interface {
	subject.Running
	Begin() error
	Wait(ctx context.Context) (detector.Evaluation, error)
}

// evaluate is one trial: a detector on each of the CPUs.
func (p *Infer) evaluate(ctx context.Context, env *procedure.Env, d *detector.Detector, cpus []int) (o procedure.Outcome, err error) {
	var runs []evaluating
	defer func() {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), procedure.StopPatience)
		defer stop()
		for _, r := range runs {
			err = errors.Join(err, r.Stop(end))
		}
	}()
	broken := func(err error) (procedure.Outcome, error) {
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
		if errors.Is(err, subject.ErrLost) {
			return o, err
		}
		o.Status, o.Reason = result.Failed, procedure.Sentence(err)
		return o, nil
	}
	started := time.Now()
	for _, c := range cpus {
		r, err := env.Bed.Machine().Start(ctx, subject.Named{Name: d.Row(), Subject: d}, subject.Env{CPUs: []int{c}})
		if err != nil {
			return broken(err)
		}
		runs = append(runs, r.(evaluating)) // a detector without a port is one
	}
	for _, r := range runs {
		if err := r.Ready(ctx); err != nil {
			return broken(err)
		}
	}
	ready := time.Since(started)
	begin := unit.Now()
	for _, r := range runs {
		if err := r.Begin(); err != nil {
			return broken(err)
		}
	}
	var done []detector.Evaluation
	memory := 0.0
	for _, r := range runs {
		e, err := r.Wait(ctx)
		if err != nil {
			return broken(err)
		}
		done = append(done, e)
		if u, err := r.Usage(); err == nil {
			memory += float64(u.PeakMemory)
			o.Usage = append(o.Usage, u)
		}
	}
	o.Phases = []result.Phase{{Name: "evaluate", Begin: begin, End: unit.Now()}}
	p.evaluated(&o, done)
	if memory > 0 {
		o.Values = append(o.Values, figures.Value("subject_memory_bytes", memory))
	}
	o.Values = append(o.Values, figures.Value("startup_s", ready.Seconds()))
	return o, nil
}

// evaluated are the figures of what each CPU did, and whether the library computed what
// it should.
func (p *Infer) evaluated(o *procedure.Outcome, done []detector.Evaluation) {
	n := float64(len(done))
	var rate, window, model, cpu, features float64
	var windows int64
	var compared, differ int
	for _, e := range done {
		one := e.Features * float64(e.Frames)
		features += e.Features / n
		if e.Windows > 0 {
			each := e.Seconds / float64(e.Windows)
			one += each
			model += each / n
			cpu += e.CPU / float64(e.Windows) / n
		}
		window += one / n
		if one > 0 {
			rate += 1 / one
		}
		windows += e.Windows
		compared, differ = compared+e.Compared, differ+e.Differ
	}
	add := func(name string, v float64) { o.Values = append(o.Values, figures.Value(name, v)) }
	add("windows_per_s", rate)
	add("window_s", window)
	if windows > 0 {
		add("model_s", model)
		add("model_cpu_s", cpu)
	}
	add("features_per_frame_s", features)
	add("frames_per_window", float64(done[0].Frames))
	if compared > 0 {
		add("outputs_compared", float64(compared))
		add("outputs_differ", float64(differ))
	}
	o.Status = result.Passed
	if float64(differ) > mostDiffer*float64(compared) {
		o.Status, o.Reason = result.Failed, fmt.Sprintf("runtime %s says something else than this program's evaluator for %d of %d windows: it computes another model", p.runtime.Value, differ, compared)
	}
	if windows == 0 && p.model.Value != "none" {
		o.Status, o.Reason = result.Failed, "no window was evaluated in the time given: give a longer duration"
	}
}
