// SPDX-License-Identifier: Apache-2.0

// Package catalog is the table of backends.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"boxdyno/engine"
	"boxdyno/engine/afxdp"
	"boxdyno/engine/packet"
	"boxdyno/engine/xdp"
	"boxdyno/host"
)

// A Spec is a row of All.
type Spec struct {
	Name, Doc string
	New       func() engine.Backend
	Modes     []Mode // that can be asked for; New finds out by itself which is best
}

// A Mode is one way of a backend to work.
type Mode struct {
	Name, Doc string
	New       func() engine.Backend
}

// All is every backend that needs only a port, best first. The memory backend
// needs a wire and is made by mem.New.
var All = []Spec{
	{"xdp", "BPF_PROG_RUN with live frames sends, a native XDP program meters (Linux 5.18, driver that is a redirect target)", xdp.New, []Mode{
		{"generic", "sockets send as packet does, an XDP program behind the driver meters (Linux 5.7, every port)", xdp.NewGeneric},
	}},
	{"afxdp", "AF_XDP rings send and meter (Linux 5.9, every port; best where the driver has zero-copy)", afxdp.New, []Mode{
		{"copy", "the kernel copies frames; works on every port", afxdp.NewCopy},
		{"zero-copy", "the port reads and writes the rings' memory; needs its driver (not seen on hardware)", afxdp.NewZeroCopy},
		{"busy-poll", "zero-copy, and the sender and the meter work the port's queues instead of interrupts (not seen on hardware)", afxdp.NewBusyPoll},
	}},
	{"packet", "AF_PACKET: sendmmsg past the qdisc sends, a TPACKET_V3 ring meters (every port)", packet.New, nil},
}

// Open makes the backend that is called by the name of a row of All, or by that of
// a row and one of its modes ("afxdp/copy"). Whether it works on a port its
// Probe says.
func Open(name string) (engine.Backend, error) {
	var names []string
	for _, s := range All {
		names = append(names, s.Name)
		if name == s.Name {
			return s.New(), nil
		}
		for _, m := range s.Modes {
			full := s.Name + "/" + m.Name
			names = append(names, full)
			if name == full {
				return m.New(), nil
			}
		}
	}
	return nil, fmt.Errorf("there is no backend %q: the backends are %s", name, strings.Join(names, ", "))
}

// A Tried is one backend and what its probe said.
type Tried struct {
	Name string
	Err  error // nil: it works on every port, and was taken
}

// Best probes All on every port and takes the first that works on all of them.
// Where none does, the error is the last one's; a missing privilege comes first.
func Best(ctx context.Context, ports ...host.Port) (engine.Backend, []Tried, error) {
	var tried []Tried
	for _, s := range All {
		b := s.New()
		err := b.Probe(ctx, ports...)
		tried = append(tried, Tried{s.Name, err})
		var missing *host.Missing
		if err == nil || errors.As(err, &missing) {
			return b, tried, err
		}
	}
	return nil, tried, fmt.Errorf("no backend works on %v: %w", ports, tried[len(tried)-1].Err)
}
