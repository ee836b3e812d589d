// SPDX-License-Identifier: Apache-2.0

package lab

// A Capability is something that a procedure may need of a testbed. Values combine with |.
type Capability uint

const (
	Ports       Capability = 1 << iota // ports that the tester sends from and receives at
	KernelPorts                        // ports of a kernel, which XDP programs can be attached to
	Listener                           // software can listen on a port of the DUT, which is this machine's or has the agent
	TwoGateways                        // a way between two gateways
	OwnMachine                         // the DUT is all of a machine
	Tunable                            // a recipe can be applied to the DUT's settings
	Loadable                           // the DUT can be heated, or run a load beside
	Sockets                            // this machine's sockets can reach the DUT's kernel at the first port
	Subjects                           // programs under load can run on the DUT
	Calling                            // a port of the DUT tells the frames of a capture apart
)

// Capabilities are all: a word for each, and what a topology has that offers it.
var Capabilities = []struct {
	Of         Capability
	Word, Name string
}{
	{Ports, "ports", "ports to offer frames at"},
	{KernelPorts, "kernel-ports", "ports of a kernel"},
	{Listener, "listener", "a port of the DUT that software can listen on"},
	{TwoGateways, "two-gateways", "two gateways"},
	{OwnMachine, "own-machine", "a whole machine as the DUT"},
	{Tunable, "tunable", "a DUT that a recipe can be applied to"},
	{Loadable, "loadable", "a DUT that can be loaded or heated"},
	{Sockets, "sockets", "a DUT that sockets of this machine can talk to"},
	{Subjects, "subjects", "a DUT that programs can run on by themselves"},
	{Calling, "calling", "a port of the DUT that tells the frames of a capture apart"},
}

// Words are those of the capabilities in c.
func (c Capability) Words() (words []string) {
	for _, x := range Capabilities {
		if c&x.Of != 0 {
			words = append(words, x.Word)
		}
	}
	return words
}
