// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

func flood(name string, v6 bool) Flood {
	f := Flood{Name: name, SrcMAC: [6]byte{2, 1}, DstMAC: [6]byte{2, 2}, Target: netip.MustParsePrefix("198.19.0.16/28"), Seed: 5}
	if v6 {
		f.Target = netip.MustParsePrefix("2001:2:0:1::10/124")
	}
	return f
}

// TestFloods decodes thousands of frames of every flood.
func TestFloods(t *testing.T) {
	var b strings.Builder
	for _, kind := range Floods {
		for _, v6 := range []bool{false, true} {
			name := kind.Name + map[bool]string{false: " IPv4", true: " IPv6"}[v6]
			f := flood(kind.Name, v6)
			source, err := NewFlood(f)
			if err != nil {
				t.Fatal(name, err)
			}
			wr, w := NewWriter(source.Shape(), 0, 7, true), window(t, source)
			again := must(NewFlood(f))
			twin, other := NewWriter(again.Shape(), 0, 7, true), NewWriter(again.Shape(), 1, 7, true)
			w2 := window(t, again)
			buf, buf2, buf3 := make([]byte, source.Shape().Longest), make([]byte, source.Shape().Longest), make([]byte, source.Shape().Longest)
			sources, differ := map[netip.Addr]bool{}, 0
			const frames = 3000
			for k := range frames {
				i := k % w.Len()
				n := wr.Write(w, i, 9, buf)
				if twin.Write(w2, i, 9, buf2); !bytes.Equal(buf[:n], buf2[:n]) {
					t.Fatalf("%s: frame %d differs from its twin's with the same seeds", name, k)
				}
				if other.Write(w2, i, 9, buf3); !bytes.Equal(buf[:n], buf3[:n]) {
					differ++
				}
				if _, class := Parse(buf[:n]); class != Foreign {
					t.Fatalf("%s: frame %d is of class %v", name, k, class)
				}
				p := decoded(t, buf[:n])
				src, _ := netip.AddrFromSlice(p.NetworkLayer().NetworkFlow().Src().Raw())
				dst, _ := netip.AddrFromSlice(p.NetworkLayer().NetworkFlow().Dst().Raw())
				sources[src] = true
				if !f.Target.Contains(dst) {
					t.Fatalf("%s: frame %d goes to %v", name, k, dst)
				}
				if v6 && !netip.MustParsePrefix("2001:2::/48").Contains(src) || src.IsLoopback() || src.IsMulticast() || src.As16()[12] == 0 && !v6 {
					t.Fatalf("%s: frame %d comes from %v", name, k, src)
				}
				checkFlood(t, kind.Name, name, p.TransportLayer(), buf[:n], w.Entries[i])
				if k == 0 {
					b.WriteString(describe(t, name, buf[:n]))
				}
			}
			reflected := kind.Name == "dns" || kind.Name == "ntp"
			if few := len(sources) <= reflectors; few != reflected || len(sources) < 900 {
				t.Errorf("%s: %d frames come from %d sources", name, frames, len(sources))
			}
			if differ < frames*9/10 {
				t.Errorf("%s: %d of %d frames differ from another stream's", name, differ, frames)
			}
		}
	}
	goldenFrames(t, "flood.golden", b.String())
}

func checkFlood(t *testing.T, kind, name string, transport any, f []byte, e Entry) {
	t.Helper()
	switch kind {
	case "syn":
		tcp := transport.(*layers.TCP)
		if !tcp.SYN || tcp.ACK || tcp.DstPort != 443 || len(tcp.Options) < 4 || tcp.Options[0].OptionType != layers.TCPOptionKindMSS {
			t.Fatalf("%s: %+v", name, tcp)
		}
	case "ack":
		if tcp := transport.(*layers.TCP); tcp.SYN || !tcp.ACK || tcp.Ack == 0 && tcp.Seq == 0 {
			t.Fatalf("%s: %+v", name, tcp)
		}
	case "udp":
		if udp := transport.(*layers.UDP); udp.SrcPort < 1024 || udp.DstPort == 0 || len(udp.Payload) == 0 {
			t.Fatalf("%s: %+v", name, udp)
		}
	case "dns":
		udp, d := transport.(*layers.UDP), &layers.DNS{}
		if err := d.DecodeFromBytes(udp.Payload, gopacket.NilDecodeFeedback); err != nil || udp.SrcPort != 53 {
			t.Fatalf("%s: %v in % x", name, err, f)
		}
		if n := len(udp.Payload); !d.QR || d.ANCount == 0 || len(d.Answers) != int(d.ANCount) || len(d.Additionals) != 1 || n < 1000 || n > 1400 {
			t.Fatalf("%s: %d octets, %+v", name, n, d)
		}
	case "ntp":
		udp := transport.(*layers.UDP)
		if p := udp.Payload; udp.SrcPort != 123 || len(p) != 440 || p[0]&0xbf != 0x97 || p[3] != 42 || e.Flags&IPv4 != 0 && len(f) != 482 {
			t.Fatalf("%s: %d octets, % x", name, len(f), p[:8])
		}
	case "fragments":
		more, at := f[20]&0x20 != 0, int(binary.BigEndian.Uint16(f[20:])&0x1fff)*8
		if e.Flags&IPv6 != 0 {
			more, at = f[57]&1 != 0, int(binary.BigEndian.Uint16(f[56:])&^7)
		}
		if !more || at%8 != 0 || (at == 0) != (e.L4 != 0) || e.Sum != 0 {
			t.Fatalf("%s: more fragments %v, offset %d, entry %+v", name, more, at, e)
		}
	}
}

func TestFloodOptions(t *testing.T) {
	f := flood("syn", false)
	f.Sources, f.Target, f.Port = netip.MustParsePrefix("10.1.2.0/30"), netip.MustParsePrefix("198.19.0.1/32"), 8080
	source, err := NewFlood(f)
	if err != nil {
		t.Fatal(err)
	}
	wr, w := NewWriter(source.Shape(), 0, 7, false), window(t, source)
	buf := make([]byte, source.Shape().Longest)
	seen := map[string]int{}
	for k := range 200 {
		p := decoded(t, buf[:wr.Write(w, k, 0, buf)])
		seen[p.NetworkLayer().NetworkFlow().String()]++
		if port := p.TransportLayer().(*layers.TCP).DstPort; port != 8080 {
			t.Fatalf("frame %d goes to port %d", k, port)
		}
	}
	for _, last := range "0123" {
		if seen["10.1.2."+string(last)+"->198.19.0.1"] < 20 {
			t.Errorf("frames from 10.1.2.0/30: %v", seen)
		}
	}
	for want, mutate := range map[string]func(*Flood){
		"flood dns has no attacked port": func(f *Flood) { f.Name = "dns" },
		"one of syn, ack":                func(f *Flood) { f.Name = "smurf" },
		"no prefix":                      func(f *Flood) { f.Target = netip.Prefix{} },
		"/96 or longer":                  func(f *Flood) { f.Target = netip.MustParsePrefix("2001:2::/64"); f.Sources = netip.Prefix{} },
		"one IP version":                 func(f *Flood) { f.Sources = netip.MustParsePrefix("2001:2::/64") },
		"a /32 or longer": func(f *Flood) {
			f.Sources = netip.MustParsePrefix("2001::/16")
			f.Target = netip.MustParsePrefix("::1/128")
		},
	} {
		g := f
		mutate(&g)
		if _, err := NewFlood(g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a sentence with %q", err, want)
		}
	}
}
