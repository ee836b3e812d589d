// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"time"
)

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
	return p.estimate(trials+1+fillEstimate+n+more, longer+d+e.WarmUp+fillEstimate*(s.Rest+s.Overload)+time.Duration(n)*e.Overload)
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
