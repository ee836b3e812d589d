// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"

	"boxdyno/host"
	"boxdyno/service"
)

func setFilter(v *services, ctx context.Context, s Service) error {
	if err := v.nft(ctx, service.Rules(s, "")); err != nil || s.Connections == nil {
		return err
	}
	return v.forget()
}

// setDropNFT throws test frames away where firewalls commonly do first: in
// prerouting, before conntrack and routing. (The ingress hook would be earlier,
// for one device at a time.)
func setDropNFT(v *services, ctx context.Context, s Service) error {
	return v.nft(ctx, service.Rules(s, ""))
}

// nft loads a ruleset into the DUT's namespace, all or nothing.
func (v *services) nft(ctx context.Context, ruleset string) error {
	_, err := v.dut.Run(ctx, ruleset, "nft", "-f", "-")
	return err
}

// clearNFT removes the service's table, if it is there, and leaves a fault's.
// Without nft there is nothing to remove.
func clearNFT(v *services, ctx context.Context) error {
	if host.Has("nft") != nil {
		return nil
	}
	return v.nft(ctx, "table inet boxdyno {}\ndelete table inet boxdyno\n")
}
