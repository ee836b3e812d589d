// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"slices"
	"time"

	"boxdyno/lab"
	"boxdyno/procedure/internal/metrics"
)

// ThroughputSpec is the row of throughput.
var ThroughputSpec = Spec{
	Name: "throughput", Needs: lab.Ports, Standard: "RFC 2544 section 26.1, RFC 2285", Deviation: BurstsDeviation,
	Doc:   "highest load without loss, and the forwarding rate under overload beside it",
	Names: suiteNames, Metrics: slices.Concat(ThroughputMetrics, metrics.List(ForwardMetrics).Pick("standing_start_fps")), Joules: ForwardJoules, New: newThroughput,
}

// Throughput is RFC 2544 section 26.1, with the forwarding rate under overload
// (RFC 2285) beside it.
type Throughput struct{ suite }

func newThroughput() Procedure { return &Throughput{newSuite()} }

// throughputOverloads is how often the rate under overload is visited.
const throughputOverloads = 3

func (p *Throughput) Estimate() (int, time.Duration) {
	e := EffortOf(p.Preset.Value)
	s := p.Searching()
	trials, d := s.Estimate()
	n := throughputOverloads * e.Overloads
	more, longer := p.standingEstimate(trials)
	return p.inAll(trials+1+fillEstimate+n+more, longer+d+e.WarmUp+fillEstimate*(s.Rest+s.Overload)+time.Duration(n)*e.Overload)
}

func (p *Throughput) Run(ctx context.Context, env *Env) (Outcome, error) {
	return p.at(ctx, env, func(m *Point) error {
		if _, err := m.throughput(ctx); err != nil {
			return err
		}
		if m.Search == nil && len(m.Readings) > 0 {
			m.Out.Warnings = append(m.Out.Warnings, SharedPlacement)
		}
		m.Out = m.Outcome()
		return nil
	})
}
