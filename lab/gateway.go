// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"boxdyno/host"
	"boxdyno/subject/iperf"
	"boxdyno/subject/tunnel"
)

// A Gateway is one of two that join networks of their own.
type Gateway struct {
	tunnel.Place
	Machine GatewayMachine
	Host    *host.Local // nil: it is a box
}

// A GatewayMachine is what a gateway's machine does: here, or on a box by its agent.
type GatewayMachine interface {
	tunnel.Gate
	iperf.Machine
}

// A localMachine is a namespace of this machine.
type localMachine struct {
	tunnel.Local
	iperf.Machine
}

// LocalGateway is a gateway in h's namespace, with the programs of h's userland.
func LocalGateway(h *host.Local, at tunnel.Place) Gateway {
	return Gateway{Place: at, Machine: localMachine{tunnel.Local{Host: h}, iperf.Local{Host: h}}, Host: h}
}
