// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"encoding/json"
	"fmt"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/tune"
)

// tune applies the run's recipe to the DUT, before anything of it is noted or
// measured, and returns the run's header with what became of it. untune puts
// everything back; it must come before the testbed goes.
func (x *execution) tune(ctx context.Context, run result.Run) (_ result.Run, untune func() error, err error) {
	untune = func() error { return nil }
	r := x.o.Tune
	if x.o.Resume && len(run.Recipe) > 0 && run.Ablation == nil {
		from, err := tune.Parse(result.RunFile+" (recipe)", run.Recipe)
		if err != nil {
			return run, untune, err
		}
		r = &from
	}
	if r == nil {
		return run, untune, nil
	}
	on, err := tuned(x.bed)
	if err != nil {
		return run, untune, err
	}
	left, fixed := x.free(*r)
	applied, settings, err := tune.New().Apply(ctx, left, on, tune.Options{By: "run " + run.ID})
	if err != nil {
		return run, untune, fmt.Errorf("apply recipe %s: %w", r.Name, err)
	}
	settings = append(settings, fixed...)
	run.Recipe, _ = json.Marshal(r) // strings only
	run.Settings, x.tuned = settings, settings
	for _, s := range settings {
		if s.Problem != "" {
			x.warn(&run, fmt.Sprintf("recipe %s: %s of %s is not as asked: %s", r.Name, s.Knob, s.Target, s.Problem))
		}
	}
	return run, func() error { return x.putBack(ctx, applied, r.Name) }, nil
}

// tuned is what a recipe acts on: the DUT's namespace, and its ports on the paths.
func tuned(bed *lab.Testbed) (on tune.On, err error) {
	if bed.DUT == nil || len(bed.DUTPorts) == 0 {
		return on, &host.Missing{What: "a DUT on this machine, which a recipe could be applied to", Hint: "on another box run boxdyno tune apply there"}
	}
	return tune.On{Host: bed.DUT, Ports: bed.DUTPorts}, nil
}
