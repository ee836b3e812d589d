// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/result"
)

// twoLabs are a catalogue whose topology other is built of its own, and a plan that
// has one of its procedures measured there.
func twoLabs(other lab.Topology) (c Catalogue, plan string) {
	f := &fake{}
	c = f.catalogue()
	c.Labs[1].New = func() lab.Topology { return other }
	return c, "lab: sandbox\nprocedures:\n  - {use: probe, kind: [a, b]}\n  - {use: probe, kind: [a, b], level: 6, lab: other}\nrepeat: 2\nseed: 3\n"
}

// A second is a topology that a test builds.
type second struct {
	bench
	err    error
	builds int
	closed int
}

func (s *second) Build(context.Context) (*lab.Testbed, error) {
	s.builds++
	if s.err != nil {
		return nil, s.err
	}
	return &lab.Testbed{Facts: lab.Facts{Topology: "other", Kind: "memory", Placement: "split"}, Warnings: []string{"it is slow"}, Means: closing(func() { s.closed++ })}, nil
}

// A run says emulated where the box is, whatever the tester is.
func TestEmulatedBox(t *testing.T) {
	for _, c := range []struct{ bed, tester, box, want string }{
		{"real", "real", "real", "real"},
		{"real", "real", "emulated", "emulated"},
		{"sandbox", "emulated", "", "emulated"},
		{"memory", "emulated", "", "memory"},
	} {
		if got := kindOf(c.bed, []result.Machine{{Kind: c.tester}, {Kind: c.box}}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Points of a procedure with a lab of its own are measured there: it is built for all
// of a pass, and taken down before points that are measured elsewhere.
func TestProceduresInTheirOwnLab(t *testing.T) {
	other := &second{}
	c, text := twoLabs(other)
	p := resolved(t, c, text)
	data, err := json.Marshal(p)
	if err != nil || !strings.Contains(string(data), `"lab":"other"`) {
		t.Fatalf("%v: %s", err, data)
	}
	if again := resolved(t, c, string(data)); again.Procedures[1].Lab != "other" {
		t.Errorf("read again it is %+v", again.Procedures[1])
	}
	if got := strings.Join(p.Labs(), " "); got != "sandbox other" {
		t.Errorf("labs are %s", got)
	}
	m := &memory{}
	run, recs, err := Run(context.Background(), p, m, Options{Catalogue: c})
	if err != nil {
		t.Fatal(err)
	}
	order := ""
	for _, r := range recs {
		if r.Parent == "" && r.Procedure == "probe" {
			order += map[bool]string{true: "o", false: "s"}[strings.Contains(r.ID, "level=6")]
		}
	}
	if order != "ssoossoo" {
		t.Errorf("the order of points is %s: the other testbed stood beside points that are not measured there", order)
	}
	if other.builds != 2 || other.closed != 2 {
		t.Errorf("built %d times and taken down %d times", other.builds, other.closed)
	}
	if run.Topology != "sandbox, other" || result.Get(run.Backend, "other placement") != "split" || !strings.Contains(strings.Join(run.Warnings, "\n"), "topology other: it is slow") {
		t.Errorf("the header says topology %q, backend %v, warnings %q", run.Topology, run.Backend, run.Warnings)
	}
	for _, r := range recs {
		if r.Status != result.Passed {
			t.Errorf("%s is %s", r.ID, r.Status)
		}
	}
}

// One that cannot be built skips its points with what is missing, and the rest goes on;
// it is not tried for each of them.
func TestOwnLabThatCannotBeBuilt(t *testing.T) {
	for _, why := range []error{host.Privilege("build two gateways"), errors.New("this kernel has no veth")} {
		other := &second{err: why}
		c, text := twoLabs(other)
		_, recs, err := Run(context.Background(), resolved(t, c, text), &memory{}, Options{Catalogue: c})
		var missing *host.Missing
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), why.Error()) {
			t.Errorf("%v, want a missing prerequisite: %v", err, why)
		}
		count := map[result.Status]int{}
		for _, r := range recs {
			if r.Parent != "" {
				continue
			}
			count[r.Status]++
			if skipped := strings.Contains(r.ID, "level=6"); skipped != (r.Status == result.Skipped) || skipped && !strings.Contains(r.Reason, why.Error()) {
				t.Errorf("%s is %s: %s", r.ID, r.Status, r.Reason)
			}
		}
		if count[result.Passed] != 4 || count[result.Skipped] != 4 || other.builds != 1 {
			t.Errorf("points are %v, and it was tried %d times", count, other.builds)
		}
	}
}

func TestMistakesWithOwnLabs(t *testing.T) {
	c := (&fake{}).catalogue()
	c.Labs = append(c.Labs, lab.Spec{Name: lab.Here, New: func() lab.Topology { return &second{} }})
	for in, want := range map[string]string{
		"procedures: [{use: probe, lab: moon}]":             `plan.yaml:1:27: unknown topology "moon": there are sandbox`,
		"procedures: [{use: probe, lab: [sandbox, other]}]": "lab is one topology, and no axis",
		"procedures: [{use: probe, lab: here}]":             "probe needs ports to offer frames at, and topology here has none: use --lab sandbox, or other",
	} {
		p, err := Parse("plan.yaml", []byte(in))
		if err == nil {
			p, err = p.Resolve(c)
		}
		var points []Point
		if err == nil {
			points, err = p.Points(c)
		}
		if err == nil {
			_, err = Check(c, points, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}
