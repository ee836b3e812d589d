// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/files"
	"boxdyno/unit"
)

// A talk is a frame of a template in a test: us since the last, and who sends it.
type talk struct {
	us     uint32
	server bool
	b      []byte
}

// udpFrame is one of a conversation between 10.0.0.1 and 10.9.9.9 with a wrong
// checksum, as captured where it was sent.
func udpFrame(server bool, clientPort, serverPort uint16, payload string) []byte {
	ends := [2]endpoint{{mac: [6]byte{2, 9, 1}, addr: [16]byte{10, 0, 0, 1}, port: clientPort}, {mac: [6]byte{2, 9, 2}, addr: [16]byte{10, 9, 9, 9}, port: serverPort}}
	if server {
		ends[0], ends[1] = ends[1], ends[0]
	}
	n := udpLen + len(payload)
	b := make([]byte, max(60, ethLen+ip4Len+n))
	putIP(b, &ends[0], &ends[1], false, 17, 64, 7, n)
	binary.BigEndian.PutUint16(b[34:], ends[0].port)
	binary.BigEndian.PutUint16(b[36:], ends[1].port)
	binary.BigEndian.PutUint16(b[38:], uint16(n))
	binary.BigEndian.PutUint16(b[40:], 0x1234)
	copy(b[42:], payload)
	return b
}

