// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"boxdyno/engine"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// RecoverySpec is the row of recovery.
var RecoverySpec = procedure.Spec{
	Name: "recovery", Needs: lab.Ports, Standard: "RFC 2544 section 26.5",
	Deviation: "recovery follows an overload of 110 % of the higher of throughput and forwarding rate: without a sharp limit the first may be no overload",
	Quick:     "the overload before recovery lasts 0.2 s, not 60 s (RFC 2544 section 26.5)",
	Doc:       "how long frames are still lost after an overload of 110 % has dropped to 50 %",
	Names:     suiteNames, Metrics: recoveryMetrics, New: newRecovery,
}

// Recovery is RFC 2544 section 26.5: how long after an overload has ended frames
// are still lost.
type Recovery struct{ trial.Suite }

func newRecovery() procedure.Procedure { return &Recovery{trial.NewSuite()} }

// overloadBy is the overload as a multiple of what the box carries.
const overloadBy = 1.1

func (p *Recovery) Estimate() (int, time.Duration) {
	e := suiteEffortOf(p.Preset.Value)
	return p.InAll(e.recoveries, time.Duration(e.recoveries)*(e.over+e.then))
}

func (p *Recovery) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	e := suiteEffortOf(p.Preset.Value)
	return p.OnThroughput(ctx, env, func(m *trial.Point, carried unit.FrameRate) error {
		if !m.Can(carried) {
			return nil
		}
		// Where a box has no sharp limit, 110 % of its throughput need not be an overload.
		top, _ := m.Highest()
		over := min(top, overloadBy*max(carried, unit.FrameRate(figures.Spread("forwarding_rate_fps", m.Rates()).Value)))
		load := engine.Load{Rate: over, After: e.over, Then: carried / 2, Duration: e.over + e.then}
		var times []float64
		invalid, lossless, lost := "", 0, ""
		for n := range e.recoveries {
			rec, err := m.Env.Trial(ctx, recoveryConfig(n, load), func(ctx context.Context) (procedure.Outcome, error) {
				return recovered(ctx, m, load)
			})
			if err != nil {
				return err
			}
			v := rec.Value("recovery_s")
			switch {
			case rec.Status == result.Invalid || rec.Load == nil:
				invalid = rec.Reason
			case rec.Account.Lost() == 0:
				lossless++
			case v == nil:
				lost = fmt.Sprintf("frames were still lost %v after the load had dropped", e.then)
			default:
				times = append(times, v.Value)
				m.Out.Load, m.Out.Account = rec.Load, rec.Account
			}
		}
		m.Add(figures.Value("recovery_overload_fps", float64(over*m.Streams())), figures.Value("recovery_load_fps", float64(load.Then*m.Streams())))
		switch {
		case lost != "":
			m.Out.Status, m.Out.Reason = result.Failed, lost
		case len(times) > 0:
			m.Add(average("recovery_s", times))
		case lossless > 0:
			m.Out.Status, m.Out.Reason = result.Invalid, fmt.Sprintf("no recovery to measure: %d trials at %v, the highest overload that the tester could offer or 110 %% of what the box carries, lost nothing", lossless, over)
		default:
			m.Out.Status, m.Out.Reason = result.Invalid, "every recovery trial is invalid: "+invalid
		}
		if n := e.recoveries - len(times); n > 0 && len(times) > 0 {
			m.Warn("%d of %d recovery trials do not count: they were invalid, or lost nothing", n, e.recoveries)
		}
		return nil
	})
}

func recoveryConfig(n int, l engine.Load) []result.Pair {
	rate := func(r unit.FrameRate) string { return strconv.FormatFloat(float64(r), 'f', 0, 64) }
	return []result.Pair{
		{Key: "trial", Value: "recovery"}, {Key: "n", Value: strconv.Itoa(n)},
		{Key: "rate", Value: rate(l.Rate)}, {Key: "after", Value: l.After.String()},
		{Key: "then", Value: rate(l.Then)}, {Key: "duration", Value: l.Duration.String()},
	}
}

// recovered overloads the box, has the load drop, and finds when the last frame
// arrived before which others were missing.
func recovered(ctx context.Context, m *trial.Point, l engine.Load) (procedure.Outcome, error) {
	o, sent, seen, err := m.Rig.Offer(ctx, l, true)
	if err != nil {
		return o, err
	}
	o.Ceiling = m.Ceiling
	var last time.Duration
	for i, tx := range sent {
		rx := seen[i].Streams[0]
		if tx.Changed == 0 || rx.Span < tx.Accepted { // its last frames are missing, too
			return o, nil
		}
		last = max(last, time.Duration(rx.Gap-tx.Changed))
	}
	o.Values = []result.Value{figures.Value("recovery_s", last.Seconds())}
	return o, nil
}

var recoveryMetrics = []result.Metric{
	{Name: "recovery_overload_fps", Label: "overload frame/s", Group: "Recovery after an overload", Unit: "frame/s", Help: "the load before the drop"},
	{Name: "recovery_load_fps", Label: "then frame/s", Unit: "frame/s", Help: "the load after it"},
	{Name: "recovery_s", Label: "recovered in", Group: "Recovery after an overload", Interval: "range", Heads: true, Unit: "s", Better: -1, Help: "from the departure of the first frame at the lower load to the arrival of the last frame before which others were missing: average of the repeats, interval is their range; 0: none was missing"},
}
