// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxdyno/unit"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// goldenFrames compares got with testdata/name; a difference is left in testdata/name.got.
func goldenFrames(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	want, err := os.ReadFile(name)
	if string(want) == got {
		os.Remove(name + ".got")
		return
	}
	if err := os.WriteFile(name+".got", []byte(got), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Errorf("%s differs from what is made now (%s.got, %v): compare them, and accept by renaming", name, name, err)
}

// decoded is a frame as gopacket reads it, which must find nothing wrong with it.
func decoded(t testing.TB, f []byte) gopacket.Packet {
	t.Helper()
	p := gopacket.NewPacket(f, layers.LayerTypeEthernet, gopacket.Default)
	// A random port makes gopacket look for an application.
	if e := p.ErrorLayer(); e != nil && p.TransportLayer() == nil {
		t.Fatalf("gopacket: %v\n% x", e.Error(), f)
	}
	for _, l := range p.Layers() {
		if l, ok := l.(interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}); ok {
			if err := l.SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
				t.Fatal(err)
			}
		}
	}
	err, wrong := p.VerifyChecksums()
	if err != nil || len(wrong) > 0 {
		t.Fatalf("gopacket finds checksums wrong: %v %+v\n% x", err, wrong, f[:min(len(f), 100)])
	}
	return p
}

func describe(t testing.TB, name string, f []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d octets\n", name, len(f))
	for _, l := range decoded(t, f).Layers() {
		fmt.Fprintln(&b, "  "+gopacket.LayerString(l))
	}
	return b.String()
}

func TestSyntheticGolden(t *testing.T) {
	var b strings.Builder
	for _, tags := range []string{"", "100:5", "200:1,100:5"} {
		for _, v6 := range []bool{false, true} {
			for _, protocol := range protocols {
				s := synthetic(v6, func(s *Synthetic) {
					s.Protocol = protocol
					if tags != "" {
						s.VLANs = must(ParseVLANs(tags))
					}
					s.Mix.Sizes = []unit.FrameSize{s.Smallest()}
					s.Flows = MaxFlows
					s.Fields = []FieldSpec{must(ParseField("ttl=9")), must(ParseField("dscp=46"))}
				})
				source, err := NewSynthetic(s)
				if err != nil {
					t.Fatal(err)
				}
				wr, w := NewWriter(source.Shape(), 3, 0, false), window(t, source)
				buf := make([]byte, source.Shape().Longest)
				wr.Write(w, 0, 0, buf)
				n := wr.Write(w, 1, 0, buf)
				Stamp(buf, w.Entries[1], 0x0102030405060708)
				b.WriteString(describe(t, s.stack(), buf[:n]))
			}
		}
	}
	goldenFrames(t, "synthetic.golden", b.String())
}

func TestSmallestSigned(t *testing.T) {
	for _, c := range []struct {
		v6       bool
		protocol Protocol
		tags     int
		signed   unit.FrameSize
		unsigned unit.FrameSize
	}{
		{false, UDP, 0, 64, 64}, {false, UDP, 1, 68, 64}, {false, UDP, 2, 72, 64},
		{true, UDP, 0, 84, 66}, {false, TCP, 0, 76, 64}, {true, TCP, 2, 104, 86},
		{false, ICMP, 0, 64, 64}, {true, ICMP, 1, 88, 70},
	} {
		s := synthetic(c.v6)
		s.Protocol, s.VLANs = c.protocol, make([]VLAN, c.tags)
		for unsigned, least := range map[bool]unit.FrameSize{false: c.signed, true: c.unsigned} {
			s.Unsigned, s.Mix.Sizes = unsigned, []unit.FrameSize{least - 1}
			if got := s.Smallest(); got != least {
				t.Errorf("%+v: smallest, unsigned %v: %d", c, unsigned, got)
			}
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), fmt.Sprint(least, " octets")) {
				t.Errorf("%+v: %v, want a sentence with %d", c, err, least)
			}
			if s.Mix.Sizes[0]++; s.Check() != nil {
				t.Errorf("%+v: %v", c, s.Check())
			}
		}
	}
}

