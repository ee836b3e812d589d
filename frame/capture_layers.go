// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
)

// located is what an Entry does not say of a frame.
type located struct {
	protocol uint8 // at Entry.L4
	end      int   // of the IP packet in the frame
	whole    bool  // the frame holds an IP packet to its end, and not a fragment
	arp      int   // offset of an ARP packet for IPv4; 0: none
	routed   bool  // IPv6 whose checksums cover another destination than its header's
}

// Beside those of craft.go.
const (
	protoDCCP    = 33
	protoAH      = 51
	protoUDPLite = 136
)

// locate finds the headers of a frame, behind any VLAN tags, and enters them
// into e. Sum is left 0 where no checksum covers the addresses: in later
// fragments, ICMP over IPv4, SCTP, UDP that goes without.
func locate(e *Entry, b []byte) located {
	at := ethLen
	for {
		if len(b) < at {
			return located{}
		}
		switch binary.BigEndian.Uint16(b[at-2:]) {
		case 0x8100, 0x88a8, 0x9100, 0x9200:
			at += 4
			continue
		case 0x0800:
			return locate4(e, b, at)
		case 0x86dd:
			return locate6(e, b, at)
		case 0x0806:
			if len(b) >= at+28 && string(b[at:at+6]) == "\x00\x01\x08\x00\x06\x04" {
				return located{arp: at}
			}
		}
		return located{}
	}
}

func locate4(e *Entry, b []byte, at int) (l located) {
	if len(b) < at+ip4Len || b[at]>>4 != 4 {
		return l
	}
	ip := b[at:]
	head, total := int(ip[0]&15)*4, int(binary.BigEndian.Uint16(ip[2:]))
	if head < ip4Len || len(ip) < head || total != 0 && total < head {
		return l
	}
	e.L3 = uint16(at)
	e.Flags |= IPv4
	if netip.AddrFrom4([4]byte(ip[12:])).IsGlobalUnicast() && netip.AddrFrom4([4]byte(ip[16:])).IsGlobalUnicast() {
		e.Flags |= Rewrite
	}
	fragment := binary.BigEndian.Uint16(ip[6:]) & 0x3fff // offset, and more to come
	l.whole = total != 0 && len(ip) >= total && fragment == 0
	l.end = len(b)
	if total != 0 { // 0: captured before the sender's NIC cut it up
		l.end = min(len(b), at+total)
	}
	if fragment&0x1fff == 0 {
		l.transport(e, b, ip[9], at+head)
	}
	return l
}

func locate6(e *Entry, b []byte, at int) (l located) {
	if len(b) < at+ip6Len || b[at]>>4 != 6 {
		return l
	}
	ip := b[at:]
	e.L3 = uint16(at)
	e.Flags |= IPv6
	if netip.AddrFrom16([16]byte(ip[8:])).IsGlobalUnicast() && netip.AddrFrom16([16]byte(ip[24:])).IsGlobalUnicast() {
		e.Flags |= Rewrite
	}
	l.end = len(b)
	if payload := int(binary.BigEndian.Uint16(ip[4:])); payload != 0 { // 0: a jumbogram, or as in locate4
		l.whole = len(ip) >= ip6Len+payload
		l.end = min(len(b), at+ip6Len+payload)
	}
	protocol, next := ip[6], at+ip6Len
	for {
		if l.end < next+8 {
			return l
		}
		h := b[next:]
		n := (int(h[1]) + 1) * 8
		switch protocol {
		case 0, 60, 135, 139, 140: // hop-by-hop, destination options, mobility, HIP, Shim6
		case 43: // routing
			if h[3] > 0 { // checksums cover the last destination, not the next one
				e.Flags &^= Rewrite
				l.routed = true
				return l
			}
		case 44:
			n = 8
			fragment := binary.BigEndian.Uint16(h[2:])
			l.whole = l.whole && fragment&^6 == 0
			if fragment>>3 != 0 {
				return l
			}
		case protoAH:
			n = (int(h[1]) + 2) * 4
		default:
			l.transport(e, b, protocol, next)
			return l
		}
		protocol = h[0]
		next += n
	}
}

// transport enters the layer-4 header at at into e.
func (l *located) transport(e *Entry, b []byte, protocol uint8, at int) {
	sum := 0
	switch protocol {
	case protoTCP:
		sum = 16
	case protoUDP, protoUDPLite, protoDCCP:
		sum = 6
	case protoICMPv6:
		if e.Flags&IPv6 == 0 {
			return
		}
		sum = 2
	case protoICMP:
		if e.Flags&IPv4 == 0 {
			return
		}
	default:
		return
	}
	if at+8 > l.end { // the shortest of these headers
		return
	}
	switch protocol {
	case protoTCP, protoUDP, protoICMP, protoICMPv6:
		e.L4 = uint16(at)
		l.protocol = protocol
	}
	if sum == 0 || at+sum+2 > l.end {
		return
	}
	if protocol == protoUDP {
		if binary.BigEndian.Uint16(b[at+sum:]) == 0 {
			return
		}
		e.Flags |= SumUDP
	}
	e.Sum = uint16(at + sum)
}
