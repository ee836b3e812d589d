// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"errors"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/subject/compute"
)

// Dhrystone is compiled here, proves itself, and its rounds agree in what they are of.
func TestCPU(t *testing.T) {
	testutil.Timed(t) // a program that ends between two samples has no memory
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p := newCPU().(*CPU)
	roomtest.Assign(t, p.Flags, map[string]string{"subject": "dhrystone", "parallel": "cpu0", "optimise": "O1"})
	p.length = 300 * time.Millisecond // its memory is sampled
	var recs []result.Record
	o, err := p.Run(t.Context(), roomtest.Env(&recs, nil))
	var missing *host.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil || o.Status != result.Passed || len(recs) != 4 {
		t.Fatalf("%s %s, %d trials, %v", o.Status, o.Reason, len(recs), err)
	}
	if result.Get(recs[1].Config, "flags") != "-O1" || result.Get(recs[1].Config, "compiler") == "" {
		t.Errorf("%v", recs[1].Config)
	}
	if rate, dmips := roomtest.Measured(t, o, "dhrystones_per_s"), roomtest.Measured(t, o, "dmips"); rate <= 0 || rate/dmips < 1756 || rate/dmips > 1758 {
		t.Errorf("%v runs a second are %v DMIPS", rate, dmips)
	}
	if memory := roomtest.Measured(t, o, "subject_memory_bytes"); memory > 4<<20 {
		t.Errorf("a program of some hundred KB had %v octets", memory)
	}
	roomtest.Declared(t, o, cpuMetrics)
}

func TestCPUParameters(t *testing.T) {
	here := &lab.Testbed{Facts: lab.Facts{Topology: lab.Here, CPUs: []int{0}}}
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"duration": "1500ms"}, "whole seconds"},
		{map[string]string{"parallel": "2"}, "may use 1 CPUs"},
	} {
		p := newCPU()
		roomtest.Assign(t, p.Flags, c.set)
		if err := p.Check(here); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.set, err, c.want)
		}
	}
	names := compute.CPUSpecs().Names()
	for _, name := range names {
		p := newCPU()
		roomtest.Assign(t, p.Flags, map[string]string{"subject": name})
		if n, d := p.Estimate(); n != 4 || d > 3*time.Minute {
			t.Errorf("%s: %d trials in %v", name, n, d)
		}
	}
}