func writePcap(t testing.TB, path string, frames []talk) {
	t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	b = append(b, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0)
	at := uint32(0)
	for _, f := range frames {
		at += f.us
		for _, v := range []uint32{1_000_000 + at/1e6, at % 1e6, uint32(len(f.b)), uint32(len(f.b))} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		b = append(b, f.b...)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// conversations writes each flow of an application mix as a capture, and returns
// what the payloads of each side are.
func conversations(t *testing.T, dir string) map[string][2]string {
	s, err := NewAppMix(AppMix{Seed: 3, Flows: 12})
	if err != nil {
		t.Fatal(err)
	}
	flows := map[uint16][]talk{}
	says := map[uint16][2]string{}
	last := map[uint16]uint64{}
	var order []uint16
	drain(t, s, 1<<20, 4096, 0, func(e Entry, b []byte) {
		from, port := 0, binary.BigEndian.Uint16(b[e.L4:])
		if b[6+5] == 2 { // the server's MAC
			from, port = 1, binary.BigEndian.Uint16(b[e.L4+2:])
		}
		if flows[port] == nil {
			order = append(order, port)
			last[port] = e.At
		}
		flows[port] = append(flows[port], talk{uint32((e.At - last[port]) / 1000), from == 1, slices.Clone(b)})
		last[port] = e.At
		both := says[port]
		both[from] += payloadOf(e, b)
		says[port] = both
	})
	out := map[string][2]string{}
	for i, port := range order {
		name := fmt.Sprintf("flow%c.pcap", 'a'+i)
		writePcap(t, filepath.Join(dir, name), flows[port])
		out[strings.TrimSuffix(name, ".pcap")] = says[port]
	}
	return out
}

func payloadOf(e Entry, b []byte) string {
	end := ethLen + int(binary.BigEndian.Uint16(b[16:]))
	if e.Flags&SumUDP != 0 {
		return string(b[e.L4+udpLen : end])
	}
	return string(b[int(e.L4)+int(b[e.L4+12]>>4)*4 : end])
}

const generator = `  generator:
    distribution: "seq"
    clients_start: "16.0.0.1"
    clients_end: "16.0.0.20"
    servers_start: "48.0.0.1"
    servers_end: "48.0.0.5"
`

func writeRates(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "rates.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every flow says what its template said, from addresses and ports of its own.
func TestTemplatesAreExpanded(t *testing.T) {
	dir := t.TempDir()
	says := conversations(t, dir)
	text := "- duration: 0.5\n" + generator + "  cap_ipg: true\n  cap_info:\n"
	for i := range len(says) {
		text += fmt.Sprintf("   - name: deep/down/flow%c.pcap\n     cps: %d\n     ipg: 10000\n     rtt: 10000\n     w: 1\n", 'a'+i, 10+i)
	}
	writeRates(t, dir, text)
	s, err := OpenTemplates(dir, TemplateOptions{Seed: 1, Scale: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	type heard struct {
		class  uint8
		frames int
		says   [2]string
	}
	flows := map[string]*heard{}
	frames, octets, last := uint64(0), uint64(0), uint64(0)
	drain(t, s, 1<<20, 4096, 1<<16, func(e Entry, b []byte) {
		checkSums(t, e, b)
		frames++
		octets += uint64(len(b) + unit.FCS)
		if e.At < last {
			t.Fatalf("time goes from %d to %d", last, e.At)
		}
		last = e.At
		src, dst := netip.AddrFrom4([4]byte(b[26:])), netip.AddrFrom4([4]byte(b[30:]))
		sp := binary.BigEndian.Uint16(b[34:])
		from := 0
		if src.As4()[0] == 48 {
			from, src, dst, sp = 1, dst, src, binary.BigEndian.Uint16(b[36:])
		}
		if src.As4()[0] != 16 || src.As4()[3] > 20 || dst.As4()[0] != 48 || dst.As4()[3] > 5 || b[5] != byte(2-from) || b[11] != byte(1+from) {
			t.Fatalf("addresses % x", b[:34])
		}
		key := fmt.Sprint(src, sp)
		if flows[key] == nil {
			flows[key] = &heard{class: e.Class}
		}
		flows[key].frames++
		flows[key].says[from] += payloadOf(e, b)
		if flows[key].class != e.Class {
			t.Fatalf("%s is of two classes", key)
		}
	})
	if frames != s.Shape().Frames {
		t.Errorf("%d frames, the shape says %d", frames, s.Shape().Frames)
	}
	counts := make([]int, len(says))
	whole := 0
	for key, f := range flows { // of those that the pass's ends cut, a part is heard
		want := says[s.Shape().Classes[f.class]]
		for side := range 2 {
			if !strings.Contains(want[side], f.says[side]) {
				t.Fatalf("%s is not what its template %s says", key, s.Shape().Classes[f.class])
			}
		}
		if f.frames == len(s.templates[f.class].packets) {
			whole++
			if f.says != want {
				t.Fatalf("%s is not all that its template %s says", key, s.Shape().Classes[f.class])
			}
		}
		counts[f.class]++
	}
	if whole < 20 {
		t.Errorf("%d whole flows of %d", whole, len(flows))
	}
	for i, n := range counts {
		seen := 0.5 + float64(s.templates[i].lasts())/1e9 // s in which a flow begins of which something is heard
		if want := float64(10+i) * 2 * seen; math.Abs(float64(n)-want) > 4.5*math.Sqrt(want) {
			t.Errorf("%s: %d flows, want %.0f", s.Shape().Classes[i], n, want)
		}
	}
	first, _ := pass(t, s, 1<<20, 4096, 0)
	again, err := OpenTemplates(dir, TemplateOptions{Seed: 1, Scale: 2})
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := pass(t, again, 1<<14, 7, 0); second != first {
		t.Error("the same seed yields other frames")
	}
	parts := uint64(0)
	for i := range 3 {
		part := s.Shard(i, 3)
		_, n := pass(t, part, 1<<20, 4096, 0)
		if parts += uint64(n); uint64(n) != part.Shape().Frames {
			t.Errorf("part %d: %d frames, its shape says %d", i, n, part.Shape().Frames)
		}
	}
	if parts != frames {
		t.Errorf("three parts have %d frames, the whole %d", parts, frames)
	}
	long, err := OpenTemplates(dir, TemplateOptions{Seed: 1, Rate: 50e6, Duration: 20 * time.Second, Side: ServerSide})
	if err != nil {
		t.Fatal(err)
	}
	if r := long.Rate(); math.Abs(float64(r)-50e6) > 1 {
		t.Errorf("rate %v, asked 50 Mbit/s", r)
	}
	drain(t, long, 1<<20, 4096, 0, func(e Entry, b []byte) {
		if b[26] != 48 {
			t.Fatalf("a client's frame on the server's side: % x", b[:34])
		}
	})
}

// Gaps, bursts, several ports and servers, and a checksum that was never made.
func TestTemplateTimesAndPorts(t *testing.T) {
	dir := t.TempDir()
	other := udpFrame(true, 4000, 53, "elsewhere")
	other[29] = 77 // another server
	writePcap(t, filepath.Join(dir, "a.pcap"), []talk{
		{0, false, udpFrame(false, 4000, 53, "one")}, {5, false, udpFrame(false, 4001, 53, "two")},
		{700, true, udpFrame(true, 4000, 53, "three")}, {3, true, other},
		{9, false, append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 9, 8, 6}, make([]byte, 46)...)},
	})
	for _, c := range []struct {
		times string
		want  []uint64 // us
	}{
		{"cap_ipg: true\n", []uint64{0, 5, 705, 708}},
		{"cap_ipg: true\n  cap_ipg_min: 4\n  cap_override_ipg: 100\n", []uint64{0, 5, 705, 805}},
		{"cap_ipg: false\n", []uint64{0, 10, 30, 40}},
	} {
		writeRates(t, dir, "- duration: 2\n"+generator+"  "+c.times+"  cap_info:\n   - {name: a.pcap, cps: 20, ipg: 10, rtt: 20, w: 3, plugin_id: 1}\n")
		s, err := OpenTemplates(dir, TemplateOptions{Seed: 9})
		if err != nil {
			t.Fatal(err)
		}
		starts := map[uint64]int{}
		byClient := map[string][]uint64{} // times
		ports := map[string]bool{}
		servers := map[string]map[string]bool{}
		early := 0
		drain(t, s, 1<<20, 4096, 0, func(e Entry, b []byte) {
			checkSums(t, e, b)
			payload := strings.TrimRight(payloadOf(e, b), "\x00")
			client, server, port := b[26:30], b[30:34], binary.BigEndian.Uint16(b[34:])
			if payload == "three" || payload == "elsewhere" {
				client, server, port = server, client, binary.BigEndian.Uint16(b[36:])
			}
			if payload == "two" {
				port--
			}
			key := fmt.Sprint(client, port)
			if payload == "one" {
				if ports[key] {
					t.Fatalf("client %v uses port %d twice", client, port)
				}
				ports[key] = true
				ports[fmt.Sprint(client, port+1)] = true
				starts[e.At]++
				servers[key] = map[string]bool{}
			}
			if servers[key] == nil { // it began before the pass
				early++
				return
			}
			byClient[key] = append(byClient[key], e.At)
			servers[key][string(server)] = true
		})
		for at, n := range starts {
			if n != 3 {
				t.Fatalf("%d flows begin at %d ns, want 3 together", n, at)
			}
		}
		if len(byClient) < 15 {
			t.Fatalf("%d flows", len(byClient))
		}
		if early > 3*3 {
			t.Fatalf("%d frames of flows from before the pass", early)
		}
		for key, times := range byClient {
			if times[0] > 2e9-900_000 {
				continue // the pass may end before it does
			}
			if len(times) != 4 || len(servers[key]) != 2 {
				t.Fatalf("%s has frames at %v and %d servers", key, times, len(servers[key]))
			}
			for i := range times {
				if got := times[i] - times[0]; got != c.want[i]*1000 {
					t.Fatalf("%q: frame %d comes after %d ns, want %d us", c.times, i, got, c.want[i])
				}
			}
		}
		notes := strings.Join(s.Notes(), "\n")
		if !strings.Contains(notes, "plugin_id") || !strings.Contains(notes, "1 frames without IP") {
			t.Errorf("notes %q", notes)
		}
	}
}

// The rate that was asked holds in every second from the first on, though flows
// last longer than the pass.
func TestTemplatesAreSteady(t *testing.T) {
	dir := t.TempDir()
	var long []talk
	for i := range 40 {
		long = append(long, talk{250_000, i%2 == 1, udpFrame(i%2 == 1, 4000, 53, "some words")})
	}
	writePcap(t, filepath.Join(dir, "long.pcap"), long)
	writePcap(t, filepath.Join(dir, "short.pcap"), long[:2])
	writeRates(t, dir, "- duration: 1\n"+generator+"  cap_ipg: true\n  cap_info:\n   - {name: long.pcap, cps: 50}\n   - {name: short.pcap, cps: 100, w: 2}\n")
	for seed := range uint64(3) {
		s, err := OpenTemplates(dir, TemplateOptions{Seed: seed, Duration: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		frames := make([]float64, 5)
		drain(t, s, 1<<20, 4096, 0, func(e Entry, _ []byte) { frames[e.At/1e9]++ })
		const want = 50*40 + 100*2
		for i, n := range frames {
			if math.Abs(n-want) > 0.15*want { // about 500 flows are under way: 4.5 % is one deviation
				t.Errorf("seed %d: %.0f frames in second %d, want %d", seed, n, i, want)
			}
		}
	}
}

func TestTemplateRefusals(t *testing.T) {
	dir := t.TempDir()
	writePcap(t, filepath.Join(dir, "a.pcap"), []talk{{0, false, udpFrame(false, 4000, 53, "one")}})
	writePcap(t, filepath.Join(dir, "slow.pcap"), []talk{{0, false, udpFrame(false, 4000, 53, "one")}, {1, true, udpFrame(true, 4000, 53, "two")}})
	info := "  cap_info:\n   - {name: a.pcap, cps: 1}\n"
	for name, c := range map[string]struct{ text, want string }{
		"missing":   {"- duration: 1\n" + generator + "  cap_info:\n   - name: gone/b.pcap\n     cps: 1\n", "rates.yaml:9:12: template gone/b.pcap is missing"},
		"no cps":    {"- duration: 1\n" + generator + "  cap_info:\n   - name: a.pcap\n", "rates.yaml:9:6: template a.pcap has no cps"},
		"bad cps":   {"- duration: 1\n" + generator + "  cap_info:\n   - {name: a.pcap, cps: many}\n", "cps is \"many\""},
		"no name":   {"- duration: 1\n" + generator + "  cap_info:\n   - {cps: 1}\n", "has no name"},
		"no info":   {"- duration: 1\n" + generator, "no cap_info"},
		"duration":  {"- cap_ipg: true\n" + generator + info, "no duration"},
		"addresses": {"- duration: 1\n" + info, "no addresses"},
		"order":     {"- duration: 1\n" + strings.Replace(generator, "16.0.0.20", "15.0.0.1", 1) + info, "upwards"},
		"overlap":   {"- duration: 1\n" + strings.NewReplacer("48.0.0.1", "16.0.0.9", "48.0.0.5", "16.0.0.30").Replace(generator) + info, "overlap"},
		"address":   {"- duration: 1\n" + strings.Replace(generator, "16.0.0.1\"", "here\"", 1) + info, "rates.yaml:4:20: clients_start"},
		"spread":    {"- duration: 1\n" + strings.Replace(generator, "seq", "normal", 1) + info, "seq or random"},
		"versions":  {"- duration: 1\n" + strings.NewReplacer("16.0.0.", "2001:2::", "48.0.0.", "2001:3::").Replace(generator) + info, "packets of IPv4"},
		"too many":  {"- duration: 1\n" + generator + "  cap_info:\n   - {name: a.pcap, cps: 1}\n   - {name: slow.pcap, cps: 1e9, ipg: 1e9}\n", "1.00 Gflows a second, the longest of 16m40s, are 1.00 Tflows at once"},
		"list":      {"- 1\n- 2\n", "must be a map"},
	} {
		path := writeRates(t, dir, c.text)
		_, err := OpenTemplates(path, TemplateOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a sentence with %q", name, err, c.want)
		}
	}
	if _, err := OpenTemplates(t.TempDir(), TemplateOptions{}); err == nil || !strings.Contains(err.Error(), "0 rates files") {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := OpenTemplates(dir, TemplateOptions{Scale: 1, Rate: 1}); err == nil || !strings.Contains(err.Error(), "one of them") {
		t.Errorf("scale and rate: %v", err)
	}
}

// The real templates, where they are.
func TestTrexTemplates(t *testing.T) {
	dir := "../../shared/pcaps/trex-avl"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("needs the folder ../shared/pcaps/trex-avl beside this project")
	}
	s, err := OpenTemplates(dir, TemplateOptions{Seed: 4, Scale: 0.1, Duration: time.Second / 2})
	if err != nil {
		t.Fatal(err)
	}
	if r := float64(s.Rate()); math.Abs(r/0.1-1.0041676e9) > 1e3 { // counted from the files by other means
		t.Errorf("rate %v", unit.BitRate(r))
	}
	flows := map[string]bool{}
	frames := 0
	drain(t, s, 1<<20, 4096, 0, func(e Entry, b []byte) {
		if e.Sum == 0 { // UDP over IPv4 may go without
			if binary.BigEndian.Uint16(b[40:]) != 0 || b[23] != 17 || onesComplement(b[14:34]) != 0 {
				t.Fatalf("entry %+v of % x", e, b)
			}
		} else {
			checkSums(t, e, b)
		}
		frames++
		if p := binary.BigEndian.Uint16(b[36:]); p == 53 && bytes.Equal(b[26:28], []byte{16, 0}) {
			flows[string(b[26:30])+string(b[34:36])] = true
		}
	})
	if want := 1975.0 * 0.05; math.Abs(float64(len(flows))-want) > 4.5*math.Sqrt(want) {
		t.Errorf("%d flows of DNS, want %.0f", len(flows), want)
	}
	steady, err := OpenTemplates(dir, TemplateOptions{Seed: 4, Duration: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var bits [4]float64
	drain(t, steady, 1<<20, 4096, 0, func(e Entry, b []byte) { bits[e.At/5e8] += float64(len(b)+unit.FCS) * 8 })
	for i, n := range bits {
		if rate := n / 0.5; math.Abs(rate/1.0041676e9-1) > 0.1 { // calls go on for 61 s
			t.Errorf("%v in half second %d", unit.BitRate(rate), i)
		}
	}
	if uint64(frames) != s.Shape().Frames || len(s.Shape().Classes) > MaxClasses || !slices.Contains(s.Shape().Classes, "delay_10_citrix") {
		t.Errorf("%d frames, the shape is %+v", frames, s.Shape())
	}
}

// A rates file that is a device is refused before anything is read of it.
func TestTemplatesReadFilesAlone(t *testing.T) {
	if _, err := OpenTemplates("/dev/null", TemplateOptions{}); !errors.Is(err, files.ErrNotRegular) {
		t.Errorf("%v", err)
	}
}

// Frames go to servers and to clients, and what lies between a range's ends is seen.
func TestTemplateTargets(t *testing.T) {
	of := func(first string, n uint64) pool { return pool{netip.MustParseAddr(first), n} }
	for want, net := range map[string]addressing{
		"10.255.0.0 11.0.0.0 11.0.255.255 192.168.0.1 192.168.0.1": {servers: of("10.255.0.0", 2<<16), clients: of("192.168.0.1", 1)},
		"2001:2::ffff:ffff 2001:2::1:0:0 2001:2::1:0:0 ::1 ::2":    {servers: of("2001:2::ffff:ffff", 2), clients: of("::1", 2)},
	} {
		var got []string
		for _, a := range (&TemplateSource{net: net}).Targets() {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: want %q", got, want)
		}
	}
}
