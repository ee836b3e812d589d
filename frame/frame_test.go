// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"boxdyno/unit"

	"pgregory.net/rapid"
)

var protocols = []Protocol{UDP, TCP, ICMP}

func spec(v6 bool, flows int, answer bool, sizes ...unit.FrameSize) Spec {
	s := Spec{
		Sizes: sizes, Flows: flows, Answer: answer, SrcMAC: [6]byte{2, 1}, DstMAC: [6]byte{2, 2},
		Src: netip.MustParseAddr("198.18.0.2"), Dst: netip.MustParseAddr("198.19.255.250"),
		SrcPort: FirstPort, DstPort: Port,
	}
	if v6 {
		s.Src, s.Dst = netip.MustParseAddr("2001:2:0:1::2"), netip.MustParseAddr("2001:2:0:2::ffff:fffa")
	}
	if answer {
		s.SrcPort, s.DstPort = Port, FirstPort
	}
	return s
}

// onesComplement is the plain Internet checksum of RFC 1071: 0 over data that
// holds a right one.
func onesComplement(data []byte) uint16 {
	var s uint64
	for i := 0; i < len(data); i++ {
		if i%2 == 0 {
			s += uint64(data[i]) << 8
		} else {
			s += uint64(data[i])
		}
	}
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

func TestFramesAreRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v6, answer := rapid.Bool().Draw(t, "v6"), rapid.Bool().Draw(t, "answer")
		flows := rapid.IntRange(1, MaxFlows).Draw(t, "flows")
		size := unit.FrameSize(rapid.IntRange(int(Smallest(v6)), int(MaxSize)).Draw(t, "size"))
		k := rapid.Uint64Range(0, 1<<40).Draw(t, "k")
		at := unit.Instant(rapid.Int64Range(0, 1<<60).Draw(t, "at"))
		behind := rapid.Bool().Draw(t, "late")
		s := spec(v6, flows, answer, size)
		if !answer {
			s.Networks = rapid.IntRange(0, MaxNetworks).Draw(t, "networks")
		}
		b, err := NewBuilder(s, 77)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, MaxSize)
		n := b.Build(k, buf)
		stamp := at
		if behind {
			stamp = Late(at)
		}
		b.Stamp(buf, stamp)
		f := buf[:n]
		if n != size.Buffer() {
			t.Fatalf("%d octets, want %d", n, size.Buffer())
		}
		sig, class := Parse(f)
		if class != Whole || sig != (Signature{77, uint32(k), at, behind}) {
			t.Fatalf("parsed %+v %v", sig, class)
		}
		flow := int(k % uint64(flows))
		port, addr := 34, 26
		var udp []byte
		if v6 {
			port, addr = 54, 22
			udp = append([]byte(nil), f[22:54]...)
			udp = binary.BigEndian.AppendUint32(udp, uint32(len(f)-54))
			udp = append(udp, 0, 0, 0, 17)
			udp = append(udp, f[54:]...)
			if c := onesComplement(udp); c != 0 {
				t.Fatalf("UDP checksum is off by %#x", c)
			}
		} else if c := onesComplement(f[14:34]); c != 0 {
			t.Fatalf("IP checksum is off by %#x", c)
		}
		base := s.Src
		if answer {
			port, addr = port+2, addr+map[bool]int{false: 4, true: 16}[v6]
			base = s.Dst
		}
		if got := int(binary.BigEndian.Uint16(f[port:])); got != FirstPort+flow%FlowPorts {
			t.Fatalf("flow %d has port %d", flow, got)
		}
		want := base.AsSlice()
		binary.BigEndian.PutUint32(want[len(want)-4:], binary.BigEndian.Uint32(want[len(want)-4:])+uint32(flow/FlowPorts))
		if got := f[addr : addr+len(want)]; string(got) != string(want) {
			t.Fatalf("flow %d has address % x, want % x", flow, got, want)
		}
		if answer {
			return
		}
		dst := s.Dst
		if s.Networks > 1 {
			dst = Network(dst, int(k%uint64(s.Networks))).Addr()
		}
		to := map[bool]int{false: 30, true: 38}[v6]
		if got := f[to : to+len(dst.AsSlice())]; string(got) != string(dst.AsSlice()) {
			t.Fatalf("frame %d of %d networks goes to % x, want %v", k, s.Networks, got, dst)
		}
	})
}

func TestNetwork(t *testing.T) {
	for _, c := range []struct {
		dst  string
		n    int
		want string
	}{
		{"198.19.0.2", 0, "198.19.0.2/24"}, {"198.19.0.2", 255, "198.19.255.2/24"}, {"10.1.7.9", 16, "10.1.16.9/24"},
		{"2001:2:0:2::2", 0, "2001:2:0:2::2/64"}, {"2001:2:0:2::2", 255, "2001:2:0:ff02::2/64"},
	} {
		if got := Network(netip.MustParseAddr(c.dst), c.n).String(); got != c.want {
			t.Errorf("network %d of %s is %s, want %s", c.n, c.dst, got, c.want)
		}
	}
}

