// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/stat"
	"boxdyno/tune"
)

// An ablation measures every point of the plan with the recipe whole, with nothing of it, with
// all but each knob, and with each knob alone (tune.Ablate), shuffled anew in each repeat. A
// part is applied before the DUT's service is set up and put back after its visit, so that no
// part sees what another has left.

// An Ablation is what Run takes apart.
type Ablation struct {
	Recipe tune.Recipe
	Metric string // of the procedure, that knobs are judged by
}

// AblatedMetric is the metric that an ablation of a resolved plan judges knobs by: the
// one of that name, or for "" the rate under overload, which repeats best, and where
// there is none the first that has a better end. Every procedure of the plan must have it.
func AblatedMetric(c Catalogue, p Plan, name string) (string, error) {
	for _, e := range p.Procedures {
		spec, err := c.procedure(e.Use, e.at)
		if err != nil {
			return "", err
		}
		var names []string
		for _, m := range spec.Metrics {
			if m.Better != 0 {
				names = append(names, m.Name)
			}
		}
		switch {
		case len(names) == 0:
			return "", planErrorf(e.at, "procedure %s has no figure that is better or worse", spec.Name)
		case name == "" && slices.Contains(names, forwardingRate) && !drops(e):
			name = forwardingRate
		case name == "" && slices.Contains(names, dropRate) && drops(e):
			name = dropRate
		case name == "":
			name = names[0]
		case !slices.Contains(names, name):
			return "", planErrorf("--metric", "%q is no figure of procedure %s: there are %s", name, spec.Name, strings.Join(names, ", "))
		}
	}
	return name, nil
}

// drops says whether a plan's entry has the box throw frames away at every point.
func drops(e Entry) bool {
	s := e.Get("service")
	return s != nil && !slices.ContainsFunc(s.Values, func(w Word) bool { return !strings.HasPrefix(w.Text, "drop-") })
}

// Hasten leaves out of an ablation's plan what does not bear on its metric, as far as a
// procedure can be told so and the plan does not say otherwise.
func (p *Plan) Hasten(c Catalogue, metric string) {
	if metric != forwardingRate && metric != dropRate {
		return
	}
	for i := range p.Procedures {
		e := &p.Procedures[i]
		spec, err := c.procedure(e.Use, e.at)
		if err != nil || e.Get("search") != nil {
			continue
		}
		for _, q := range Params(spec.New()) {
			if q.Name == "search" && slices.Contains(q.Values, procedure.NoSearch) {
				e.put(Setting{Key: q.Name, Values: []Word{{Text: procedure.NoSearch}}})
			}
		}
	}
}

// AblationRepeats is how often an ablation of a recipe of so many knobs measures each
// point by default: what finds a difference among all its comparisons even if some
// repeats of one side lie among those of the other.
func AblationRepeats(knobs, points int) int {
	return stat.LeastRepeats(max(points, 1)*(2*knobs+1)) + 3
}

// Ablated expands a resolved plan as Points does, each point once for every part of r.
func (p Plan) Ablated(c Catalogue, r tune.Recipe) ([]Point, error) {
	var parts []string
	for _, part := range tune.Ablate(r) {
		parts = append(parts, part.Name)
	}
	return p.expand(c, parts)
}

// ablation is what the run takes apart, and the tested part of it as far as that is
// known; nil: nothing.
func (o Options) ablation() (*Ablation, error) {
	a := o.Header.Ablation
	if !o.Resume || a == nil {
		return o.Ablate, nil
	}
	whole, err := tune.Parse(result.RunFile+" (recipe)", o.Header.Recipe)
	if err != nil {
		return nil, err
	}
	r := tune.Recipe{Name: whole.Name, Doc: whole.Doc}
	for _, s := range whole.Steps {
		if slices.ContainsFunc(a.Knobs, func(k result.Ablated) bool { return k.Knob == s.Knob && k.Target == s.Target }) {
			r.Steps = append(r.Steps, s)
		}
	}
	return &Ablation{Recipe: r, Metric: a.Metric}, nil
}

// points are those of the run; those of an ablation that is yet to find out what can be
// turned here are all there may be.
func (o Options) points(p Plan) ([]Point, error) {
	a, err := o.ablation()
	if err != nil {
		return nil, err
	}
	if a == nil {
		return p.Points(o.Catalogue)
	}
	return p.Ablated(o.Catalogue, a.Recipe)
}

// ablate finds out which knobs can be turned here, and returns the run's header with
// them and the points that are left.
func (x *execution) ablate(ctx context.Context, points []Point) ([]Point, error) {
	a, err := x.o.ablation()
	if err != nil || a == nil {
		return points, err
	}
	dut, err := tuned(x.bed)
	if err != nil {
		return points, err
	}
	r := a.Recipe
	if !x.o.Resume {
		x.run.Recipe, _ = json.Marshal(a.Recipe) // strings only
		found := &result.Ablation{Metric: a.Metric}
		var problems []string
		if r, found.Untested, problems, err = x.turnable(ctx, a.Recipe, dut); err != nil {
			return points, err
		}
		for _, p := range problems {
			x.warn("recipe " + r.Name + ": " + p)
		}
		for i := range r.Steps {
			found.Knobs = append(found.Knobs, ablated(r, i, ""))
		}
		x.run.Ablation = found
		for _, u := range found.Untested {
			x.o.Notify(Event{Kind: Note, Text: fmt.Sprintf("recipe %s: %s is not tested: %s", r.Name, u.Name, u.Reason)})
		}
		if len(r.Steps) == 0 {
			return points, &host.Missing{What: "a knob of recipe " + r.Name + " that can be turned here", Hint: "boxdyno tune show says what a recipe would change"}
		}
		if points, err = x.plan.Ablated(x.o.Catalogue, r); err != nil {
			return points, err
		}
	}
	x.parts, x.dut = tune.Ablate(r), dut
	return points, nil
}

