// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"boxdyno/unit"
)

// TemplateOptions are how templates are expanded.
type TemplateOptions struct {
	Seed uint64
	// Scale multiplies every template's flows a second; 0 is 1. Rate asks for a
	// mean layer-2 rate, with FCS, in its place.
	Scale float64
	Rate  unit.BitRate
	// Duration of a pass; 0 is the file's own.
	Duration time.Duration
	// Clients and Servers take the place of the file's addresses, if valid.
	Clients, Servers     netip.Prefix
	ClientMAC, ServerMAC [6]byte // zero is 02:00:00:00:00:01 and ...:02
	Side                 Side
}

// A TemplateSource expands captured conversations into flows, whose passes are cut out of
// traffic that goes on, as an AppMix's with a Duration. Every flow has the packets of its
// template with fresh addresses on both sides and fresh ports at the client (the side that
// sends first); what is inside stays, so that addresses in SIP or RTSP are the capture's.
// Checksums are right, also where the capture's were not, except of fragments and cut
// packets. Every pass has the same frames. Classes are the templates, by name without a
// number at its end; frames are not signed.
type TemplateSource struct {
	templates []template
	duration  time.Duration
	side      Side
	seed      uint64
	natural   unit.BitRate // at the flow rates that are used
	net       addressing
	notes     []string
	shape     Shape

	flows arrivals
	k     uint64 // number of the next flow
	burst int    // flows of this arrival that have begun
	open  timeline[*instance]

	// Flows begin from 0 on, and the pass is from origin to end: before it is the
	// past, as long as the longest template.
	origin, end uint64
	early       []templateFlow // of the past, under way at origin
	now         templatesNow

	free     []*instance
	part, of uint64
}

type templateFlow struct {
	k, at uint64
	kind  int // index of templates
}

// What the next flow depends on.
type templatesNow struct {
	flows arrivals
	k     uint64
	burst int
}

// A template is one captured conversation.
type template struct {
	name    string
	class   uint8
	cps     float64 // flows a second, scaled
	burst   int     // flows that begin together
	packets []templatePacket
}

type templatePacket struct {
	entry      Entry // At is the time since the flow's first packet
	octets     []byte
	hosts      [2]int // of source and destination: 0 is the client, 1 the first server...
	ports      [2]int // of source and destination: index of the client's ports; -1: as it is, or none
	fromServer int    // 1 where a server sends it
}

// An instance is a flow under way.
type instance struct {
	t    *template
	next int
	at   uint64
	ends [2]endpoint
	srv  uint64 // index of the first server's address
}

// OpenTemplates opens a rates file, or the folder that has one: YAML as TRex reads
// it, with the keys duration, cap_ipg, cap_ipg_min, cap_override_ipg, generator
// (distribution seq or random, clients_start and _end, servers_start and _end) and
// cap_info: for each template name, cps, and w; ipg and rtt in us where cap_ipg is
// not true. Captures stand at their names, or without folders beside the file.
// They are held in memory, up to 1 GiB.
func OpenTemplates(path string, o TemplateOptions) (*TemplateSource, error) {
	if i, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open templates: %w", err)
	} else if i.IsDir() {
		if path, err = ratesFile(path); err != nil {
			return nil, err
		}
	}
	switch {
	case o.Scale < 0 || o.Rate < 0 || o.Scale > 0 && o.Rate > 0:
		return nil, fmt.Errorf("%s: scale %v and rate %v: want one of them, above 0", path, o.Scale, o.Rate)
	case o.Duration < 0:
		return nil, fmt.Errorf("%s: duration %v: want one above 0", path, o.Duration)
	case o.Side > ServerSide:
		return nil, fmt.Errorf("%s: unknown side %d", path, o.Side)
	}
	f, err := readRates(path)
	if err != nil {
		return nil, err
	}
	s := &TemplateSource{duration: o.Duration, side: o.Side, seed: o.Seed, net: f.net, notes: f.notes, of: 1}
	if s.duration == 0 {
		s.duration = f.duration
	}
	if s.duration == 0 {
		return nil, fmt.Errorf("%s: it has no duration: give one", path)
	}
	if o.Clients.IsValid() || o.Servers.IsValid() {
		if s.net, err = prefixes(o.Clients, o.Servers); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		s.net.random = f.net.random
	}
	if !s.net.clients.first.IsValid() {
		return nil, fmt.Errorf("%s: generator has no addresses: give clients and servers", path)
	}
	s.net.seed, s.net.stride = o.Seed, 1
	s.net.setMACs(o.ClientMAC, o.ServerMAC)
	if err := s.load(f); err != nil {
		return nil, err
	}
	if err := s.settle(s.scale(o)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.rewind()
	s.measure()
	return s, nil
}

// ratesFile is the one rates file of a folder.
func ratesFile(dir string) (string, error) {
	var found []string
	for _, ext := range []string{"*.yaml", "*.yml"} {
		names, err := filepath.Glob(filepath.Join(dir, ext))
		if err != nil {
			return "", fmt.Errorf("open templates: %w", err)
		}
		found = append(found, names...)
	}
	if len(found) != 1 {
		return "", fmt.Errorf("open templates: %s has %d rates files (*.yaml, *.yml): name the one that is meant", dir, len(found))
	}
	return found[0], nil
}

