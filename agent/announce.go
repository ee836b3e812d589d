// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"net/netip"

	"boxdyno/host"
	"boxdyno/subject/mpi"
)

// AnnounceArgs are where the station of an address is.
type AnnounceArgs struct {
	Port    string     `json:"port"`
	Station netip.Addr `json:"station"` // IPv4
}

// Station is the MAC address of test frames for the machine at an IPv4 address: no port has
// it, so that the machine's own stack ends them.
func Station(a netip.Addr) [6]byte {
	b := a.As4()
	return [6]byte{0x02, 0xbd, b[0], b[1], b[2], b[3]}
}

func (s *Session) announce(_ context.Context, a AnnounceArgs) (None, error) {
	if !a.Station.Is4() {
		return None{}, fmt.Errorf("%v is no IPv4 address of a station", a.Station)
	}
	return None{}, host.Port{Host: Label, Name: a.Port}.Announce(Station(a.Station))
}

// nets are this machine's private networks, and which of them carry connections of the agent.
func (s *Session) nets(context.Context, None) ([]mpi.Net, error) {
	all, err := mpi.Nets()
	if err != nil {
		return nil, err
	}
	held := host.Held()
	for i, n := range all {
		for _, c := range held {
			carries, err := host.Port{Name: n.Interface}.Carries(c)
			if err != nil {
				return nil, err
			}
			all[i].Control = all[i].Control || carries
		}
	}
	return all, nil
}
