// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"

	"boxdyno/unit"
)

const (
	ethLen = 14
	ip4Len = 20
	ip6Len = 40
	udpLen = 8

	// SignatureLen is the signature's octets: magic 4, stream 2, sequence 4,
	// transmit time 8, all in network byte order. The time's highest bit says that
	// the frame left behind its schedule.
	SignatureLen = 18

	// HeaderLen bounds the octets in which frames of a stream differ from zero.
	HeaderLen = 88
)

// Magic begins every signature.
const Magic uint32 = 0x6264796e

// A Variant is what frames of one size have of their own: the whole frame is
// Header and zero padding up to Len.
type Variant struct {
	Header [HeaderLen]byte // flow, network, sequence, time and checksums are zero
	Len    int             // buffer, without FCS
	IPSum  uint32          // IPv4 header: one's-complement sum without flow and network
	UDPSum uint32          // IPv6: that of the UDP checksum without flow, network, sequence and time
}

// A Layout says where in a header the changing fields stand, as offsets in
// octets, and what flow 0 has there.
type Layout struct {
	IPv6      bool
	L3        int    // the IP header
	Addr      int    // last 4 octets of the flow's address
	AddrBase  uint32 // their value for flow 0
	Port      int    // the flow's port
	PortBase  uint16
	Network   int // the octet with the network's number; 0: there is one network, and no such field
	IPSum     int // IPv4 header checksum; 0 for IPv6
	UDPSum    int // IPv6 UDP checksum; 0 for IPv4, which may go without (RFC 768)
	Sequence  int
	Time      int
	Signature int
	HeaderLen int // up to the signature's end
}

// A Builder makes the frames of one stream. It is plain data once made: the
// backends' senders, in Go and in BPF, write frames from it.
type Builder struct {
	Spec     Spec
	Stream   uint16
	Layout   Layout
	Variants []Variant // one a size, in the spec's order
}

// NewBuilder lays out the frames of spec, signed with stream.
func NewBuilder(spec Spec, stream uint16) (*Builder, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	b := &Builder{Spec: spec, Stream: stream}
	v6 := spec.Src.Is6()
	ip := ip4Len
	if v6 {
		ip = ip6Len
	}
	l := &b.Layout
	l.IPv6, l.L3 = v6, ethLen
	if spec.VLAN > 0 {
		l.L3 += tagLen
	}
	l.Signature = l.L3 + ip + udpLen
	l.Sequence = l.Signature + 6
	l.Time = l.Signature + 10
	l.HeaderLen = l.Signature + SignatureLen
	flowAddr := spec.Src
	l.Port = l.L3 + ip
	if v6 {
		l.Addr = l.L3 + 8 + 12
		l.UDPSum = l.L3 + ip6Len + 6
	} else {
		l.Addr = l.L3 + 12
		l.IPSum = l.L3 + 10
	}
	if spec.Answer {
		flowAddr = spec.Dst
		l.Port += 2
		l.Addr += len(spec.Src.AsSlice())
	}
	if spec.Networks > 1 {
		l.Network = l.L3 + ip - len(spec.Dst.AsSlice()) + networkOctet(v6) // Dst ends the IP header
	}
	raw := flowAddr.AsSlice()
	l.AddrBase = binary.BigEndian.Uint32(raw[len(raw)-4:])
	l.PortBase = spec.flowPort()
	for _, s := range spec.Sizes {
		b.Variants = append(b.Variants, b.variant(s))
	}
	return b, nil
}

