// SPDX-License-Identifier: Apache-2.0

// Package rfc2544 has the procedures that measure a box which forwards frames, after
// RFC 2544, RFC 2285 and RFC 9004.
//
//	self-test                         the tester alone: trial.TesterCeiling
//	forward                           visits to a point (trial.Point)
//	throughput -+- latency            each begins with the throughput (trial.Suite), which a
//	            +- loss-curve         run searches once for a configuration
//	            +- back-to-back
//	            +- recovery
package rfc2544

import (
	"context"
	"errors"
	"time"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// ForwardSpec is the row of forward.
var ForwardSpec = procedure.Spec{
	Name: "forward", Needs: lab.Ports, Standard: "RFC 2544, RFC 2285",
	Deviation: trial.BurstsDeviation + "; latency is measured with single frames",
	Doc:       "the box as a router: highest load without loss, forwarding rate under overload, latency, and where frames were lost",
	Names:     []string{"service", "direction", "frame_size"},
	Metrics:   trial.ForwardMetrics, Joules: trial.ForwardJoules, New: newForward,
}

// Forward measures the DUT as a router, one service, direction and frame size at
// a time. Each of a run's visits to a point goes
//
//	service set -> overload -> some of the search
//
// with self-test and warm-up before the first; the last ends the search and
// measures latency at half the throughput or less.
type Forward struct{ trial.Traffic }

func newForward() procedure.Procedure {
	p := &Forward{trial.NewTraffic(lab.Services)}
	p.Search.Of = append(p.Search.Of, procedure.NoSearch)
	return p
}

func (p *Forward) Estimate() (int, time.Duration) {
	e := trial.EffortOf(p.Preset.Value)
	fill := trial.FillEstimate * (p.Searching().Rest + p.Searching().Overload)
	trials, d := 1+trial.FillEstimate+e.Overloads, e.WarmUp+fill+time.Duration(e.Overloads)*e.Overload
	if p.Search.Value != procedure.NoSearch {
		trials, d = p.Searching().Estimate()
		trials += 1 + trial.FillEstimate + visits*e.Overloads + 1
		d += e.WarmUp + fill + visits*time.Duration(e.Overloads)*e.Overload + e.Latency
		more, longer := p.StandingEstimate(trials)
		trials, d = trials+more, d+longer
	}
	const around = 60 * time.Millisecond // arming, snapshots and settling of a trial
	return trials, d + time.Duration(trials)*(around+e.Settle)
}

func (p *Forward) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	return p.carryOut(ctx, env, nil)
}

// carryOut is Run; last is called once with each stream's highest load without loss, where there is
// one. nil: nothing follows.
func (p *Forward) carryOut(ctx context.Context, env *procedure.Env, last carriedFunc) (procedure.Outcome, error) {
	m := trial.NewPoint(&p.Traffic, env, env.Trial)
	if invalid, err := m.TesterCeiling(ctx); err != nil || invalid != "" {
		return procedure.Outcome{Status: result.Invalid, Reason: invalid}, err
	}
	for n := 0; ; n++ {
		found, more, err := visit(ctx, m, n, last)
		if err != nil || !more || !env.Pause(found) {
			return found, err
		}
	}
}

// visits is how often a run comes to a point.
const visits = 5

// mostVisits is how often one comes to a point whose criterion stays open, and visitAsks
// how many trials more decide on it then.
const mostVisits, visitAsks = 20, 4

// Visits is how often a run comes to a point.
func (p *Forward) Visits() int {
	if p.Search.Value == procedure.NoSearch {
		return 1
	}
	return visits
}

// A carriedFunc takes each stream's highest load without loss.
type carriedFunc = func(ctx context.Context, m *trial.Point, carried unit.FrameRate) error

// visit is the nth time at m; more says that another one has something to do.
func visit(ctx context.Context, m *trial.Point, n int, last carriedFunc) (found procedure.Outcome, more bool, err error) {
	if err := m.Enter(ctx); err != nil {
		return found, false, err
	}
	defer func() { err = errors.Join(err, m.Rig.Close()) }()
	if n == 0 {
		if err := m.WarmUp(ctx); err != nil {
			return found, false, err
		}
		if err := m.Fill(ctx); err != nil {
			return found, false, err
		}
	}
	if err := m.Overload(ctx); err != nil {
		return found, false, err
	}
	if len(m.Readings) == 0 || m.Traffic.Search.Value == procedure.NoSearch {
		return m.Outcome(), false, nil
	}
	if err := limits(ctx, m, n, last); err != nil {
		return found, false, err
	}
	found = m.Outcome()
	found.Extra = n+1 >= visits && n+1 < mostVisits && m.Search != nil && m.Search.Open()
	return found, n+1 < visits || found.Extra, nil
}

// limits does visit n's part of the search, where the placement lets a load be
// offered that the DUT cannot take; at the last visit it ends with latency, and what follows.
func limits(ctx context.Context, m *trial.Point, n int, follows carriedFunc) error {
	last := n+1 == visits
	if m.Env.Bed.Placement == "shared" {
		if last {
			m.Out.Warnings = append(m.Out.Warnings, trial.SharedPlacement)
		}
		return nil
	}
	if m.Search == nil {
		if err := m.Begin(unit.FrameRate(figures.Spread("forwarding_rate_fps", m.Rates()).Value)); err != nil {
			return err
		}
		m.Search.Spent = func() bool { return m.Spent("search") }
	}
	if n >= visits {
		m.Search.More += visitAsks
		_, err := m.Search.Seek(ctx, -1)
		return err
	}
	steps := (m.Search.Trials + visits - 1) / visits
	switch {
	case last:
		steps = -1
	case n == 0: // enough for bounds that a verdict may be read from
		steps += steps / 2
	}
	if more, err := m.Search.Seek(ctx, steps); err != nil || more {
		return err
	}
	if !last {
		return nil
	}
	carried, err := m.Standing(ctx, m.Search.Limit())
	if err != nil {
		return err
	}
	if carried == 0 || trial.DropPlaces[m.Service.Value] != "" || m.Spent("latency") {
		return nil
	}
	if err := m.Latency(ctx, carried); err != nil || follows == nil {
		return err
	}
	return follows(ctx, m, carried)
}
