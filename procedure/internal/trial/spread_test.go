// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"strings"
	"testing"

	"boxdyno/frame"
	"boxdyno/lab"
	"boxdyno/result"
)

// All CPUs are refused where nobody can spread the work, and where there are none left, or
// too few flows, the figure says so.
func TestAllCPUs(t *testing.T) {
	bed := func(spreads bool, more ...int) *lab.Testbed {
		return &lab.Testbed{Facts: lab.Facts{Topology: "sandbox", Placement: "split", Ports: make([]lab.Port, 2), DUTCPUs: []int{3}, MoreCPUs: more, Spreads: spreads}}
	}
	box := func(cpus int) *lab.Testbed {
		return &lab.Testbed{Facts: lab.Facts{Topology: lab.Pair, Ports: make([]lab.Port, 2), FarCPUs: cpus, Spreads: true}}
	}
	for _, c := range []struct {
		cpus, refused, said string
		flows               int
		bed                 *lab.Testbed
	}{
		{"1", "", "", 1, bed(false)},
		{"all", "does not spread", "", 1, bed(false)},
		{"all", "", "is 1 CPU here", 1, bed(true)},
		{"all", "", "one flow uses one of 3 CPUs: give flows=24", 1, bed(true, 0, 1)},
		{"all", "", "give flows=24", 23, bed(true, 0, 1)},
		{"all", "", "", 24, bed(true, 0, 1)},
		{"all", "", "the box has no more", 1, box(1)},
		{"all", "", "give flows=32", 31, box(4)},
		{"all", "", "", 32, box(4)},
	} {
		p := NewTraffic(Forwarding)
		if err := p.dutCPUs.Set(c.cpus); err != nil {
			t.Fatal(err)
		}
		p.Flows.Value = c.flows
		err := p.Check(c.bed)
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%+v: %v", c, err)
		}
		if c.refused != "" {
			continue
		}
		if got := Crowded(c.bed, c.cpus, Flows{c.flows, "flows", frame.MaxFlows}, 1); (got == "") != (c.said == "") || !strings.Contains(got, c.said) {
			t.Errorf("%s of %v, %d flows: %q, want %q", c.cpus, c.bed.MoreCPUs, c.flows, got, c.said)
		}
		if p.Asked().AllCPUs != (c.cpus == AllCPUs) {
			t.Errorf("%s asks for %v", c.cpus, p.Asked())
		}
	}
}

// The CPUs of further senders are not the box's, in what limits a figure, in the placement
// and in the record of a trial.
func TestAllCPUsBesideSenders(t *testing.T) {
	bed := &lab.Testbed{Facts: lab.Facts{TesterCPU: 2, Senders: []int{1, 0}, DUTCPUs: []int{3}, MoreCPUs: []int{0, 1}}}
	for _, c := range []struct {
		senders         int
		crowded, placed string
	}{
		{1, "spread unevenly over 3 CPUs: give flows=24", ""},
		{2, "spread unevenly over 2 CPUs: give flows=16", "CPUs 3,0 carry the box, and CPUs 2,1 send"},
		{3, "is 1 CPU here", "CPUs 3 carry the box, and CPUs 2,1,0 send"},
		{8, "is 1 CPU here", "CPUs 3 carry the box, and CPUs 2,1,0 send"},
	} {
		if got := Crowded(bed, AllCPUs, Flows{2, "flows", frame.MaxFlows}, c.senders); !strings.Contains(got, c.crowded) {
			t.Errorf("%d senders: %q, want %q", c.senders, got, c.crowded)
		}
		if got := Placed(bed, AllCPUs, c.senders); !strings.Contains(got, c.placed) || (got == "") != (c.placed == "") {
			t.Errorf("%d senders: %q, want %q", c.senders, got, c.placed)
		}
		if got := Placed(bed, oneCPU, c.senders); got != "" {
			t.Errorf("one CPU of the box: %q", got)
		}
		bed.Means = serving{}
		if err := bed.Serve(t.Context(), lab.Service{AllCPUs: true, Senders: c.senders - 1}); err != nil {
			t.Fatal(err)
		}
		for _, cpu := range bed.Carrying() {
			if cpu == bed.TesterCPU || c.senders > 1 && cpu == 1 || c.senders > 2 && cpu == 0 {
				t.Errorf("%d senders: CPU %d carries the box and sends", c.senders, cpu)
			}
		}
	}
}

// What the hypervisor took of the CPU that empties the DUT's ring puts what the ring lost
// in doubt, and what it took of CPUs that flows are handed to does not.
func TestStolenOfAllCPUs(t *testing.T) {
	w := &watch{bed: &lab.Testbed{Facts: lab.Facts{TesterCPU: 2, DUTCPUs: []int{3}, MoreCPUs: []int{0, 1}}, Means: serving{}}, senders: []int{2}}
	for _, c := range []struct {
		all    bool
		stolen int // CPU
		kept   float64
	}{
		{true, 3, 100}, {true, 0, 0}, {true, 2, 0}, {false, 3, 100}, {false, 0, 0},
	} {
		if err := w.bed.Serve(t.Context(), lab.Service{AllCPUs: c.all}); err != nil {
			t.Fatal(err)
		}
		cpus := []result.CPU{{CPU: 0}, {CPU: 1}, {CPU: 2}, {CPU: 3}}
		cpus[c.stolen].Steal = 0.1
		w.roles(cpus)
		rec := result.Record{CPUs: cpus, DUT: &result.DUTWork{}, Account: &result.Account{Accepted: 1000, Drops: []result.Term{{Place: result.DUTNIC, N: 200}}}}
		if got := KeptOff(rec); got != c.kept {
			t.Errorf("all CPUs %v, CPU %d was taken: %v frames are in doubt, want %v: %+v", c.all, c.stolen, got, c.kept, cpus)
		}
	}
}

type serving struct{}

func (serving) Serve(context.Context, lab.Service) error { return nil }
