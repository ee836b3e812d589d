// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	le binary.AppendByteOrder = binary.LittleEndian
	be binary.AppendByteOrder = binary.BigEndian
)

// Times are 2 s apart from a whole second, so that any unit holds them.
var formatRecords = []struct {
	ms   uint64
	data []byte
}{{5_000_999, ether(60)}, {5_001_000, ether(1514)}, {5_003_250, ether(333)}}

func formatFile(order binary.AppendByteOrder, magic uint32, perSec uint64) []byte {
	var rs []record
	for _, r := range formatRecords {
		rs = append(rs, record{at: r.ms * (perSec / 1000), data: r.data})
	}
	return makePcap(order, magic, linkEthernet, perSec, rs...)
}

func formatNG(order binary.AppendByteOrder, perSec uint64, options func(f *ngFile) [][]byte) []byte {
	f := &ngFile{order: order}
	f.section().block(0xbad, ether(100)).iface(linkEthernet, 0, options(f)...)
	for i, r := range formatRecords {
		rec := record{at: r.ms * perSec / 1000, data: r.data}
		if i == 1 {
			f.block(4, make([]byte, 600_000)) // longer than a chunk
			f.obsolete(rec)
		} else {
			f.enhanced(rec)
		}
	}
	return f.b
}

func TestCaptureFormats(t *testing.T) {
	none := func(*ngFile) [][]byte { return nil }
	files := map[string][]byte{
		"micro":            formatFile(le, magicMicro, 1e6),
		"micro big-endian": formatFile(be, magicMicro, 1e6),
		"nano":             formatFile(le, magicNano, 1e9),
		"nano big-endian":  formatFile(be, magicNano, 1e9),
		"modified":         formatFile(le, magicModified, 1e6),
		"modified, big":    formatFile(be, magicModified, 1e6),
		"ng":               formatNG(le, 1e6, none),
		"ng big-endian":    formatNG(be, 1e6, none),
		"ng nano": formatNG(le, 1e9, func(f *ngFile) [][]byte {
			return [][]byte{f.option(2, []byte("eth0")), f.option(9, []byte{9}), f.option(0, nil), f.option(9, []byte{3})}
		}),
		"ng 10^-12": formatNG(be, 1e12, func(f *ngFile) [][]byte { return [][]byte{f.option(9, []byte{12})} }),
		"ng with an offset": formatNG(le, 1e3, func(f *ngFile) [][]byte {
			return [][]byte{f.option(9, []byte{3}), f.option(14, le.AppendUint64(nil, 1<<64-100))}
		}),
	}
	var octets uint64
	for _, r := range formatRecords {
		octets += uint64(len(r.data)+7) &^ 7
	}
	known := Shape{Frames: 3, Octets: octets, Longest: 1514, Timed: true, Classes: []string{"capture"}}
	unknown := Shape{Longest: 1604, Timed: true, Classes: []string{"capture"}}
	for name, file := range files {
		for packing, v := range map[string]struct {
			r     io.Reader
			shape Shape
		}{
			"as it is": {bytes.NewReader(file), known},
			"pipe":     {pipe(file), unknown},
			"gzip":     {bytes.NewReader(gzipped(t, file)), unknown},
			"2 gzips":  {bytes.NewReader(append(gzipped(t, file[:50]), gzipped(t, file[50:])...)), unknown},
			"zstd":     {bytes.NewReader(zstdPacked(t, file)), unknown},
			"zstd pipe": {pipe(append([]byte("\x50\x2a\x4d\x18\x02\x00\x00\x00hi"), zstdPacked(t, file)...)),
				unknown},
		} {
			t.Run(name+" "+packing, func(t *testing.T) {
				c, err := OpenCaptureReader(v.r, "f", CaptureOptions{Longest: 1600})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if d := cmp.Diff(v.shape, c.Shape()); d != "" {
					t.Error(d)
				}
				for p := range 3 {
					shots := whole(t, c)
					if len(shots) != 3 {
						t.Fatalf("pass %d: %d frames", p, len(shots))
					}
					for i, s := range shots {
						want := formatRecords[i]
						if !bytes.Equal(s.octets, want.data) {
							t.Errorf("pass %d, frame %d differs", p, i)
						}
						if at := (want.ms - formatRecords[0].ms) * 1e6; s.At != at {
							t.Errorf("pass %d, frame %d at %d, want %d", p, i, s.At, at)
						}
						if s.Class != 0 || s.Sig != 0 || s.L3 != 0 {
							t.Errorf("entry %+v", s.Entry)
						}
					}
				}
				if notes := c.Notes(); len(notes) != 0 {
					t.Errorf("notes %q", notes)
				}
			})
		}
	}
}

