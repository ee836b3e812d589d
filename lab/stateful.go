// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
)

// setStateful sets up a filter that knows connections, with an empty table.
func (v *services) setStateful(ctx context.Context, s Service) error {
	if err := v.nft(ctx, statefulRules(s)); err != nil {
		return err
	}
	if err := v.dut.nl.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		return fmt.Errorf("empty the connection table: %w", err)
	}
	return nil
}

// statefulRules is a firewall that denies by default and tracks connections: what
// belongs to one passes at once; a new one is tried against rules for other ports,
// one after another, before the one that accepts it.
func statefulRules(s Service) string {
	var b strings.Builder
	b.WriteString(`table inet boxdyno {
	counter drop_rule {}
	counter drop_policy {}
	counter drop_invalid {}
	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state established,related accept
		ct state invalid counter name drop_invalid drop
`)
	for i := range s.Rules {
		fmt.Fprintf(&b, "\t\ttcp dport %d counter name drop_rule drop\n", 1+i%(s.Connections.Port-1))
	}
	last := s.Connections.Port + s.Connections.Ports - 1
	fmt.Fprintf(&b, "\t\ttcp dport %d-%d ct state new accept\n", s.Connections.Port, last)
	b.WriteString("\t\tcounter name drop_policy\n\t}\n}\n")
	return b.String()
}
