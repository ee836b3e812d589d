// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"math"

	"boxdyno/unit"
)

// A Signature is what a test frame says of itself.
type Signature struct {
	Stream   uint16
	Sequence uint32
	Time     unit.Instant // CLOCK_MONOTONIC of the sender; 0: none
	Late     bool         // it left behind its schedule
}

// late is the highest bit of a transmit time, which no clock reaches.
const late = math.MinInt64

// Late is at for Stamp, of a frame that leaves behind its schedule.
func Late(at unit.Instant) unit.Instant { return at | late }

// A Class is what a meter takes a frame for.
type Class int

const (
	Foreign Class = iota // not one of ours
	Whole                // signed, and every length fits
	Broken               // signed, but cut or padded: IP, UDP and frame lengths contradict each other
)

// Parse reads the signature of a frame as Linux hands it over, without FCS: first
// in the payload of UDP, TCP or an ICMP or ICMPv6 echo, behind up to two VLAN
// tags, over IPv4 (no later fragment) or IPv6 without extension headers. Any
// octets may be given to it. The meter in engine/xdp/bpf/meter.c reads alike.
func Parse(buf []byte) (Signature, Class) {
	at := ethLen
	if len(buf) < at {
		return Signature{}, Foreign
	}
	kind := binary.BigEndian.Uint16(buf[at-2:])
	for tags := 0; (kind == 0x8100 || kind == 0x88a8) && tags < maxTags && len(buf) >= at+tagLen; tags++ {
		at += tagLen
		kind = binary.BigEndian.Uint16(buf[at-2:])
	}
	ip := buf[at:]
	var protocol byte
	var l4, total int // offset of the layer-4 header; octets of the frame by its IP header
	switch {
	case kind == 0x0800 && len(ip) >= ip4Len && ip[0]>>4 == 4 && ip[0]&15 >= 5 && binary.BigEndian.Uint16(ip[6:])&0x1fff == 0:
		protocol = ip[9]
		l4 = at + int(ip[0]&15)*4
		total = at + int(binary.BigEndian.Uint16(ip[2:]))
	case kind == 0x86dd && len(ip) >= ip6Len && ip[0]>>4 == 6:
		protocol = ip[6]
		l4 = at + ip6Len
		total = l4 + int(binary.BigEndian.Uint16(ip[4:]))
	default:
		return Signature{}, Foreign
	}
	h := buf[min(l4, len(buf)):]
	sig := l4 + udpLen // as long as an echo's header
	fits := true
	switch {
	case protocol == protoUDP && len(h) >= udpLen:
		fits = l4+int(binary.BigEndian.Uint16(h[4:])) == total
	case protocol == protoTCP && len(h) >= tcpLen && h[12]>>4 >= 5:
		sig = l4 + int(h[12]>>4)*4
	case protocol == protoICMP && len(h) >= icmpLen && (h[0] == 8 || h[0] == 0):
	case protocol == protoICMPv6 && len(h) >= icmpLen && (h[0] == 128 || h[0] == 129):
	default:
		return Signature{}, Foreign
	}
	if len(buf) < sig+SignatureLen || binary.BigEndian.Uint32(buf[sig:]) != Magic {
		return Signature{}, Foreign
	}
	sent := unit.Instant(binary.BigEndian.Uint64(buf[sig+10:]))
	s := Signature{
		Stream:   binary.BigEndian.Uint16(buf[sig+4:]),
		Sequence: binary.BigEndian.Uint32(buf[sig+6:]),
		Time:     sent &^ late,
		Late:     sent&late != 0,
	}
	// A frame with a signature has the least size of Ethernet, so nothing pads it.
	if !fits || len(buf) != total {
		return s, Broken
	}
	return s, Whole
}
