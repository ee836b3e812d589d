// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"time"

	"boxdyno/engine"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// LatencySpec is the row of latency.
var LatencySpec = procedure.Spec{
	Name: "latency", Needs: lab.Ports, Standard: "RFC 2544 section 26.2", Deviation: "software times every frame; figures are percentiles of all, not the delay of one tagged frame",
	Quick: "latency is measured 5 times 0.1 s, not 20 times 120 s (RFC 2544 section 26.2)",
	Doc:   "one-way delay at the throughput: percentiles, from repeated trials",
	Names: suiteNames, Metrics: latencyMetrics, New: newLatency,
}

// Latency is RFC 2544 section 26.2: one-way delay at the throughput, several
// times. Every frame is stamped.
type Latency struct{ trial.Suite }

func newLatency() procedure.Procedure { return &Latency{trial.NewSuite()} }

func (p *Latency) Estimate() (int, time.Duration) {
	e := suiteEffortOf(p.Preset.Value)
	return p.InAll(e.latencies, time.Duration(e.latencies)*e.latency)
}

var quantiles = []struct {
	metric string
	q      float64
}{{"latency_p50_s", 0.5}, {"latency_p90_s", 0.9}, {"latency_p99_s", 0.99}, {"latency_p999_s", 0.999}, {"latency_max_s", 1}}

func (p *Latency) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	e := suiteEffortOf(p.Preset.Value)
	return p.OnThroughput(ctx, env, func(m *trial.Point, carried unit.FrameRate) error {
		if !m.Can(carried) {
			return nil
		}
		delays := make([][]float64, len(quantiles))
		var loads []float64
		lost, batch, invalid := 0, 0, ""
		// Frames that leave together wait for each other, so each leaves alone where
		// the tester can do that at this load: the first trial tells.
		alone := true
		for n, left := 0, e.latencies; left > 0; n, left = n+1, left-1 {
			rec, err := m.Own(ctx, "latency", n, engine.Load{Rate: carried, Duration: e.latency, Alone: alone}, true)
			switch {
			case err != nil:
				return err
			case n == 0 && rec.Status == result.Invalid:
				alone = false
				left++
				continue
			case rec.Status == result.Invalid || rec.Load == nil || rec.Load.Latency == nil || rec.Load.Latency.Total() == 0:
				invalid = rec.Reason
				continue
			case rec.Status == result.Failed:
				lost++
			}
			for i, q := range quantiles {
				delays[i] = append(delays[i], rec.Load.Latency.Quantile(q.q))
			}
			loads, batch = append(loads, float64(rec.Load.Offered)), max(batch, rec.Load.Batch)
			m.Out.Load, m.Out.Account = rec.Load, rec.Account
		}
		if len(loads) == 0 {
			m.Out.Status, m.Out.Reason = result.Invalid, "every latency trial is invalid: "+invalid
			return nil
		}
		for i, q := range quantiles {
			m.Add(figures.Spread(q.metric, delays[i]))
		}
		m.Add(figures.Spread("latency_load_fps", loads))
		if !alone {
			m.Warn("the tester cannot offer single frames at the throughput: they left in bursts of up to %d and waited for each other", batch)
		}
		if lost > 0 {
			m.Warn("frames were lost in %d of %d latency trials; the delay is that of the others", lost, len(loads))
		}
		if n := e.latencies - len(loads); n > 0 {
			m.Warn("%d of %d latency trials were invalid and do not count", n, e.latencies)
		}
		return nil
	})
}

var latencyMetrics = append(metrics.List(trial.ForwardMetrics).Pick("latency_load_fps", "latency_p50_s", "latency_p99_s", "latency_max_s"),
	result.Metric{Name: "latency_p90_s", Label: "p90", Unit: "s", Better: -1, Help: "the same, 90th percentile"},
	result.Metric{Name: "latency_p999_s", Label: "p99.9", Unit: "s", Better: -1, Help: "the same, 99.9th percentile"})
