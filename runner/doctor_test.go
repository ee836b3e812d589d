// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
)

func TestDiagnose(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Answer
	}{
		{nil, Yes}, {fmt.Errorf("a: %w", host.ErrNotSupported), No}, {fmt.Errorf("a: %w", errMissing), No}, {errors.New("hm"), Unknown},
	} {
		if d := diagnose("g", "n", true, c.err); d.Answer != c.want || (c.err != nil) != (d.Detail != "") {
			t.Errorf("%v is %+v", c.err, d)
		}
	}
}

func TestRemedies(t *testing.T) {
	ds := []Diagnosis{
		diagnose("a", "a", true, errMissing), diagnose("a", "b", true, errMissing), diagnose("a", "c", true, nil),
		diagnose("a", "d", false, &host.Missing{What: "x", Remedy: [][]string{{"apt-get", "install", "x"}}}),
		diagnose("userland", "32-bit", false, &host.Missing{What: "y", Remedy: [][]string{{"apt-get", "install", "y"}, {"debootstrap"}, {"z"}}}),
	}
	if Healthy(ds) || !Healthy(ds[2:]) {
		t.Error("only what is needed and missing makes a machine unhealthy")
	}
	for set, want := range map[string]int{"firewall": 1, "all": 2, "width": 3} {
		if cmds, err := Remedies(ds, set); err != nil || len(cmds) != want {
			t.Errorf("%s: %v %v", set, cmds, err)
		}
	}
	if _, err := Remedies(ds, "x"); err == nil || !strings.Contains(err.Error(), "firewall, all") {
		t.Error(err)
	}
}

// Without privilege every line still has an answer, and no line is "don't know".
func TestDoctorAnswers(t *testing.T) {
	testutil.NoLeaks(t)
	for _, d := range Doctor(context.Background(), Plugins()) {
		if d.Answer == Unknown && d.Group != "machine" || d.Answer != Yes && d.Detail == "" {
			t.Errorf("%+v", d)
		}
	}
}

func TestDoctorPrivileged(t *testing.T) {
	testutil.Privileged(t)
	ds := Doctor(context.Background(), Plugins())
	for _, kind := range lab.Services {
		i := slices.IndexFunc(ds, func(d Diagnosis) bool { return d.Name == "service "+kind })
		if i < 0 || ds[i].Answer == Unknown {
			t.Errorf("service %s is not answered: %+v", kind, ds)
		}
	}
}
