// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// serialize makes a frame with its lengths and checksums.
func serialize(t testing.TB, ls ...gopacket.SerializableLayer) []byte {
	t.Helper()
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ls...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func ethernetOf(kind layers.EthernetType) *layers.Ethernet {
	return &layers.Ethernet{SrcMAC: []byte{2, 0, 0, 0, 0, 9}, DstMAC: []byte{2, 0, 0, 0, 0, 8}, EthernetType: kind}
}

func ipOf(src, dst string, protocol layers.IPProtocol) gopacket.SerializableLayer {
	s, d := netip.MustParseAddr(src), netip.MustParseAddr(dst)
	if s.Is4() {
		return &layers.IPv4{Version: 4, TTL: 64, Protocol: protocol, SrcIP: s.AsSlice(), DstIP: d.AsSlice()}
	}
	return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol, SrcIP: s.AsSlice(), DstIP: d.AsSlice()}
}

type transport interface {
	gopacket.SerializableLayer
	SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
}

// packetOf is an Ethernet frame of src and dst with a layer-4 header, or none,
// and a payload.
func packetOf(t testing.TB, src, dst string, l4 gopacket.SerializableLayer, payload int) []byte {
	t.Helper()
	kind, protocol := layers.EthernetTypeIPv4, layers.IPProtocol(253)
	if strings.Contains(src, ":") {
		kind = layers.EthernetTypeIPv6
	}
	switch l4.(type) {
	case *layers.TCP:
		protocol = layers.IPProtocolTCP
	case *layers.UDP:
		protocol = layers.IPProtocolUDP
	case *layers.ICMPv4:
		protocol = layers.IPProtocolICMPv4
	case *layers.ICMPv6:
		protocol = layers.IPProtocolICMPv6
	}
	ip := ipOf(src, dst, protocol)
	if tr, ok := l4.(transport); ok {
		if err := tr.SetNetworkLayerForChecksum(ip.(gopacket.NetworkLayer)); err != nil {
			t.Fatal(err)
		}
	}
	body := make([]byte, payload)
	for i := range body {
		body[i] = byte(i*3 + 1)
	}
	if l4 == nil {
		return serialize(t, ethernetOf(kind), ip, gopacket.Payload(body))
	}
	return serialize(t, ethernetOf(kind), ip, l4, gopacket.Payload(body))
}

// insert puts octets into b at at.
func insert(b []byte, at int, octets ...byte) []byte {
	return append(append(bytes.Clone(b[:at]), octets...), b[at:]...)
}

func replace(b []byte, at int, octets ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], octets)
	return b
}

