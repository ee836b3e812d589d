// SPDX-License-Identifier: Apache-2.0

package lab

// All is every topology, the default first.
var All = []Spec{
	{"sandbox", "tester and DUT in two namespaces of this machine, wired by veth: what its kernel forwards", newSandbox},
	{"loop", "two tester ports wired to each other: what the tester can do by itself", newLoop},
	{"mem", "two ports in memory with a DUT of programmable capacity, loss, delay and reordering between them; no privilege", newMem},
}