// scale sets the flow rates, and is what those of the templates are multiplied by.
func (s *TemplateSource) scale(o TemplateOptions) float64 {
	weights := make([]float64, len(s.templates))
	bits, arrivals := 0.0, 0.0
	for i := range s.templates {
		t := &s.templates[i]
		for j := range t.packets {
			bits += t.cps * 8 * float64(len(t.packets[j].octets)+unit.FCS)
		}
		weights[i] = t.cps / float64(t.burst)
		arrivals += weights[i]
	}
	scale := o.Scale
	if o.Rate > 0 {
		scale = float64(o.Rate) / bits
	} else if scale == 0 {
		scale = 1
	}
	s.natural = unit.BitRate(bits * scale)
	s.flows.set(arrivals*scale, weights)
	return scale
}

// Rate is the mean layer-2 rate of both directions together, with FCS.
func (s *TemplateSource) Rate() unit.BitRate { return s.natural }

// measure finds the shape, by counting the flows of a pass if they are not too
// many.
func (s *TemplateSource) measure() {
	classes := map[uint8]string{}
	longest := 0
	for i := range s.templates {
		t := &s.templates[i]
		if old, ok := classes[t.class]; ok && old != className(t.name) {
			classes[t.class] = "other"
		} else {
			classes[t.class] = className(t.name)
		}
		for j := range t.packets {
			if p := &t.packets[j]; s.side.has(p.fromServer) {
				longest = max(longest, len(p.octets))
			}
		}
	}
	s.shape = Shape{Timed: true, Longest: longest}
	for _, c := range slices.Sorted(maps.Keys(classes)) {
		s.shape.Classes = append(s.shape.Classes, classes[c])
	}
	if s.flows.rate*s.duration.Seconds() > dryFlows*8 {
		s.shape.Octets = uint64(float64(s.natural) / 8 * s.duration.Seconds() / float64(s.of))
		return
	}
	sums := make([][]templateSum, len(s.templates))
	for i := range sums {
		sums[i] = s.templates[i].sums(s.side)
	}
	count := func(f templateFlow) {
		if f.k%s.of == s.part {
			t := &s.templates[f.kind]
			first, end := sums[f.kind][t.from(f.at, s.origin)], sums[f.kind][t.from(f.at, s.end)]
			s.shape.Frames += end.frames - first.frames
			s.shape.Octets += end.octets - first.octets
		}
	}
	dry := *s
	dry.flows, dry.k, dry.burst = s.now.flows, s.now.k, s.now.burst
	for _, f := range s.early {
		count(f)
	}
	for dry.more() {
		count(dry.arrive())
	}
}

// A templateSum is what a template's packets before one have, of a side.
type templateSum struct{ frames, octets uint64 } // octets in windows

func (t *template) sums(side Side) []templateSum {
	sums := make([]templateSum, len(t.packets)+1)
	for i := range t.packets {
		p, next := &t.packets[i], sums[i]
		if side.has(p.fromServer) {
			next.frames++
			next.octets += uint64(len(p.octets)+7) &^ 7
		}
		sums[i+1] = next
	}
	return sums
}

// className is a template's name without its folder, extension and number.
func className(name string) string {
	name = filepath.Base(name)
	name, _, _ = strings.Cut(name, ".")
	if i := strings.LastIndexByte(name, '_'); i > 0 && strings.Trim(name[i+1:], "0123456789") == "" {
		name = name[:i]
	}
	return name
}

// Shape is as Source says.
func (s *TemplateSource) Shape() Shape { return s.shape }

// Notes say what of the file has no effect and which packets are left out.
func (s *TemplateSource) Notes() []string { return s.notes }

// Targets returns destination addresses, which are clients' and servers': of each range
// its ends and the first address of each /8 (IPv4) or of 2^24 (IPv6) in it.
func (s *TemplateSource) Targets() (all []netip.Addr) {
	for _, p := range []pool{s.net.servers, s.net.clients} {
		a := p.first.As16()
		first := uint64(binary.BigEndian.Uint32(a[12:]))
		all = append(all, samples(first, first+p.n-1, func(v uint64) netip.Addr { return p.addr(v - first) })...)
	}
	return all
}

func (s *TemplateSource) Close() error { return nil }

// Shard is as Sharder says: a flow's frames are all in one part.
func (s *TemplateSource) Shard(i, n int) Source {
	c := *s
	c.open, c.free = nil, nil
	c.part, c.of = uint64(i), uint64(n)
	c.rewind()
	c.measure()
	return &c
}

const (
	mostUnderWay = 2e6 // flows at once; each takes some 150 octets
	mostPast     = 1e8 // flows that have begun before, which are all gone through
)

