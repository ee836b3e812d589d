// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"io"
	"net/netip"

	"boxdyno/unit"
)

const (
	tagLen  = 4
	icmpLen = 8

	protoICMP   = 1
	protoTCP    = 6
	protoUDP    = 17
	protoICMPv6 = 58
)

// A VLAN is an IEEE 802.1Q tag.
type VLAN struct {
	ID       uint16 // 0 to 4095
	Priority uint8  // 0 to 7
}

// A draft is a frame that is being laid out for a window.
type draft struct {
	octets []byte
	entry  Entry
}

// link is a draft's Ethernet header and tags, outermost first; two are a service
// tag (0x88a8) and a customer's.
func link(srcMAC, dstMAC [6]byte, tags []VLAN) draft {
	b := append(dstMAC[:], srcMAC[:]...)
	for i, t := range tags {
		kind := uint16(0x8100)
		if i == 0 && len(tags) == 2 {
			kind = 0x88a8
		}
		b = binary.BigEndian.AppendUint16(b, kind)
		b = binary.BigEndian.AppendUint16(b, uint16(t.Priority)<<13|t.ID)
	}
	return draft{octets: b}
}

// network appends an IP header without its checksum. fragment is IPv4's word of
// flags and offset, which means nothing to IPv6; the identification is 0.
func (d *draft) network(src, dst netip.Addr, protocol, ttl uint8, fragment uint16, payload int) {
	b := d.octets
	e := &d.entry
	e.L3 = uint16(len(b) + 2)
	if src.Is4() {
		e.Flags |= IPv4
		e.L4 = e.L3 + ip4Len
		b = append(b, 0x08, 0, 0x45, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(ip4Len+payload))
		b = binary.BigEndian.AppendUint16(b, 0)
		b = binary.BigEndian.AppendUint16(b, fragment)
		b = append(b, ttl, protocol, 0, 0)
	} else {
		e.Flags |= IPv6
		e.L4 = e.L3 + ip6Len
		b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(payload))
		b = append(b, protocol, ttl)
	}
	switch protocol {
	case protoUDP:
		e.Sum = e.L4 + 6
		e.Flags |= SumUDP
	case protoTCP:
		e.Sum = e.L4 + 16
	case protoICMP, protoICMPv6:
		e.Sum = e.L4 + 2
	}
	b = append(b, src.AsSlice()...)
	d.octets = append(b, dst.AsSlice()...)
}

func (d *draft) udp(src, dst uint16, payload int) {
	b := binary.BigEndian.AppendUint16(d.octets, src)
	b = binary.BigEndian.AppendUint16(b, dst)
	b = binary.BigEndian.AppendUint16(b, uint16(udpLen+payload))
	d.octets = append(b, 0, 0)
}

// tcp's options must fill whole words.
func (d *draft) tcp(src, dst uint16, seq, ack uint32, flags uint8, window uint16, options ...byte) {
	b := binary.BigEndian.AppendUint16(d.octets, src)
	b = binary.BigEndian.AppendUint16(b, dst)
	b = binary.BigEndian.AppendUint32(b, seq)
	b = binary.BigEndian.AppendUint32(b, ack)
	b = append(b, uint8(tcpLen+len(options))<<2, flags)
	b = binary.BigEndian.AppendUint16(b, window)
	d.octets = append(append(b, 0, 0, 0, 0), options...)
}

// echo is an ICMP or ICMPv6 echo request.
func (d *draft) echo(id, seq uint16) {
	kind := byte(8)
	if d.entry.Flags&IPv6 != 0 {
		kind = 128
	}
	b := append(d.octets, kind, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, id)
	d.octets = binary.BigEndian.AppendUint16(b, seq)
}

// sign appends a signature of class 0.
func (d *draft) sign() {
	d.entry.Sig = uint16(len(d.octets))
	d.octets = binary.BigEndian.AppendUint32(d.octets, Magic)
	d.octets = append(d.octets, make([]byte, SignatureLen-4)...)
}

// seal computes the checksums and pads to the least frame.
func (d *draft) seal() {
	b, e := d.octets, &d.entry
	if e.Flags&IPv4 != 0 {
		ip := b[e.L3:e.L4]
		binary.BigEndian.PutUint16(ip[10:], fold(sum(ip)))
	}
	if e.Sum != 0 {
		binary.BigEndian.PutUint16(b[e.Sum:], e.checksum(b))
	}
	if short := unit.MinFrame.Buffer() - len(b); short > 0 {
		d.octets = append(b, make([]byte, short)...)
	}
	e.Len = uint16(len(d.octets))
}

// checksum computes that at e.Sum, whose field is zero, of a frame without padding.
func (e *Entry) checksum(b []byte) uint16 {
	l4 := b[e.L4:]
	s := sum(l4[:len(l4)&^1])
	if len(l4)&1 != 0 {
		s += uint32(l4[len(l4)-1]) << 8
	}
	if e.Flags&IPv6 != 0 {
		s += sum(b[e.L3+8:e.L4]) + uint32(b[e.L3+6]) + uint32(len(l4))
	} else if e.Sum != e.L4+2 {
		s += sum(b[e.L3+12:e.L4]) + uint32(b[e.L3+9]) + uint32(len(l4))
	}
	if e.Flags&SumUDP != 0 {
		return udpChecksum(s)
	}
	return fold(s)
}

// minPass is the fewest frames of a pass over drafts: what a backend does once a
// pass costs little then.
const minPass = 256

// drafts is a Source that repeats frames in a fixed order. What varies is in the
// shape's draws and fields.
type drafts struct {
	shape Shape
	all   []draft
	order []uint16 // of a pass: indices of all
	next  int
	seen  []int // by index of all: 1 + its entry in the window being filled
}

// repeat makes a source of whole cycles over order.
func repeat(shape Shape, all []draft, cycle []uint16) (*drafts, error) {
	d := &drafts{all: all, seen: make([]int, len(all))}
	for len(d.order) < minPass {
		d.order = append(d.order, cycle...)
	}
	shape.Frames = uint64(len(d.order))
	for _, i := range d.order { // as if no octets were shared, which depends on the windows
		n := len(all[i].octets)
		shape.Octets += (uint64(n) + 7) &^ 7
		shape.Longest = max(shape.Longest, n)
	}
	d.shape = shape
	return d, shape.Check()
}

func (d *drafts) Shape() Shape    { return d.shape }
func (d *drafts) Notes() []string { return nil }
func (d *drafts) Close() error    { return nil }

// Shard is the whole source: its numbers differ from stream to stream.
func (d *drafts) Shard(int, int) Source {
	return &drafts{shape: d.shape, all: d.all, order: d.order, seen: make([]int, len(d.all))}
}

func (d *drafts) Fill(w *Window) error {
	clear(d.seen)
	for ; d.next < len(d.order); d.next++ {
		f := d.order[d.next]
		if d.seen[f] > 0 {
			if !w.again(d.seen[f] - 1) {
				return nil
			}
			continue
		}
		from := &d.all[f]
		e, b := w.Next(len(from.octets))
		if e == nil {
			return full(w, len(from.octets))
		}
		copy(b, from.octets)
		off := e.Off
		*e = from.entry
		e.Off = off
		d.seen[f] = w.Len()
	}
	d.next = 0
	return io.EOF
}

// again appends entry i once more, with the same octets, if there is room.
func (w *Window) again(i int) bool {
	if w.count == len(w.Entries) {
		return false
	}
	w.Entries[w.count] = w.Entries[i]
	w.count++
	return true
}