// Two sections of different byte orders and interfaces of every kind of clock.
func TestCaptureSections(t *testing.T) {
	f := &ngFile{order: be}
	f.section().iface(linkEthernet, 62).iface(linkRaw, 0, f.option(9, []byte{0x80 | 20}), f.option(14, be.AppendUint64(nil, 5))).iface(105, 0)
	f.enhanced(record{at: 10_000_000, data: ether(64)})
	f.enhanced(record{at: 6 << 20, ifaceIdx: 1, data: append([]byte{0x60}, make([]byte, 79)...)})
	f.enhanced(record{at: 11_000_000, ifaceIdx: 2, data: ether(64)})
	f.simple(record{data: ether(62), cut: 38}) // and 2 of padding
	f.obsolete(record{at: 7<<20 + 1<<19, ifaceIdx: 1, data: append([]byte{0x45}, make([]byte, 79)...)})
	f.order = le
	f.section().iface(linkEthernet, 0, f.option(13, []byte{4}), f.option(9, []byte{0}), f.option(14, le.AppendUint64(nil, 1<<64-3)))
	f.enhanced(record{at: 17, data: ether(104)})

	c, err := OpenCaptureReader(bytes.NewReader(f.b), "f", CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var at []uint64
	var lens []int
	for _, s := range whole(t, c) {
		at = append(at, s.At)
		lens = append(lens, int(s.Len))
	}
	if d := cmp.Diff([]uint64{0, 1e9, 1e9, 25e8, 4e9}, at); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int{64, 94, 62, 94, 100}, lens); d != "" {
		t.Error(d)
	}
	want := []string{
		"f: left out: 1 packet of link type 105 (IEEE802_11), where Ethernet, Linux cooked, raw IP and loopback can be replayed",
		"f: 1 packet captured in part and sent so (the first: packet 4, 62 octets)",
		"f: 2 packets without an Ethernet header, which is made for them",
		"f: 1 packet without a time, sent right after the one before",
	}
	if d := cmp.Diff(want, c.Notes()); d != "" {
		t.Error(d)
	}
}

func TestPerSecond(t *testing.T) {
	for r, want := range map[uint8]uint64{0: 1, 6: 1e6, 9: 1e9, 19: 1e19, 0x80: 1, 0x8a: 1024, 0x80 | 63: 1 << 63} {
		if got, ok := perSecond(r); got != want || !ok {
			t.Errorf("resolution %#x: %d %v, want %d", r, got, ok, want)
		}
	}
	for _, r := range []uint8{20, 127, 0x80 | 64, 255} {
		if _, ok := perSecond(r); ok {
			t.Errorf("resolution %#x passed", r)
		}
	}
	for _, v := range []struct {
		i    iface
		t    uint64
		want int64
	}{
		{iface{perSec: 1 << 63}, 1<<63 + 1<<62, 15e8},
		{iface{perSec: 1e19}, 1e19 + 5e18, 15e8},
		{iface{perSec: 3}, 7, 2_333_333_333},
	} {
		if got := v.i.nanoseconds(v.t); got != v.want {
			t.Errorf("%d / %d: %d ns, want %d", v.t, v.i.perSec, got, v.want)
		}
	}
}

