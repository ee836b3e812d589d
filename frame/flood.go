// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
)

// A Flood describes attack traffic as it looks at its victim; it is plain data.
type Flood struct {
	Name           string // of a row of Floods
	SrcMAC, DstMAC [6]byte
	Target         netip.Prefix // every frame goes to an address of it, at random; IPv6: /96 or longer
	// Sources are the addresses that frames come from, at random; IPv6: /32 or
	// longer. The zero value is what spoofing looks like: any IPv4 unicast address
	// but 10/8 and 127/8, or 2001:2::/48. A DUT drops what its reverse-path filter
	// does not like.
	Sources netip.Prefix
	Port    uint16 // attacked port of syn, ack and udp, the others have none; 0: 443, and any for udp
	Seed    uint64 // of what the frames carry; what differs from frame to frame is drawn by Load.Seed
}

// A FloodKind is a row of Floods.
type FloodKind struct {
	Name, Doc string
	make      func(*flooder)
}

// Floods are all kinds.
var Floods = []FloodKind{
	{"syn", "TCP SYN with the options of common operating systems, from random sources and ports", synFlood},
	{"ack", "TCP ACK of no connection, from random sources and ports", ackFlood},
	{"udp", "UDP of 1 to 1400 random octets, from random sources and ports", udpFlood},
	{"icmp", "ICMP echo requests of 56 octets, and some of 1400, from random sources", icmpFlood},
	{"dns", "DNS amplification: answers of 1000 to 1400 octets to ANY and TXT, from 1024 resolvers", dnsFlood},
	{"ntp", "NTP amplification: monlist answers in frames of 482 octets without FCS, from 1024 servers", ntpFlood},
	{"fragments", "first and middle fragments of UDP datagrams that never become whole, from random sources", fragmentFlood},
}

const (
	floodDrafts = 64 // frames before what they carry repeats
	reflectors  = 1024
	anyPort     = 65536 - 1024 // from 1024 on
)

// NewFlood makes the source. Its frames are not signed and have no times, and
// Load.Unique does not change their addresses.
func NewFlood(f Flood) (Source, error) {
	row := slices.IndexFunc(Floods, func(k FloodKind) bool { return k.Name == f.Name })
	if row < 0 {
		var names []string
		for _, k := range Floods {
			names = append(names, k.Name)
		}
		return nil, fmt.Errorf("flood %q: want one of %s", f.Name, strings.Join(names, ", "))
	}
	if !f.Target.IsValid() || f.Target.Addr().Is4In6() {
		return nil, fmt.Errorf("flood %s: target %v is no prefix such as 198.19.0.1/32", f.Name, f.Target)
	}
	v6 := f.Target.Addr().Is6()
	if v6 && f.Target.Bits() < 96 {
		return nil, fmt.Errorf("flood %s: target %v: want a /96 or longer", f.Name, f.Target)
	}
	if f.Port != 0 && !slices.Contains([]string{"syn", "ack", "udp"}, f.Name) {
		return nil, fmt.Errorf("flood %s has no attacked port, and %d is given: syn, ack and udp have one", f.Name, f.Port)
	}
	everywhere := !f.Sources.IsValid() && !v6
	switch {
	case everywhere:
		f.Sources = netip.MustParsePrefix("0.0.0.0/0")
	case !f.Sources.IsValid():
		f.Sources = netip.MustParsePrefix("2001:2::/48")
	case f.Sources.Addr().Is4In6() || f.Sources.Addr().Is6() != v6:
		return nil, fmt.Errorf("flood %s: sources %v and target %v: want two prefixes of one IP version", f.Name, f.Sources, f.Target)
	case v6 && f.Sources.Bits() < 32:
		return nil, fmt.Errorf("flood %s: sources %v: want a /32 or longer", f.Name, f.Sources)
	}
	fl := &flooder{
		Flood: f, v6: v6, everywhere: everywhere, rng: rand.New(rand.NewPCG(f.Seed, uint64(row))),
		shape: Shape{Classes: []string{f.Name + " flood"}},
	}
	fl.within(f.Target, false)
	Floods[row].make(fl)
	cycle := make([]uint16, len(fl.all))
	for i := range cycle {
		cycle[i] = uint16(i)
	}
	return repeat(fl.shape, fl.all, cycle)
}

// A flooder is a flood in the making.
type flooder struct {
	Flood
	v6         bool
	everywhere bool // sources are any unicast address
	rng        *rand.Rand
	shape      Shape
	all        []draft
}

