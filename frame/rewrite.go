// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"strings"
)

// A Rewriter changes the addresses of captured frames and keeps their checksums
// right: one that was wrong before stays wrong, unless FixSums is set. Addresses
// inside payloads (ICMP errors, DNS, SIP) stay, and those of IPv6 packets with a
// routing header that is not used up.
type Rewriter struct {
	SrcMAC, DstMAC [6]byte // of every frame, whatever it was; zero: as captured

	// The first map whose From holds an address changes it: those of Src for
	// source addresses, of Dst for destinations, then those of Both. ARP for IPv4
	// goes with them.
	Src, Dst, Both []AddressMap

	// FixSums computes IPv4 header, TCP, UDP and ICMP checksums anew: captures
	// taken on a sending host often have none. UDP over IPv4 without a checksum
	// stays so. Layer 4 of fragments and of frames that do not hold their whole
	// packet cannot be computed and stays, too.
	FixSums bool
}

// An AddressMap moves the addresses of one prefix into another, as tcprewrite's
// --pnat does: the network bits become To's, the others stay. Both are of one IP
// version.
type AddressMap struct{ From, To netip.Prefix }

// ParseAddressMaps reads "10.0.0.0/8:198.18.0.0/15", more of them after commas;
// IPv6 stands in brackets: "[2001:db8::/32]:[2001:2::/48]". An address alone is
// a prefix of full length.
func ParseAddressMaps(s string) (maps []AddressMap, err error) {
	for part := range strings.SplitSeq(s, ",") {
		from, to, ok := strings.Cut(part, ":")
		if strings.HasPrefix(part, "[") {
			from, to, ok = strings.Cut(part, "]:")
		}
		var m AddressMap
		if ok {
			if m.From, err = parsePrefix(from); err == nil {
				m.To, err = parsePrefix(to)
			}
		}
		if !ok || err != nil || m.From.Addr().Is4() != m.To.Addr().Is4() {
			return nil, fmt.Errorf("address map %q: want two prefixes of one IP version, such as 10.0.0.0/8:198.18.0.0/15 or [2001:db8::/32]:[2001:2::/48]", part)
		}
		maps = append(maps, m)
	}
	return maps, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	s = strings.Trim(s, "[]")
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		return netip.PrefixFrom(a.WithZone(""), a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// Check says what is wrong with a rewriter, in a sentence.
func (r *Rewriter) Check() error {
	for _, maps := range [][]AddressMap{r.Src, r.Dst, r.Both} {
		for _, m := range maps {
			if !m.From.IsValid() || !m.To.IsValid() || m.From.Addr().BitLen() != m.To.Addr().BitLen() {
				return fmt.Errorf("address map %v:%v: want two prefixes of one IP version", m.From, m.To)
			}
		}
	}
	return nil
}

// A sumFix is what became of a frame's checksums under FixSums.
type sumFix uint8

const (
	sumsRight   sumFix = iota
	sumsFixed          // at least one was wrong
	sumsUnknown        // layer 4 cannot be computed
)

// apply rewrites frame b, whose headers e and l locate.
func (r *Rewriter) apply(e *Entry, b []byte, l located) sumFix {
	if r.DstMAC != [6]byte{} {
		copy(b, r.DstMAC[:])
	}
	if r.SrcMAC != [6]byte{} {
		copy(b[6:], r.SrcMAC[:])
	}
	if len(r.Src)+len(r.Dst)+len(r.Both) > 0 {
		at := int(e.L3)
		switch {
		case e.Flags&IPv4 != 0:
			old := sum(b[at+12 : at+20])
			if r.move(b[at+12:at+16], b[at+16:at+20]) {
				adjust(e, b, old, sum(b[at+12:at+20]), 4)
			}
		case e.Flags&IPv6 != 0 && !l.routed:
			old := sum(b[at+8 : at+40])
			if r.move(b[at+8:at+24], b[at+24:at+40]) {
				adjust(e, b, old, sum(b[at+8:at+40]), 16)
			}
		case l.arp != 0:
			r.move(b[l.arp+14:l.arp+18], b[l.arp+24:l.arp+28])
		}
	}
	if r.FixSums {
		return fix(e, b, l)
	}
	return sumsRight
}

// move maps both addresses and says whether any changed.
func (r *Rewriter) move(src, dst []byte) bool {
	s := moveFirst(r.Src, src) || moveFirst(r.Both, src)
	d := moveFirst(r.Dst, dst) || moveFirst(r.Both, dst)
	return s || d
}

func moveFirst(maps []AddressMap, addr []byte) bool {
	a, _ := netip.AddrFromSlice(addr)
	for _, m := range maps {
		if m.From.Addr().BitLen() != a.BitLen() || !m.From.Contains(a) {
			continue
		}
		to := m.To.Addr().As16()
		for i, v := range to[16-len(addr):] {
			mask := byte(uint16(0xff00) >> min(8, max(0, m.To.Bits()-8*i)))
			addr[i] = v&mask | addr[i]&^mask
		}
		return true
	}
	return false
}

// adjust makes up for n 16-bit words whose sum was old and is now, in the
// checksums that cover addresses (RFC 1624).
func adjust(e *Entry, b []byte, old, now, n uint32) {
	grown := now + n*0xffff - old
	if e.Flags&IPv4 != 0 {
		at := int(e.L3) + 10
		binary.BigEndian.PutUint16(b[at:], fold(uint32(^binary.BigEndian.Uint16(b[at:]))+grown))
	}
	if e.Sum != 0 {
		v := fold(uint32(^binary.BigEndian.Uint16(b[e.Sum:])) + grown)
		if v == 0 && e.Flags&SumUDP != 0 {
			v = 0xffff
		}
		binary.BigEndian.PutUint16(b[e.Sum:], v)
	}
}

// fix computes the checksums of b anew.
func fix(e *Entry, b []byte, l located) sumFix {
	result := sumsRight
	set := func(at int, v uint16) {
		if binary.BigEndian.Uint16(b[at:]) != v {
			binary.BigEndian.PutUint16(b[at:], v)
			result = sumsFixed
		}
	}
	at, pseudo := int(e.L3), uint32(0)
	switch {
	case e.Flags&IPv4 != 0:
		head := b[at : at+int(b[at]&15)*4]
		set(at+10, fold(sum(head)+uint32(^binary.BigEndian.Uint16(head[10:]))))
		pseudo = sum(b[at+12 : at+20])
	case e.Flags&IPv6 != 0:
		pseudo = sum(b[at+8 : at+40])
	}
	if e.L4 == 0 || e.Flags&SumUDP == 0 && l.protocol == protoUDP {
		return result
	}
	sumAt, n := int(e.Sum), l.end-int(e.L4)
	switch l.protocol {
	case protoICMP:
		sumAt, pseudo = int(e.L4)+2, 0
	case protoUDP: // may be shorter than what IP carries
		length := int(binary.BigEndian.Uint16(b[e.L4+4:]))
		if length < udpLen || length > n {
			return sumsUnknown
		}
		n = length
		fallthrough
	default:
		pseudo += uint32(l.protocol) + uint32(n)
	}
	if !l.whole || sumAt == 0 {
		return sumsUnknown
	}
	v := fold(pseudo + sumLong(b[e.L4:int(e.L4)+n]) + uint32(^binary.BigEndian.Uint16(b[sumAt:])))
	if v == 0 && l.protocol == protoUDP {
		v = 0xffff
	}
	set(sumAt, v)
	return result
}

// sumLong is sum for any number of octets up to 64 KiB, eight at a time.
func sumLong(b []byte) uint32 {
	var s, carry uint64
	for ; len(b) >= 8; b = b[8:] {
		s, carry = bits.Add64(s, binary.BigEndian.Uint64(b), carry)
	}
	var last [8]byte
	copy(last[:], b)
	s, carry = bits.Add64(s, binary.BigEndian.Uint64(last[:]), carry)
	s, carry = bits.Add64(s, carry, 0)
	s += carry
	return uint32(s>>48 + s>>32&0xffff + s>>16&0xffff + s&0xffff)
}
