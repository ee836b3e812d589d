// SPDX-License-Identifier: Apache-2.0

package result

// TuneKey is the setting in a point's identity that says which part of the recipe was
// in force, in a run that takes one apart: Full, None, "without rings", "only rings".
const TuneKey = "tune"

// What of a recipe was in force.
const (
	Full    = "full"
	None    = "none"
	Without = "without " // and a knob's name
	Only    = "only "
)

// An Ablation is what a run takes apart: a recipe's knobs.
type Ablation struct {
	Metric string    `json:"metric"` // that knobs are judged by
	Knobs  []Ablated `json:"knobs"`  // those that are tested, in the recipe's order
	// Untested are those that could not be turned here, or are as the recipe wants
	// them already.
	Untested []Ablated `json:"untested,omitempty"`
}

// An Ablated is a step of the recipe.
type Ablated struct {
	Name   string `json:"name"` // among the recipe's knobs, "rings", or "rings eth0" where that is not enough
	Knob   string `json:"knob"`
	Target string `json:"target"`
	Value  string `json:"value"`
	Reason string `json:"reason,omitempty"` // why it is not tested
}

// Without is the setting that holds all of the recipe but the i-th knob.
func (a *Ablation) Without(i int) string {
	if len(a.Knobs) == 1 {
		return None
	}
	return Without + a.Knobs[i].Name
}

// Only is the setting that holds the i-th knob alone.
func (a *Ablation) Only(i int) string {
	switch len(a.Knobs) {
	case 1:
		return Full
	case 2:
		return a.Without(1 - i)
	}
	return Only + a.Knobs[i].Name
}
