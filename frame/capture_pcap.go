// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// maxPacket is the most octets of a packet in a capture file (libpcap's greatest
// snapshot length). A file that claims more is broken.
const maxPacket = 1 << 18

// A packet is one record of a capture file.
type packet struct {
	data  []byte // as captured; lent until the next one is read
	wire  int    // octets that it had on the wire, len(data) or more
	time  int64  // ns
	timed bool
	link  uint16
}

// A captureFile reads the records of a pcap or pcapng file.
//
// Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
type captureFile struct {
	chunks
	number uint64 // packets so far
	order  bigEndian
	ng     bool

	record int   // pcap: octets of a record's header
	mul    int64 // pcap: ns of a fraction
	link   uint16
	fcs    int

	ifaces []iface // pcapng: of the section
}

// A broken error says where a file stops making sense.
type broken struct{ error }

func brokenf(format string, args ...any) error { return &broken{fmt.Errorf(format, args...)} }

type bigEndian bool

func (o bigEndian) u16(b []byte) uint16 {
	v := binary.LittleEndian.Uint16(b)
	if o {
		v = bits.ReverseBytes16(v)
	}
	return v
}

func (o bigEndian) u32(b []byte) uint32 {
	v := binary.LittleEndian.Uint32(b)
	if o {
		v = bits.ReverseBytes32(v)
	}
	return v
}

// Magic numbers of pcap files, as read in the writer's byte order.
const (
	magicMicro    = 0xa1b2c3d4
	magicNano     = 0xa1b23c4d
	magicModified = 0xa1b2cd34 // Kuznetzov's: records have 8 more octets
	magicSection  = 0x0a0d0d0a // pcapng; a palindrome
)

// open reads the head of the file that r yields.
func (f *captureFile) open(r io.Reader) error {
	chunks := f.chunks
	*f = captureFile{chunks: chunks, ifaces: f.ifaces[:0]}
	f.reset(r)
	h := f.peek(24)
	if len(h) < 24 && f.err != io.EOF {
		return fmt.Errorf("cannot be unpacked: %w", f.err)
	}
	if len(h) == 0 {
		return errors.New("is empty")
	}
	if len(h) < 4 {
		return fmt.Errorf("is no capture: it has %d octets", len(h))
	}
	magic := binary.LittleEndian.Uint32(h)
	if magic == magicSection {
		f.ng = true
		return f.section()
	}
	for _, o := range []bigEndian{false, true} {
		f.order, f.record, f.mul = o, 16, 1000
		switch o.u32(h) {
		case magicMicro:
		case magicNano:
			f.mul = 1
		case magicModified:
			f.record = 24
		default:
			continue
		}
		if len(h) < 24 {
			return fmt.Errorf("breaks off in the file header, after %d of 24 octets", len(h))
		}
		if major := o.u16(h[4:]); major != 2 {
			return fmt.Errorf("is a pcap file of version %d: want 2", major)
		}
		link := o.u32(h[20:])
		f.link = uint16(link)
		if link&(1<<26) != 0 { // the length of a frame's FCS is known
			f.fcs = int(link>>28) * 2
		}
		f.advance(24)
		return nil
	}
	return fmt.Errorf("is no capture: it begins with %x, and pcap, pcapng, gzip and zstd files do not%s", h[:4], hint(h))
}

func hint(h []byte) string {
	for _, k := range []struct{ magic, hint string }{
		{"\xfd7zXZ", " (an xz file: unpack it)"},
		{"BZh", " (a bzip2 file: unpack it)"},
		{"\x04\x22\x4d\x18", " (an lz4 file: unpack it)"},
		{"PK\x03\x04", " (a zip file: unpack it)"},
		{"snoop\x00", " (a snoop file: convert it with editcap)"},
	} {
		if len(h) >= len(k.magic) && string(h[:len(k.magic)]) == k.magic {
			return k.hint
		}
	}
	return ""
}

// next reads the next packet: io.EOF after the last one, *broken where the file
// makes no sense any more.
func (f *captureFile) next(p *packet) error {
	if f.ng {
		return f.nextBlock(p)
	}
	h := f.peek(f.record)
	if len(h) < f.record {
		return f.end(int64(len(h)), int64(f.record), "the header of ")
	}
	captured, wire := f.order.u32(h[8:]), f.order.u32(h[12:])
	if captured > maxPacket {
		return f.tooLong(captured)
	}
	n := f.record + int(captured)
	b := f.peek(n)
	if len(b) < n {
		return f.end(int64(len(b)), int64(n), "")
	}
	f.take(p, b[f.record:], wire, f.link, f.fcs)
	p.time = int64(f.order.u32(b))*1e9 + int64(f.order.u32(b[4:]))*f.mul
	p.timed = true
	f.advance(n)
	return nil
}

// take makes p of what was captured of a frame that had wire octets with its FCS.
func (f *captureFile) take(p *packet, data []byte, wire uint32, link uint16, fcs int) {
	f.number++
	p.wire = max(int(min(wire, 1<<30)), len(data)) - fcs
	p.data = data[:max(0, min(len(data), p.wire))]
	p.link = link
}

// where names the packet that is being read.
func (f *captureFile) where() string {
	return fmt.Sprintf("packet %d at octet %d", f.number+1, f.offset())
}

func (f *captureFile) tooLong(n uint32) error {
	return brokenf("%s claims to hold %d octets, more than the %d that a capture can hold", f.where(), n, maxPacket)
}

// end is what it means that only have octets are left of want, which a part
// before or of the next packet needs: the file's end, or that it breaks off.
func (f *captureFile) end(have, want int64, part string) error {
	switch {
	case have == 0 && f.err == io.EOF:
		return io.EOF
	case f.err == io.EOF:
		return brokenf("%s%s breaks off after %d of %d octets", part, f.where(), have, want)
	}
	return brokenf("%s%s cannot be unpacked: %w", part, f.where(), f.err)
}
