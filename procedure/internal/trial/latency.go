// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"

	"boxdyno/engine"
	"boxdyno/result"
	"boxdyno/unit"
)

// Latency measures one-way delay, frame by frame, at half of throughput (each
// stream's), or at the first half of that which the tester can offer so.
func (m *Point) Latency(ctx context.Context, throughput unit.FrameRate) error {
	for n := range 3 {
		load := engine.Load{Rate: throughput / unit.FrameRate(int(2)<<n), Duration: m.Effort.Latency, Alone: true}
		rec, err := m.Trial(ctx, "latency", n, load, true)
		if err != nil {
			return err
		}
		if rec.Status == result.Invalid || rec.Load == nil || rec.Load.Latency == nil || rec.Load.Latency.Total() == 0 {
			continue
		}
		if rec.Status == result.Failed {
			m.Out.Warnings = append(m.Out.Warnings, "in the latency trial, below the throughput: "+rec.Reason)
		}
		h := rec.Load.Latency
		m.Add(figures.Value("latency_p50_s", h.Quantile(0.5)), figures.Value("latency_p99_s", h.Quantile(0.99)),
			figures.Value("latency_max_s", h.Quantile(1)), figures.Value("latency_load_fps", float64(rec.Load.Offered)))
		return nil
	}
	m.Out.Warnings = append(m.Out.Warnings, "no latency: the tester could not offer single frames on time at a half, a quarter or an eighth of the throughput")
	return nil
}
