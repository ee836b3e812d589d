// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"strings"
	"testing"

	"boxdyno/runner"
	"boxdyno/subject/capture"
	"boxdyno/subject/catalog"
	"boxdyno/subject/ids"
)

// The page has every subject that captures, with its work, and their parameters.
func TestSubjects(t *testing.T) {
	p := named(t, "docs/subjects.md")
	rows := byCode(t, p.name, p.section(t, "The programs"))
	var names []string
	for _, s := range catalog.All {
		switch s.New().(type) {
		case *capture.Capture:
		case *ids.IDS:
			sameParameters(t, p.name+", Suricata", p.section(t, "Suricata"), "boxdyno list subjects "+s.Name, runner.Params(s.New()))
		default:
			continue
		}
		names = append(names, s.Name)
		if cells := rows[s.Name]; cells != nil && cells[1] != s.Work && s.Name != capture.Own {
			t.Errorf("%s: the work of %s is %s, not %s", p.name, s.Name, s.Work, cells[1])
		}
		if s.Name == capture.Own { // it has all of them
			sameParameters(t, p.name+", Parameters", p.section(t, "Parameters"), "boxdyno list subjects "+s.Name, runner.Params(s.New()))
		}
	}
	sameNames(t, p.name+", The programs", rows, names)
	for _, work := range []string{capture.Count, capture.Decode, capture.Dissection, capture.Application} {
		if !strings.Contains(p.text, "`"+work+"`") {
			t.Errorf("%s does not explain the work %s", p.name, work)
		}
	}
}