func TestLocate(t *testing.T) {
	const v4, w4, v6, w6 = "10.1.2.3", "192.0.2.77", "2001:db8::1", "2001:db8:7::2"
	tcp := packetOf(t, v4, w4, &layers.TCP{SrcPort: 1, DstPort: 2}, 100)
	udp := packetOf(t, v4, w4, &layers.UDP{SrcPort: 1, DstPort: 2}, 100)
	tcp6 := packetOf(t, v6, w6, &layers.TCP{SrcPort: 1, DstPort: 2}, 100)
	udp6 := packetOf(t, v6, w6, &layers.UDP{SrcPort: 1, DstPort: 2}, 100)
	r4, r6 := IPv4|Rewrite, IPv6|Rewrite
	options := insert(replace(tcp, 14, 0x47), 34, 1, 1, 1, 1, 1, 1, 1, 0) // two words of them
	binary.BigEndian.PutUint16(options[16:], uint16(len(options)-14))
	// extend puts an extension header before the transport one.
	extend := func(b []byte, kind byte, head ...byte) []byte {
		head[0] = b[20]
		return replace(insert(b, 54, head...), 20, kind)
	}
	for _, v := range []struct {
		name  string
		frame []byte
		want  Entry
	}{
		{"TCP", tcp, Entry{L3: 14, L4: 34, Sum: 50, Flags: r4}},
		{"UDP", udp, Entry{L3: 14, L4: 34, Sum: 40, Flags: r4 | SumUDP}},
		{"UDP without checksum", replace(udp, 40, 0, 0), Entry{L3: 14, L4: 34, Flags: r4}},
		{"ICMP", packetOf(t, v4, w4, &layers.ICMPv4{TypeCode: 0x800}, 30), Entry{L3: 14, L4: 34, Flags: r4}},
		{"ICMPv6 over IPv4", replace(tcp, 23, 58), Entry{L3: 14, Flags: r4}},
		{"another protocol", packetOf(t, v4, w4, nil, 60), Entry{L3: 14, Flags: r4}},
		{"UDP-Lite", replace(udp, 23, 136), Entry{L3: 14, Sum: 40, Flags: r4}},
		{"VLAN", insert(tcp, 12, 0x81, 0, 0, 5), Entry{L3: 18, L4: 38, Sum: 54, Flags: r4}},
		{"QinQ", insert(tcp6, 12, 0x88, 0xa8, 0, 5, 0x81, 0, 0, 6), Entry{L3: 22, L4: 62, Sum: 78, Flags: r6}},
		{"three tags", insert(tcp, 12, 0x91, 0, 0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7), Entry{L3: 26, L4: 46, Sum: 62, Flags: r4}},
		{"tags without end", bytes.Repeat([]byte{0x81, 0, 0, 0}, 20), Entry{}},
		{"IPv4 options", options, Entry{L3: 14, L4: 42, Sum: 58, Flags: r4}},
		{"first fragment", replace(udp, 20, 0x20, 0), Entry{L3: 14, L4: 34, Sum: 40, Flags: r4 | SumUDP}},
		{"later fragment", replace(udp, 20, 0x20, 1), Entry{L3: 14, Flags: r4}},
		{"TCP before segmentation", replace(tcp, 16, 0, 0), Entry{L3: 14, L4: 34, Sum: 50, Flags: r4}},
		{"IPv4 cut within TCP", tcp[:50], Entry{L3: 14, L4: 34, Flags: r4}},
		{"IPv4 cut before TCP", tcp[:41], Entry{L3: 14, Flags: r4}},
		{"IPv4 that ends in padding", replace(tcp, 16, 0, 35), Entry{L3: 14, L4: 34, Flags: r4}},
		{"IPv4 cut", tcp[:33], Entry{}},
		{"IPv4 with a short header", replace(tcp, 14, 0x44), Entry{}},
		{"IPv4 shorter than its header", replace(tcp, 16, 0, 19), Entry{}},
		{"IPv4 options beyond the frame", replace(tcp[:60], 14, 0x4f), Entry{}},
		{"IPv4 of version 6", replace(tcp, 14, 0x65), Entry{}},
		{"to a group", replace(udp, 30, 224, 0, 0, 251), Entry{L3: 14, L4: 34, Sum: 40, Flags: IPv4 | SumUDP}},
		{"from nobody", replace(udp, 26, 0, 0, 0, 0), Entry{L3: 14, L4: 34, Sum: 40, Flags: IPv4 | SumUDP}},
		{"TCP over IPv6", tcp6, Entry{L3: 14, L4: 54, Sum: 70, Flags: r6}},
		{"UDP over IPv6", udp6, Entry{L3: 14, L4: 54, Sum: 60, Flags: r6 | SumUDP}},
		{"ICMPv6", packetOf(t, v6, w6, &layers.ICMPv6{TypeCode: 0x8000}, 30), Entry{L3: 14, L4: 54, Sum: 56, Flags: r6}},
		{"ICMPv6, link-local", packetOf(t, "fe80::1", w6, &layers.ICMPv6{TypeCode: 0x8000}, 30), Entry{L3: 14, L4: 54, Sum: 56, Flags: IPv6}},
		{"IPv6, cut", tcp6[:53], Entry{}},
		{"hop-by-hop options", extend(tcp6, 0, make([]byte, 8)...), Entry{L3: 14, L4: 62, Sum: 78, Flags: r6}},
		{"two extensions", extend(extend(tcp6, 60, append([]byte{0, 1}, make([]byte, 14)...)...), 0, make([]byte, 8)...), Entry{L3: 14, L4: 78, Sum: 94, Flags: r6}},
		{"IPv6 first fragment", extend(udp6, 44, 0, 9, 0, 1, 0, 0, 0, 7), Entry{L3: 14, L4: 62, Sum: 68, Flags: r6 | SumUDP}},
		{"IPv6 later fragment", extend(udp6, 44, 0, 0, 0, 8, 0, 0, 0, 7), Entry{L3: 14, Flags: r6}},
		{"routing header, used up", extend(tcp6, 43, make([]byte, 8)...), Entry{L3: 14, L4: 62, Sum: 78, Flags: r6}},
		{"routing header", extend(tcp6, 43, 0, 0, 0, 1, 0, 0, 0, 0), Entry{L3: 14, Flags: IPv6}},
		{"AH", extend(tcp6, 51, append([]byte{0, 4}, make([]byte, 22)...)...), Entry{L3: 14, L4: 78, Sum: 94, Flags: r6}},
		{"extensions without end", extend(tcp6[:61], 0, 0, 200, 0, 0, 0, 0, 0, 0), Entry{L3: 14, Flags: r6}},
		{"ARP", serialize(t, ethernetOf(layers.EthernetTypeARP), &layers.ARP{AddrType: 1, Protocol: 0x800, HwAddressSize: 6, ProtAddressSize: 4, Operation: 1, SourceHwAddress: make([]byte, 6), SourceProtAddress: make([]byte, 4), DstHwAddress: make([]byte, 6), DstProtAddress: make([]byte, 4)}), Entry{}},
	} {
		t.Run(v.name, func(t *testing.T) {
			var e Entry
			locate(&e, v.frame)
			if d := cmp.Diff(v.want, e); d != "" {
				t.Error(d)
			}
		})
	}
}

