// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"flag"

	"boxdyno/ledger"
)

// A here is this machine as the DUT, with nothing between it and the tester:
//
//	this machine = DUT
//	no ports
type here struct{}

func newHere() Topology { return here{} }

func (here) Flags(*flag.FlagSet) {}

// Build needs no privilege.
func (here) Build(context.Context) (*Testbed, error) {
	cpus, err := allowedCPUs()
	if err != nil {
		return nil, err
	}
	return &Testbed{
		Topology: Here, Kind: "real", TesterCPU: -1, CPUs: cpus,
		Path:  func(int, int, bool) ledger.Path { return ledger.Path{} },
		Close: func() error { return nil },
	}, nil
}

// Here is the name of the topology without ports.
const Here = "here"
