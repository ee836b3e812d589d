// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"math/bits"
)

// An iface is an interface description of a pcapng section.
type iface struct {
	link   uint16
	snap   uint32 // most octets captured of a packet; 0: all
	fcs    int    // octets of FCS behind every frame
	perSec uint64 // units of a timestamp in a second
	mul    uint64 // ns of a unit, if that is a whole number; else 0
	offset int64  // ns to be added
}

const (
	blockPacket    = 2 // obsolete
	blockInterface = 1
	blockSimple    = 3
	blockEnhanced  = 6

	// maxBlock is the most octets of a block that is read; others are skipped,
	// however long they are.
	maxBlock = maxPacket + 1<<16
	// maxIfaces is the most interfaces of a section.
	maxIfaces = 1 << 16
)

// section reads a section header block.
func (f *captureFile) section() error {
	h := f.peek(28)
	if len(h) < 28 {
		return f.end(int64(len(h)), 28, "a section header before ")
	}
	switch {
	case bigEndian(false).u32(h[8:]) == 0x1a2b3c4d:
		f.order = false
	case bigEndian(true).u32(h[8:]) == 0x1a2b3c4d:
		f.order = true
	default:
		return brokenf("the section header at octet %d has no byte-order magic: %x", f.offset(), h[8:12])
	}
	if major := f.order.u16(h[12:]); major != 1 {
		return brokenf("the section at octet %d is of pcapng version %d: want 1", f.offset(), major)
	}
	b, err := f.block(f.order.u32(h[4:]))
	if err != nil {
		return err
	}
	f.advance(len(b))
	f.ifaces = f.ifaces[:0]
	return nil
}

// block lends a whole block of total octets.
func (f *captureFile) block(total uint32) ([]byte, error) {
	if total < 12 || total%4 != 0 || total > maxBlock {
		return nil, brokenf("a block before %s has %d octets: want a multiple of 4, 12 to %d", f.where(), total, maxBlock)
	}
	b := f.peek(int(total))
	if len(b) < int(total) {
		return nil, f.end(int64(len(b)), int64(total), "a block before ")
	}
	if again := f.order.u32(b[total-4:]); again != total {
		return nil, brokenf("a block before %s begins with length %d and ends with length %d", f.where(), total, again)
	}
	return b, nil
}

// nextBlock reads on to the next packet.
func (f *captureFile) nextBlock(p *packet) error {
	for {
		h := f.peek(8)
		if len(h) < 8 {
			return f.end(int64(len(h)), 8, "a block before ")
		}
		kind, total := f.order.u32(h), f.order.u32(h[4:])
		switch kind {
		case magicSection:
			if err := f.section(); err != nil {
				return err
			}
			continue
		case blockInterface, blockPacket, blockSimple, blockEnhanced:
		default:
			if total < 12 || total%4 != 0 {
				return brokenf("a block before %s has %d octets: want a multiple of 4, 12 or more", f.where(), total)
			}
			if have := f.skip(int64(total)); have < int64(total) {
				return f.end(have, int64(total), fmt.Sprintf("a block of type %#x before ", kind))
			}
			continue
		}
		b, err := f.block(total)
		if err != nil {
			return err
		}
		if kind == blockInterface {
			err = f.describe(b)
		} else {
			err = f.packet(p, kind, b)
		}
		if err != nil {
			return err
		}
		f.advance(len(b))
		if kind != blockInterface {
			return nil
		}
	}
}

// packet makes p of a packet block.
func (f *captureFile) packet(p *packet, kind uint32, b []byte) error {
	head := 32 // with the block's header and trailer
	if kind == blockSimple {
		head = 16
	}
	if len(b) < head {
		return brokenf("the block of %s has %d octets, too few for its type %d", f.where(), len(b), kind)
	}
	var id, captured, wire uint32
	switch body := b[8:]; kind {
	case blockSimple:
		wire = f.order.u32(body)
		captured = min(wire, uint32(len(b)-head))
	case blockPacket:
		id, captured, wire = uint32(f.order.u16(body)), f.order.u32(body[12:]), f.order.u32(body[16:])
	default:
		id, captured, wire = f.order.u32(body), f.order.u32(body[12:]), f.order.u32(body[16:])
	}
	if int64(id) >= int64(len(f.ifaces)) {
		return brokenf("%s is of interface %d, which the file does not describe", f.where(), id)
	}
	i := &f.ifaces[id]
	if kind == blockSimple && i.snap > 0 {
		captured = min(captured, i.snap)
	}
	if captured > maxPacket {
		return f.tooLong(captured)
	}
	if int(captured) > len(b)-head {
		return brokenf("%s claims to hold %d octets, and its block has room for %d", f.where(), captured, len(b)-head)
	}
	p.timed = kind != blockSimple
	if p.timed {
		p.time = i.nanoseconds(uint64(f.order.u32(b[12:]))<<32 | uint64(f.order.u32(b[16:])))
	}
	f.take(p, b[head-4:][:captured], wire, i.link, i.fcs)
	return nil
}

// describe adds the interface of an interface description block.
func (f *captureFile) describe(b []byte) error {
	if len(b) < 20 {
		return brokenf("an interface description before %s has %d octets: want 20 or more", f.where(), len(b))
	}
	if len(f.ifaces) == maxIfaces {
		return brokenf("a section before %s describes more than %d interfaces", f.where(), maxIfaces)
	}
	i := iface{link: f.order.u16(b[8:]), snap: f.order.u32(b[12:]), perSec: 1e6}
	for o := b[16 : len(b)-4]; len(o) >= 4; {
		code, n := f.order.u16(o), int(f.order.u16(o[2:]))
		if o = o[4:]; code == 0 || n > len(o) {
			break
		}
		switch v := o[:n]; {
		case code == 9 && n == 1: // if_tsresol
			var ok bool
			if i.perSec, ok = perSecond(v[0]); !ok {
				return brokenf("an interface before %s has time resolution %#x, finer than 64 bits can hold for a second", f.where(), v[0])
			}
		case code == 13 && n == 1: // if_fcslen
			i.fcs = int(v[0])
		case code == 14 && n == 8: // if_tsoffset
			hi, lo := uint64(f.order.u32(v)), uint64(f.order.u32(v[4:]))
			if !f.order {
				hi, lo = lo, hi
			}
			i.offset = int64(hi<<32|lo) * 1e9
		}
		o = o[min((n+3)&^3, len(o)):]
	}
	if 1e9%i.perSec == 0 {
		i.mul = 1e9 / i.perSec
	}
	f.ifaces = append(f.ifaces, i)
	return nil
}

// perSecond reads if_tsresol: a power of ten, or of two where the first bit is set.
func perSecond(resolution uint8) (n uint64, ok bool) {
	exp := resolution & 0x7f
	if resolution&0x80 != 0 {
		return 1 << exp, exp < 64
	}
	for n = 1; exp > 0; exp-- {
		hi, lo := bits.Mul64(n, 10)
		if hi != 0 {
			return 0, false
		}
		n = lo
	}
	return n, true
}

// nanoseconds turns a timestamp into ns since 1970; what does not fit wraps.
func (i *iface) nanoseconds(t uint64) int64 {
	if i.mul > 0 {
		return int64(t*i.mul) + i.offset
	}
	hi, lo := bits.Mul64(t%i.perSec, 1e9)
	part, _ := bits.Div64(hi, lo, i.perSec) // hi < perSec, as t%perSec is
	return int64(t/i.perSec*1e9+part) + i.offset
}