// valid recomputes what a frame's checksums must be, by gopacket.
func valid(t testing.TB, frame []byte) bool {
	t.Helper()
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	for _, l := range p.Layers() {
		if tr, ok := l.(transport); ok {
			if err := tr.SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
				t.Fatal(err)
			}
		}
	}
	err, ms := p.VerifyChecksums()
	if err != nil {
		t.Fatal(err)
	}
	return len(ms) == 0
}

func TestRewrite(t *testing.T) {
	maps, err := ParseAddressMaps("10.0.0.0/8:198.18.0.0/15,[2001:db8::/32]:[2001:2::/48],192.0.2.77:192.0.2.78")
	if err != nil {
		t.Fatal(err)
	}
	r := Rewriter{SrcMAC: [6]byte{2, 1}, DstMAC: [6]byte{2, 2}, Both: maps}
	for _, v := range []struct{ src, dst, newSrc, newDst string }{
		{"10.1.2.3", "192.0.2.77", "198.19.2.3", "192.0.2.78"},
		{"192.0.2.78", "10.255.255.255", "192.0.2.78", "198.19.255.255"},
		{"2001:db8:1:2::3", "2001:db9::1", "2001:2:0:2::3", "2001:db9::1"},
	} {
		var l4s []gopacket.SerializableLayer
		l4s = append(l4s, &layers.TCP{SrcPort: 1, DstPort: 2}, &layers.UDP{SrcPort: 1, DstPort: 2}, nil)
		if strings.Contains(v.src, ":") {
			l4s = append(l4s, &layers.ICMPv6{TypeCode: 0x8000})
		} else {
			l4s = append(l4s, &layers.ICMPv4{TypeCode: 0x800})
		}
		for _, l4 := range l4s {
			for n := range 40 {
				b := packetOf(t, v.src, v.dst, l4, 20+n)
				want := packetOf(t, v.newSrc, v.newDst, l4, 20+n)
				copy(want, append(r.DstMAC[:], r.SrcMAC[:]...))
				var e Entry
				r.apply(&e, b, locate(&e, b))
				if !bytes.Equal(b, want) {
					t.Fatalf("%v: got %x\nwant %x", v, b, want)
				}
				if !valid(t, b) {
					t.Fatalf("%v: checksums of %x", v, b)
				}
			}
		}
	}

	t.Run("UDP whose checksum becomes 0", func(t *testing.T) {
		one := Rewriter{Src: []AddressMap{{netip.MustParsePrefix("10.1.2.3/32"), netip.MustParsePrefix("10.1.0.0/32")}}}
		seen := false
		for port := range 65536 {
			b := packetOf(t, "10.1.2.3", "192.0.2.1", &layers.UDP{SrcPort: layers.UDPPort(port), DstPort: 9}, 18)
			if seen = binary.BigEndian.Uint16(b[40:]) == 0xffff-0x203; !seen { // the 0x0203 that goes away is added
				continue
			}
			var e Entry
			one.apply(&e, b, locate(&e, b))
			if sum := binary.BigEndian.Uint16(b[40:]); sum != 0xffff {
				t.Errorf("checksum %#x", sum)
			}
			if whole := fold(sum(b[26:34]) + protoUDP + uint32(len(b)-34) + sumLong(b[34:])); whole != 0 {
				t.Errorf("the packet sums up to %#x", whole)
			}
			break
		}
		if !seen {
			t.Error("no such port")
		}
	})
	t.Run("source before both, and only there", func(t *testing.T) {
		r := Rewriter{Both: maps, Src: []AddressMap{{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12")}}}
		b := packetOf(t, "10.1.2.3", "10.4.5.6", &layers.UDP{}, 30)
		var e Entry
		r.apply(&e, b, locate(&e, b))
		if want := packetOf(t, "172.17.2.3", "198.18.5.6", &layers.UDP{}, 30); !bytes.Equal(b, want) {
			t.Errorf("got %x\nwant %x", b, want)
		}
	})
	t.Run("a routing header", func(t *testing.T) {
		b := packetOf(t, "2001:db8::1", "2001:db8::2", &layers.TCP{}, 30)
		b = replace(insert(b, 54, 6, 0, 0, 1, 0, 0, 0, 0), 20, 43)
		want := bytes.Clone(b)
		var e Entry
		(&Rewriter{Both: maps}).apply(&e, b, locate(&e, b))
		if !bytes.Equal(b, want) {
			t.Errorf("got %x\nwant %x", b, want)
		}
	})
	t.Run("ARP", func(t *testing.T) {
		arp := func(src, dst string) []byte {
			return serialize(t, ethernetOf(layers.EthernetTypeARP), &layers.ARP{AddrType: 1, Protocol: 0x800, HwAddressSize: 6, ProtAddressSize: 4, Operation: 1,
				SourceHwAddress: make([]byte, 6), SourceProtAddress: netip.MustParseAddr(src).AsSlice(), DstHwAddress: make([]byte, 6), DstProtAddress: netip.MustParseAddr(dst).AsSlice()})
		}
		b := arp("10.1.2.3", "10.4.5.6")
		var e Entry
		(&Rewriter{Both: maps}).apply(&e, b, locate(&e, b))
		if want := arp("198.19.2.3", "198.18.5.6"); !bytes.Equal(b, want) {
			t.Errorf("got %x\nwant %x", b, want)
		}
	})
}

func TestFixSums(t *testing.T) {
	r := Rewriter{FixSums: true}
	for _, src := range []string{"10.1.2.3", "2001:db8::1"} {
		dst := map[bool]string{false: "192.0.2.77", true: "2001:db8::2"}[strings.Contains(src, ":")]
		l4s := []gopacket.SerializableLayer{&layers.TCP{}, &layers.UDP{}, &layers.ICMPv4{TypeCode: 0x800}}
		if strings.Contains(src, ":") {
			l4s[2] = &layers.ICMPv6{TypeCode: 0x8000}
		}
		for _, l4 := range l4s {
			for n := range 40 {
				want := packetOf(t, src, dst, l4, 20+n)
				for _, trailer := range []int{0, 5} { // padding is not the packet's
					b := append(bytes.Clone(want), make([]byte, trailer)...)
					for i := range trailer {
						b[len(want)+i] = 0xee
					}
					var e Entry
					if got := r.apply(&e, b, locate(&e, b)); got != sumsRight {
						t.Fatalf("%x: %d", b, got)
					}
					l4At := int(e.L4)
					at := map[string]int{"TCP": 16, "UDP": 6, "ICMPv4": 2, "ICMPv6": 2}[l4.LayerType().String()]
					b[l4At+at] ^= 0x55
					if e.Flags&IPv4 != 0 {
						b[24] ^= 0xaa
					}
					e = Entry{}
					if got := r.apply(&e, b, locate(&e, b)); got != sumsFixed || !bytes.Equal(b[:len(want)], want) {
						t.Fatalf("%d: got %x\nwant %x", got, b, want)
					}
				}
			}
		}
	}
	udp := packetOf(t, "10.1.2.3", "192.0.2.77", &layers.UDP{}, 100)
	ip := func(b []byte) []byte { // with the header's checksum right
		h := b[14:34]
		binary.BigEndian.PutUint16(h[10:], 0)
		binary.BigEndian.PutUint16(h[10:], fold(sum(h)))
		return b
	}
	udp6 := packetOf(t, "2001:db8::1", "2001:db8::2", &layers.UDP{}, 100)
	shorter := append(bytes.Clone(udp), 1, 2, 3, 4)
	shorter[17] += 4
	for _, v := range []struct {
		name  string
		frame []byte
		want  sumFix
	}{
		{"UDP without checksum", replace(udp, 40, 0, 0), sumsRight},
		{"cut", replace(udp, 40, 1, 1)[:80], sumsUnknown},
		{"first fragment", ip(replace(udp, 20, 0x20, 0)), sumsUnknown},
		{"later fragment", ip(replace(udp, 20, 0, 9)), sumsRight},
		{"first fragment of IPv6", replace(insert(replace(udp6, 19, udp6[19]+8), 54, 17, 0, 0, 1, 0, 0, 0, 7), 20, 44), sumsUnknown},
		{"UDP shorter than its packet", ip(shorter), sumsRight},
		{"UDP that claims to be longer", replace(udp, 38, 2), sumsUnknown},
		{"no IP", ether(80), sumsRight},
	} {
		b := bytes.Clone(v.frame)
		var e Entry
		if got := r.apply(&e, b, locate(&e, b)); got != v.want || !bytes.Equal(b, v.frame) {
			t.Errorf("%s: %d, want %d; got %x\nwant %x", v.name, got, v.want, b, v.frame)
		}
	}
}

func TestSumLong(t *testing.T) {
	b := make([]byte, 1501)
	for i := range b {
		b[i] = byte(i*i + 0x80)
	}
	for n := range len(b) {
		odd := append(bytes.Clone(b[:n]), make([]byte, n&1)...)
		if got, want := fold(sumLong(b[:n])), fold(sum(odd)); got != want {
			t.Fatalf("%d octets: %#x, want %#x", n, got, want)
		}
	}
	if full := bytes.Repeat([]byte{0xff}, 65535); fold(sumLong(full)) != fold(sum(append(full, 0))) {
		t.Error("64 KiB of ones")
	}
}

func TestParseAddressMaps(t *testing.T) {
	for _, s := range []string{"", "10.0.0.0/8", "10.0.0.0/8:", "10.0.0.0/33:10.0.0.0/8", "10.0.0.0/8:[2001:db8::/32]", "2001:db8::/32:2001:db9::/32", "10.0.0.1:10.0.0.2,", "a:b"} {
		if m, err := ParseAddressMaps(s); err == nil || !strings.HasPrefix(err.Error(), "address map ") {
			t.Errorf("%q: %v, %v", s, m, err)
		}
	}
	if err := (&Rewriter{Src: []AddressMap{{}}}).Check(); err == nil {
		t.Error("an empty map passes")
	}
}