func ablated(r tune.Recipe, i int, reason string) result.Ablated {
	s := r.Steps[i]
	return result.Ablated{Name: r.Label(i), Knob: s.Knob, Target: s.Target, Value: s.Value, Reason: reason}
}

// turnable turns every knob of r alone, and all of them together, and returns those
// that changed anything, why the others did not, and what of the former is not as asked.
// Everything is put back.
func (x *execution) turnable(ctx context.Context, r tune.Recipe, dut lab.Tuner) (left tune.Recipe, untested []result.Ablated, problems []string, err error) {
	left = tune.Recipe{Name: r.Name, Doc: r.Doc}
	free, fixed := x.free(r)
	for _, s := range fixed {
		i := slices.IndexFunc(r.Steps, func(t tune.Step) bool { return t.Knob == s.Knob && t.Target == s.Target })
		untested = append(untested, ablated(r, i, s.Problem))
	}
	whole, err := x.tryOut(ctx, free, dut)
	if err != nil {
		return left, nil, nil, err
	}
	for i, s := range r.Steps {
		if !slices.Contains(free.Steps, s) {
			continue
		}
		alone, err := x.tryOut(ctx, tune.Recipe{Name: r.Name, Steps: []tune.Step{s}}, dut)
		if err != nil {
			return left, nil, nil, err
		}
		changes, why, odd := false, "", ""
		for _, t := range append(alone, of(whole, s)...) {
			changes = changes || t.Got != t.Before
			if t.Problem != "" && odd == "" {
				odd = fmt.Sprintf("%s: %s", t.Target, t.Problem)
			}
			why = cmp.Or(odd, fmt.Sprintf("it is %s already", t.Before))
		}
		if !changes {
			untested = append(untested, ablated(r, i, why))
			continue
		}
		if odd != "" {
			problems = append(problems, fmt.Sprintf("%s is not as asked everywhere: %s", r.Label(i), odd))
		}
		left.Steps = append(left.Steps, s)
	}
	return left, untested, problems, nil
}

// of are the settings that a step of the recipe was behind.
func of(all []result.Setting, s tune.Step) (out []result.Setting) {
	for _, t := range all {
		if t.Knob == s.Knob && t.Asked == s.Value && (s.Target == tune.ForPorts || s.Target == tune.ForHost || s.Target == t.Target) {
			out = append(out, t)
		}
	}
	return out
}

// tryOut applies a recipe and puts it back.
func (x *execution) tryOut(ctx context.Context, r tune.Recipe, dut lab.Tuner) ([]result.Setting, error) {
	revert, settings, err := dut.Tune(ctx, r, "run "+x.o.Header.ID)
	if err != nil {
		return nil, fmt.Errorf("apply recipe %s: %w", r.Name, err)
	}
	return settings, x.putBack(ctx, revert, r.Name)
}

// varied is v's next visit, with v's part of the recipe in force.
func (x *execution) varied(ctx context.Context, v *visited) (o procedure.Outcome, paused bool, err error) {
	if v.Tune == "" {
		return v.script.next()
	}
	i := slices.IndexFunc(x.parts, func(r tune.Recipe) bool { return r.Name == v.Tune })
	if i < 0 {
		return o, false, fmt.Errorf("the recipe has no part %q", v.Tune)
	}
	revert, settings, err := x.dut.Tune(ctx, x.parts[i], "run "+x.run.ID)
	if err != nil {
		return o, false, fmt.Errorf("apply recipe %s, %s: %w", x.parts[i].Name, v.Tune, err)
	}
	x.tuned = settings
	defer func() { err = errors.Join(err, x.putBack(ctx, revert, v.Tune)) }()
	return v.script.next()
}

// putBack reverts what was applied.
func (x *execution) putBack(ctx context.Context, revert func(context.Context) ([]string, error), name string) error {
	notes, err := revert(ctx)
	for _, n := range notes {
		x.o.Notify(Event{Kind: Note, Text: "tuning: " + n})
	}
	if err != nil {
		return fmt.Errorf("take recipe %s back: %w", name, err)
	}
	return nil
}

// free parts a recipe into what may be turned on this testbed and what it needs as it
// is itself.
func (x *execution) free(r tune.Recipe) (left tune.Recipe, fixed []result.Setting) {
	left = tune.Recipe{Name: r.Name, Doc: r.Doc}
	for _, s := range r.Steps {
		if why := result.Get(x.bed.Fixed, s.Knob); why != "" {
			fixed = append(fixed, result.Setting{Knob: s.Knob, Target: s.Target, Asked: s.Value, Problem: why})
			continue
		}
		left.Steps = append(left.Steps, s)
	}
	return left, fixed
}
