// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A captureAccount is what became of the packets of a pass.
type captureAccount struct {
	packets, frames, octets uint64
	longest                 int
	timed                   bool

	refused, cut, partial, padded, made tally
	untimed, backwards                  tally
	short, noIP, noEthertype            tally
	links                               map[uint16]uint64 // link types refused
	broken                              string

	fixed [3]uint64 // by sumFix
	sent  bool      // fixed is complete
}

// A tally counts packets and keeps the first one's number and length.
type tally struct {
	n, first uint64
	len      int
}

func (t *tally) add(number uint64, len int) {
	if t.n++; t.n == 1 {
		t.first, t.len = number, len
	}
}

func (a *captureAccount) refuse(why refusal, p *packet, number uint64) {
	switch why {
	case unknownLink:
		if a.links == nil {
			a.links = map[uint16]uint64{}
		}
		a.links[p.link]++
	case tooShort:
		a.short.add(number, len(p.data))
	case noIP:
		a.noIP.add(number, len(p.data))
	case noEthertype:
		a.noEthertype.add(number, len(p.data))
	}
}

// packets is "1 packet" or "n packets".
func packets(n uint64) string {
	if n == 1 {
		return "1 packet"
	}
	return fmt.Sprintf("%d packets", n)
}

// mostLinks is how many link types are named: a file can have 65,536.
const mostLinks = 8

// leftOut says which packets are not replayed, and why.
func (a *captureAccount) leftOut(longest int) (s []string) {
	add := func(t tally, why string) {
		if t.n > 0 {
			s = append(s, fmt.Sprintf("%s %s (the first: packet %d, %d octets)", packets(t.n), why, t.first, t.len))
		}
	}
	for i, link := range slices.Sorted(maps.Keys(a.links)) {
		if i == mostLinks {
			s = append(s, fmt.Sprintf("packets of %d other link types", len(a.links)-i))
			break
		}
		s = append(s, fmt.Sprintf("%s of %s, where Ethernet, Linux cooked, raw IP and loopback can be replayed", packets(a.links[link]), linkName(link)))
	}
	add(a.short, "without a whole link header")
	add(a.noIP, "that claim to be IP and are not")
	add(a.noEthertype, "of a cooked protocol that Ethernet has no type for")
	add(a.refused, fmt.Sprintf("longer than %d octets", longest))
	return s
}

// nothing is the error that no packet can be replayed.
func (a *captureAccount) nothing(name string, longest int) error {
	switch why := a.leftOut(longest); {
	case a.packets == 0 && a.broken == "":
		return fmt.Errorf("%s holds no packets", name)
	case a.packets == 0:
		return fmt.Errorf("%s: %s, and there is no packet before it", name, a.broken)
	case a.broken != "":
		return fmt.Errorf("%s: no packet can be replayed: %s; %s", name, strings.Join(why, "; "), a.broken)
	default:
		return fmt.Errorf("%s: no packet can be replayed: %s", name, strings.Join(why, "; "))
	}
}

func (a *captureAccount) notes(name string, o CaptureOptions) (s []string) {
	if a.broken != "" {
		s = append(s, fmt.Sprintf("%s: %s; what stands before it (%s) is replayed", name, a.broken, packets(a.packets)))
	}
	for _, why := range a.leftOut(o.Longest) {
		s = append(s, fmt.Sprintf("%s: left out: %s", name, why))
	}
	add := func(t tally, format string, args ...any) {
		if t.n > 0 {
			s = append(s, fmt.Sprintf("%s: %s ", name, packets(t.n))+fmt.Sprintf(format, args...))
		}
	}
	add(a.cut, "cut to %d octets, and %d with a VLAN tag (the first: packet %d, %d octets); their IP headers still state the full length", o.Longest, o.Longest+tagLen, a.cut.first, a.cut.len)
	add(a.partial, "captured in part and sent so (the first: packet %d, %d octets)", a.partial.first, a.partial.len)
	add(a.padded, "padded with zeros to %d octets", minBuffer)
	add(a.made, "without an Ethernet header, which is made for them")
	add(a.backwards, "captured at an earlier time than the one before, and sent right after it (the first: packet %d)", a.backwards.first)
	add(a.untimed, "without a time, sent right after the one before")
	if n := a.fixed[sumsFixed]; n > 0 {
		s = append(s, fmt.Sprintf("%s: wrong checksums of %s computed anew", name, packets(n)))
	}
	if n := a.fixed[sumsUnknown]; n > 0 {
		s = append(s, fmt.Sprintf("%s: layer-4 checksums of %s left as they were: fragments, or not whole", name, packets(n)))
	}
	return s
}
