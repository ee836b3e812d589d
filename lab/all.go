// SPDX-License-Identifier: Apache-2.0

package lab

// All is every topology, the default first.
var All = []Spec{
	{"sandbox", "tester and DUT in two namespaces of this machine, wired by veth: what its kernel forwards", Ports | KernelPorts | Listener | Tunable | Loadable | Sockets | Subjects | Calling, Services, newSandbox},
	{"loop", "two tester ports wired to each other: what the tester can do by itself", Ports | KernelPorts, nil, newLoop},
	{Gateways, "two gateways in two namespaces of this machine with a cable between them, for tunnels through it (vpn, stream)", Ports | KernelPorts | Listener | TwoGateways | Tunable | Loadable | Subjects, []string{"route"}, newGateways},
	{"wire2", "two ports of this machine and a box between them that nobody can look into: pfSense, a router, a switch (not seen on hardware)", Ports | KernelPorts, wiredServices, newWire2},
	{Pair, "one or two ports of this machine, and a DUT with the agent, reached by ssh: its counters are in the ledger, and software can listen on it (not seen on hardware)", Ports | KernelPorts | Listener | Tunable | Sockets | Loadable | Calling, Services, newPair},
	{Peers, "this machine and a box with the agent, or two such boxes, as two gateways with one cable between them (vpn, stream; not seen on hardware)", TwoGateways | Tunable, nil, newPeers},
	{Here, "this machine is the box, and there are no ports: for procedures that load it without frames (soak)", OwnMachine | Subjects, nil, NewHere},
	{There, "a box with the agent, reached by ssh, and no ports: it carries out by itself the procedures that need no frames (cpu, storage, soak)", OwnMachine | Tunable | Subjects, nil, newThere},
	{"mem", "two ports in memory with a DUT of programmable capacity, loss, delay and reordering between them; no privilege", Ports | Loadable | Subjects, memServices, newMem},
}
