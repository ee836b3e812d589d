// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"slices"

	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
)

// figures are the metrics of all procedures of this room.
var figures = metrics.List(slices.Concat(trial.ForwardMetrics, []result.Metric{trial.CeilingMetric}, latencyMetrics, lossCurveMetrics, backToBackMetrics, recoveryMetrics))

// average is the mean of vs with the same interval.
func average(metric string, vs []float64) result.Value {
	v := figures.Spread(metric, vs)
	v.Value = 0
	for _, x := range vs {
		v.Value += x / float64(len(vs))
	}
	return v
}

// suiteNames name a point of the suite's procedures.
var suiteNames = []string{"service", "direction", "frame_size"}
