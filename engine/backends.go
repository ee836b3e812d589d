// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"

	"boxdyno/host"
)

// All is every backend that needs only a port, best first. The memory backend
// needs a wire and is made by Mem.
var All = []Spec{
	{"xdp", "BPF_PROG_RUN with live frames sends, a native XDP program meters (Linux 5.18, driver that is a redirect target)", newXDP},
	{"packet", "AF_PACKET: sendmmsg past the qdisc sends, a TPACKET_V3 ring meters (every port)", newPacket},
}

// A Tried is one backend and what its probe said.
type Tried struct {
	Name string
	Err  error // nil: it works on every port, and was taken
}

// Best probes All on every port and takes the first that works on all of them.
// Where none does, the error is the last one's; a missing privilege comes first.
func Best(ctx context.Context, ports ...host.Port) (Backend, []Tried, error) {
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
