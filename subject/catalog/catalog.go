// SPDX-License-Identifier: Apache-2.0

// Package catalog is the table of all subjects.
package catalog

import (
	"fmt"
	"slices"
	"strings"

	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/cipher"
	"boxdyno/subject/compute"
	"boxdyno/subject/detector"
	"boxdyno/subject/disk"
	"boxdyno/subject/ids"
	"boxdyno/subject/stress"
	"boxdyno/subject/tunnel"
)

// All is every subject.
var All = append([]subject.Spec{
	{Name: "stress-ng", Work: "stressor", Doc: "stress-ng with one of its stressors: Debian's package, not in this binary", Metrics: stress.Metrics, New: func() subject.Subject { return stress.New() }},
	{Name: "suricata", Work: capture.Application, Doc: "Suricata 7, by default without rules", New: func() subject.Subject { s := ids.NewSuricata(); s.Filter = capture.DefaultFilter; return s }},
}, slices.Concat(capture.Specs(), detector.Specs(), compute.CPUSpecs(), compute.HashSpecs(), compute.MemorySpecs(), compute.CodecSpecs(), compute.SolverSpecs(), cipher.Specs(), tunnel.Specs())...)

// Find is the row of All that has the name.
func Find(name string) (subject.Spec, error) {
	var names []string
	for _, s := range All {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return subject.Spec{}, fmt.Errorf("there is no subject %q: the subjects are %s", name, strings.Join(names, ", "))
}

// Of are the subjects of a work, and their names.
func Of(work string) (specs []subject.Spec, names []string) {
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
	subject.Main()
	disk.KeeperMain()
	detector.Main()
	cipher.Main()
}
