// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A FieldSpec says how one header field differs from frame to frame, as
// ParseField read it.
type FieldSpec struct {
	text   string
	row    *fieldRow
	kind   fieldKind
	first  uint32   // lowest value; of addresses and MACs, their last 4 octets
	count  uint32   // values from first on; 0: 2^32
	list   []uint32 // kind list
	head   string   // what addresses and MACs have before their last 4 octets
	headed bool
}

type fieldKind uint8

const (
	fixedField fieldKind = iota
	counterField
	randomField
	listField
)

var fieldKinds = []string{"fixed", "counter", "random", "list"}

// A fieldRow is one field's name and place.
type fieldRow struct {
	name, doc string
	values    fieldValues
	bits      uint8 // of a number
	// place says where it is in frames of s; without an error where they have it.
	place func(s Synthetic, e Entry) (place, bool)
}

type fieldValues uint8

const (
	numbers fieldValues = iota
	addresses
	macs
)

// A place is a Field without its values, and the bits of a field's word below it.
type place struct {
	base   FieldBase
	offset int
	width  uint8
	shift  uint8
	sums   FieldSums
}

var fieldRows = []fieldRow{
	{"src", "source address", addresses, 0, func(s Synthetic, e Entry) (place, bool) {
		return place{AtL3, addressAt(s, 12, 20), 4, 0, addressSums(s)}, true
	}},
	{"dst", "destination address", addresses, 0, func(s Synthetic, e Entry) (place, bool) {
		return place{AtL3, addressAt(s, 16, 36), 4, 0, addressSums(s)}, true
	}},
	{"sport", "UDP or TCP source port", numbers, 16, func(s Synthetic, e Entry) (place, bool) {
		return place{AtL4, 0, 2, 0, SumsL4}, s.Protocol != ICMP
	}},
	{"dport", "UDP or TCP destination port", numbers, 16, func(s Synthetic, e Entry) (place, bool) {
		return place{AtL4, 2, 2, 0, SumsL4}, s.Protocol != ICMP
	}},
	{"seq", "TCP sequence number", numbers, 32, func(s Synthetic, e Entry) (place, bool) {
		return place{AtL4, 4, 4, 0, SumsL4}, s.Protocol == TCP
	}},
	{"ack", "TCP acknowledgement number", numbers, 32, func(s Synthetic, e Entry) (place, bool) {
		return place{AtL4, 8, 4, 0, SumsL4}, s.Protocol == TCP
	}},
	{"window", "TCP window", numbers, 16, func(s Synthetic, e Entry) (place, bool) {
		return place{AtL4, 14, 2, 0, SumsL4}, s.Protocol == TCP
	}},
	{"icmp-id", "echo identifier", numbers, 16, func(s Synthetic, e Entry) (place, bool) {
		return place{AtL4, 4, 2, 0, SumsL4}, s.Protocol == ICMP
	}},
	{"icmp-seq", "echo sequence number", numbers, 16, func(s Synthetic, e Entry) (place, bool) {
		return place{AtL4, 6, 2, 0, SumsL4}, s.Protocol == ICMP
	}},
	{"ttl", "time to live, or hop limit", numbers, 8, func(s Synthetic, e Entry) (place, bool) {
		return place{AtL3, addressAt(s, 8, 7), 1, 0, SumsIP}, true
	}},
	{"dscp", "differentiated services code point", numbers, 6, func(s Synthetic, e Entry) (place, bool) {
		if s.Src.Is6() {
			return place{AtL3, 0, 2, 6, 0}, true
		}
		return place{AtL3, 1, 1, 2, SumsIP}, true
	}},
	{"ipid", "IPv4 identification", numbers, 16, func(s Synthetic, e Entry) (place, bool) {
		return place{AtL3, 4, 2, 0, SumsIP}, s.Src.Is4()
	}},
	{"vlan", "VLAN ID, of the inner tag", numbers, 12, func(s Synthetic, e Entry) (place, bool) {
		return place{FrameStart, int(e.L3) - 4, 2, 0, 0}, len(s.VLANs) > 0
	}},
	{"outer-vlan", "VLAN ID of the outer of two tags", numbers, 12, func(s Synthetic, e Entry) (place, bool) {
		return place{FrameStart, ethLen, 2, 0, 0}, len(s.VLANs) > 1
	}},
	{"src-mac", "source MAC", macs, 0, func(s Synthetic, e Entry) (place, bool) {
		return place{FrameStart, 8, 4, 0, 0}, true
	}},
	{"dst-mac", "destination MAC", macs, 0, func(s Synthetic, e Entry) (place, bool) {
		return place{FrameStart, 2, 4, 0, 0}, true
	}},
}

