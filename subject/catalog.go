// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"fmt"
	"slices"
	"strings"
)

// All is every subject.
var All = append([]Spec{
	{Name: "stress-ng", Work: "stressor", Doc: "stress-ng with one of its stressors: Debian's package, not in this binary", Metrics: StressMetrics, New: func() Subject { return NewStress() }},
	{Name: "suricata", Work: Application, Doc: "Suricata 7, by default without rules", New: func() Subject { s := NewSuricata(); s.Filter = DefaultFilter; return s }},
}, slices.Concat(captures(), detectors(), computing(), digestions(), memorySubjects(), codecs(), solvers(), cryptos(), tunnels())...)

// Find is the row of All that has the name.
func Find(name string) (Spec, error) {
	var names []string
	for _, s := range All {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Spec{}, fmt.Errorf("there is no subject %q: the subjects are %s", name, strings.Join(names, ", "))
}

// Of are the subjects of a work, and their names.
func Of(work string) (specs []Spec, names []string) {
	for _, s := range All {
		if s.Work == work {
			specs, names = append(specs, s), append(names, s.Name)
		}
	}
	return slices.Clip(specs), names
}

// Main does the work of this process where it was started as the keeper of a subject,
// as a Command's gate, or as a Detector's child, and then does not return. Every program calls it before
// anything else.
func Main() {
	ProcessMain()
	diskKeeperMain()
	detectMain()
	algMain()
}
