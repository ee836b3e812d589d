// SPDX-License-Identifier: Apache-2.0

package result

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"boxdyno/unit"
)

// Circumstances are all that a run says of how it was measured, save for what every
// run has of its own, and for the settings of its points. environment is what it says
// of r.Environments.
func (r Run) Circumstances(environment []Pair) (out []Pair) {
	add := func(key, value string) {
		if value != "" {
			out = append(out, Pair{Key: key, Value: value})
		}
	}
	add("boxdyno", r.Version)
	add("preset", r.Preset)
	add("role", r.Role)
	add("topology", r.Topology)
	add("kind", r.Kind)
	for i, m := range r.Machines {
		of := ""
		if i > 0 {
			of = fmt.Sprintf(" of machine %d", i+1)
		}
		add("machine"+of, m.Name)
		add("board"+of, m.Board)
		add("CPU"+of, fmt.Sprintf("%d x %s", m.CPUs, m.CPU))
		add("memory"+of, unit.SI(float64(m.Memory))+"B")
		add("kernel"+of, m.Kernel+" "+m.Machine)
		add("userland"+of, m.Userland)
		add("OS"+of, m.OS)
		add("hypervisor"+of, m.Virtual)
		add("boot"+of, m.BootID)
		add("ports"+of, strings.Join(m.NICs, ", "))
	}
	for _, p := range environment {
		add(p.Key, p.Value)
	}
	for _, p := range r.Backend {
		add("tester: "+p.Key, p.Value)
	}
	var plan map[string]any
	if json.Unmarshal(r.Plan, &plan) == nil {
		for _, own := range []string{"seed", "repeat", "procedures", "preset"} {
			delete(plan, own)
		}
		leaves("plan", plan, add)
	}
	return out
}

// leaves adds what stands at the ends of a plan under its path.
func leaves(path string, v any, add func(key, value string)) {
	if m, ok := v.(map[string]any); ok {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			leaves(path+"."+key, m[key], add)
		}
		return
	}
	text, _ := json.Marshal(v) // it came from JSON
	add(path, strings.Trim(string(text), `"`))
}
