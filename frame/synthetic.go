// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"boxdyno/unit"
)

// A Protocol is what synthetic frames carry over IP.
type Protocol string

const (
	UDP  Protocol = "udp"
	TCP  Protocol = "tcp"
	ICMP Protocol = "icmp" // echo requests; ICMPv6 over IPv6
)

// A Synthetic describes frames of one header stack, with a payload of zeros; it
// is plain data.
type Synthetic struct {
	Mix            Mix // sizes in their order; up to MaxJumbo
	SrcMAC, DstMAC [6]byte
	VLANs          []VLAN     // outermost first: none, one (802.1Q) or two (802.1ad)
	Src, Dst       netip.Addr // both IPv4 or both IPv6
	Protocol       Protocol   // "" is UDP
	SrcPort        uint16     // flow f is SrcPort + f % FlowPorts, from Src + f / FlowPorts; ICMP: the echo identifier
	DstPort        uint16     // ICMP: the echo sequence number
	Answer         bool       // the frames answer flows: they vary DstPort and Dst instead; not for ICMP
	Flows          int        // 1 to MaxFlows; 0 is 1
	Popularity     Popularity
	Fields         []FieldSpec
	Unsigned       bool // no signature: a meter counts the frames as foreign
}

// A Popularity says which flow the next frame belongs to.
type Popularity struct {
	Random bool    // taken at random; else each in turn
	Zipf   float64 // flow f is taken with a probability in proportion to 1/(f+1)^Zipf; 0: all alike. Up to 10; implies Random
}

// ParsePopularity reads "uniform" (flows in turn), "random" or "zipf:1.1".
func ParsePopularity(s string) (Popularity, error) {
	switch kind, exponent, _ := strings.Cut(s, ":"); kind {
	case "uniform":
		if s == kind {
			return Popularity{}, nil
		}
	case "random":
		if s == kind {
			return Popularity{Random: true}, nil
		}
	case "zipf":
		if v, err := strconv.ParseFloat(exponent, 64); err == nil && v > 0 && v <= maxZipf {
			return Popularity{Random: true, Zipf: v}, nil
		}
	}
	return Popularity{}, fmt.Errorf("popularity %q: want uniform, random, or zipf: and an exponent above 0 and up to %d, such as zipf:1.1", s, maxZipf)
}

const maxZipf = 10

// ParseVLANs reads "100", "100:5" (ID:PRIORITY) or, outermost first, "200,100:5".
func ParseVLANs(s string) ([]VLAN, error) {
	var tags []VLAN
	for part := range strings.SplitSeq(s, ",") {
		id, priority, given := strings.Cut(part, ":")
		n, err := strconv.ParseUint(id, 10, 16)
		if err != nil || n > 4095 {
			return nil, fmt.Errorf("VLAN %q: want an ID from 0 to 4095, such as 100 or 100:5 with a priority", part)
		}
		p := uint64(0)
		if given {
			if p, err = strconv.ParseUint(priority, 10, 8); err != nil || p > 7 {
				return nil, fmt.Errorf("VLAN %q: want a priority from 0 to 7 behind the colon", part)
			}
		}
		tags = append(tags, VLAN{uint16(n), uint8(p)})
	}
	if len(tags) > maxTags {
		return nil, fmt.Errorf("VLAN %q: at most %d tags are possible", s, maxTags)
	}
	return tags, nil
}

const maxTags = 2

// Smallest is the least size of these frames, whose headers must fit: with their
// signature, unless they go without.
func (s Synthetic) Smallest() unit.FrameSize {
	least := unit.FrameSize(s.payload() + unit.FCS)
	if !s.Unsigned {
		least += SignatureLen
	}
	return max(least, unit.MinFrame)
}

// payload is the offset of the layer-4 payload.
func (s Synthetic) payload() int {
	n := ethLen + tagLen*len(s.VLANs) + ip4Len
	if s.Src.Is6() {
		n += ip6Len - ip4Len
	}
	switch s.Protocol {
	case TCP:
		return n + tcpLen
	case ICMP:
		return n + icmpLen
	}
	return n + udpLen
}

