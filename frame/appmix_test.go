// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"boxdyno/unit"
)

// drain fills windows of the given size until the pass is over, and hands every
// frame to see.
func drain(t *testing.T, s Source, blob, entries, chunk int, see func(e Entry, b []byte)) {
	t.Helper()
	w := Window{Blob: make([]byte, blob), Entries: make([]Entry, entries), Chunk: chunk}
	for i := range w.Blob {
		w.Blob[i] = 0xa5 // a window is as it was left
	}
	for {
		w.Reset()
		err := s.Fill(&w)
		for i := range w.Len() {
			see(w.Entries[i], w.Frame(i))
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if w.Len() == 0 {
			t.Fatal("a window came back empty")
		}
	}
}

// pass is a whole pass: one digest of all frames with their entries, but for
// their places in windows.
func pass(t *testing.T, s Source, blob, entries, chunk int) (digest uint64, frames int) {
	h := fnv.New64a()
	drain(t, s, blob, entries, chunk, func(e Entry, b []byte) {
		e.Off = 0
		binary.Write(h, binary.BigEndian, e)
		h.Write(b)
		frames++
	})
	return h.Sum64(), frames
}

// checkSums fails unless lengths and checksums of a frame are right, as is what
// its entry says.
func checkSums(t *testing.T, e Entry, b []byte) {
	t.Helper()
	if len(b) < 60 || int(e.Len) != len(b) {
		t.Fatalf("a frame of %d octets, its entry says %d", len(b), e.Len)
	}
	ip := b[e.L3:]
	var pseudo []byte
	var n int
	var protocol byte
	switch {
	case e.Flags&IPv4 != 0 && ip[0]>>4 == 4:
		head := int(ip[0]&15) * 4
		if c := onesComplement(ip[:head]); c != 0 {
			t.Fatalf("IPv4 header checksum is off by %#x: % x", c, ip[:head])
		}
		n, protocol = int(binary.BigEndian.Uint16(ip[2:]))-head, ip[9]
		pseudo = append(pseudo, ip[12:20]...)
	case e.Flags&IPv6 != 0 && ip[0]>>4 == 6:
		n, protocol = int(binary.BigEndian.Uint16(ip[4:])), ip[6]
		pseudo = append(pseudo, ip[8:40]...)
	default:
		t.Fatalf("entry %+v of % x", e, b)
	}
	if e.Flags&Rewrite == 0 || protocol != 6 && protocol != 17 {
		t.Fatalf("entry %+v, protocol %d", e, protocol)
	}
	end := int(e.L4) + n
	if end > len(b) || len(b) > max(60, end) {
		t.Fatalf("IP ends at %d, the frame at %d", end, len(b))
	}
	sum := map[byte]uint16{6: 16, 17: 6}[protocol]
	if e.Sum != e.L4+sum || protocol == 17 != (e.Flags&SumUDP != 0) || protocol == 17 && binary.BigEndian.Uint16(b[e.Sum:]) == 0 {
		t.Fatalf("entry %+v, protocol %d", e, protocol)
	}
	pseudo = binary.BigEndian.AppendUint32(append(pseudo, 0, protocol), uint32(n)) // words may stand anywhere
	if len(pseudo)%2 != 0 {
		t.Fatal("pseudo header")
	}
	if c := onesComplement(append(pseudo, b[e.L4:end]...)); c != 0 {
		t.Fatalf("layer-4 checksum is off by %#x: % x", c, b[:end])
	}
	if bytes.Count(b[end:], []byte{0}) != len(b)-end {
		t.Fatalf("padding is not zero: % x", b[end:])
	}
}

// A heard is what a sensor puts together of one conversation.
type heard struct {
	class    uint8
	tcp      bool
	port     uint16
	streams  [2][]byte
	segments [][]byte // UDP datagrams
	next     [2]uint32
	syn, fin [2]bool
	unacked  [2]int // segments of each side since the other's last ACK
	closed   bool
	early    bool // it began before the pass
}

func listen(t *testing.T, s *AppMixSource) map[string]*heard {
	t.Helper()
	flows := map[string]*heard{}
	last := uint64(0)
	alert := uint8(len(s.Shape().Classes) - 1)
	first := true
	drain(t, s, 1<<20, 2048, 1<<16, func(e Entry, b []byte) {
		checkSums(t, e, b)
		if e.At < last || first && s.mix.Flows > 0 && e.At != 0 || s.mix.Flows == 0 && e.At >= uint64(s.mix.Duration) {
			t.Fatalf("time goes from %d to %d", last, e.At)
		}
		last, first = e.At, false
		if len(b) > s.Shape().Longest {
			t.Fatalf("%d octets, and the longest are %d", len(b), s.Shape().Longest)
		}
		p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
		if err := p.ErrorLayer(); err != nil && p.TransportLayer() == nil {
			t.Fatalf("gopacket: %v", err.Error())
		}
		src, dst := p.NetworkLayer().NetworkFlow().Endpoints()
		sp, dp := p.TransportLayer().TransportFlow().Endpoints()
		from := client
		if netip.MustParseAddr(src.String()).Compare(netip.MustParseAddr(dst.String())) > 0 { // servers are above clients in these tests
			from = server
			src, dst, sp, dp = dst, src, dp, sp
		}
		key := fmt.Sprint(src, sp, dst)
		f := flows[key]
		if f == nil {
			tcp, _ := p.TransportLayer().(*layers.TCP)
			f = &heard{class: e.Class, port: binary.BigEndian.Uint16(dp.Raw()), early: s.mix.Duration > 0 && tcp != nil && (!tcp.SYN || tcp.ACK)}
			if e.Class == alert {
				f.class = 255
			}
			flows[key] = f
		}
		if f.early && e.Class == alert {
			t.Fatalf("%s has an alert, and its beginning was never sent", key)
		}
		if f.class == 255 && e.Class != alert {
			f.class = e.Class
		}
		if udp, ok := p.TransportLayer().(*layers.UDP); ok {
			if int(udp.Length) != len(udp.Payload)+8 {
				t.Fatalf("UDP length %d of %d", udp.Length, len(udp.Payload)+8)
			}
			f.segments = append(f.segments, slices.Clone(udp.Payload))
			return
		}
		f.hear(t, key, from, p.TransportLayer().(*layers.TCP), s.mix.MTU)
	})
	return flows
}

// hear follows one TCP segment, strictly: nothing is lost, doubled or early.
func (f *heard) hear(t *testing.T, key string, from int, h *layers.TCP, mtu int) {
	t.Helper()
	other := 1 - from
	fail := func(what string) {
		t.Fatalf("%s from %d: %s: seq %d ack %d %d octets; %+v", key, from, what, h.Seq, h.Ack, len(h.Payload), f.next)
	}
	if f.closed {
		fail("a frame after the end")
	}
	if f.early && !f.tcp {
		f.syn[client], f.syn[server] = true, !h.SYN
		f.next[from], f.next[other] = h.Seq, h.Ack
		f.unacked[from] = -1 // the last may have had its ACK coming
	}
	f.tcp = true
	if h.SYN {
		if f.syn[from] || len(h.Payload) > 0 || h.ACK != (from == server) || from == server && !f.syn[client] {
			fail("SYN")
		}
		mss := 0
		for _, o := range h.Options {
			if o.OptionType == layers.TCPOptionKindMSS {
				mss = int(binary.BigEndian.Uint16(o.OptionData))
			}
		}
		if mss != mtu-40 && mss != mtu-60 {
			fail("MSS")
		}
		f.syn[from], f.next[from] = true, h.Seq
	} else if !f.syn[client] || !f.syn[server] || !h.ACK {
		fail("no handshake before it")
	}
	if h.Seq != f.next[from] {
		fail("sequence")
	}
	if h.ACK && h.Ack != f.next[other] {
		fail("ACK")
	}
	f.next[from] += uint32(len(h.Payload))
	if h.SYN || h.FIN {
		f.next[from]++
	}
	f.unacked[other] = 0
	if len(h.Payload) > 0 {
		if f.fin[from] || len(h.Payload) > mtu-40 {
			fail("data")
		}
		if f.unacked[from]++; f.unacked[from] > 2 {
			fail("third segment without ACK")
		}
	}
	f.streams[from] = append(f.streams[from], h.Payload...)
	if h.FIN {
		f.fin[from] = true
	} else if f.fin[client] && f.fin[server] {
		f.closed = true
	}
}

func TestAppMixConversations(t *testing.T) {
	for _, m := range []AppMix{
		{Seed: 1, Flows: 700},
		{Seed: 2, Flows: 300, MTU: 1280},
		{Seed: 3, Flows: 300, Clients: netip.MustParsePrefix("2001:2:0:1::/64"), Servers: netip.MustParsePrefix("2001:2:0:2::/64")},
	} {
		s, err := NewAppMix(m)
		if err != nil {
			t.Fatal(err)
		}
		flows := listen(t, s)
		if len(flows) != int(m.Flows) {
			t.Fatalf("%d conversations of %d", len(flows), m.Flows)
		}
		seen := map[string]int{}
		for key, f := range flows {
			if f.tcp && !f.closed {
				t.Fatalf("%s was not closed", key)
			}
			name := "sip" // a scanner's one frame, which is the alert's
			if f.class != 255 {
				name = s.Shape().Classes[f.class]
			}
			seen[name]++
			if f.port != apps[slices.IndexFunc(apps[:], func(a app) bool { return a.name == name })].port {
				t.Fatalf("%s: %s at port %d", key, name, f.port)
			}
			if err := speak(name, f); err != nil {
				t.Fatalf("%s: %s: %v", key, name, err)
			}
		}
		for _, name := range []string{"dns", "browsing", "get", "post", "exchange", "https", "oracle", "citrix", "sip", "smtp"} {
			if seen[name] == 0 {
				t.Errorf("no flow of %s among %v", name, seen)
			}
		}
	}
}

func TestAppMixIsTheSameFromTheSameSeed(t *testing.T) {
	make1 := func(m AppMix) *AppMixSource {
		s, err := NewAppMix(m)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, m := range []AppMix{{Seed: 7, Flows: 150}, {Seed: 7, Rate: 100e6, Duration: 300 * time.Millisecond}} {
		testSameSeed(t, m, make1)
	}
}

func testSameSeed(t *testing.T, m AppMix, make1 func(AppMix) *AppMixSource) {
	s := make1(m)
	first, n := pass(t, s, 1<<20, 4096, 0)
	second, _ := pass(t, s, 1<<20, 4096, 0)
	small, _ := pass(t, make1(m), 8192, 5, 2048)
	if first != second || first != small || n == 0 {
		t.Errorf("passes of one seed differ: %x %x, and with small windows %x", first, second, small)
	}
	m.Seed++
	if other, _ := pass(t, make1(m), 1<<20, 4096, 0); other == first {
		t.Error("another seed yields the same frames")
	}
	m.Seed--

	// The sides, merged by their times, and the parts are the whole.
	type seen struct {
		at uint64
		b  string
	}
	collect := func(sources ...Source) (all []seen) {
		for _, s := range sources {
			frames := uint64(0)
			drain(t, s, 1<<18, 512, 0, func(e Entry, b []byte) { all, frames = append(all, seen{e.At, string(b)}), frames+1 })
			if frames != s.Shape().Frames {
				t.Errorf("%d frames, the shape says %d", frames, s.Shape().Frames)
			}
		}
		slices.SortFunc(all, func(a, b seen) int {
			return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.b, b.b))
		})
		return all
	}
	whole := collect(s)
	m.Side = ClientSide
	asks := make1(m)
	m.Side = ServerSide
	answers := make1(m)
	if !slices.Equal(whole, collect(asks, answers)) {
		t.Error("the two sides are not the whole")
	}
	if !slices.Equal(whole, collect(s.Shard(0, 3), s.Shard(1, 3), s.Shard(2, 3))) {
		t.Error("three parts are not the whole")
	}
}

