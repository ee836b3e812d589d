// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/internal/files"
	"boxdyno/internal/yaml"
)

// rates is what a rates file says.
type rates struct {
	path      string
	duration  time.Duration
	net       addressing
	templates []rate
	notes     []string
	unused    []string

	captured       bool   // times are the captures'
	least, instead uint64 // gaps below least are instead, ns
}

type rate struct {
	name     *yaml.Node
	cps      float64
	burst    int
	ipg, rtt uint64 // ns; 0: the capture's own
}

func readRates(path string) (*rates, error) {
	data, err := files.Read(path, yaml.MaxSize)
	if err != nil {
		return nil, fmt.Errorf("open templates: %w", err)
	}
	root, err := yaml.Parse(path, data)
	if err != nil {
		return nil, err
	}
	if root.Kind == yaml.List && len(root.List) == 1 {
		root = root.List[0]
	}
	if err := root.Want(yaml.Map, "a rates file"); err != nil {
		return nil, err
	}
	r := &rates{path: path}
	var infos *yaml.Node
	for _, f := range root.Map {
		var v float64
		switch f.Key {
		case "duration":
			if v, err = number(f, 1e-6, 1e7); err == nil {
				r.duration = time.Duration(v * 1e9)
			}
		case "cap_ipg":
			if err = f.Value.Want(yaml.Scalar, f.Key); err == nil {
				if r.captured, err = strconv.ParseBool(f.Value.Text); err != nil {
					err = f.Value.Errorf("cap_ipg is %q, and must be true or false", f.Value.Text)
				}
			}
		case "cap_ipg_min":
			r.least, err = micros(f)
		case "cap_override_ipg":
			r.instead, err = micros(f)
		case "generator":
			err = r.generator(f.Value)
		case "cap_info":
			infos = f.Value
		default:
			r.unused = append(r.unused, f.Key)
		}
		if err != nil {
			return nil, err
		}
	}
	if infos == nil {
		return nil, root.Errorf("the rates file has no cap_info: it lists the templates")
	}
	if err := infos.Want(yaml.List, "cap_info"); err != nil {
		return nil, err
	}
	for _, n := range infos.List {
		if err := r.info(n); err != nil {
			return nil, err
		}
	}
	if len(r.templates) == 0 {
		return nil, infos.Errorf("cap_info lists no template")
	}
	if len(r.unused) > 0 {
		slices.Sort(r.unused)
		r.notes = append(r.notes, fmt.Sprintf("%s: without effect: %s", path, strings.Join(slices.Compact(r.unused), ", ")))
	}
	return r, nil
}

