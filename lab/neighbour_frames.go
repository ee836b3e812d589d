// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/binary"
	"net/netip"
)

// A neighbour is a frame by which neighbours find each other: ARP (RFC 826) or
// neighbour solicitation and advertisement (RFC 4861).
type neighbour struct {
	ask         bool       // it asks for target's MAC address; else sender says that target is at senderMAC
	target      netip.Addr // asked for, or answered for
	sender      netip.Addr // whose the frame is; unspecified: somebody who tries an address out
	senderMAC   [6]byte
	to          netip.Addr // of an answer: who asked
	toMAC       [6]byte    // of an answer: where that is; of a question: zero, it goes to a group
	unsolicited bool       // of an answer: nobody asked
}

const (
	etherARP, etherIPv4, etherIPv6 = 0x0806, 0x0800, 0x86dd
	protoTCP, protoUDP, protoICMP6 = 6, 17, 58
	etherLen, ip6Len               = 14, 40
	solicitation, advertisement    = 135, 136
	optionSource, optionTarget     = 1, 2
)

// parseNeighbour reads a frame as it comes from a packet socket; false for any
// other, and for one that is not whole.
func parseNeighbour(b []byte) (n neighbour, ok bool) {
	if len(b) < etherLen {
		return n, false
	}
	switch binary.BigEndian.Uint16(b[12:]) {
	case etherARP:
		return parseARP(b[etherLen:])
	case etherIPv6:
		return parseND(b)
	}
	return n, false
}

func parseARP(b []byte) (n neighbour, ok bool) {
	// Ethernet, IPv4, their lengths
	if len(b) < 28 || binary.BigEndian.Uint64(b)>>16 != 0x0001_0800_0604 {
		return n, false
	}
	n.sender, n.senderMAC = netip.AddrFrom4([4]byte(b[14:])), [6]byte(b[8:])
	n.target = netip.AddrFrom4([4]byte(b[24:]))
	switch binary.BigEndian.Uint16(b[6:]) {
	case 1:
		n.ask = true
		return n, true
	case 2:
		n.to, n.toMAC, n.target = n.target, [6]byte(b[18:]), n.sender
		return n, true
	}
	return n, false
}

func parseND(b []byte) (n neighbour, ok bool) {
	ip := b[etherLen:]
	if len(ip) < ip6Len+24 || ip[0]>>4 != 6 || ip[6] != protoICMP6 || ip[7] != 255 { // hop limit: nobody forwarded it
		return n, false
	}
	length := int(binary.BigEndian.Uint16(ip[4:]))
	if length < 24 || ip6Len+length > len(ip) {
		return n, false
	}
	icmp := ip[ip6Len:][:length]
	from, to := netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:]))
	if icmp[1] != 0 || icmp6Sum(from, to, icmp) != 0 {
		return n, false
	}
	n.sender, n.target, n.senderMAC = from, netip.AddrFrom16([16]byte(icmp[8:])), [6]byte(b[6:])
	want := byte(optionSource)
	switch icmp[0] {
	case solicitation:
		n.ask = true
	case advertisement:
		n.to, n.toMAC, n.unsolicited, want = to, [6]byte(b[0:]), icmp[4]&0x40 == 0, optionTarget
	default:
		return n, false
	}
	for o := icmp[24:]; len(o) >= 8; {
		size := int(o[1]) * 8
		if size == 0 || size > len(o) {
			return n, false
		}
		if o[0] == want && size == 8 {
			n.senderMAC = [6]byte(o[2:])
		}
		o = o[size:]
	}
	return n, true
}

// frame is n as it is sent, without FCS.
func (n neighbour) frame() []byte {
	if n.target.Is4() {
		return n.arp()
	}
	return n.nd()
}

func (n neighbour) arp() []byte {
	b := make([]byte, 60) // the least that a NIC sends
	group := [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	op, sender, to, toMAC := uint16(2), n.target, n.to, n.toMAC
	dst := n.toMAC
	if n.ask {
		op, sender, to, toMAC, dst = 1, n.sender, n.target, [6]byte{}, group
	}
	if n.unsolicited { // an announcement (RFC 5227 3)
		op, to, toMAC, dst = 1, n.target, [6]byte{}, group
	}
	copy(b, dst[:])
	copy(b[6:], n.senderMAC[:])
	copy(b[12:], []byte{0x08, 0x06, 0, 1, 0x08, 0, 6, 4})
	binary.BigEndian.PutUint16(b[20:], op)
	copy(b[22:], n.senderMAC[:])
	copy(b[28:], sender.AsSlice())
	copy(b[32:], toMAC[:])
	copy(b[38:], to.AsSlice())
	return b
}

var (
	allNodes    = netip.MustParseAddr("ff02::1")
	unspecified = netip.IPv6Unspecified()
)

// solicitedNode is the group that an address's neighbours ask (RFC 4291 2.7.1).
func solicitedNode(a netip.Addr) netip.Addr {
	s := netip.MustParseAddr("ff02::1:ff00:0").As16()
	from := a.As16()
	copy(s[13:], from[13:])
	return netip.AddrFrom16(s)
}

// groupMAC is the Ethernet address of an IPv6 group (RFC 2464 7).
func groupMAC(a netip.Addr) [6]byte {
	b := a.As16()
	return [6]byte{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

func (n neighbour) nd() []byte {
	b := make([]byte, etherLen+ip6Len+32)
	ip, icmp := b[etherLen:], b[etherLen+ip6Len:]
	from, to, dst := n.target, n.to, n.toMAC
	icmp[0], icmp[4], icmp[24] = advertisement, 0x60, optionTarget // solicited, override
	switch {
	case n.ask:
		from, to = n.sender, solicitedNode(n.target)
		icmp[0], icmp[4], icmp[24] = solicitation, 0, optionSource
	case n.unsolicited || n.to == unspecified:
		to, icmp[4] = allNodes, 0x20
	}
	if to.IsMulticast() {
		dst = groupMAC(to)
	}
	copy(b, dst[:])
	copy(b[6:], n.senderMAC[:])
	binary.BigEndian.PutUint16(b[12:], etherIPv6)
	ip[0], ip[5], ip[6], ip[7] = 0x60, 32, protoICMP6, 255
	copy(ip[8:], from.AsSlice())
	copy(ip[24:], to.AsSlice())
	copy(icmp[8:], n.target.AsSlice())
	icmp[25] = 1
	copy(icmp[26:], n.senderMAC[:])
	binary.BigEndian.PutUint16(icmp[2:], icmp6Sum(from, to, icmp))
	return b
}

// icmp6Sum is the checksum of a message, 0 for one that holds its own (RFC 8200 8.1).
func icmp6Sum(from, to netip.Addr, icmp []byte) uint16 {
	sum := uint32(len(icmp)) + protoICMP6
	add := func(b []byte) {
		for ; len(b) > 1; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	add(from.AsSlice())
	add(to.AsSlice())
	add(icmp)
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
