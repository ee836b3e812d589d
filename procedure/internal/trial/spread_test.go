// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"strings"
	"testing"

	"boxdyno/lab"
)

// All CPUs are refused where nobody can spread the work, and where there are none left, or
// too few flows, the figure says so.
func TestAllCPUs(t *testing.T) {
	bed := func(spreads bool, more ...int) *lab.Testbed {
		return &lab.Testbed{Facts: lab.Facts{Topology: "sandbox", Placement: "split", Ports: make([]lab.Port, 2), DUTCPUs: []int{3}, MoreCPUs: more, Spreads: spreads}}
	}
	for _, c := range []struct {
		cpus, refused, said string
		flows               int
		bed                 *lab.Testbed
	}{
		{"1", "", "", 1, bed(false)},
		{"all", "does not spread", "", 1, bed(false)},
		{"all", "", "is 1 CPU here", 1, bed(true)},
		{"all", "", "give flows=24", 23, bed(true, 0, 1)},
		{"all", "", "", 24, bed(true, 0, 1)},
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
		if got := Crowded(c.bed, c.cpus, c.flows); (got == "") != (c.said == "") || !strings.Contains(got, c.said) {
			t.Errorf("%s of %v, %d flows: %q, want %q", c.cpus, c.bed.MoreCPUs, c.flows, got, c.said)
		}
		if p.Asked().AllCPUs != (c.cpus == AllCPUs) {
			t.Errorf("%s asks for %v", c.cpus, p.Asked())
		}
	}
}
