// SPDX-License-Identifier: Apache-2.0

package tune

import "fmt"

// Ablate takes a recipe apart: it whole, nothing of it, all but each step, and each
// step alone. Names say which: "full", "none", "without rings {port}", "only rings
// {port}". What would come twice (of a recipe of one or two steps) comes once.
func Ablate(r Recipe) (out []Recipe) {
	add := func(name string, steps []Step) {
		for _, o := range out {
			if sameSteps(o.Steps, steps) {
				return
			}
		}
		out = append(out, Recipe{Name: name, Doc: r.Doc, Steps: steps})
	}
	add("full", r.Steps)
	add("none", nil)
	for i := range r.Steps {
		add("without "+r.Label(i), append(append([]Step{}, r.Steps[:i]...), r.Steps[i+1:]...))
	}
	for i := range r.Steps {
		add("only "+r.Label(i), r.Steps[i:i+1:i+1])
	}
	return out
}

// Label tells the i-th step from all others of the recipe.
func (r Recipe) Label(i int) string {
	s := r.Steps[i]
	for j, o := range r.Steps {
		if j != i && o.Knob == s.Knob {
			return fmt.Sprintf("%s %s", s.Knob, s.Target)
		}
	}
	return s.Knob
}

func sameSteps(a, b []Step) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