// info reads an entry of cap_info.
func (r *rates) info(n *yaml.Node) error {
	if err := n.Want(yaml.Map, "an entry of cap_info"); err != nil {
		return err
	}
	t := rate{burst: 1}
	for _, f := range n.Map {
		var err error
		switch f.Key {
		case "name":
			t.name, err = f.Value, f.Value.Want(yaml.Scalar, f.Key)
		case "cps":
			t.cps, err = number(f, 1e-6, 1e9)
		case "w":
			var v float64
			v, err = number(f, 1, 1000)
			t.burst = int(v)
		case "ipg":
			t.ipg, err = micros(f)
		case "rtt":
			t.rtt, err = micros(f)
		default:
			r.unused = append(r.unused, f.Key)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case t.name == nil || t.name.Text == "":
		return n.Errorf("a template has no name: its capture's path")
	case t.cps == 0:
		return n.Errorf("template %s has no cps: its flows a second", t.name.Text)
	case r.captured:
		t.ipg, t.rtt = 0, 0
	case t.rtt == 0:
		t.rtt = t.ipg
	}
	r.templates = append(r.templates, t)
	return nil
}

// generator reads the addresses.
func (r *rates) generator(n *yaml.Node) error {
	if err := n.Want(yaml.Map, "generator"); err != nil {
		return err
	}
	var ends [4]netip.Addr
	for _, f := range n.Map {
		i := slices.Index([]string{"clients_start", "clients_end", "servers_start", "servers_end"}, f.Key)
		if i < 0 && f.Key != "distribution" {
			r.unused = append(r.unused, f.Key)
			continue
		}
		if err := f.Value.Want(yaml.Scalar, f.Key); err != nil {
			return err
		}
		v := f.Value.Text
		if i < 0 {
			if v != "seq" && v != "random" {
				return f.Value.Errorf("distribution is %q, and must be seq or random", v)
			}
			r.net.random = v == "random"
			continue
		}
		a, err := netip.ParseAddr(v)
		if err != nil || a.Zone() != "" || a.Is4In6() {
			return f.Value.Errorf("%s is %q, and must be an IP address", f.Key, v)
		}
		ends[i] = a
	}
	for i, p := range []*pool{&r.net.clients, &r.net.servers} {
		first, last := ends[2*i], ends[2*i+1]
		if !first.IsValid() || !last.IsValid() || first.Is4() != ends[0].Is4() || last.Is4() != first.Is4() || last.Less(first) {
			return n.Errorf("generator needs clients_start to clients_end and servers_start to servers_end, upwards, of one IP version")
		}
		a, b := first.As16(), last.As16()
		if string(a[:8]) != string(b[:8]) {
			return n.Errorf("addresses from %v to %v are more than can be used", first, last)
		}
		*p = pool{first, binary.BigEndian.Uint64(b[8:]) - binary.BigEndian.Uint64(a[8:]) + 1}
		if p.n == 0 || p.n > 1<<32 {
			p.n = 1 << 32
		}
	}
	if c, s := r.net.clients, r.net.servers; !c.last().Less(s.first) && !s.last().Less(c.first) {
		return n.Errorf("the addresses of clients and servers overlap: want them apart from each other")
	}
	r.net.v6 = ends[0].Is6()
	return nil
}

// number reads a value from lo to hi.
func number(f yaml.Field, lo, hi float64) (float64, error) {
	if err := f.Value.Want(yaml.Scalar, f.Key); err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(f.Value.Text, 64)
	if err != nil || !(v >= lo && v <= hi) {
		return 0, f.Value.Errorf("%s is %q, and must be a number from %v to %v", f.Key, f.Value.Text, lo, hi)
	}
	return v, nil
}

func micros(f yaml.Field) (uint64, error) {
	v, err := number(f, 0, 1e9)
	return uint64(math.Round(v * 1000)), err
}

// load reads the captures.
func (s *TemplateSource) load(r *rates) error {
	total := 0
	var classes []string
	for _, in := range r.templates {
		path, err := find(r.path, in.name)
		if err != nil {
			return err
		}
		t := template{name: in.name.Text, cps: in.cps, burst: in.burst}
		name := className(t.name)
		c := slices.Index(classes, name)
		if c < 0 && len(classes) < MaxClasses {
			c = len(classes)
			classes = append(classes, name)
		} else if c < 0 {
			c = MaxClasses - 1
		}
		t.class = uint8(c)
		ports, err := s.read(&t, path, in.name.Pos)
		if err != nil {
			return err
		}
		for i := range t.packets {
			if total += len(t.packets[i].octets); total > 1<<30 {
				return in.name.Errorf("the templates up to here hold more than 1 GiB: take fewer, or shorter ones")
			}
		}
		r.space(&t, in)
		s.net.stride = max(s.net.stride, uint64(ports))
		s.templates = append(s.templates, t)
	}
	return nil
}

// find is where a template's capture stands.
func find(file string, name *yaml.Node) (string, error) {
	dir := filepath.Dir(file)
	tried := []string{name.Text}
	if !filepath.IsAbs(name.Text) {
		tried[0] = filepath.Join(dir, name.Text)
	}
	if beside := filepath.Join(dir, filepath.Base(name.Text)); beside != tried[0] {
		tried = append(tried, beside)
	}
	for _, path := range tried {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", name.Errorf("template %s: %w", name.Text, err)
		}
	}
	return "", name.Errorf("template %s is missing: neither %s: put its capture there", name.Text, strings.Join(tried, " nor "))
}

// space sets the times of a template's packets.
func (r *rates) space(t *template, in rate) {
	var at, last uint64
	for i := range t.packets {
		p := &t.packets[i]
		gap := p.entry.At - last
		last = p.entry.At
		switch {
		case i == 0:
			gap = 0
		case in.ipg > 0 && p.fromServer == t.packets[i-1].fromServer:
			gap = in.ipg
		case in.ipg > 0:
			gap = in.rtt
		case gap < r.least:
			gap = r.instead
		}
		at += gap
		p.entry.At = at
	}
}

