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
	dut, err := tuned(x.bed)
	if err != nil {
		return err
	}
	left, fixed := x.free(*r)
	revert, settings, err := dut.Tune(ctx, left, "run "+x.run.ID)
	if err != nil {
		return fmt.Errorf("apply recipe %s: %w", r.Name, err)
	}
	x.later(func() error { return x.putBack(ctx, revert, r.Name) })
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

// tuned applies recipes to the DUT: to its machine, and its ports on the paths.
func tuned(bed *lab.Testbed) (lab.Tuner, error) {
	if t, ok := bed.Means.(lab.Tuner); ok {
		return t, nil
	}
	return nil, &host.Missing{What: "a DUT that a recipe could be applied to", Hint: "on another box run boxdyno tune apply there"}
}