// Check says what is wrong with s, in a sentence.
func (s Synthetic) Check() error {
	if !s.Src.IsValid() || !s.Dst.IsValid() || s.Src.Is4() != s.Dst.Is4() || s.Src.Is4In6() || s.Dst.Is4In6() {
		return fmt.Errorf("addresses %v and %v: want two of one IP version", s.Src, s.Dst)
	}
	switch s.Protocol {
	case "", UDP, TCP:
	case ICMP:
		if s.Answer {
			return fmt.Errorf("protocol icmp: echo requests answer no flows")
		}
	default:
		return fmt.Errorf("protocol %q: want udp, tcp or icmp", s.Protocol)
	}
	if len(s.VLANs) > maxTags {
		return fmt.Errorf("%d VLAN tags: at most %d are possible", len(s.VLANs), maxTags)
	}
	for _, t := range s.VLANs {
		if t.ID > 4095 || t.Priority > 7 {
			return fmt.Errorf("VLAN %d with priority %d: want an ID up to 4095 and a priority up to 7", t.ID, t.Priority)
		}
	}
	if s.Flows < 0 || s.Flows > MaxFlows {
		return fmt.Errorf("flows %d: want 1 to %d", s.Flows, MaxFlows)
	}
	if last := int(s.flowPort()) + min(s.Flows, FlowPorts) - 1; last > 65535 {
		return fmt.Errorf("flows %d from port %d would need port %d", s.Flows, s.flowPort(), last)
	}
	if z := s.Popularity.Zipf; !(z >= 0 && z <= maxZipf) {
		return fmt.Errorf("popularity: Zipf exponent %v: want one above 0 and up to %d", z, maxZipf)
	}
	if len(s.Mix.Sizes) == 0 || len(s.Mix.Sizes) > MaxCycle {
		return fmt.Errorf("a mix of %d frame sizes: want 1 to %d", len(s.Mix.Sizes), MaxCycle)
	}
	least := s.Smallest()
	for _, size := range s.Mix.Sizes {
		switch {
		case size < least && s.Unsigned:
			return fmt.Errorf("frame size %d: the smallest %s frame has %d octets", size, s.stack(), least)
		case size < least:
			return fmt.Errorf("frame size %d: the smallest signed %s frame has %d octets", size, s.stack(), least)
		case size > MaxJumbo:
			return fmt.Errorf("frame size %d: the largest is %d", size, MaxJumbo)
		}
	}
	return nil
}

// stack names the headers: "802.1Q/IPv4/UDP".
func (s Synthetic) stack() string {
	name := []string{"", "802.1Q/", "802.1ad/802.1Q/"}[len(s.VLANs)] + "IPv" + IPText(s.Src.Is6()) + "/"
	switch {
	case s.Protocol == ICMP && s.Src.Is6():
		return name + "ICMPv6"
	case s.Protocol == "":
		return name + "UDP"
	}
	return name + strings.ToUpper(string(s.Protocol))
}

func (s Synthetic) flowPort() uint16 {
	if s.Answer {
		return s.DstPort
	}
	return s.SrcPort
}

// NewSynthetic makes the source. It has one class and no times, its pass is the
// mix's cycle some times over, and its addresses are its own and its fields'
// business: Load.Unique does not change them.
func NewSynthetic(s Synthetic) (Source, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	shape := Shape{Classes: []string{"synthetic"}}
	taken := map[string]string{}
	for _, name := range s.vary(&shape) {
		taken[name] = "flows"
	}
	var patches []patch
	sample := s.draft(s.Smallest()) // for the bits that a field shares an octet with
	for _, f := range s.Fields {
		p, err := f.compile(s, sample.octets, sample.entry)
		if err != nil {
			return nil, err
		}
		if by := taken[f.row.name]; by != "" {
			return nil, fmt.Errorf("field %q: %s is varied by %s already", f.text, f.row.name, by)
		}
		taken[f.row.name] = "another field"
		patches = append(patches, p)
		if f.kind != fixedField {
			p.field.Draw = uint8(len(shape.Draws))
			shape.Draws = append(shape.Draws, p.draw)
			shape.Fields = append(shape.Fields, p.field)
		}
	}
	var all []draft
	index := map[unit.FrameSize]uint16{}
	cycle := make([]uint16, 0, len(s.Mix.Sizes))
	for _, size := range s.Mix.Sizes {
		i, ok := index[size]
		if !ok {
			i = uint16(len(all))
			index[size] = i
			d := s.draft(size)
			for _, p := range patches {
				p.apply(d.octets)
			}
			d.seal()
			all = append(all, d)
		}
		cycle = append(cycle, i)
	}
	return repeat(shape, all, cycle)
}

