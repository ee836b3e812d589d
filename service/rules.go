// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"strings"

	"boxdyno/frame"
)

// Rules are the nftables table of s; "": it has none. Counters that count drops are named
// drop_*, for the ledger. wan is the port that nat masquerades towards.
func Rules(s Service, wan string) string {
	switch {
	case s.Kind == "filter" && s.Connections != nil:
		return statefulRules(s)
	case s.Kind == "filter":
		return filterRules(s)
	case s.Kind == "nat":
		return natRules(wan)
	case s.Kind == "drop-nft":
		return dropRules()
	}
	return ""
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

// natRules masquerade what leaves by wan.
func natRules(wan string) string {
	return fmt.Sprintf(`table inet boxdyno {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		oifname %q masquerade
	}
}
`, wan)
}

// dropRules throw test frames away in prerouting, before conntrack and routing.
func dropRules() string {
	return fmt.Sprintf(`table inet boxdyno {
	counter drop_unwanted {}
	chain prerouting {
		type filter hook prerouting priority raw; policy accept;
		udp dport %d counter name drop_unwanted drop
	}
}
`, frame.Port)
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