func addressAt(s Synthetic, v4, v6 int) int {
	if s.Src.Is6() {
		return v6
	}
	return v4
}

// addressSums are the checksums over an address: ICMP's has no pseudo header.
func addressSums(s Synthetic) FieldSums {
	if s.Src.Is4() && s.Protocol == ICMP {
		return SumsIP
	}
	return SumsIP | SumsL4
}

// FieldDocs are the names that ParseField takes, each with what it is.
func FieldDocs() [][2]string {
	var docs [][2]string
	for _, r := range fieldRows {
		docs = append(docs, [2]string{r.name, r.doc})
	}
	return docs
}

// ParseField reads NAME=VALUE for a fixed value, or NAME=KIND:VALUES for one that differs from
// frame to frame: sport=random:1024-65535, src=random:198.18.0.0/16,
// dst=counter:198.18.0.1-198.18.0.99, dport=list:80,443. Without values, a counter or random
// number takes all that the field can have. Of an IPv6 address or a MAC the last 4 octets
// differ, and no others.
func ParseField(s string) (FieldSpec, error) {
	name, value, ok := strings.Cut(s, "=")
	row := rowOf(name)
	if !ok || row == nil {
		return FieldSpec{}, fmt.Errorf("field %q: want NAME=VALUE or NAME=KIND:VALUES, with one of the names %s", s, strings.Join(fieldNames(), ", "))
	}
	f := FieldSpec{text: s, row: row}
	kind, values, _ := strings.Cut(value, ":")
	if k := slices.Index(fieldKinds, kind); k >= 0 {
		f.kind = fieldKind(k)
	} else {
		values = value
	}
	if err := f.parse(values); err != nil {
		return FieldSpec{}, fmt.Errorf("field %q: %w", s, err)
	}
	return f, nil
}

func rowOf(name string) *fieldRow {
	i := slices.IndexFunc(fieldRows, func(r fieldRow) bool { return r.name == name })
	if i < 0 {
		return nil
	}
	return &fieldRows[i]
}

func fieldNames() []string {
	var names []string
	for _, r := range fieldRows {
		names = append(names, r.name)
	}
	return names
}

func (f *FieldSpec) parse(values string) error {
	var err error
	switch f.kind {
	case fixedField:
		f.first, err = f.value(values)
		f.count = 1
		return err
	case listField:
		for part := range strings.SplitSeq(values, ",") {
			v, err := f.value(part)
			if err != nil {
				return err
			}
			f.list = append(f.list, v)
		}
		if len(f.list) > MaxList {
			return fmt.Errorf("a list of %d values: at most %d are possible", len(f.list), MaxList)
		}
		f.first = f.list[0]
		return nil
	}
	if values == "" {
		if f.row.values != numbers {
			return fmt.Errorf("want a range behind the colon")
		}
		f.count = uint32(uint64(1) << f.row.bits)
		return nil
	}
	if f.row.values == addresses && strings.Contains(values, "/") {
		return f.prefix(values)
	}
	low, high, ranged := strings.Cut(values, "-")
	if !ranged {
		return fmt.Errorf("want a range LOWEST-HIGHEST behind the colon")
	}
	if f.first, err = f.value(low); err != nil {
		return err
	}
	last, err := f.value(high)
	if err != nil {
		return err
	}
	if last < f.first {
		return fmt.Errorf("%s to %s is empty: want the lower value first", low, high)
	}
	f.count = last - f.first + 1
	return nil
}

func (f *FieldSpec) prefix(s string) error {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return fmt.Errorf("%q is no prefix such as 198.18.0.0/16", s)
	}
	free := p.Addr().BitLen() - p.Bits()
	if free > 32 {
		return fmt.Errorf("%s: the last 32 bits can differ, so want a /%d or longer", s, p.Addr().BitLen()-32)
	}
	if f.first, err = f.value(p.Masked().Addr().String()); err != nil {
		return err
	}
	f.count = uint32(uint64(1) << free)
	return nil
}