// vary adds a field with a draw of its own.
func (f *flooder) vary(d Draw, field Field) {
	field.Draw = uint8(len(f.shape.Draws))
	f.shape.Draws = append(f.shape.Draws, d)
	f.shape.Fields = append(f.shape.Fields, field)
}

// any varies a layer-4 field over all that it can hold, ports from 1024 on.
func (f *flooder) any(offset uint16, width uint8) {
	f.vary(Draw{Kind: Random}, Field{Base: AtL4, Offset: offset, Width: width, Sums: SumsL4})
}

func (f *flooder) anyPort(offset uint16) {
	f.vary(Draw{Kind: Random, Count: anyPort}, Field{Base: AtL4, Offset: offset, Width: 2, From: 65536 - anyPort, Sums: SumsL4})
}

// identify gives every IPv4 datagram an identification.
func (f *flooder) identify() {
	if !f.v6 {
		f.vary(Draw{Kind: Random}, Field{Base: AtL3, Offset: 4, Width: 2, Sums: SumsIP})
	}
}

// addressSums are the checksums over the addresses.
func (f *flooder) addressSums() FieldSums {
	if f.Name == "icmp" && !f.v6 {
		return SumsIP
	}
	return SumsIP | SumsL4
}

// addressOffset is that of an address from the IP header on.
func (f *flooder) addressOffset(source bool) uint16 {
	switch {
	case f.v6 && source:
		return 8
	case f.v6:
		return 24
	case source:
		return 12
	}
	return 16
}

// within varies an address over a prefix, 4 octets at a time.
func (f *flooder) within(p netip.Prefix, source bool) {
	raw := p.Masked().Addr().AsSlice()
	for at := 0; at < len(raw); at += 4 {
		free := min(max(8*(at+4)-p.Bits(), 0), 32)
		if free == 0 {
			continue
		}
		f.vary(Draw{Kind: Random, Count: uint32(uint64(1) << free)}, Field{
			Base: AtL3, Offset: f.addressOffset(source) + uint16(at), Width: 4,
			From: binary.BigEndian.Uint32(raw[at:]), Sums: f.addressSums(),
		})
	}
}

// sources varies the source address over all of them.
func (f *flooder) sources() {
	f.within(f.Sources, true)
	if f.everywhere {
		f.vary(Draw{Kind: List, List: unicast()}, Field{Base: AtL3, Offset: f.addressOffset(true), Width: 1, Sums: f.addressSums()})
	}
}

// unicast are the first octets of IPv4 addresses that are seen on the Internet.
func unicast() []uint32 {
	var list []uint32
	for v := uint32(1); v < 224; v++ {
		if v != 10 && v != 127 {
			list = append(list, v)
		}
	}
	return list
}

// someSources varies the source address over a few of them: the servers that
// reflect an attack.
func (f *flooder) someSources() {
	raw := f.Sources.Masked().Addr().AsSlice()
	free := min(8*len(raw)-f.Sources.Bits(), 32)
	first := binary.BigEndian.Uint32(raw[len(raw)-4:])
	octets := unicast()
	list := make([]uint32, reflectors)
	for i := range list {
		list[i] = first + uint32(f.rng.Uint64N(1<<free))
		if f.everywhere {
			list[i] = octets[f.rng.IntN(len(octets))]<<24 | list[i]&0xffffff
		}
	}
	f.vary(Draw{Kind: List, List: list}, Field{
		Base: AtL3, Offset: f.addressOffset(true) + uint16(len(raw)-4), Width: 4, Sums: f.addressSums(),
	})
}

// ttl is what is left of an initial one after the way through the Internet.
func (f *flooder) ttl(initial int) uint8 { return uint8(initial - 5 - f.rng.IntN(20)) }

func (f *flooder) octets(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(f.rng.Uint32())
	}
	return b
}

// begin is a draft with an IP header.
func (f *flooder) begin(protocol, ttl uint8, fragment uint16, payload int) draft {
	d := link(f.SrcMAC, f.DstMAC, nil)
	if f.v6 && protocol == protoICMP {
		protocol = protoICMPv6
	}
	d.network(f.Sources.Masked().Addr(), f.Target.Masked().Addr(), protocol, ttl, fragment, payload)
	return d
}

func (f *flooder) add(d draft) {
	d.seal()
	f.all = append(f.all, d)
}

const (
	dontFragment  = 0x4000
	moreFragments = 0x2000
)

func (f *flooder) port() uint16 {
	if f.Port == 0 {
		return 443
	}
	return f.Port
}

