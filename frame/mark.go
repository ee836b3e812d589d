// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"math/bits"
)

// A Mark is a digest of a frame by which a receiver tells it from others. It is made of what
// Sameness says stays the same on the way, in two parts: of a frame that was altered on the
// way, one of them is still the old one, mostly. engine/roll/bpf/roll.c makes the same marks.
type Mark struct {
	Head uint64 // IP header, addresses, ports
	Body uint64 // the rest of layer 4, and what it carries
}

// Key is both parts in one number. It is never 0.
func (m Mark) Key() uint64 {
	k := stir(m.Head, m.Body)
	if k == 0 {
		return 1
	}
	return k
}

// Sameness is what a box leaves as it is in the frames that it hands on. Padding behind an
// IP packet is in no mark, except where the frame is not IP.
type Sameness uint8

const (
	SameLink Sameness = 1 << iota // MAC addresses, VLAN tags, time to live, header checksum
	SameEnds                      // addresses, ports, identifiers of echoes; layer-4 checksum

	// SameTranslated is what an address translator leaves. Of ICMP errors it is their
	// type, for the packet within is translated, too.
	SameTranslated Sameness = 0
	SameRouted              = SameEnds
	SameBridged             = SameLink | SameEnds
)

// Seeds of the two parts, and the factor of a step; also in engine/roll/bpf/roll.c.
const (
	headSeed   = 0x9e3779b97f4a7c15
	bodySeed   = 0xc2b2ae3d27d4eb4f
	stirFactor = 0xff51afd7ed558ccd
)

// stir takes w into the digest h. Two frames that differ in one step differ in the digest.
func stir(h, w uint64) uint64 {
	h = (bits.RotateLeft64(h, 23) ^ w) * stirFactor
	return h ^ h>>29
}

// MarkOf is the mark of a frame without FCS. It reads what it can: a frame that is not IP,
// or whose headers are cut off, is marked by all its octets.
func MarkOf(b []byte, same Sameness) Mark {
	at, kind := ethLen, uint16(0)
	if len(b) >= ethLen {
		kind = binary.BigEndian.Uint16(b[12:])
	}
	for range 2 {
		if kind != 0x8100 && kind != 0x88a8 || len(b) < at+4 {
			break
		}
		kind = binary.BigEndian.Uint16(b[at+2:])
		at += 4
	}
	switch {
	case kind == 0x0800 && len(b) >= at+ip4Len && b[at]>>4 == 4:
		return mark4(b, at, same)
	case kind == 0x86dd && len(b) >= at+ip6Len && b[at]>>4 == 6:
		return mark6(b, at, same)
	}
	return Mark{stirAll(headSeed, b[:min(len(b), ethLen)]), stirAll(bodySeed, b[min(len(b), ethLen):])}
}

// stirAll takes octets into h, and how many they are.
func stirAll(h uint64, b []byte) uint64 {
	n := len(b)
	for ; len(b) >= 8; b = b[8:] {
		h = stir(h, binary.LittleEndian.Uint64(b))
	}
	var last uint64
	for i, octet := range b {
		last |= uint64(octet) << (8 * i)
	}
	return stir(stir(h, last), uint64(n))
}

func word16(b []byte) uint64 { return uint64(binary.LittleEndian.Uint16(b)) }
func word32(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }
func word64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// link takes what a router writes anew into h.
func (s Sameness) link(h uint64, b []byte, at int, life byte, sum uint64) uint64 {
	if s&SameLink == 0 {
		return h
	}
	return stir(stirAll(h, b[:at]), uint64(life)|sum<<8)
}

func mark4(b []byte, at int, same Sameness) Mark {
	ip := b[at:]
	header, total := int(ip[0]&15)*4, int(binary.BigEndian.Uint16(ip[2:]))
	header = min(max(header, ip4Len), len(ip))
	end := min(max(total, header), len(ip))
	h := stir(headSeed, word64(ip)) // version to fragment offset
	h = stir(h, uint64(ip[9]))
	h = same.link(h, b, at, ip[8], word16(ip[10:]))
	if same&SameEnds != 0 {
		h = stir(h, word64(ip[12:]))
	}
	h = stirAll(h, ip[ip4Len:header]) // options
	fragment := binary.BigEndian.Uint16(ip[6:])&0x1fff != 0
	return layer4(h, ip[header:end], ip[9], fragment, same)
}

func mark6(b []byte, at int, same Sameness) Mark {
	ip := b[at:]
	end := min(ip6Len+int(binary.BigEndian.Uint16(ip[4:])), len(ip))
	h := stir(headSeed, word64(ip)&^(0xff<<56)) // without the hop limit
	h = same.link(h, b, at, ip[7], 0)
	if same&SameEnds != 0 {
		for i := 8; i < ip6Len; i += 8 {
			h = stir(h, word64(ip[i:]))
		}
	}
	return layer4(h, ip[ip6Len:end], ip[6], false, same)
}

// layer4 takes an IP packet's payload into the mark that h has begun.
func layer4(h uint64, b []byte, protocol byte, fragment bool, same Sameness) Mark {
	body := uint64(bodySeed)
	ends := same&SameEnds != 0
	sum, rest := 0, 0 // where the checksum is, and what follows the fields below
	switch {
	case fragment:
	case protocol == protoTCP && len(b) >= 20:
		if ends {
			h = stir(h, word32(b))
		}
		body = stir(stir(body, word64(b[4:])), word32(b[12:])|word16(b[18:])<<32)
		sum, rest = 16, 20
	case protocol == protoUDP && len(b) >= udpLen:
		if ends {
			h = stir(h, word32(b))
		}
		body = stir(body, word16(b[4:]))
		sum, rest = 6, udpLen
	case (protocol == protoICMP || protocol == protoICMPv6) && len(b) >= 8:
		kind := b[0]
		if echo := protocol == protoICMP && (kind == 8 || kind == 0) || protocol == protoICMPv6 && (kind == 128 || kind == 129); echo {
			if ends {
				h = stir(h, word16(b[4:]))
			}
			body = stir(body, word16(b)|word16(b[6:])<<16)
		} else if body = stir(body, word16(b)); ends {
			body = stir(body, word32(b[4:]))
		} else {
			return Mark{h, body}
		}
		sum, rest = 2, 8
	}
	if sum > 0 && ends {
		body = stir(body, word16(b[sum:]))
	}
	return Mark{h, stirAll(body, b[rest:])}
}
