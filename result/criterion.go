// SPDX-License-Identifier: Apache-2.0

package result

// A Criterion is what a role asks of one figure: of the points whose Config
// holds Where, Metric must lie in [Min, Max].
type Criterion struct {
	Text   string   `json:"text"` // in a reader's words: "IMIX without loss at 1 Gbit/s each way"
	Metric string   `json:"metric"`
	Where  []Pair   `json:"where"`
	Min    *float64 `json:"min,omitempty"` // nil: no such bound
	Max    *float64 `json:"max,omitempty"`

	// Any are keys of Config whose values are alternatives, such as the software that
	// captures and its buffer: one combination of them must meet all criteria that have
	// the same keys here.
	Any []string `json:"any,omitempty"`
	// Optional: where it was not measured, the others decide.
	Optional bool `json:"optional,omitempty"`
}

// HottestMetric is a metric of every point for criteria: the highest temperature, in
// °C, that telemetry read of any sensor of the box while the point's trials lasted.
const HottestMetric = "temperature_max_celsius"
