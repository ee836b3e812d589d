// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"

	"boxdyno/service"
)

// setStateful sets up a filter that knows connections, with an empty table.
func (v *services) setStateful(ctx context.Context, s Service) error {
	if err := v.nft(ctx, service.Rules(s, "")); err != nil {
		return err
	}
	if err := v.dut.nl.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		return fmt.Errorf("empty the connection table: %w", err)
	}
	return nil
}
