// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"slices"
	"testing"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/lab"
)

// builtAs is the part of a testbed of each topology that a Check looks at, as Build makes it.
func builtAs(s lab.Spec) *lab.Testbed {
	bed := &lab.Testbed{Topology: s.Name, Kind: "sandbox", TesterCPU: -1, CPUs: []int{0, 1}, Engine: native{}}
	ports := []lab.Port{{MTU: 1500}, {MTU: 1500}}
	switch s.Name {
	case "sandbox":
		bed.Ports, bed.DUT, bed.Services = ports, &host.Local{}, lab.Services
	case "loop":
		bed.Ports, bed.Loop = ports, ports
	case lab.Gateways:
		bed.Ports, bed.DUT, bed.Services, bed.Gateways = ports, &host.Local{}, []string{"route"}, make([]lab.Gateway, 2)
	case "wire2", "pair":
		bed.Kind, bed.Ports, bed.Services = "real", ports, []string{"route", "filter", "nat"}
	case lab.Here:
		bed.Kind = "real"
	case "mem":
		bed.Kind, bed.Ports, bed.Services = "memory", ports, []string{"route", "filter", "drop-xdp", "drop-tc", "drop-nft"}
	default:
		return nil
	}
	return bed
}

type native struct{ engine.Backend }

func (native) Name() string { return "xdp/native" }

// What a Spec needs and another offers decides as Check of the testbed itself does, for all
// procedures and topologies.
func TestNeedsAreWhatCheckRefuses(t *testing.T) {
	settings := map[string][]map[string]string{
		"infer":       {{"rate": "1k"}},
		"flood":       {{"sensor": "tcpdump"}},
		"capture":     {{"generator": "iperf3", "payload_size": "100", "rate": "2Mbps"}},
		"connections": {{"service": "nat"}},
		"forward":     {{"service": "nat"}, {"service": "drop-tc"}},
	}
	tried := 0
	for _, spec := range All {
		for _, set := range append([]map[string]string{nil}, settings[spec.Name]...) {
			p := spec.New()
			assign(t, p.Flags, set)
			if err := p.Check(nil); err != nil {
				t.Logf("%s %v cannot be tried here: %v", spec.Name, set, err)
				continue
			}
			need, service := spec.Needs, ""
			if n, ok := p.(Needing); ok {
				more, s := n.Needs()
				need, service = need|more, s
			}
			for _, topology := range lab.All {
				bed := builtAs(topology)
				if bed == nil {
					t.Fatalf("topology %s: say what its testbed is made of", topology.Name)
				}
				tried++
				declared := need&^topology.Offers == 0 && (service == "" || slices.Contains(topology.Services, service))
				if err := p.Check(bed); (err == nil) != declared {
					t.Errorf("%s %v on %s: declared to run: %v; Check: %v", spec.Name, set, topology.Name, declared, err)
				}
			}
		}
	}
	if tried < 20*len(lab.All) {
		t.Errorf("only %d pairs were tried", tried)
	}
}