// The truth is what the frames hold: every alert's pattern stands in frames of
// class alert, as often as said, and in no other.
func TestAppMixAlerts(t *testing.T) {
	share := 0.25
	for _, m := range []AppMix{{Seed: 5, Flows: 800}, {Seed: 5, Rate: 200e6, Duration: 500 * time.Millisecond}} {
		m.AlertShare = &share
		testAlerts(t, m)
	}
}

func testAlerts(t *testing.T, m AppMix) {
	s, err := NewAppMix(m)
	if err != nil {
		t.Fatal(err)
	}
	truth := s.Truth()
	class := uint8(slices.Index(s.Shape().Classes, "alert"))
	counts := make([]MixCount, len(s.Shape().Classes))
	found := make([]uint64, len(Alerts()))
	var ends uint64
	drain(t, s, 1<<20, 4096, 0, func(e Entry, b []byte) {
		ends = e.At
		counts[e.Class].Frames++
		counts[e.Class].Octets += uint64(len(b) + unit.FCS)
		hits := 0
		for i, a := range Alerts() {
			if !bytes.Contains(b, []byte(a.Pattern)) || a.App == "dns" && b[44]&0x80 != 0 { // an answer repeats the question
				continue
			}
			hits++
			found[i]++
		}
		if hits != map[bool]int{true: 1}[e.Class == class] {
			t.Fatalf("class %s has %d patterns: %q", s.Shape().Classes[e.Class], hits, b)
		}
	})
	if !slices.Equal(found, truth.Alerts) {
		t.Errorf("found %v, the truth is %v", found, truth.Alerts)
	}
	sum := uint64(0)
	for i, c := range counts {
		if c.Frames != truth.Classes[i].Frames || c.Octets != truth.Classes[i].Octets {
			t.Errorf("%s: counted %+v, the truth is %+v", s.Shape().Classes[i], c, truth.Classes[i])
		}
		sum += c.Frames
	}
	if sum != truth.Frames || sum != s.Shape().Frames || m.Flows > 0 && truth.Flows != m.Flows || uint64(truth.Ends) != ends || truth.Classes[class].Flows != counts[class].Frames {
		t.Errorf("%d frames to %d ns, the truth is %+v", sum, ends, truth)
	}
	for i, n := range found {
		if n == 0 {
			t.Errorf("no flow for %s", Alerts()[i].Name)
		}
	}
}