func TestCaptureLinks(t *testing.T) {
	ip4 := append([]byte{0x45}, bytes.Repeat([]byte{4}, 59)...)
	ip6 := append([]byte{0x60}, bytes.Repeat([]byte{6}, 59)...)
	join := func(a string, b []byte) []byte { return append([]byte(a), b...) }
	const made = "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01"
	for _, v := range []struct {
		name string
		link uint32
		data []byte
		want []byte // nil: refused
	}{
		{"Ethernet", linkEthernet, ether(70), ether(70)},
		{"Ethernet with FCS", linkEthernet | 1<<26 | 2<<28, ether(70), ether(70)[:66]},
		{"raw IPv4", linkRaw, ip4, join(made+"\x08\x00", ip4)},
		{"raw IPv6", linkRaw, ip6, join(made+"\x86\xdd", ip6)},
		{"BSD raw", linkRawBSD, ip4, join(made+"\x08\x00", ip4)},
		{"OpenBSD raw", linkRawOpen, ip6, join(made+"\x86\xdd", ip6)},
		{"IPv4", linkIPv4, ip4, join(made+"\x08\x00", ip4)},
		{"IPv6", linkIPv6, ip6, join(made+"\x86\xdd", ip6)},
		{"null", linkNull, join("\x02\x00\x00\x00", ip4), join(made+"\x08\x00", ip4)},
		{"loop", linkLoop, join("\x00\x00\x00\x18", ip6), join(made+"\x86\xdd", ip6)},
		{"raw of nothing", linkRaw, ether(60), nil},
		{"raw, empty", linkRaw, nil, nil},
		{"loop, too short", linkLoop, []byte{0, 0, 0}, nil},
		{"cooked", linkSLL, join("\x00\x00\x00\x01\x00\x06\x0a\x0b\x0c\x0d\x0e\x0f\x00\x00\x08\x00", ip4),
			join("\x02\x00\x00\x00\x00\x02\x0a\x0b\x0c\x0d\x0e\x0f\x08\x00", ip4)},
		{"cooked broadcast of loopback", linkSLL, join("\x00\x01\x03\x04\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00\x86\xdd", ip6),
			join("\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x86\xdd", ip6)},
		{"cooked 802.2", linkSLL, join("\x00\x02\x00\x01\x00\x06\x0a\x0b\x0c\x0d\x0e\x0f\x00\x00\x00\x04", ip4),
			join("\x02\x00\x00\x00\x00\x02\x0a\x0b\x0c\x0d\x0e\x0f\x00\x3c", ip4)},
		{"cooked CAN", linkSLL, join("\x00\x00\x01\x18\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0c", ip4), nil},
		{"cooked, too short", linkSLL, make([]byte, 15), nil},
		{"cooked v2", linkSLL2, join("\x86\xdd\x00\x00\x00\x00\x00\x03\x00\x01\x00\x06\x0a\x0b\x0c\x0d\x0e\x0f\x00\x00", ip6),
			join("\x02\x00\x00\x00\x00\x02\x0a\x0b\x0c\x0d\x0e\x0f\x86\xdd", ip6)},
		{"cooked v2, a tunnel's", linkSLL2, join("\x08\x00\x00\x00\x00\x00\x00\x03\xff\xfe\x04\x04\x0a\x00\x00\x01\x00\x00\x00\x00", ip4),
			join(made+"\x08\x00", ip4)},
		{"cooked v2, too short", linkSLL2, make([]byte, 19), nil},
	} {
		t.Run(v.name, func(t *testing.T) {
			file := makePcap(le, magicMicro, v.link, 1e6, record{data: v.data})
			c, err := OpenCaptureReader(bytes.NewReader(file), "f", CaptureOptions{})
			if v.want == nil {
				if err == nil {
					t.Fatal("was not refused")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := whole(t, c); len(got) != 1 || !bytes.Equal(got[0].octets, v.want) {
				t.Errorf("got %x, want %x", got[0].octets, v.want)
			}
		})
	}
}

// Every way for a file to be unusable is one sentence.
func TestCaptureErrors(t *testing.T) {
	one := makePcap(le, magicMicro, linkEthernet, 1e6, record{data: ether(60)})
	ng := func(f func(f *ngFile)) []byte {
		n := &ngFile{order: le}
		n.section()
		f(n)
		return n.b
	}
	for _, v := range []struct {
		name string
		file []byte
		o    CaptureOptions
		want string
	}{
		{"empty", nil, CaptureOptions{}, "f is empty"},
		{"three octets", []byte("abc"), CaptureOptions{}, "f is no capture: it has 3 octets"},
		{"wrong magic", []byte("\x7fELF and so on, for longer than a header"), CaptureOptions{}, "f is no capture: it begins with 7f454c46, and pcap, pcapng, gzip and zstd files do not"},
		{"xz", []byte("\xfd7zXZ\x00 and so on"), CaptureOptions{}, "f is no capture: it begins with fd377a58, and pcap, pcapng, gzip and zstd files do not (an xz file: unpack it)"},
		{"half a header", one[:20], CaptureOptions{}, "f breaks off in the file header, after 20 of 24 octets"},
		{"version", append(append([]byte{}, one[:4]...), append([]byte{3}, one[5:]...)...), CaptureOptions{}, "f is a pcap file of version 3: want 2"},
		{"no packets", one[:24], CaptureOptions{}, "f holds no packets"},
		{"half a record header", one[:30], CaptureOptions{}, "f: the header of packet 1 at octet 24 breaks off after 6 of 16 octets, and there is no packet before it"},
		{"half a packet", one[:50], CaptureOptions{}, "f: packet 1 at octet 24 breaks off after 26 of 76 octets, and there is no packet before it"},
		{"4 GiB", makePcap(be, magicNano, linkEthernet, 1e9, record{data: ether(60), claims: 1<<32 - 1}), CaptureOptions{}, "f: packet 1 at octet 24 claims to hold 4294967295 octets, more than the 262144 that a capture can hold, and there is no packet before it"},
		{"zero length", makePcap(le, magicMicro, linkEthernet, 1e6, record{}, record{data: ether(5)}), CaptureOptions{}, "f: no packet can be replayed: 2 packets without a whole link header (the first: packet 1, 0 octets)"},
		{"link type", makePcap(le, magicMicro, 105, 1e6, record{data: ether(60)}), CaptureOptions{}, "f: no packet can be replayed: 1 packet of link type 105 (IEEE802_11), where Ethernet, Linux cooked, raw IP and loopback can be replayed"},
		{"link type without a name", makePcap(le, magicMicro, 300, 1e6, record{data: ether(60)}, record{data: ether(60)}), CaptureOptions{}, "f: no packet can be replayed: 2 packets of link type 300, where Ethernet, Linux cooked, raw IP and loopback can be replayed"},
		{"too long", makePcap(le, magicMicro, linkEthernet, 1e6, record{data: ether(100)}), CaptureOptions{Longest: 99}, "f: no packet can be replayed: 1 packet longer than 99 octets (the first: packet 1, 100 octets)"},
		{"too long, and broken", makePcap(le, magicMicro, linkEthernet, 1e6, record{data: ether(100)}, record{data: ether(60)})[:150], CaptureOptions{Longest: 99}, "f: no packet can be replayed: 1 packet longer than 99 octets (the first: packet 1, 100 octets); the header of packet 2 at octet 140 breaks off after 10 of 16 octets"},
		{"gzip of nothing", gzipped(t, nil), CaptureOptions{}, "f is empty"},
		{"gzip, broken", gzipped(t, one)[:15], CaptureOptions{}, "f cannot be unpacked: unexpected EOF"},
		{"not gzip after all", []byte("\x1f\x8b and then something else"), CaptureOptions{}, "f cannot be unpacked: gzip: invalid header"},
		{"section without order", append([]byte("\x0a\x0d\x0d\x0a"), make([]byte, 40)...), CaptureOptions{}, "f: the section header at octet 0 has no byte-order magic: 00000000"},
		{"ng, no packets", ng(func(f *ngFile) { f.iface(1, 0) }), CaptureOptions{}, "f holds no packets"},
		{"no interface", ng(func(f *ngFile) { f.simple(record{data: ether(60)}) }), CaptureOptions{}, "f: packet 1 at octet 40 is of interface 0, which the file does not describe, and there is no packet before it"},
		{"wrong interface", ng(func(f *ngFile) { f.iface(1, 0).enhanced(record{ifaceIdx: 1 << 31, data: ether(60)}) }), CaptureOptions{}, "f: packet 1 at octet 60 is of interface 2147483648, which the file does not describe, and there is no packet before it"},
		{"ng, 4 GiB packet", ng(func(f *ngFile) { f.iface(1, 0).enhanced(record{data: ether(60), claims: 1<<32 - 1}) }), CaptureOptions{}, "f: packet 1 at octet 60 claims to hold 4294967295 octets, more than the 262144 that a capture can hold, and there is no packet before it"},
		{"ng, packet beyond its block", ng(func(f *ngFile) { f.iface(1, 0).obsolete(record{data: ether(60), claims: 64}) }), CaptureOptions{}, "f: packet 1 at octet 60 claims to hold 64 octets, and its block has room for 60, and there is no packet before it"},
		{"4 GiB block", ng(func(f *ngFile) { f.b = append(f.b, "\x06\x00\x00\x00\xfc\xff\xff\xff"...) }), CaptureOptions{}, "f: a block before packet 1 at octet 40 has 4294967292 octets: want a multiple of 4, 12 to 327680, and there is no packet before it"},
		{"4 GiB block to be skipped", ng(func(f *ngFile) { f.b = append(f.b, "\xad\x0b\x00\x00\xfc\xff\xff\xff"...) }), CaptureOptions{}, "f: a block of type 0xbad before packet 1 at octet 48 breaks off after 8 of 4294967292 octets, and there is no packet before it"},
		{"odd block", ng(func(f *ngFile) { f.b = append(f.b, "\xad\x0b\x00\x00\x0f\x00\x00\x00"...) }), CaptureOptions{}, "f: a block before packet 1 at octet 40 has 15 octets: want a multiple of 4, 12 or more, and there is no packet before it"},
		{"lengths differ", ng(func(f *ngFile) { f.iface(1, 0); f.b[len(f.b)-4] = 16 }), CaptureOptions{}, "f: a block before packet 1 at octet 40 begins with length 20 and ends with length 16, and there is no packet before it"},
		{"resolution", ng(func(f *ngFile) { f.iface(1, 0, f.option(9, []byte{20})) }), CaptureOptions{}, "f: an interface before packet 1 at octet 40 has time resolution 0x14, finer than 64 bits can hold for a second, and there is no packet before it"},
		{"longest", one, CaptureOptions{Longest: 59}, "longest frame 59: want 60 to 65535 octets without FCS"},
	} {
		t.Run(v.name, func(t *testing.T) {
			_, err := OpenCaptureReader(bytes.NewReader(v.file), "f", v.o)
			if err == nil || err.Error() != v.want {
				t.Errorf("got  %v\nwant %s", err, v.want)
			}
			// From a pipe the same is said, now or when the pass ends.
			c, err := OpenCaptureReader(pipe(v.file), "f", v.o)
			if err == nil {
				err = c.Fill(&Window{Blob: make([]byte, 4096), Entries: make([]Entry, 10)})
				if again := c.Fill(&Window{}); again != err {
					t.Errorf("then %v", again)
				}
			}
			if err == nil || err.Error() != v.want {
				t.Errorf("pipe: got  %v\nwant %s", err, v.want)
			}
		})
	}
	if _, err := OpenCapture(filepath.Join(t.TempDir(), "none"), CaptureOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	dir := t.TempDir()
	if _, err := OpenCapture(dir, CaptureOptions{}); err == nil || !strings.HasSuffix(err.Error(), dir+": it is not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}

// What is whole is replayed, and the rest is named.
func TestCaptureNotes(t *testing.T) {
	three := makePcap(le, magicMicro, linkEthernet, 1e6,
		record{at: 5_000_000, data: ether(1514)},
		record{at: 4_000_000, data: ether(60)},
		record{at: 5_000_010, data: ether(40)},
		record{at: 5_000_020, data: ether(10)},
		record{at: 5_000_030, data: ether(60), cut: 40})
	rest := []string{
		"f: left out: 1 packet without a whole link header (the first: packet 4, 10 octets)",
		"f: 1 packet captured in part and sent so (the first: packet 5, 60 octets)",
		"f: 1 packet padded with zeros to 60 octets",
		"f: 1 packet captured at an earlier time than the one before, and sent right after it (the first: packet 2)",
	}
	packed := gzipped(t, append(bytes.Clone(three), makePcap(le, magicMicro, 1, 1, record{data: ether(1000)})[24:]...))
	for _, v := range []struct {
		name string
		file []byte
		o    CaptureOptions
		at   []uint64
		lens []int
		want []string
	}{
		{"whole", three, CaptureOptions{}, []uint64{0, 0, 10_000, 30_000}, []int{1514, 60, 60, 60}, rest},
		{"limit", three, CaptureOptions{Limit: 1}, []uint64{0}, []int{1514}, nil},
		{"truncated", three[:len(three)-1], CaptureOptions{}, []uint64{0, 0, 10_000}, []int{1514, 60, 60}, append([]string{
			"f: packet 5 at octet 1712 breaks off after 75 of 76 octets; what stands before it (4 packets) is replayed", rest[0]}, rest[2:]...)},
		{"refused", three, CaptureOptions{Longest: 60}, []uint64{0, 1_000_010_000, 1_000_030_000}, []int{60, 60, 60}, append([]string{rest[0],
			"f: left out: 1 packet longer than 60 octets (the first: packet 1, 1514 octets)"}, rest[1:3]...)},
		{"cut", three, CaptureOptions{Longest: 60, LongFrames: Cut}, []uint64{0, 0, 10_000, 30_000}, []int{60, 60, 60, 60}, append([]string{rest[0],
			"f: 1 packet cut to 60 octets, and 64 with a VLAN tag (the first: packet 1, 1514 octets); their IP headers still state the full length"}, rest[1:]...)},
		{"packed and truncated", packed[:len(packed)-20], CaptureOptions{}, []uint64{0, 0, 10_000, 30_000}, []int{1514, 60, 60, 60}, append([]string{
			"f: packet 6 at octet 1788 cannot be unpacked: unexpected EOF; what stands before it (5 packets) is replayed"}, rest...)},
	} {
		t.Run(v.name, func(t *testing.T) {
			c, err := OpenCaptureReader(bytes.NewReader(v.file), "f", v.o)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				var at []uint64
				var lens []int
				for _, s := range whole(t, c) {
					at = append(at, s.At)
					lens = append(lens, int(s.Len))
				}
				if n := c.Shape().Frames; n != 0 && n != uint64(len(v.at)) {
					t.Errorf("a shape of %d frames, want %d", n, len(v.at))
				}
				if !slices.Equal(at, v.at) || !slices.Equal(lens, v.lens) {
					t.Errorf("frames at %v of %v octets, want %v %v", at, lens, v.at, v.lens)
				}
				if d := cmp.Diff(v.want, c.Notes()); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

func TestCaptureWindowTooSmall(t *testing.T) {
	c, err := OpenCaptureReader(bytes.NewReader(formatFile(le, magicMicro, 1e6)), "f", CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &Window{Blob: make([]byte, 128), Entries: make([]Entry, 8)}
	if err := c.Fill(w); err != nil || w.Len() != 1 {
		t.Fatalf("%d frames, %v", w.Len(), err)
	}
	w.Reset()
	if err := c.Fill(w); err == nil || err.Error() != "f: a frame of 1514 octets does not fit into an empty window of 128, in chunks of 0" {
		t.Fatal(err)
	}
}

func TestCapturePipeLoops(t *testing.T) {
	var rs []record
	for i := range 1000 {
		rs = append(rs, record{at: uint64(i), data: ether(1500)})
	}
	file := makePcap(le, magicMicro, linkEthernet, 1e6, rs...)
	c, err := OpenCaptureReader(pipe(file), "standard input", CaptureOptions{Keep: len(file)})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if n := len(whole(t, c)); n != 1000 {
			t.Fatalf("%d frames", n)
		}
	}
	c, err = OpenCaptureReader(pipe(file), "standard input", CaptureOptions{Keep: len(file) - 1})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(whole(t, c)); n != 1000 {
		t.Fatalf("%d frames", n)
	}
	err = c.Fill(&Window{Blob: make([]byte, 4096), Entries: make([]Entry, 8)})
	if want := "standard input cannot be read twice: it is no file, and longer than the 1516023 octets that are kept of it; store it in a file first"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

type failing struct{ io.Reader }

var errDisk = errors.New("input/output error")

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err == io.EOF {
		err = errDisk
	}
	return n, err
}

// A disk that fails is not a file that ends.
func TestCaptureReadError(t *testing.T) {
	c, err := OpenCaptureReader(failing{bytes.NewReader(formatFile(le, magicMicro, 1e6))}, "f", CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &Window{Blob: make([]byte, 1<<16), Entries: make([]Entry, 8)}
	if err := c.Fill(w); !errors.Is(err, errDisk) || w.Len() != 3 {
		t.Fatalf("%d frames, %v", w.Len(), err)
	}
}

func TestCaptureStdin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.pcap")
	if err := os.WriteFile(path, append([]byte("read before"), formatFile(le, magicMicro, 1e6)...), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(11, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	c, err := OpenCaptureReader(f, "f", CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Shape().Frames != 3 || len(whole(t, c)) != 3 {
		t.Error("a file is not read from where it stands")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Fill(&Window{}); err == nil {
		t.Error("a closed capture fills")
	}
}