func synFlood(f *flooder) {
	f.sources()
	f.anyPort(0)
	f.any(4, 4) // sequence number
	f.identify()
	mss := uint16(1460)
	if f.v6 {
		mss = 1440
	}
	size := []byte{2, 4, byte(mss >> 8), byte(mss)}
	for i := range floodDrafts {
		stamp := append([]byte{8, 10}, append(f.octets(4), 0, 0, 0, 0)...)
		system := []struct {
			ttl     int
			window  uint16
			options [][]byte
		}{
			{64, 64240, [][]byte{size, {4, 2}, stamp, {1}, {3, 3, 7}}},                 // Linux
			{128, 64240, [][]byte{size, {1}, {3, 3, 8}, {1, 1}, {4, 2}}},               // Windows
			{64, 65535, [][]byte{size, {1}, {3, 3, 6}, {1, 1}, stamp, {4, 2}, {0, 0}}}, // macOS, iOS
			{64, 65535, [][]byte{size, {1}, {3, 3, 6}, {4, 2}, stamp}},                 // FreeBSD
			{64, 14600, [][]byte{size, {4, 2}, stamp, {1}, {3, 3, 2}}},                 // small devices with an old Linux
		}[i%5]
		options := slices.Concat(system.options...)
		d := f.begin(protoTCP, f.ttl(system.ttl), dontFragment, tcpLen+len(options))
		d.tcp(0, f.port(), 0, 0, tcpSYN, system.window, options...)
		f.add(d)
	}
}

func ackFlood(f *flooder) {
	f.sources()
	f.anyPort(0)
	f.any(4, 4)
	f.any(8, 4)
	f.identify()
	for range floodDrafts {
		d := f.begin(protoTCP, f.ttl(64), dontFragment, tcpLen)
		d.tcp(0, f.port(), 0, 0, tcpACK, uint16(1+f.rng.IntN(65535)))
		f.add(d)
	}
}

func udpFlood(f *flooder) {
	f.sources()
	f.anyPort(0)
	if f.Port == 0 {
		f.vary(Draw{Kind: Random, Count: 65535}, Field{Base: AtL4, Offset: 2, Width: 2, From: 1, Sums: SumsL4})
	}
	f.identify()
	for range floodDrafts {
		payload := f.octets(1 + f.rng.IntN(1400))
		d := f.begin(protoUDP, f.ttl(64), 0, udpLen+len(payload))
		d.udp(0, f.Port, len(payload))
		d.octets = append(d.octets, payload...)
		f.add(d)
	}
}

func icmpFlood(f *flooder) {
	f.sources()
	f.any(4, 2) // identifier
	f.any(6, 2) // sequence number
	f.identify()
	for i := range floodDrafts {
		payload := f.octets(56)
		if i%8 == 7 {
			payload = f.octets(1400)
		}
		for k := 16; k < len(payload); k++ { // ping's pattern behind its time
			payload[k] = byte(k)
		}
		d := f.begin(protoICMP, f.ttl(64), 0, icmpLen+len(payload))
		d.echo(0, 0)
		d.octets = append(d.octets, payload...)
		f.add(d)
	}
}

// fragmentFlood's datagrams lack their last fragment, and most lack others.
func fragmentFlood(f *flooder) {
	const protoFragment, header6 = 44, 8
	f.sources()
	f.anyPort(0) // of first fragments
	f.identify()
	room := 1480 // octets of a datagram that fit, whole words of 8
	if f.v6 {
		room = 1440
		f.vary(Draw{Kind: Random}, Field{Base: AtL3, Offset: ip6Len + 4, Width: 4})
	}
	for i := range floodDrafts {
		at := room * (i % 4)
		var d draft
		if f.v6 {
			d = f.begin(protoFragment, f.ttl(64), 0, header6+room)
			d.octets = append(d.octets, protoUDP, 0)
			d.octets = binary.BigEndian.AppendUint16(d.octets, uint16(at)|1)
			d.octets = append(d.octets, 0, 0, 0, 0)
			d.entry.L4 += header6
		} else {
			d = f.begin(protoUDP, f.ttl(64), moreFragments|uint16(at/8), room)
			d.entry.Sum = 0 // it covers the other fragments as well
			d.entry.Flags &^= SumUDP
		}
		begin := len(d.octets)
		if at == 0 {
			d.udp(0, uint16(1+f.rng.IntN(65535)), 4*room)
			binary.BigEndian.PutUint16(d.octets[len(d.octets)-2:], uint16(1+f.rng.IntN(65535)))
		}
		d.octets = append(d.octets, f.octets(room-(len(d.octets)-begin))...)
		d.seal()
		if at > 0 {
			d.entry.L4 = 0
		}
		f.all = append(f.all, d)
	}
}
