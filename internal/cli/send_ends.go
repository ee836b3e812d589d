// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net/netip"
)

// ends are the addresses of what send sends.
type ends struct {
	src, dst       netip.Addr
	srcMAC, dstMAC [6]byte
}

// nobody is a locally administered MAC that no host has: frames for it are
// counted by a meter and taken by nobody.
var nobody = [6]byte{0x02, 0xbd, 0, 0, 0, 2}

// defaultEnds are for benchmarks (RFC 2544 C.2.2, RFC 5180).
var defaultEnds = map[string][2]netip.Addr{
	"4": {netip.MustParseAddr("198.18.0.2"), netip.MustParseAddr("198.19.0.2")},
	"6": {netip.MustParseAddr("2001:2:0:1::2"), netip.MustParseAddr("2001:2:0:2::2")},
}

// ends reads the flags of addresses. What it chooses itself the account says.
func (f *sendFlags) ends(port *trafficPort, force forceFlags, o *offer) (e ends, err error) {
	def, ok := defaultEnds[f.ip]
	if !ok {
		return e, fmt.Errorf("--ip %q: want 4 or 6", f.ip)
	}
	e = ends{src: def[0], dst: def[1], srcMAC: port.mac}
	for _, a := range []struct {
		flag, text string
		to         *netip.Addr
	}{{"src-ip", f.srcIP, &e.src}, {"dst-ip", f.dstIP, &e.dst}, {"target", f.target, &e.dst}} {
		if a.text == "" {
			continue
		}
		if *a.to, err = netip.ParseAddr(a.text); err != nil || a.to.Zone() != "" {
			return e, fmt.Errorf("--%s %q: want an IP address without a zone", a.flag, a.text)
		}
		if a.to.Is4() != def[0].Is4() {
			return e, fmt.Errorf("--%s %s: it is no IPv%s address; --ip says which version", a.flag, a.text, f.ip)
		}
		if a.to == &e.dst {
			if err := force.target(a.flag, e.dst); err != nil {
				return e, err
			}
		}
	}
	if f.srcMAC != "" {
		if e.srcMAC, err = parseMAC(f.srcMAC); err != nil {
			return e, fmt.Errorf("--src-mac %w", err)
		}
	}
	if f.timed() && f.flood == "" {
		return e, nil // conversations have addresses of their own
	}
	if f.dstMAC != "" {
		if e.dstMAC, err = parseMAC(f.dstMAC); err != nil {
			return e, fmt.Errorf("--dst-mac %w", err)
		}
		return e, nil
	}
	var from string
	if e.dstMAC, ok = port.neighbour(e.dst); ok {
		from = fmt.Sprintf("the neighbour by which %v is reached", e.dst)
	} else if e.dstMAC, ok = port.peer(); ok {
		from = "the other end of " + port.Name
	} else {
		e.dstMAC, from = nobody, "nobody's, because no neighbour is known: give --dst-mac to reach a box"
	}
	o.notes = append(o.notes, fmt.Sprintf("destination MAC %s: %s", macText(e.dstMAC), from))
	return e, nil
}

func macText(m [6]byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}
