// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"strings"

	"boxdyno/frame"
	"boxdyno/host"
)

const maxRules = 100_000

func checkFilter(s Service) error {
	if s.Rules < 0 || s.Rules > maxRules {
		return fmt.Errorf("rules %d: want 0 to %d", s.Rules, maxRules)
	}
	return nil
}

func setFilter(v *services, ctx context.Context, s Service) error {
	if s.Connections != nil {
		return v.setStateful(ctx, s)
	}
	return v.nft(ctx, filterRules(s))
}

// filterRules is a firewall that denies by default: in the chain forward, rules
// for other UDP ports are tried one after another, and one that blocks known-bad
// frames where that is asked for, before the one that accepts test frames. Rules
// look at the port alone, so that they cost the same for IPv4 and IPv6.
func filterRules(s Service) string {
	var b strings.Builder
	b.WriteString(`table inet boxdyno {
	counter drop_rule {}
	counter drop_policy {}
	counter drop_known_bad {}
	counter matched {}
	chain forward {
		type filter hook forward priority filter; policy drop;
`)
	for i := range s.Rules {
		fmt.Fprintf(&b, "\t\tudp dport %d counter name drop_rule drop\n", frame.Port+1+i%(65535-frame.Port))
	}
	if s.Block {
		fmt.Fprintf(&b, "\t\tudp sport %d-%d counter name drop_known_bad drop\n", frame.BadPort, frame.BadPort+frame.BadPorts-1)
	}
	fmt.Fprintf(&b, "\t\tudp dport %d counter name matched accept\n", frame.Port)
	b.WriteString("\t\tcounter name drop_policy\n\t}\n}\n")
	return b.String()
}

// setDropNFT throws test frames away where firewalls commonly do first: in
// prerouting, before conntrack and routing. (The ingress hook would be earlier,
// for one device at a time.)
func setDropNFT(v *services, ctx context.Context, _ Service) error {
	return v.nft(ctx, fmt.Sprintf(`table inet boxdyno {
	counter drop_unwanted {}
	chain prerouting {
		type filter hook prerouting priority raw; policy accept;
		udp dport %d counter name drop_unwanted drop
	}
}
`, frame.Port))
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
