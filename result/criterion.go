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
}
