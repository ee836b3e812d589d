// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"pgregory.net/rapid"
)

// What others write is read, octet by octet, whatever the windows are like.
func TestCaptureAgainstWriters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type sent struct {
			at   time.Time
			data []byte
		}
		var all []sent
		at := time.Unix(rapid.Int64Range(0, 1<<31).Draw(t, "origin"), 0)
		for range rapid.IntRange(1, 50).Draw(t, "packets") {
			at = at.Add(time.Duration(rapid.Int64Range(0, 3e9).Draw(t, "gap")))
			all = append(all, sent{at, ether(rapid.OneOf(rapid.IntRange(14, 200), rapid.IntRange(1400, 1520), rapid.Just(9000)).Draw(t, "length"))})
		}
		var file bytes.Buffer
		var write func(gopacket.CaptureInfo, []byte) error
		unit := time.Nanosecond
		switch rapid.SampledFrom([]string{"pcap", "nano", "ng"}).Draw(t, "format") {
		case "pcap":
			w := pcapgo.NewWriter(&file)
			if err := w.WriteFileHeader(9000, layers.LinkTypeEthernet); err != nil {
				t.Fatal(err)
			}
			write, unit = w.WritePacket, time.Microsecond
		case "nano":
			w := pcapgo.NewWriterNanos(&file)
			if err := w.WriteFileHeader(9000, layers.LinkTypeEthernet); err != nil {
				t.Fatal(err)
			}
			write = w.WritePacket
		case "ng":
			w, err := pcapgo.NewNgWriter(&file, layers.LinkTypeEthernet)
			if err != nil {
				t.Fatal(err)
			}
			write = func(ci gopacket.CaptureInfo, b []byte) error {
				if err := w.WritePacket(ci, b); err != nil {
					return err
				}
				return w.Flush()
			}
		}
		for _, s := range all {
			if err := write(gopacket.CaptureInfo{Timestamp: s.at, CaptureLength: len(s.data), Length: len(s.data)}, s.data); err != nil {
				t.Fatal(err)
			}
		}
		c, err := OpenCaptureReader(bytes.NewReader(file.Bytes()), "f", CaptureOptions{})
		if err != nil {
			t.Fatal(err)
		}
		chunk := rapid.SampledFrom([]int{0, 1 << 14, 1 << 15}).Draw(t, "chunk")
		w := Window{Blob: make([]byte, rapid.IntRange(1<<14, 1<<17).Draw(t, "blob")), Entries: make([]Entry, rapid.IntRange(1, 60).Draw(t, "entries")), Chunk: chunk}
		for range 2 {
			i := 0
			for err = nil; err == nil; {
				w.Reset()
				if err = c.Fill(&w); err != nil && err != io.EOF {
					t.Fatal(err)
				}
				for k := range w.Len() {
					e, want := w.Entries[k], all[i]
					b := append(bytes.Clone(want.data), make([]byte, max(0, 60-len(want.data)))...)
					if !bytes.Equal(w.Frame(k), b) {
						t.Fatalf("frame %d differs", i)
					}
					if at := want.at.Truncate(unit).Sub(all[0].at.Truncate(unit)); e.At != uint64(at) {
						t.Fatalf("frame %d at %d, want %d", i, e.At, at)
					}
					if first := int(e.Off) * 8; chunk > 0 && first/chunk != (first+int(e.Len)-1)/chunk {
						t.Fatalf("frame %d straddles a chunk", i)
					}
					i++
				}
			}
			if i != len(all) || c.Shape().Frames != uint64(i) {
				t.Fatalf("%d frames, shape %d, want %d", i, c.Shape().Frames, len(all))
			}
		}
	})
}

// Real captures yield what gopacket's reader reads.
func TestCaptureReal(t *testing.T) {
	paths, err := filepath.Glob("../../shared/pcaps/*/*.pcap")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skip("no captures in ../shared/pcaps")
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := pcapgo.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		c, err := OpenCapture(path, CaptureOptions{})
		if err != nil {
			t.Error(err)
			continue
		}
		defer c.Close()
		var first time.Time
		for i, s := range whole(t, c) {
			data, ci, err := r.ReadPacketData()
			if err != nil {
				t.Fatalf("%s: packet %d: %v", path, i, err)
			}
			if i == 0 {
				first = ci.Timestamp
			}
			if !bytes.Equal(s.octets[:len(data)], data) || s.At != uint64(ci.Timestamp.Sub(first)) {
				t.Fatalf("%s: packet %d differs", path, i)
			}
		}
		if _, _, err := r.ReadPacketData(); err != io.EOF {
			t.Errorf("%s: more packets than frames: %v", path, err)
		}
	}
}