// settle goes through the past.
func (s *TemplateSource) settle(scale float64) error {
	rate, underWay := 0.0, 0.0 // flows a second
	for i := range s.templates {
		t := &s.templates[i]
		s.origin = max(s.origin, t.lasts())
		rate += t.cps
		underWay += t.cps * float64(t.lasts()) / 1e9
	}
	if underWay*scale > mostUnderWay || rate*scale*float64(s.origin)/1e9 > mostPast {
		return fmt.Errorf("%sflows a second, the longest of %v, are %sflows at once: ask for fewer (cps, less traffic), or for shorter ones (ipg, rtt)",
			unit.SI(rate*scale), time.Duration(s.origin), unit.SI(underWay*scale))
	}
	s.end = s.origin + uint64(s.duration)
	s.flows.rewind(s.seed)
	for s.flows.at < s.origin {
		if f := s.arrive(); f.at+s.templates[f.kind].lasts() >= s.origin {
			s.early = append(s.early, f)
		}
	}
	s.now = templatesNow{s.flows, s.k, s.burst}
	return nil
}

// lasts is the time from a flow's first packet to its last.
func (t *template) lasts() uint64 { return t.packets[len(t.packets)-1].entry.At }

// from is the template's first packet that a flow which began at at has at origin
// or later.
func (t *template) from(at, origin uint64) int {
	return sort.Search(len(t.packets), func(i int) bool { return at+t.packets[i].entry.At >= origin })
}

// rewind goes back to the beginning of the pass.
func (s *TemplateSource) rewind() {
	for len(s.open) > 0 {
		s.free = append(s.free, s.open.pop())
	}
	s.flows, s.k, s.burst = s.now.flows, s.now.k, s.now.burst
	for _, f := range s.early {
		s.begin(f)
	}
}

func (s *TemplateSource) more() bool { return s.flows.at < s.end }

// arrive takes the next flow.
func (s *TemplateSource) arrive() templateFlow {
	f := templateFlow{s.k, s.flows.at, s.flows.kind}
	s.k++
	if s.burst++; s.burst == s.templates[f.kind].burst {
		s.burst = 0
		s.flows.step()
	}
	return f
}

// begin puts a flow among those that are under way, if it is of this part.
func (s *TemplateSource) begin(b templateFlow) {
	if b.k%s.of != s.part {
		return
	}
	f := &instance{}
	if n := len(s.free); n > 0 {
		f, s.free = s.free[n-1], s.free[:n-1]
	}
	*f = instance{t: &s.templates[b.kind], at: b.at}
	f.next = f.t.from(b.at, s.origin)
	f.srv = s.net.assign(&f.ends, b.k, 0)
	s.open.push(f.at+f.t.packets[f.next].entry.At, b.k, f)
}

// Fill is as Source says; it fails where the window cannot hold one frame.
func (s *TemplateSource) Fill(w *Window) error {
	for {
		if s.more() && (len(s.open) == 0 || s.flows.at < s.open[0].at) {
			s.begin(s.arrive())
			continue
		}
		if len(s.open) == 0 || s.open[0].at >= s.end {
			s.rewind()
			return io.EOF
		}
		f := s.open[0].of
		p := &f.t.packets[f.next]
		if s.side.has(p.fromServer) {
			e, b := w.Next(len(p.octets))
			if e == nil {
				return full(w, len(p.octets))
			}
			s.write(f, p, e, b)
		}
		if f.next++; f.next < len(f.t.packets) {
			s.open.move(f.at + f.t.packets[f.next].entry.At)
		} else {
			s.free = append(s.free, s.open.pop())
		}
	}
}

// write puts packet p of flow f into b.
func (s *TemplateSource) write(f *instance, p *templatePacket, e *Entry, b []byte) {
	off := e.Off
	*e = p.entry
	e.Off, e.Len, e.Class, e.At = off, uint16(len(p.octets)), f.t.class, f.at+p.entry.At-s.origin
	copy(b, p.octets)
	copy(b, s.net.macs[1-p.fromServer][:])
	copy(b[6:], s.net.macs[p.fromServer][:])
	at, width := int(e.L3)+12, 4
	if e.Flags&IPv6 != 0 {
		at, width = int(e.L3)+8, 16
	}
	var addresses, l4 uint64
	for i, host := range p.hosts {
		a := f.ends[0].addr
		if host == 1 {
			a = f.ends[1].addr
		} else if host > 1 {
			a = s.net.servers.at((f.srv + uint64(host-1)) % s.net.servers.n)
		}
		for j := 0; j < width; j += 4 {
			addresses += put(b, at+i*width+j, 4, binary.BigEndian.Uint32(a[j:]))
		}
		if p.ports[i] >= 0 {
			l4 += put(b, int(e.L4)+2*i, 2, uint32(f.ends[0].port)+uint32(p.ports[i]))
		}
	}
	if e.Flags&IPv4 != 0 && addresses != 0 {
		sum := b[e.L3+10:]
		binary.BigEndian.PutUint16(sum, grow(binary.BigEndian.Uint16(sum), addresses))
	}
	e.growSum(b, l4+addresses)
}
