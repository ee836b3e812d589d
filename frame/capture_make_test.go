// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A record is a packet of a capture file that a test makes.
type record struct {
	at       uint64 // units
	data     []byte
	cut      int // octets that were not captured
	claims   uint32
	ifaceIdx uint32
}

func (r record) captured() uint32 {
	if r.claims != 0 {
		return r.claims
	}
	return uint32(len(r.data))
}

// makePcap writes a pcap file of any magic, byte order and link type; perSec are
// the units of a record's time.
func makePcap(order binary.AppendByteOrder, magic, link uint32, perSec uint64, records ...record) []byte {
	b := order.AppendUint32(nil, magic)
	b = order.AppendUint16(b, 2)
	b = order.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...)
	b = order.AppendUint32(b, 1<<18)
	b = order.AppendUint32(b, link)
	for _, r := range records {
		b = order.AppendUint32(b, uint32(r.at/perSec))
		b = order.AppendUint32(b, uint32(r.at%perSec))
		b = order.AppendUint32(b, r.captured())
		b = order.AppendUint32(b, uint32(len(r.data)+r.cut))
		if magic == magicModified {
			b = append(b, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee)
		}
		b = append(b, r.data...)
	}
	return b
}

// An ngFile is a pcapng file that a test makes, block by block.
type ngFile struct {
	order binary.AppendByteOrder
	b     []byte
}

func pad4(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }

func (f *ngFile) block(kind uint32, body []byte) *ngFile {
	body = pad4(body)
	n := uint32(len(body) + 12)
	f.b = f.order.AppendUint32(f.b, kind)
	f.b = f.order.AppendUint32(f.b, n)
	f.b = append(f.b, body...)
	f.b = f.order.AppendUint32(f.b, n)
	return f
}

func (f *ngFile) section() *ngFile {
	b := f.order.AppendUint32(nil, 0x1a2b3c4d)
	b = f.order.AppendUint16(b, 1)
	b = f.order.AppendUint16(b, 0)
	b = f.order.AppendUint64(b, 1<<64-1)
	b = append(b, f.option(4, []byte("a test's"))...)
	return f.block(magicSection, b)
}

func (f *ngFile) option(code uint16, v []byte) []byte {
	b := f.order.AppendUint16(nil, code)
	b = f.order.AppendUint16(b, uint16(len(v)))
	return append(b, pad4(bytes.Clone(v))...)
}

func (f *ngFile) iface(link uint16, snap uint32, options ...[]byte) *ngFile {
	b := f.order.AppendUint16(nil, link)
	b = f.order.AppendUint32(f.order.AppendUint16(b, 0), snap)
	return f.block(blockInterface, append(b, bytes.Join(options, nil)...))
}

func (f *ngFile) enhanced(r record) *ngFile {
	b := f.order.AppendUint32(nil, r.ifaceIdx)
	b = f.order.AppendUint32(b, uint32(r.at>>32))
	b = f.order.AppendUint32(b, uint32(r.at))
	b = f.order.AppendUint32(b, r.captured())
	b = f.order.AppendUint32(b, uint32(len(r.data)+r.cut))
	b = append(pad4(append(b, r.data...)), f.option(1, []byte("seen"))...)
	return f.block(blockEnhanced, b)
}

func (f *ngFile) obsolete(r record) *ngFile {
	b := f.order.AppendUint16(nil, uint16(r.ifaceIdx))
	b = f.order.AppendUint16(b, 7) // drops
	b = f.order.AppendUint32(b, uint32(r.at>>32))
	b = f.order.AppendUint32(b, uint32(r.at))
	b = f.order.AppendUint32(b, r.captured())
	b = f.order.AppendUint32(b, uint32(len(r.data)+r.cut))
	return f.block(blockPacket, append(b, r.data...))
}

func (f *ngFile) simple(r record) *ngFile {
	b := f.order.AppendUint32(nil, uint32(len(r.data)+r.cut))
	return f.block(blockSimple, append(b, r.data...))
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstdPacked(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

// pipe is a reader that can do nothing but read, a few octets at a time.
func pipe(b []byte) io.Reader { return &slowReader{b: b} }

type slowReader struct {
	b []byte
	n int
}

func (s *slowReader) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	s.n = s.n%1021 + 1
	n := copy(p[:min(len(p), s.n)], s.b)
	s.b = s.b[n:]
	return n, nil
}

// A shot is a frame that a source yields.
type shot struct {
	Entry
	octets []byte
}

// onePass drains one pass of a source through windows of this size.
func onePass(t testing.TB, s Source, blob, entries, chunk int) (shots []shot) {
	t.Helper()
	w := Window{Blob: make([]byte, blob), Entries: make([]Entry, entries), Chunk: chunk}
	for {
		w.Reset()
		for i := range w.Blob {
			w.Blob[i] = 0xa5
		}
		err := s.Fill(&w)
		for i := range w.Len() {
			shots = append(shots, shot{w.Entries[i], bytes.Clone(w.Frame(i))})
		}
		if err == io.EOF {
			return shots
		}
		if err != nil {
			t.Fatal(err)
		}
		if w.Len() == 0 {
			t.Fatal("Fill neither filled nor ended")
		}
	}
}

// whole is one pass through windows that hold what a test makes.
func whole(t testing.TB, s Source) []shot {
	t.Helper()
	return onePass(t, s, 1<<20, 4096, 0)
}

// ether is an Ethernet frame of n octets, of a type that nobody parses.
func ether(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + n)
	}
	copy(b[min(n, 12):], "\x88\xb5")
	return b
}
