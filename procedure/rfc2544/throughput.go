// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"slices"
	"time"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/trial"
)

// ThroughputSpec is the row of throughput.
var ThroughputSpec = procedure.Spec{
	Name: "throughput", Needs: lab.Ports, Standard: "RFC 2544 section 26.1, RFC 2285", Deviation: trial.BurstsDeviation,
	Doc:   "highest load without loss, and the forwarding rate under overload beside it",
	Names: suiteNames, Metrics: slices.Concat(trial.ThroughputMetrics, metrics.List(trial.ForwardMetrics).Pick("standing_start_fps")), Joules: trial.ForwardJoules, New: newThroughput,
}

// Throughput is RFC 2544 section 26.1, with the forwarding rate under overload
// (RFC 2285) beside it.
type Throughput struct{ trial.Suite }

func newThroughput() procedure.Procedure { return &Throughput{trial.NewSuite()} }

// throughputOverloads is how often the rate under overload is visited.
const throughputOverloads = 3

func (p *Throughput) Estimate() (int, time.Duration) {
	e := trial.EffortOf(p.Preset.Value)
	s := p.Searching()
	trials, d := s.Estimate()
	n := throughputOverloads * e.Overloads
	more, longer := p.StandingEstimate(trials)
	return p.InAll(trials+1+trial.FillEstimate+n+more, longer+d+e.WarmUp+trial.FillEstimate*(s.Rest+s.Overload)+time.Duration(n)*e.Overload)
}

func (p *Throughput) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	return p.At(ctx, env, func(m *trial.Point) error {
		if _, err := m.Throughput(ctx); err != nil {
			return err
		}
		if m.Search == nil && len(m.Readings) > 0 {
			m.Out.Warnings = append(m.Out.Warnings, trial.SharedPlacement)
		}
		m.Out = m.Outcome()
		return nil
	})
}