func TestParseTellsBrokenFrames(t *testing.T) {
	b, err := NewBuilder(spec(false, 1, false, 128), 1)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 200)
	n := b.Build(5, buf)
	for name, f := range map[string][]byte{
		"cut":        buf[:n-1],
		"padded":     buf[:n+1],
		"ip length":  mutate(buf[:n], 17, 1),
		"udp length": mutate(buf[:n], 39, 1),
	} {
		if _, class := Parse(f); class != Broken {
			t.Errorf("%s: class %v, want broken", name, class)
		}
	}
	for name, f := range map[string][]byte{
		"magic": mutate(buf[:n], 42, 1), "protocol": mutate(buf[:n], 23, 6), "short": buf[:59],
		"arp": mutate(buf[:n], 13, 6), "options": mutate(buf[:n], 14, 1),
	} {
		if _, class := Parse(f); class != Foreign {
			t.Errorf("%s: class %v, want foreign", name, class)
		}
	}
}

// TestParseFinds reads signatures behind headers that no Synthetic makes, and does
// not where they are not meant.
func TestParseFinds(t *testing.T) {
	made := func(protocol Protocol, v6 bool, tags int) []byte {
		s := synthetic(v6, func(s *Synthetic) { s.Protocol, s.VLANs = protocol, make([]VLAN, tags) })
		d := s.draft(200)
		d.seal()
		return d.octets
	}
	options := made(TCP, false, 0) // 12 octets of options, which push the signature back
	options = append(options[:54:54], append([]byte{1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0}, options[54:]...)...)
	options[46], options[17] = 8<<4, options[17]+12
	for name, c := range map[string]struct {
		f    []byte
		want Class
	}{
		"TCP options":             {options, Whole},
		"TCP header beyond":       {mutate(options, 46, 0x70), Foreign},
		"TCP header too short":    {mutate(made(TCP, false, 0), 46, 0x10), Foreign},
		"TCP cut":                 {made(TCP, true, 1)[:195], Broken},
		"echo reply":              {mutate(made(ICMP, false, 0), 34, 8), Whole},
		"echo reply v6":           {mutate(made(ICMP, true, 2), 62, 1), Whole},
		"ICMP error":              {mutate(made(ICMP, false, 0), 34, 11), Foreign},
		"ICMP echo of IPv4 in v6": {mutate(made(ICMP, true, 0), 54, 128^8), Foreign},
		"a service tag":           {mutate(mutate(made(UDP, true, 1), 12, 0x81^0x88), 13, 0xa8), Whole},
		"unknown tag":             {mutate(made(UDP, true, 1), 12, 0x81^0x91), Foreign},
		"a third tag":             {append(made(UDP, false, 2)[:16:16], append([]byte{0x81, 0, 0, 0}, made(UDP, false, 2)[16:]...)...), Foreign},
		"signature beyond IP": {func() []byte {
			f := made(TCP, false, 0)
			f[16], f[17] = 0, 50
			return f[:64]
		}(), Foreign},
	} {
		if _, class := Parse(c.f); class != c.want {
			t.Errorf("%s: class %v, want %v", name, class, c.want)
		}
	}
	f := made(TCP, false, 0)[:72]
	f[16], f[17] = 0, 57 // one octet short of the signature
	if _, class := Parse(f); class != Broken {
		t.Errorf("a signature that IP does not carry whole: class %v", class)
	}
}

func mutate(f []byte, at int, by byte) []byte {
	g := append([]byte(nil), f...)
	g[at] ^= by
	return g
}

func FuzzParse(f *testing.F) {
	for _, v6 := range []bool{false, true} {
		b, err := NewBuilder(spec(v6, 1, false, 128), 1)
		if err != nil {
			f.Fatal(err)
		}
		buf := make([]byte, 200)
		f.Add(buf[:b.Build(3, buf)])
		for _, protocol := range protocols {
			s := synthetic(v6, func(s *Synthetic) { s.Protocol, s.VLANs = protocol, []VLAN{{1, 1}, {2, 2}} })
			d := s.draft(128)
			d.seal()
			f.Add(d.octets)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, class := Parse(data); class == Whole && len(data) < 60 {
			t.Errorf("a frame of %d octets is whole", len(data))
		}
	})
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"63":            {second(ParseMix("63")), "64 to 9018"},
		"size text":     {second(ParseMix("big")), "imix"},
		"ipv6 64":       {spec(true, 1, false, 64).Check(), "84"},
		"imix ipv6":     {IMIX.Signed(true), "84"},
		"no flows":      {spec(false, 0, false, 64).Check(), "1 to 1000000"},
		"flows":         {spec(false, MaxFlows+1, false, 64).Check(), "1 to 1000000"},
		"no size":       {spec(false, 1, false).Check(), "1 to 64"},
		"ports run out": {func() error { s := spec(false, 60000, false, 64); s.SrcPort = 20000; return s.Check() }(), "port"},
		"networks":      {func() error { s := spec(false, 1, false, 64); s.Networks = 257; return s.Check() }(), "256"},
		"answers":       {func() error { s := spec(false, 1, true, 64); s.Networks = 2; return s.Check() }(), "came from"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want a sentence with %q", name, c.err, c.want)
		}
	}
	if Smallest(false) != 64 || Smallest(true) != 84 {
		t.Error("smallest signed frames", Smallest(false), Smallest(true))
	}
	if m := IMIX.Mean(); m < 361.83 || m > 361.84 || IMIX.Largest() != 1518 {
		t.Error("IMIX", m, IMIX.Largest())
	}
}

func second(_ Mix, err error) error { return err }

func BenchmarkBuild(b *testing.B) {
	builder, err := NewBuilder(spec(false, 1000, false, 64), 1)
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 64)
	for k := range uint64(b.N) {
		builder.Build(k, buf)
	}
}
