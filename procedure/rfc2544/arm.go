// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"time"

	"boxdyno/engine"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
	"boxdyno/unit"
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
// Once its search has ended, it offers what it carries together with other boards.
type arm struct{ Forward }

// Estimate implements Procedure.
func (p *arm) Estimate() (int, time.Duration) {
	n, d := p.Forward.Estimate()
	if p.AtOnce() > 0 {
		n++
	}
	return n, d + p.AtOnce()
}

// leastAtOnce is long beside what boards may be apart.
const leastAtOnce = time.Second

// AtOnce is how long all pairs offer at one time what each carries (procedure.AtOnce); 0: nothing
// says what that is.
func (p *arm) AtOnce() time.Duration {
	if p.Search.Value == procedure.NoSearch {
		return 0
	}
	return max(p.Searching().Goals[0].Final, leastAtOnce)
}

// Shortest is how long its shortest trial is asked to offer frames.
func (p *arm) Shortest() time.Duration {
	e := trial.EffortOf(p.Preset.Value)
	return min(e.SelfTest, e.WarmUp, e.Overload, e.Latency, p.Searching().Goals[0].Initial)
}

// Run implements Procedure.
func (p *arm) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	if err := p.Check(env.Bed); err != nil {
		return procedure.Outcome{}, err
	}
	return p.carryOut(ctx, env, func(ctx context.Context, m *trial.Point, carried unit.FrameRate) error {
		_, err := m.Trial(ctx, procedure.AtOnce, 0, engine.Load{Rate: carried, Duration: p.AtOnce()}, false)
		return err
	})
}