// The content that a rule looks for stands in its alert's pattern, or the pattern
// in it.
func TestRules(t *testing.T) {
	var b strings.Builder
	if err := WriteRules(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != len(Alerts()) {
		t.Fatalf("%d rules for %d alerts", len(lines), len(Alerts()))
	}
	for i, a := range Alerts() {
		if lines[i] != a.Rule || !strings.HasSuffix(a.Rule, fmt.Sprintf("sid:%d; rev:1;)", FirstSID+i)) || !strings.HasPrefix(a.Rule, "alert ") {
			t.Errorf("rule %q", lines[i])
		}
		_, rest, ok := strings.Cut(a.Rule, `content:"`)
		raw, _, ok2 := strings.Cut(rest, `"`)
		if !ok || !ok2 || strings.ContainsAny(raw, `;\`) {
			t.Fatalf("content of %q", a.Rule)
		}
		content := ""
		for j, part := range strings.Split(raw, "|") {
			if j%2 == 1 {
				for _, x := range strings.Fields(part) {
					var v byte
					if _, err := fmt.Sscanf(x, "%02x", &v); err != nil {
						t.Fatalf("content %q: %v", raw, err)
					}
					content += string(rune(v))
				}
				continue
			}
			content += part
		}
		if a.App == "dns" {
			content = "\x043322\x03org"
		}
		if !strings.Contains(a.Pattern, content) && !strings.Contains(content, a.Pattern) {
			t.Errorf("%s looks for %q, the pattern is %q", a.Name, content, a.Pattern)
		}
	}
}

func TestAppMixRefusals(t *testing.T) {
	share := 1.5
	for name, c := range map[string]struct {
		m    AppMix
		want string
	}{
		"no end":   {AppMix{}, "duration"},
		"two ends": {AppMix{Flows: 1, Duration: 1}, "either"},
		"rate":     {AppMix{Flows: 1, Rate: -1}, "rate"},
		"share":    {AppMix{Flows: 1, AlertShare: &share}, "0 to 1"},
		"mtu":      {AppMix{Flows: 1, MTU: 576}, "1280"},
		"overlap":  {AppMix{Flows: 1, Clients: netip.MustParsePrefix("10.0.0.0/8"), Servers: netip.MustParsePrefix("10.1.0.0/16")}, "overlap"},
		"versions": {AppMix{Flows: 1, Clients: netip.MustParsePrefix("10.0.0.0/8"), Servers: netip.MustParsePrefix("2001:2::/48")}, "one IP version"},
		"half":     {AppMix{Flows: 1, Clients: netip.MustParsePrefix("10.0.0.0/8")}, "two prefixes"},
	} {
		if _, err := NewAppMix(c.m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a sentence with %q", name, err, c.want)
		}
	}
	s, err := NewAppMix(AppMix{Flows: 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Fill(&Window{Blob: make([]byte, 32), Entries: make([]Entry, 4)}); err == nil || err == io.EOF {
		t.Errorf("a window too small for any frame: %v", err)
	}
}

func BenchmarkAppMix(b *testing.B) {
	s, err := NewAppMix(AppMix{Seed: 1, Duration: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	w := Window{Blob: make([]byte, 4<<20), Entries: make([]Entry, 8192)}
	frames := 0
	for b.Loop() {
		w.Reset()
		if err := s.Fill(&w); err != nil && err != io.EOF {
			b.Fatal(err)
		}
		frames += w.Len()
		b.SetBytes(int64(w.Used()))
	}
	b.ReportMetric(float64(frames)/b.Elapsed().Seconds(), "frames/s")
}
