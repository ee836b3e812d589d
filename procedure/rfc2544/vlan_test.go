// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"strings"
	"testing"

	"boxdyno/lab"
	"boxdyno/procedure/internal/roomtest"
)

// Frames in a VLAN go through a box that bridges. The smallest that holds tag and signature
// takes the place of smaller ones, and says so; a router of the lab's is refused.
func TestVLAN(t *testing.T) {
	b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "50000"})
	o := b.Run(ThroughputSpec, map[string]string{"vlan": "7", "preset": "quick"})
	if v := roomtest.Figure(t, o, "throughput_fps").Value; v < 49e3 || v > 50.1e3 {
		t.Errorf("found %v of 50000", v)
	}
	if said := strings.Join(o.Warnings, "\n"); !strings.Contains(said, "frames of 68 octets take the place of smaller ones: over IPv4 with a VLAN tag") {
		t.Errorf("%q", said)
	}
	if n := b.Recs[len(b.Recs)-1]; n.Load.MeanSize != 68 || n.Account.Unexplained != 0 {
		t.Errorf("frames of %v octets, %d unexplained", n.Load.MeanSize, n.Account.Unexplained)
	}
	for _, c := range []struct {
		bed     lab.Testbed
		refused bool
	}{
		{lab.Testbed{Facts: lab.Facts{Topology: "sandbox", Kind: "sandbox"}}, true},
		{lab.Testbed{Facts: lab.Facts{Topology: "wire2", Kind: "real"}}, true},
		{lab.Testbed{Facts: lab.Facts{Topology: "wire2", Kind: "real", Bridge: true}}, false},
	} {
		p := newThroughput()
		roomtest.Assign(t, p.Flags, map[string]string{"vlan": "7"})
		c.bed.Ports = make([]lab.Port, 2)
		if err := p.Check(&c.bed); (err != nil) != c.refused || c.refused && !strings.Contains(err.Error(), "box=bridge") {
			t.Errorf("%+v: %v", c.bed, err)
		}
	}
}