// TestFlowsAndPopularity counts which flows frames belong to.
func TestFlowsAndPopularity(t *testing.T) {
	const flows, frames = 120_000, 240_000
	for name, p := range map[string]Popularity{"uniform": {}, "random": {Random: true}, "zipf": {Random: true, Zipf: 1.1}} {
		source, err := NewSynthetic(synthetic(false, func(s *Synthetic) { s.Flows, s.Popularity = flows, p }))
		if err != nil {
			t.Fatal(err)
		}
		wr, w := NewWriter(source.Shape(), 0, 1, false), window(t, source)
		buf := make([]byte, source.Shape().Longest)
		seen := make([]int, flows)
		for k := range frames {
			wr.Write(w, k%w.Len(), 0, buf)
			flow := int(binary.BigEndian.Uint32(buf[26:])-binary.BigEndian.Uint32([]byte{198, 18, 0, 2}))*FlowPorts + int(binary.BigEndian.Uint16(buf[34:])) - FirstPort
			seen[flow]++
			if name == "uniform" && flow != k%flows {
				t.Fatalf("frame %d is of flow %d", k, flow)
			}
		}
		share := func(f int) float64 { return 1.0 / flows }
		if p.Zipf > 0 {
			total := 0.0
			for f := range flows {
				total += math.Pow(float64(f+1), -p.Zipf)
			}
			share = func(f int) float64 { return math.Pow(float64(f+1), -p.Zipf) / total }
		}
		// Flows 2^k-1 to 2^(k+1)-2 together; chi-square of 17 bins beyond 40 has a
		// probability of 0.001.
		chi, bins := 0.0, 0
		for from := 0; from < flows; from = 2*from + 1 {
			want, got := 0.0, 0.0
			for f := from; f < min(2*from+1, flows); f++ {
				want += share(f) * frames
				got += float64(seen[f])
			}
			chi += (got - want) * (got - want) / want
			bins++
		}
		if bins != 17 || chi > 40 {
			t.Errorf("%s: chi-square %.1f over %d bins", name, chi, bins)
		}
		if p.Zipf > 0 && seen[0] < 20*seen[99] {
			t.Errorf("zipf: flow 0 has %d frames and flow 99 %d", seen[0], seen[99])
		}
	}
}

func TestFieldsAsText(t *testing.T) {
	read := func(spec string, mutate ...func(*Synthetic)) []string {
		t.Helper()
		source, err := NewSynthetic(synthetic(strings.Contains(spec, "2001:"), append(mutate, func(s *Synthetic) {
			s.Fields = append(s.Fields, must(ParseField(spec)))
		})...))
		if err != nil {
			t.Fatal(err)
		}
		wr, w := NewWriter(source.Shape(), 0, 1, false), window(t, source)
		buf := make([]byte, source.Shape().Longest)
		var got []string
		for i := range 4 {
			p := decoded(t, buf[:wr.Write(w, i, 0, buf)])
			eth := p.Layers()[0].(*layers.Ethernet)
			switch name, _, _ := strings.Cut(spec, "="); name {
			case "src":
				got = append(got, p.NetworkLayer().NetworkFlow().Src().String())
			case "dst":
				got = append(got, p.NetworkLayer().NetworkFlow().Dst().String())
			case "sport":
				got = append(got, p.TransportLayer().TransportFlow().Src().String())
			case "dport":
				got = append(got, p.TransportLayer().TransportFlow().Dst().String())
			case "src-mac":
				got = append(got, eth.SrcMAC.String())
			case "dst-mac":
				got = append(got, eth.DstMAC.String())
			case "vlan":
				tag := p.Layers()[len(p.Layers())-4].(*layers.Dot1Q)
				got = append(got, fmt.Sprint(tag.VLANIdentifier, ":", tag.Priority))
			case "outer-vlan":
				got = append(got, fmt.Sprint(p.Layers()[1].(*layers.Dot1Q).VLANIdentifier))
			case "dscp":
				if ip, ok := p.NetworkLayer().(*layers.IPv4); ok {
					got = append(got, fmt.Sprint(ip.TOS>>2))
				} else {
					got = append(got, fmt.Sprint(p.NetworkLayer().(*layers.IPv6).TrafficClass>>2))
				}
			case "ttl":
				got = append(got, fmt.Sprint(p.NetworkLayer().(*layers.IPv4).TTL))
			case "seq":
				got = append(got, fmt.Sprint(p.TransportLayer().(*layers.TCP).Seq))
			}
		}
		return got
	}
	tagged := func(s *Synthetic) { s.VLANs = []VLAN{{7, 1}, {8, 5}} }
	v6 := func(s *Synthetic) { *s = synthetic(true) }
	for _, c := range []struct {
		spec, want string
		mutate     []func(*Synthetic)
	}{
		{"src=198.18.9.9", "198.18.9.9 198.18.9.9 198.18.9.9 198.18.9.9", nil},
		{"src=counter:198.18.0.0/31", "198.18.0.0 198.18.0.1 198.18.0.0 198.18.0.1", nil},
		{"dst=counter:2001:2::ffff:fffe-2001:2::ffff:ffff", "2001:2::ffff:fffe 2001:2::ffff:ffff 2001:2::ffff:fffe 2001:2::ffff:ffff", nil},
		{"dst=2001:2:a:b:c::1", "2001:2:a:b:c::1 2001:2:a:b:c::1 2001:2:a:b:c::1 2001:2:a:b:c::1", nil},
		{"sport=counter:65534-65535", "65534 65535 65534 65535", nil},
		{"dport=fixed:0x35", "53 53 53 53", nil},
		{"src-mac=counter:02:aa:00:00:00:fe-02:aa:00:00:01:00", "02:aa:00:00:00:fe 02:aa:00:00:00:ff 02:aa:00:00:01:00 02:aa:00:00:00:fe", nil},
		{"dst-mac=02:aa:bb:cc:dd:ee", "02:aa:bb:cc:dd:ee 02:aa:bb:cc:dd:ee 02:aa:bb:cc:dd:ee 02:aa:bb:cc:dd:ee", nil},
		{"vlan=counter:4094-4095", "4094:5 4095:5 4094:5 4095:5", []func(*Synthetic){tagged}},
		{"outer-vlan=counter", "0 1 2 3", []func(*Synthetic){tagged}},
		{"dscp=counter:62-63", "62 63 62 63", nil},
		{"dscp=counter:62-63", "62 63 62 63", []func(*Synthetic){v6}},
		{"ttl=counter:1-3", "1 2 3 1", nil},
		{"seq=counter", "0 1 2 3", []func(*Synthetic){func(s *Synthetic) { s.Protocol = TCP }}},
	} {
		if got := strings.Join(read(c.spec, c.mutate...), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.spec, got, c.want)
		}
	}
	seen := map[string]bool{}
	for _, v := range read("dport=list:80,443") {
		seen[v] = true
	}
	if len(seen) != 2 || !seen["80"] || !seen["443"] {
		t.Errorf("of the list 80, 443 came %v", seen)
	}
}