// read reads a template's packets and returns how many ports its client uses.
func (s *TemplateSource) read(t *template, path string, at yaml.Pos) (ports int, err error) {
	c, err := OpenCapture(path, CaptureOptions{})
	if err != nil {
		return 0, at.Errorf("template: %w", err)
	}
	defer c.Close()
	w := Window{Blob: make([]byte, 1<<20), Entries: make([]Entry, 4096)}
	var hosts []netip.Addr
	var used []uint16 // the client's ports
	skipped := 0
	for end := false; !end; {
		w.Reset()
		if err := c.Fill(&w); err == io.EOF {
			end = true
		} else if err != nil {
			return 0, at.Errorf("template: %w", err)
		}
		for i := range w.Len() {
			b := slices.Clone(w.Frame(i))
			e := Entry{At: w.Entries[i].At}
			l := locate(&e, b)
			if e.Flags&(IPv4|IPv6) == 0 {
				skipped++
				continue
			}
			if e.Flags&IPv6 != 0 != s.net.v6 {
				return 0, at.Errorf("template %s has packets of IPv%s, and the addresses are not: give clients and servers of that version",
					t.name, IPText(e.Flags&IPv6 != 0))
			}
			if l.whole { // a trailer, such as a captured FCS, is not the conversation's
				clear(b[l.end:])
				b = b[:max(minBuffer, l.end)]
			}
			e.Flags |= Rewrite
			p := templatePacket{entry: e, octets: b, ports: [2]int{-1, -1}}
			for j, a := range hostsOf(b, &e) {
				h := slices.Index(hosts, a)
				if h < 0 {
					h = len(hosts)
					hosts = append(hosts, a)
				}
				p.hosts[j] = h
			}
			if p.hosts[0] > 0 {
				p.fromServer = 1
			}
			if e.L4 > 0 && (l.protocol == protoTCP || l.protocol == protoUDP) {
				for j, h := range p.hosts {
					if h > 0 {
						continue
					}
					port := binary.BigEndian.Uint16(b[int(e.L4)+2*j:])
					k := slices.Index(used, port)
					if k < 0 {
						k = len(used)
						used = append(used, port)
					}
					p.ports[j] = k
				}
			}
			repair(b, &e, l)
			t.packets = append(t.packets, p)
		}
		if len(used) > 1024 {
			return 0, at.Errorf("template %s is no single conversation: its client uses more than 1024 ports", t.name)
		}
	}
	for _, n := range c.Notes() {
		s.notes = append(s.notes, "template "+n)
	}
	if skipped > 0 {
		s.notes = append(s.notes, fmt.Sprintf("template %s: %d frames without IP are left out", t.name, skipped))
	}
	if len(t.packets) == 0 {
		return 0, at.Errorf("template %s has no packet of IP", t.name)
	}
	return len(used), nil
}

// hostsOf are a frame's source and destination.
func hostsOf(b []byte, e *Entry) [2]netip.Addr {
	ip := b[e.L3:]
	if e.Flags&IPv6 != 0 {
		return [2]netip.Addr{netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:]))}
	}
	return [2]netip.Addr{netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))}
}

// repair computes the checksums of a frame anew: a capture made where packets are
// sent has them as the NIC gets them.
func repair(b []byte, e *Entry, l located) {
	ip := b[e.L3:]
	s := uint64(0)
	if e.Flags&IPv4 != 0 {
		n := int(ip[0]&15) * 4
		binary.BigEndian.PutUint16(ip[10:], 0)
		binary.BigEndian.PutUint16(ip[10:], foldWords(addWords(0, ip[:n])))
		s = addWords(0, ip[12:20])
	} else {
		s = addWords(0, ip[8:ip6Len])
	}
	if !l.whole || e.L4 == 0 || e.Sum == 0 {
		return
	}
	l4 := b[e.L4:l.end]
	s += uint64(l.protocol) + uint64(len(l4))
	binary.BigEndian.PutUint16(b[e.Sum:], 0)
	c := foldWords(addWords(s, l4))
	if c == 0 && e.Flags&SumUDP != 0 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(b[e.Sum:], c)
}
