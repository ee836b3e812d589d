// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"slices"

	"boxdyno/procedure/internal/metrics"
	"boxdyno/result"
)

// rfc2544Figures are the metrics of all procedures of this room.
var rfc2544Figures = metrics.List(slices.Concat(ForwardMetrics, []result.Metric{ceilingMetric}, latencyMetrics, lossCurveMetrics, backToBackMetrics, recoveryMetrics))

// average is the mean of vs with the same interval.
func average(metric string, vs []float64) result.Value {
	v := rfc2544Figures.Spread(metric, vs)
	v.Value = 0
	for _, x := range vs {
		v.Value += x / float64(len(vs))
	}
	return v
}

// suiteNames name a point of the suite's procedures.
var suiteNames = []string{"service", "direction", "frame_size"}
