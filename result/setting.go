// SPDX-License-Identifier: Apache-2.0

package result

// A Setting is what became of one step of a tuning recipe.
type Setting struct {
	Knob    string `json:"knob"`              // "rings", "sysctl:net.core.rmem_max"
	Target  string `json:"target"`            // a port's name, "namespace" or "host"
	Asked   string `json:"asked"`             // as the recipe has it
	Before  string `json:"before,omitempty"`  // "" where it could not be read
	Got     string `json:"got,omitempty"`     // read back; the same as Before where nothing changed
	Problem string `json:"problem,omitempty"` // why Got is not what was asked for, in words
}