// value reads one value and returns its last 4 octets; all of a field must agree
// in what is before them.
func (f *FieldSpec) value(s string) (uint32, error) {
	var raw []byte
	switch f.row.values {
	case numbers:
		n, err := strconv.ParseUint(s, 0, 64)
		if most := uint64(1)<<f.row.bits - 1; err != nil || n > most {
			return 0, fmt.Errorf("%q is not a whole number from 0 to %d", s, most)
		}
		return uint32(n), nil
	case addresses:
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return 0, fmt.Errorf("%q is no IP address", s)
		}
		raw = a.Unmap().AsSlice()
	case macs:
		m, err := net.ParseMAC(s)
		if err != nil || len(m) != 6 {
			return 0, fmt.Errorf("%q is no MAC such as 02:00:00:00:00:01", s)
		}
		raw = m
	}
	head := string(raw[:len(raw)-4])
	if f.headed && head != f.head {
		return 0, fmt.Errorf("%s differs from the values before it in more than its last 4 octets", s)
	}
	f.head, f.headed = head, true
	return binary.BigEndian.Uint32(raw[len(raw)-4:]), nil
}

// Targets returns destination addresses that the field sets: of a range its ends and
// the first address of each /8 (IPv4) or of 2^24 (IPv6) in it. Nil for every other field.
func (f FieldSpec) Targets() (all []netip.Addr) {
	if f.row == nil || f.row.name != "dst" {
		return nil
	}
	at := func(v uint64) netip.Addr {
		a, _ := netip.AddrFromSlice(binary.BigEndian.AppendUint32([]byte(f.head), uint32(v)))
		return a
	}
	for _, v := range f.list {
		all = append(all, at(uint64(v)))
	}
	if f.kind == listField {
		return all
	}
	return append(all, samples(uint64(f.first), uint64(f.first+f.count-1), at)...) // a count of 0 is 2^32
}

// samples are the ends of a range of addresses, and the first of each 2^24 in it.
func samples(first, last uint64, at func(uint64) netip.Addr) []netip.Addr {
	all := []netip.Addr{at(first)}
	for v := (first | (1<<24 - 1)) + 1; v <= last; v += 1 << 24 {
		all = append(all, at(v))
	}
	return append(all, at(last))
}

// A patch is a field's first value as it stands in every frame, and how it goes on.
type patch struct {
	at    int
	head  string // octets before at
	width uint8
	value uint32
	draw  Draw
	field Field
}

// compile places the field in the frames of s; sample is one of them.
func (f FieldSpec) compile(s Synthetic, sample []byte, e Entry) (patch, error) {
	if f.row == nil {
		return patch{}, fmt.Errorf("a field without a name: make fields with ParseField")
	}
	at, ok := f.row.place(s, e)
	if !ok {
		return patch{}, fmt.Errorf("field %q: frames of %s have no %s", f.text, s.stack(), f.row.doc)
	}
	if n := len(s.Src.AsSlice()) - 4; f.row.values == addresses && len(f.head) != n {
		return patch{}, fmt.Errorf("field %q: the frames have IPv%s addresses", f.text, IPText(s.Src.Is6()))
	}
	p := patch{at: at.offset, head: f.head, width: at.width}
	switch at.base {
	case AtL3:
		p.at += int(e.L3)
	case AtL4:
		p.at += int(e.L4)
	}
	var word [4]byte
	copy(word[4-at.width:], sample[p.at:p.at+int(at.width)])
	rest := binary.BigEndian.Uint32(word[:])
	if f.row.values == numbers && f.row.bits < 8*at.width {
		rest &^= (1<<f.row.bits - 1) << at.shift
	} else {
		rest = 0
	}
	p.value = rest | f.first<<at.shift
	p.field = Field{Base: at.base, Width: at.width, Offset: uint16(at.offset), From: p.value, Step: 1 << at.shift, Sums: at.sums}
	switch f.kind {
	case counterField:
		p.draw = Draw{Kind: Counter, Count: f.count}
	case randomField:
		p.draw = Draw{Kind: Random, Count: f.count}
	case listField:
		p.draw = Draw{Kind: List, List: f.list}
		p.field.From = rest
	}
	return p, nil
}

func (p patch) apply(b []byte) {
	copy(b[p.at-len(p.head):], p.head)
	put(b, p.at, p.width, p.value)
}
