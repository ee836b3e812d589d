// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"

	"boxdyno/internal/netns"
	"boxdyno/service"
)

// setNAT masquerades what leaves by wan. Flows keep their source port, so answers go
// to the DUT's address on wan and the flow's port. Open a flow from lan before its
// answers come: an early answer takes the port, and the flow gets another one.
// Entries last 600 s, longer than any pause between trials.
func setNAT(v *services, ctx context.Context, s Service) error {
	err := v.nft(ctx, service.Rules(s, sides[1].dut))
	if err != nil {
		return err
	}
	return netns.Do(v.dut.Netns, func() error {
		for _, name := range []string{"nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"} {
			if err := sysctl("net/netfilter/"+name, "600"); err != nil {
				return err
			}
		}
		return nil
	})
}

// clearNAT also forgets every flow.
func clearNAT(v *services, ctx context.Context) error {
	if err := clearNFT(v, ctx); err != nil {
		return err
	}
	if err := v.forget(); err != nil {
		return err
	}
	if v.plant.Fault == "conntrack-full" {
		return v.fillConntrack()
	}
	return nil
}

// forget empties the table of connections.
func (v *services) forget() error {
	if err := v.dut.nl.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		return fmt.Errorf("empty the connection table: %w", err)
	}
	return nil
}
