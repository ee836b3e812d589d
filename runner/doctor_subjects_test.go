// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"slices"
	"testing"

	"boxdyno/host"
	"boxdyno/subject/capture"
)

// Subjects install themselves, each by its name or all together.
func TestSubjectSets(t *testing.T) {
	names := func(set string) (all []string) {
		for _, s := range Subjects(set) {
			all = append(all, s.Name)
		}
		return all
	}
	if all := names("subjects"); !slices.Contains(all, "scapy") || !slices.Contains(all, "stress-ng") || slices.Contains(all, capture.Own) || !slices.Equal(all, names("all")) {
		t.Errorf("%v", all)
	}
	if one := names("scapy"); !slices.Equal(one, []string{"scapy"}) || names("firewall") != nil || names("x") != nil {
		t.Errorf("%v", one)
	}
	ds := []Diagnosis{diagnose("subject", "scapy", false, &host.Missing{What: "x", Remedy: [][]string{{"boxdyno", "doctor", "--install", "scapy"}}})}
	for _, set := range []string{"firewall", "all", "subjects", "scapy"} {
		if cmds, err := Remedies(ds, set); err != nil || cmds != nil {
			t.Errorf("%s: %v, %v", set, cmds, err)
		}
	}
}
