// SPDX-License-Identifier: Apache-2.0

package infer

import "encoding/binary"

// A Packet is what features are made of.
type Packet struct {
	At       float64 // arrival, s
	Size     int     // octets of the frame with FCS
	Protocol uint8   // of IP; 0: the frame holds none
	Flags    uint8   // of TCP
	Src, Dst uint64  // digests of the addresses
	Sport    uint16  // 0: none
	Dport    uint16
}

// Protocols and flags.
const (
	protoICMP   = 1
	protoTCP    = 6
	protoUDP    = 17
	protoICMPv6 = 58

	flagFIN, flagSYN, flagRST, flagACK = 1, 2, 4, 16
)

const (
	fcs      = 4
	mostTags = 2
)

// UDP says whether it is a datagram of UDP, or part of one.
func (p *Packet) UDP() bool { return p.Protocol == protoUDP }

// Decode reads a frame that arrived at an instant, in seconds: Ethernet, up to two
// VLAN tags, IPv4 or IPv6 without extension headers, ports of TCP and UDP. size is the
// frame's octets without FCS, of which b may be only the first; any octets may be
// given.
func Decode(b []byte, size int, at float64) (p Packet) {
	p.At, p.Size = at, size+fcs
	head := 14
	if len(b) < head {
		return p
	}
	kind := binary.BigEndian.Uint16(b[12:])
	for range mostTags {
		if kind != 0x8100 && kind != 0x88a8 || len(b) < head+4 {
			break
		}
		head += 4
		kind = binary.BigEndian.Uint16(b[head-2:])
	}
	ip := b[head:]
	var l4 int
	later := false // a fragment without ports
	switch {
	case kind == 0x0800 && len(ip) >= 20 && ip[0]>>4 == 4:
		l4 = int(ip[0]&15) * 4
		p.Protocol = ip[9]
		later = binary.BigEndian.Uint16(ip[6:])&0x1fff != 0
		p.Src, p.Dst = digest(uint64(binary.BigEndian.Uint32(ip[12:])), 0), digest(uint64(binary.BigEndian.Uint32(ip[16:])), 0)
	case kind == 0x86dd && len(ip) >= 40 && ip[0]>>4 == 6:
		l4 = 40
		p.Protocol = ip[6]
		p.Src = digest(binary.BigEndian.Uint64(ip[8:]), binary.BigEndian.Uint64(ip[16:]))
		p.Dst = digest(binary.BigEndian.Uint64(ip[24:]), binary.BigEndian.Uint64(ip[32:]))
	default:
		return p
	}
	if later || l4 < 20 || len(ip) < l4+4 || p.Protocol != protoTCP && p.Protocol != protoUDP {
		return p
	}
	h := ip[l4:]
	p.Sport, p.Dport = binary.BigEndian.Uint16(h), binary.BigEndian.Uint16(h[2:])
	if p.Protocol == protoTCP && len(h) >= 14 {
		p.Flags = h[13]
	}
	return p
}

// digest mixes an address: the finalizer of MurmurHash3, twice.
func digest(a, b uint64) uint64 { return mix(mix(a) ^ b) }

func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