// fuzzSeeds are small files of every kind, whole and broken.
func fuzzSeeds(t testing.TB) (files [][]byte) {
	tcp := packetOf(t, "10.1.2.3", "192.0.2.77", &layers.TCP{}, 20)
	udp6 := insert(packetOf(t, "2001:db8::1", "2001:db8::2", &layers.UDP{}, 20), 12, 0x81, 0, 0, 5)
	rs := []record{{at: 1, data: tcp}, {at: 3, data: udp6, cut: 9}, {at: 2, data: ether(20)}}
	for _, magic := range []uint32{magicMicro, magicNano, magicModified} {
		files = append(files, makePcap(le, magic, linkEthernet, 1e6, rs...), makePcap(be, magic, linkEthernet, 1e6, rs...))
	}
	for _, link := range []uint32{linkNull, linkRaw, linkLoop, linkSLL, linkSLL2, linkIPv4, 105, linkEthernet | 1<<26 | 2<<28} {
		files = append(files, makePcap(le, magicMicro, link, 1e6, record{data: tcp[14:]}, record{data: append(make([]byte, 16), tcp[14:]...)}))
	}
	for _, order := range []bigEndian{false, true} {
		f := &ngFile{order: le}
		if order {
			f.order = be
		}
		f.section().iface(linkEthernet, 64, f.option(9, []byte{0x80 | 30}), f.option(14, make([]byte, 8)), f.option(13, []byte{4}))
		f.iface(linkRaw, 0, f.option(9, []byte{9}))
		f.enhanced(rs[0]).simple(rs[1]).obsolete(rs[2]).block(5, make([]byte, 9)).enhanced(record{ifaceIdx: 1, data: tcp[14:]})
		f.section().iface(linkEthernet, 0).enhanced(rs[1])
		files = append(files, f.b)
	}
	files = append(files, gzipped(t, files[0]), zstdPacked(t, files[1]), files[0][:len(files[0])-5],
		makePcap(le, magicMicro, linkEthernet, 1e6, record{data: tcp, claims: 1<<32 - 1}))
	return files
}

// Fuzz it by count, such as -fuzztime 3000000x (some 10 minutes): Go before 1.27 may
// end a run by time with "context deadline exceeded" where nothing is wrong
// (go.dev/issue/75804).
func FuzzCapture(f *testing.F) {
	for _, s := range fuzzSeeds(f) {
		f.Add(s, false)
		f.Add(s, true)
	}
	maps, err := ParseAddressMaps("10.0.0.0/8:198.18.0.0/15,[2001:db8::/32]:[2001:2::/48]")
	if err != nil {
		f.Fatal(err)
	}
	w := Window{Blob: make([]byte, 1<<17), Entries: make([]Entry, 512), Chunk: 1 << 16}
	f.Fuzz(func(t *testing.T, file []byte, piped bool) {
		o := CaptureOptions{Longest: 2000, LongFrames: Cut, Rewrite: Rewriter{Both: maps, FixSums: piped}}
		r := io.Reader(bytes.NewReader(file))
		if piped {
			r = pipe(file)
		}
		c, err := OpenCaptureReader(r, "f", o)
		if err != nil {
			sentence(t, err.Error())
			return
		}
		defer c.Close()
		var hashes []string
		for range 2 {
			h := sha256.New()
			var last, frames uint64
			for err = nil; err == nil && frames < 1<<14; { // what is packed may be long
				w.Reset()
				if err = c.Fill(&w); err != nil && err != io.EOF {
					sentence(t, err.Error())
					return
				}
				for i := range w.Len() {
					e, b := w.Entries[i], w.Frame(i)
					if len(b) < 60 || len(b) > o.Longest && (len(b) > o.Longest+4 || b[12] != 0x81 || b[13] != 0) {
						t.Fatalf("a frame of %d octets", len(b))
					}
					if e.At < last {
						t.Fatal("time goes backwards")
					}
					last = e.At
					if int(e.L3) > len(b)-20 || int(e.L4) > len(b)-8 || int(e.Sum) > len(b)-2 || e.L4 != 0 && e.L3 == 0 || e.Sum != 0 && e.Sum < e.L3 {
						t.Fatalf("entry %+v of %d octets", e, len(b))
					}
					fmt.Fprint(h, e.At, e.Len, e.L3, e.L4, e.Sum, e.Flags)
					h.Write(b)
				}
				frames += uint64(w.Len())
			}
			if err == nil {
				return
			}
			if n := c.Shape().Frames; n != 0 && n != frames {
				t.Fatalf("%d frames, of which the shape says %d", frames, n)
			}
			hashes = append(hashes, hex.EncodeToString(h.Sum(nil)))
		}
		if hashes[0] != hashes[1] {
			t.Fatal("the second pass differs")
		}
		for _, n := range c.Notes() {
			sentence(t, n)
		}
	})
}

// sentence checks that s names the file and is one line.
func sentence(t *testing.T, s string) {
	t.Helper()
	if !strings.HasPrefix(s, "f") || strings.Contains(s, "\n") || strings.Contains(s, "%!") || len(s) > 1000 {
		t.Fatalf("%q", s)
	}
}

// A capture that claims much takes no memory for it.
func TestCaptureMemory(t *testing.T) {
	file := formatFile(le, magicMicro, 1e6)
	c, err := OpenCaptureReader(bytes.NewReader(file), "f", CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := Window{Blob: make([]byte, 1<<16), Entries: make([]Entry, 8)}
	if n := testing.AllocsPerRun(100, func() {
		w.Reset()
		if err := c.Fill(&w); err != io.EOF {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations in a pass", n)
	}
}

func BenchmarkCapture(b *testing.B) {
	var rs []record
	n := 40_000
	if testing.Short() {
		n = 4_000
	}
	tcp := packetOf(b, "10.1.2.3", "192.0.2.77", &layers.TCP{}, 446)
	for i := range n {
		rs = append(rs, record{at: uint64(i), data: tcp})
	}
	path := filepath.Join(b.TempDir(), "f.pcap")
	file := makePcap(le, magicMicro, linkEthernet, 1e6, rs...)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		b.Fatal(err)
	}
	w := Window{Blob: make([]byte, len(file)+8*n), Entries: make([]Entry, n)}
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		c, err := OpenCapture(path, CaptureOptions{})
		if err != nil {
			b.Fatal(err)
		}
		w.Reset()
		if err := c.Fill(&w); err != io.EOF || w.Len() != n {
			b.Fatal(w.Len(), err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
