// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"flag"

	"boxdyno/host"
	"boxdyno/result"
)

// A here is this machine as the DUT, with nothing between it and the tester:
//
//	this machine = DUT
//	no ports
type here struct{}

// NewHere returns topology here.
func NewHere() Topology { return here{} }

func (here) Flags(*flag.FlagSet) {}

func (here) Sketch() (Facts, error) {
	cpus, err := host.AllowedCPUs()
	return Facts{Topology: Here, Kind: result.KindReal, TesterCPU: -1, CPUs: cpus}, err
}

// Build needs no privilege.
func (h here) Build(context.Context) (*Testbed, error) {
	facts, err := h.Sketch()
	if err != nil {
		return nil, err
	}
	return &Testbed{Facts: facts}, nil
}

// Here is the name of the topology without ports.
const Here = "here"