// draft lays out the frame of a size, without checksums.
func (s Synthetic) draft(size unit.FrameSize) draft {
	d := link(s.SrcMAC, s.DstMAC, s.VLANs)
	end := size.Buffer()
	payload := end - s.payload()
	const ttl, window = 64, 65535
	l4 := end - len(d.octets) - 2 - ip4Len
	if s.Src.Is6() {
		l4 = end - len(d.octets) - 2 - ip6Len
	}
	switch s.Protocol {
	case TCP:
		d.network(s.Src, s.Dst, protoTCP, ttl, dontFragment, l4)
		d.tcp(s.SrcPort, s.DstPort, 1, 1, tcpACK, window)
	case ICMP:
		protocol := uint8(protoICMP)
		if s.Src.Is6() {
			protocol = protoICMPv6
		}
		d.network(s.Src, s.Dst, protocol, ttl, dontFragment, l4)
		d.echo(s.SrcPort, s.DstPort)
	default:
		d.network(s.Src, s.Dst, protoUDP, ttl, dontFragment, l4)
		d.udp(s.SrcPort, s.DstPort, payload)
	}
	if !s.Unsigned {
		d.sign()
	}
	d.octets = append(d.octets, make([]byte, end-len(d.octets))...)
	return d
}

const (
	tcpSYN = 0x02
	tcpACK = 0x10
)

// vary adds the flows' draw and fields and returns the fields' names.
func (s Synthetic) vary(shape *Shape) []string {
	if s.Flows <= 1 {
		return nil
	}
	draw := Draw{Count: uint32(s.Flows)}
	switch {
	case s.Popularity.Zipf > 0:
		draw = Draw{Kind: List, List: zipf(s.Flows, s.Popularity.Zipf)}
	case s.Popularity.Random:
		draw.Kind = Random
	}
	shape.Draws = append(shape.Draws, draw)
	port, address, base := "sport", "src", s.Src
	switch {
	case s.Answer:
		port, address, base = "dport", "dst", s.Dst
	case s.Protocol == ICMP:
		port = "icmp-id"
	}
	field := func(name string) Field {
		at, _ := rowOf(name).place(s, Entry{})
		return Field{Base: at.base, Width: at.width, Offset: uint16(at.offset), Sums: at.sums}
	}
	f := field(port)
	f.From, f.Mod = uint32(s.flowPort()), FlowPorts
	shape.Fields = append(shape.Fields, f)
	if s.Flows <= FlowPorts {
		return []string{port}
	}
	raw := base.AsSlice()
	f = field(address)
	f.From, f.Div = binary.BigEndian.Uint32(raw[len(raw)-4:]), FlowPorts
	shape.Fields = append(shape.Fields, f)
	return []string{port, address}
}

// zipf lists flows so that one drawn uniformly from the list follows Zipf's law:
// the law's quantiles at equal distances. Flows whose share is below 1/len(list)
// stand for their neighbours, too.
func zipf(flows int, exponent float64) []uint32 {
	const values = MaxList / 2
	total := 0.0
	for f := range flows {
		total += math.Pow(float64(f+1), -exponent)
	}
	list := make([]uint32, 0, values)
	reached := 0.0
	for f := range flows {
		reached += math.Pow(float64(f+1), -exponent)
		for len(list) < values && float64(len(list))+0.5 < reached/total*values {
			list = append(list, uint32(f))
		}
	}
	for len(list) < values { // rounding
		list = append(list, uint32(flows-1))
	}
	return list
}
