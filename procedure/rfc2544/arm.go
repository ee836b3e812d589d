// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
)

// ArmSpec is forward of a box of one arm: what a board can carry out with another one, which sends
// frames back by the port that they came to.
var ArmSpec = func() procedure.Spec {
	s := ForwardSpec
	s.Names, s.Deviation = []string{"service", "frame_size"}, s.Deviation+"; frames come to the box and leave it by one port"
	s.New = func() procedure.Procedure {
		t := trial.NewTraffic(lab.ArmServices)
		t.Direction = param.NewChoice(trial.LanToWAN, []string{trial.LanToWAN})
		t.IP = param.NewChoice("4", []string{"4"})
		t.Search.Of = append(t.Search.Of, procedure.NoSearch)
		return &arm{Forward{t}}
	}
	return s
}()

// An arm is Forward that nobody checks against the testbed but itself: a board carries it out.
type arm struct{ Forward }

// Run implements Procedure.
func (p *arm) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	if err := p.Check(env.Bed); err != nil {
		return procedure.Outcome{}, err
	}
	return p.Forward.Run(ctx, env)
}