func (b *Builder) variant(size unit.FrameSize) Variant {
	l := &b.Layout
	v := Variant{Len: size.Buffer()}
	h := v.Header[:]
	copy(h[0:], b.Spec.DstMAC[:])
	copy(h[6:], b.Spec.SrcMAC[:])
	udp := h[l.Signature-udpLen:]
	udpTotal := v.Len - (l.Signature - udpLen)
	src, dst := b.Spec.Src.AsSlice(), b.Spec.Dst.AsSlice()
	if b.Spec.VLAN > 0 {
		binary.BigEndian.PutUint16(h[12:], 0x8100)
		binary.BigEndian.PutUint16(h[14:], b.Spec.VLAN)
	}
	ip := h[l.L3:]
	if l.IPv6 {
		binary.BigEndian.PutUint16(h[l.L3-2:], 0x86dd)
		ip[0] = 0x60
		binary.BigEndian.PutUint16(ip[4:], uint16(udpTotal))
		ip[6], ip[7] = 17, 64
		copy(ip[8:], src)
		copy(ip[24:], dst)
	} else {
		binary.BigEndian.PutUint16(h[l.L3-2:], 0x0800)
		ip[0] = 0x45
		binary.BigEndian.PutUint16(ip[2:], uint16(v.Len-l.L3))
		binary.BigEndian.PutUint16(ip[6:], 0x4000) // do not fragment
		ip[8], ip[9] = 64, 17
		copy(ip[12:], src)
		copy(ip[16:], dst)
	}
	binary.BigEndian.PutUint16(udp[0:], b.Spec.SrcPort)
	binary.BigEndian.PutUint16(udp[2:], b.Spec.DstPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(udpTotal))
	binary.BigEndian.PutUint32(h[l.Signature:], Magic)
	binary.BigEndian.PutUint16(h[l.Signature+4:], b.Stream)

	binary.BigEndian.PutUint32(h[l.Addr:], 0)
	binary.BigEndian.PutUint16(h[l.Port:], 0)
	if l.Network > 0 {
		h[l.Network] = 0
	}
	if l.IPv6 {
		// Pseudo header (RFC 8200, 8.1), then UDP header and signature; the
		// padding is zero.
		v.UDPSum = sum(h[l.L3+8:l.HeaderLen]) + uint32(udpTotal) + 17
	} else {
		v.IPSum = sum(h[l.L3 : l.L3+ip4Len])
	}
	return v
}

// Build writes frame k of the stream into buf, with no transmit time, and
// returns its length; buf must hold the largest frame. Octets of buf behind the
// header must be zero.
func (b *Builder) Build(k uint64, buf []byte) int {
	v := &b.Variants[k%uint64(len(b.Variants))]
	l := &b.Layout
	flow := uint32(b.Spec.First) + uint32(k%uint64(b.Spec.Flows))
	addr := l.AddrBase + flow/FlowPorts
	port := l.PortBase + uint16(flow%FlowPorts)
	copy(buf[:l.HeaderLen], v.Header[:l.HeaderLen])
	binary.BigEndian.PutUint32(buf[l.Addr:], addr)
	binary.BigEndian.PutUint16(buf[l.Port:], port)
	binary.BigEndian.PutUint32(buf[l.Sequence:], uint32(k))
	word := uint32(0) // of the checksums, that the network's number is in
	if l.Network > 0 {
		n := byte(k % uint64(b.Spec.Networks))
		buf[l.Network] = n
		word = uint32(n) << 8
	}
	if l.IPv6 {
		s := v.UDPSum + word + addr>>16 + addr&0xffff + uint32(port) + uint32(k)>>16 + uint32(k)&0xffff
		binary.BigEndian.PutUint16(buf[l.UDPSum:], udpChecksum(s))
	} else {
		binary.BigEndian.PutUint16(buf[l.IPSum:], fold(v.IPSum+word+addr>>16+addr&0xffff))
	}
	return v.Len
}

// Stamp writes the transmit time into a frame that Build made.
func (b *Builder) Stamp(buf []byte, at unit.Instant) {
	l := &b.Layout
	binary.BigEndian.PutUint64(buf[l.Time:], uint64(at))
	if l.IPv6 { // Build's time was zero, so its words only add
		s := uint32(^binary.BigEndian.Uint16(buf[l.UDPSum:])) + sum(buf[l.Time:l.Time+8])
		binary.BigEndian.PutUint16(buf[l.UDPSum:], udpChecksum(s))
	}
}

// sum adds up 16-bit words without folding; b has an even length and at most
// 64 KiB.
func sum(b []byte) (s uint32) {
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return s
}

func fold(s uint32) uint16 {
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	return ^uint16(s)
}

// udpChecksum is fold, with the one value that would mean "none" avoided.
func udpChecksum(s uint32) uint16 {
	if c := fold(s); c != 0 {
		return c
	}
	return 0xffff
}
