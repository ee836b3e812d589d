// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"

	"boxdyno/unit"
)

// A Signature is what a test frame says of itself.
type Signature struct {
	Stream   uint16
	Sequence uint32
	Time     unit.Instant // CLOCK_MONOTONIC of the sender; 0: none
}

// A Class is what a meter takes a frame for.
type Class int

const (
	Foreign Class = iota // not one of ours
	Whole                // signed, and every length fits
	Broken               // signed, but cut or padded: IP, UDP and frame lengths contradict each other
)

// Parse reads the signature of a frame as Linux hands it over, without FCS. Any
// octets may be given to it.
func Parse(buf []byte) (Signature, Class) {
	if len(buf) < ethLen+ip4Len+udpLen+SignatureLen {
		return Signature{}, Foreign
	}
	var udp, total int // offset of the UDP header; octets of the frame by its IP header
	ip := buf[ethLen:]
	switch binary.BigEndian.Uint16(buf[12:]) {
	case 0x0800:
		if ip[0] != 0x45 || ip[9] != 17 {
			return Signature{}, Foreign
		}
		udp = ethLen + ip4Len
		total = ethLen + int(binary.BigEndian.Uint16(ip[2:]))
	case 0x86dd:
		if ip[0]>>4 != 6 || ip[6] != 17 {
			return Signature{}, Foreign
		}
		udp = ethLen + ip6Len
		total = udp + int(binary.BigEndian.Uint16(ip[4:]))
	default:
		return Signature{}, Foreign
	}
	sig := udp + udpLen
	if len(buf) < sig+SignatureLen || binary.BigEndian.Uint32(buf[sig:]) != Magic {
		return Signature{}, Foreign
	}
	s := Signature{
		Stream:   binary.BigEndian.Uint16(buf[sig+4:]),
		Sequence: binary.BigEndian.Uint32(buf[sig+6:]),
		Time:     unit.Instant(binary.BigEndian.Uint64(buf[sig+10:])),
	}
	// A frame may be padded to the least size of Ethernet, and not beyond.
	if len(buf) != max(total, unit.MinFrame.Buffer()) || udp+int(binary.BigEndian.Uint16(buf[udp+4:])) != total {
		return s, Broken
	}
	return s, Whole
}
