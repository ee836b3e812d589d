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
// measured, and notes in the header what became of it.
func (x *execution) tune(ctx context.Context) error {
	r := x.o.Tune
	if x.o.Resume && len(x.run.Recipe) > 0 && x.run.Ablation == nil {
		from, err := tune.Parse(result.RunFile+" (recipe)", x.run.Recipe)
		if err != nil {
			return err
		}
		r = &from
	}
	if r == nil {
		return nil
	}
	on, err := tuned(x.bed)
	if err != nil {
		return err
	}
	left, fixed := x.free(*r)
	applied, settings, err := tune.New().Apply(ctx, left, on, tune.Options{By: "run " + x.run.ID})
	if err != nil {
		return fmt.Errorf("apply recipe %s: %w", r.Name, err)
	}
	x.later(func() error { return x.putBack(ctx, applied, r.Name) })
	settings = append(settings, fixed...)
	x.run.Recipe, _ = json.Marshal(r) // strings only
	x.run.Settings, x.tuned = settings, settings
	for _, s := range settings {
		if s.Problem != "" {
			x.warn(fmt.Sprintf("recipe %s: %s of %s is not as asked: %s", r.Name, s.Knob, s.Target, s.Problem))
		}
	}
	return nil
}

// tuned is what a recipe acts on: the DUT's namespace, and its ports on the paths.
func tuned(bed *lab.Testbed) (on tune.On, err error) {
	if bed.DUT == nil || len(bed.DUTPorts) == 0 {
		return on, &host.Missing{What: "a DUT on this machine, which a recipe could be applied to", Hint: "on another box run boxdyno tune apply there"}
	}
	return tune.On{Host: bed.DUT, Ports: bed.DUTPorts}, nil
}