func TestSyntheticRefusals(t *testing.T) {
	field := func(s string) error {
		f, err := ParseField(s)
		if err != nil {
			return err
		}
		_, err = NewSynthetic(synthetic(false, func(s *Synthetic) { s.Flows, s.Fields = 10, []FieldSpec{f} }))
		return err
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{field("port=1"), "names src, dst, sport"},
		{field("ttl"), "NAME=VALUE"},
		{field("ttl=256"), "0 to 255"},
		{field("dscp=random:0-64"), "0 to 63"},
		{field("dport=random:9"), "LOWEST-HIGHEST"},
		{field("dport=random:9-8"), "empty"},
		{field("dport=list:"), `"" is not a whole number`},
		{field("src=random"), "range behind the colon"},
		{field("src=x"), "no IP address"},
		{field("src=counter:198.18.0.0/33"), "prefix"},
		{field("src=counter:2001:2::/64"), "/96"},
		{field("src=2001:2::1"), "IPv4 addresses"},
		{field("src=list:2001:2::1,2001:3::1"), "last 4 octets"},
		{field("src=list:198.18.0.1,2001:3::1"), "last 4 octets"},
		{field("src-mac=random:02:00:00:00:00:01-02:00:00:00:00:00"), "lower value"},
		{field("src-mac=random:02:00:00:00:00:00-02:01:00:00:00:00"), "last 4 octets"},
		{field("dst-mac=1"), "no MAC"},
		{field("vlan=1"), "have no VLAN ID"},
		{field("seq=random"), "IPv4/UDP have no TCP sequence number"},
		{field("sport=random"), "varied by flows"},
		{second2(NewSynthetic(synthetic(false, func(s *Synthetic) {
			s.Fields = []FieldSpec{must(ParseField("ttl=1")), must(ParseField("ttl=2"))}
		}))), "another field"},
		{second2(ParsePopularity("zipf")), "zipf:1.1"},
		{second2(ParsePopularity("zipf:11")), "up to 10"},
		{second2(ParsePopularity("random:2")), "uniform, random"},
		{second2(ParseVLANs("1,2,3")), "at most 2"},
		{second2(ParseVLANs("4096")), "0 to 4095"},
		{second2(ParseVLANs("1:8")), "0 to 7"},
		{synthetic(false, func(s *Synthetic) { s.Protocol = "sctp" }).Check(), "udp, tcp or icmp"},
		{synthetic(false, func(s *Synthetic) { s.Protocol, s.Answer = ICMP, true }).Check(), "answer"},
		{synthetic(false, func(s *Synthetic) { s.Dst = netip.MustParseAddr("::1") }).Check(), "one IP version"},
		{synthetic(false, func(s *Synthetic) { s.Flows = MaxFlows + 1 }).Check(), "1 to 1000000"},
		{synthetic(false, func(s *Synthetic) { s.Flows, s.SrcPort = 1000, 65000 }).Check(), "need port 65999"},
		{synthetic(false, func(s *Synthetic) { s.Mix.Sizes = []unit.FrameSize{9019} }).Check(), "9018"},
		{synthetic(false, func(s *Synthetic) { s.Mix.Sizes = nil }).Check(), "1 to 4096"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want a sentence with %q", c.err, c.want)
		}
	}
}

