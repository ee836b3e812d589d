// SPDX-License-Identifier: Apache-2.0

package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"boxdyno/procedure"
	"boxdyno/procedure/capture"
	"boxdyno/result"
	"boxdyno/subject"
	software "boxdyno/subject/capture"
	"boxdyno/subject/detector"
	"boxdyno/subject/stress"
	"boxdyno/unit"
)

const bare = "bare" // the capture without features and model

// loan is capture's trial with the detector and the bare capture as its subjects.
func (p *Infer) loan(d, without *detector.Detector) *capture.Loan {
	spec := func(name string, w *detector.Detector) subject.Spec {
		return subject.Spec{Name: name, Work: software.Decode, New: func() subject.Subject { return w }}
	}
	return capture.NewLoan([]subject.Spec{spec(p.model.Value, d), spec(bare, without)}, d.Row(), p.terms())
}

// terms are the load of trials with a rate.
func (p *Infer) terms() capture.Terms {
	return capture.Terms{Size: p.size, Rate: p.rate.OfferedRate, Length: p.time(), Preset: p.preset}
}

// noDetector is a loan for what the load alone says.
func (p *Infer) noDetector() *capture.Loan {
	return capture.NewLoan([]subject.Spec{{Name: bare, New: func() subject.Subject { return stress.New() }}}, "", p.terms())
}

// live measures the drops that the detector adds to a capture: rounds of two trials at
// the same load, one without features and model and one with them, in turns first.
func (p *Infer) live(ctx context.Context, env *procedure.Env, d *detector.Detector) (_ procedure.Outcome, err error) {
	plain := *d
	plain.Model = detector.Bare
	l := p.loan(d, &plain)
	l.More = func(o *procedure.Outcome, name string, run subject.Running) {
		if r, ok := run.(interface{ Detections() detector.Detections }); ok && name != bare {
			took, told := o.Phases[0].Seconds()+o.Phases[1].Seconds(), r.Detections()
			o.Values = append(o.Values, figures.Value("detected_windows_per_s", float64(told.Windows)/took), figures.Value("model_wait_share", told.Model.Seconds()/took))
		}
	}
	if invalid, err := l.Open(ctx, p.env(env)); err != nil || invalid != "" {
		return procedure.Outcome{Status: result.Invalid, Reason: invalid}, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var pairs []pair
	for n := range p.rounds() {
		var one pair
		names := []string{bare, p.model.Value}
		if n%2 == 1 {
			slices.Reverse(names)
		}
		for _, name := range names {
			rec, failed, err := l.Trial(ctx, name, n)
			if err != nil {
				return procedure.Outcome{}, err
			}
			if failed != nil {
				return *failed, nil
			}
			if name == bare {
				one.without = rec
			} else {
				one.with = rec
			}
		}
		pairs = append(pairs, one)
	}
	return p.added(pairs, env.Bed.Placement), nil
}

// env is e whose trials have the figures that Infer declares.
func (p *Infer) env(e *procedure.Env) *procedure.Env {
	mine := *e
	mine.Trial = func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		return e.Trial(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) {
			o, err := f(ctx)
			o.Values = slices.DeleteFunc(o.Values, func(v result.Value) bool {
				return !slices.ContainsFunc(inferMetrics, func(m result.Metric) bool { return m.Name == v.Metric })
			})
			return o, err
		})
	}
	return &mine
}

// A pair is a round.
type pair struct{ without, with result.Record }

// added is what rounds found.
func (p *Infer) added(pairs []pair, placement string) (o procedure.Outcome) {
	all := map[string][]float64{}
	read := func(r result.Record, metric string) float64 {
		if v := r.Value(metric); v != nil {
			return v.Value
		}
		return 0
	}
	for _, one := range pairs {
		if one.without.Status == result.Invalid || one.with.Status == result.Invalid {
			continue
		}
		note := func(metric string, v float64) { all[metric] = append(all[metric], v) }
		before, after := read(one.without, "uncounted_ratio"), read(one.with, "uncounted_ratio")
		note("bare_lost_ratio", before)
		note("detector_lost_ratio", after)
		note("drops_added_ratio", after-before)
		note("cpu_added_per_frame_s", read(one.with, "subject_cpu_per_frame_s")-read(one.without, "subject_cpu_per_frame_s"))
		for _, name := range []string{"capture_offered_fps", "subject_cpu_per_frame_s", "subject_memory_bytes", "startup_s", "drain_s", "detected_windows_per_s", "model_wait_share"} {
			if v := one.with.Value(name); v != nil {
				note(name, v.Value)
			}
		}
		o.Load, o.Account, o.Usage = one.with.Load, one.with.Account, one.with.Usage
	}
	for _, m := range inferMetrics {
		if vs := all[m.Name]; len(vs) > 0 {
			o.Values = append(o.Values, figures.Spread(m.Name, vs))
		}
	}
	valid := len(all["drops_added_ratio"])
	if left := len(pairs) - valid; left > 0 {
		o.Warnings = append(o.Warnings, strconv.Itoa(left)+" of "+strconv.Itoa(len(pairs))+" rounds had an invalid trial and do not count")
	}
	if placement == "shared" {
		o.Warnings = append(o.Warnings, "tester and DUT share a CPU, so the DUT throttles the tester: drops are fewer than on a box that is fed by others")
	}
	switch {
	case valid == 0:
		o.Status, o.Reason = result.Invalid, "no round had two valid trials: "+pairs[len(pairs)-1].with.Reason
		if pairs[len(pairs)-1].with.Status != result.Invalid {
			o.Reason = "no round had two valid trials: " + pairs[len(pairs)-1].without.Reason
		}
	case figures.Spread("drops_added_ratio", all["drops_added_ratio"]).Value > 0:
		o.Status = result.Failed
		o.Reason = fmt.Sprintf("the detector does not keep up with %v: it adds drops of %.3g %% of the frames to those of the capture alone", unit.FrameRate(p.inferRate()), 100*figures.Spread("drops_added_ratio", all["drops_added_ratio"]).Value)
	case len(all["drain_s"]) > 0 && figures.Spread("drain_s", all["drain_s"]).Value > capture.BlockAge+p.time().Seconds()/20:
		o.Status = result.Failed
		o.Reason = fmt.Sprintf("the detector does not keep up with %v: it counts every frame, the last %.2g s after it was sent", unit.FrameRate(p.inferRate()), figures.Spread("drain_s", all["drain_s"]).Value)
	default:
		o.Status = result.Passed
	}
	return o
}