func second2[T any](_ T, err error) error { return err }

func TestMixes(t *testing.T) {
	for text, want := range map[string]string{
		"64":                "[64]",
		"64,1518":           "[64 1518]",
		"64:7,594:4,1518:1": fmt.Sprint(IMIX.Sizes),
		"64:7+594:4+1518:1": fmt.Sprint(IMIX.Sizes),
		"64:2,128:4":        "[128 64 128]",
		"sweep:64-66":       "[64 65 66]",
		"sweep:64-256:64":   "[64 128 192 256]",
		"sweep:64-200:64":   "[64 128 192 200]",
		"random:100-100":    fmt.Sprint(bytes.Repeat([]byte{100}, MaxCycle)),
	} {
		m, err := ParseMix(text)
		if err != nil || fmt.Sprint(m.Sizes) != want || m.Name != text {
			t.Errorf("%s: %.60v (%q, %v), want %.60s", text, m.Sizes, m.Name, err, want)
		}
	}
	a, b := must(ParseMix("random:64-1518")), must(ParseMix("random:64-1518"))
	if m := a.Mean(); fmt.Sprint(a) != fmt.Sprint(b) || m < 770 || m > 812 || a.Largest() > 1518 || len(a.Sizes) != MaxCycle {
		t.Errorf("random sizes: mean %v, largest %v", m, a.Largest())
	}
	for text, want := range map[string]string{
		"": "such as 64", "x:1": "such as 64", "64:0": "whole number", "64:1,65:5000": "round the shares",
		"sweep:64": "such as 64", "sweep:64-9018": "greater step", "sweep:65-64": "smaller size first", "sweep:64-65:0": "step",
		"random:64-10000": "64 to 9018", "random:64-": "such as 64", "64,": "such as 64",
	} {
		if _, err := ParseMix(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseMix(%q): %v, want a sentence with %q", text, err, want)
		}
	}
	for text, want := range map[string]string{"sweep:64-1518": "1 to 64 frame sizes", "9018": "1522"} {
		if err := must(ParseMix(text)).Signed(false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s for a test stream: %v, want a sentence with %q", text, err, want)
		}
	}
}

// TestWindowsAreAsThePass fills windows that hold a few frames each.
func TestWindowsAreAsThePass(t *testing.T) {
	for _, s := range []Synthetic{synthetic(false), synthetic(true, func(s *Synthetic) { s.Mix.Sizes = []unit.FrameSize{84, 1518, 200} })} {
		source, err := NewSynthetic(s)
		if err != nil {
			t.Fatal(err)
		}
		whole := window(t, source)
		for range 2 {
			w := &Window{Blob: make([]byte, 1<<13), Entries: make([]Entry, 7), Chunk: 1 << 11}
			at := 0
			for err = nil; err == nil; {
				w.Reset()
				err = source.Fill(w)
				for i := range w.Len() {
					e, want := w.Entries[i], whole.Entries[at]
					if off := int(e.Off) * 8; off/w.Chunk != (off+int(e.Len)-1)/w.Chunk {
						t.Fatalf("frame %d straddles a chunk", at)
					}
					e.Off, want.Off = 0, 0
					if e != want || !bytes.Equal(w.Frame(i), whole.Frame(at)) {
						t.Fatalf("frame %d differs in a small window", at)
					}
					at++
				}
			}
			if err != io.EOF || at != whole.Len() {
				t.Fatalf("%d frames and %v, want %d and the end", at, err, whole.Len())
			}
		}
		if err := source.Fill(&Window{Blob: make([]byte, 50), Entries: make([]Entry, 1)}); err == nil || err == io.EOF {
			t.Errorf("a window too small for a frame: %v", err)
		}
	}
}
