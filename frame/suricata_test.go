// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"boxdyno/internal/testutil"
)

// What a real IDS says of the frames: Suricata reads them from a file.

// A sensed is what Suricata says of a file.
type sensed struct {
	alerts map[int]uint64     // by sid
	events map[string]uint64  // alerts of its own event rules, by message
	stats  map[string]float64 // its last counters: "decoder.tcp"...
}

// suricataConfig checks every checksum, and has what Debian's has by default for
// what the mix holds.
const suricataConfig = `%%YAML 1.1
---
vars:
  address-groups: {HOME_NET: any, EXTERNAL_NET: any, HTTP_SERVERS: any, SMTP_SERVERS: any, SQL_SERVERS: any, DNS_SERVERS: any, TELNET_SERVERS: any, AIM_SERVERS: any, DC_SERVERS: any, DNP3_SERVER: any, DNP3_CLIENT: any, MODBUS_CLIENT: any, MODBUS_SERVER: any, ENIP_CLIENT: any, ENIP_SERVER: any}
  port-groups: {HTTP_PORTS: 80, SHELLCODE_PORTS: "!80", ORACLE_PORTS: 1521, SSH_PORTS: 22, DNP3_PORTS: 20000, MODBUS_PORTS: 502, FILE_DATA_PORTS: "[80,110,143]", FTP_PORTS: 21}
classification-file: %[1]s/classification.config
reference-config-file: %[1]s/reference.config
outputs:
  - eve-log: {enabled: true, filetype: regular, filename: eve.json, types: [alert, stats: {totals: true, threads: false}]}
stats: {enabled: true, interval: 3600}
app-layer:
  protocols:
    http: {enabled: true}
    tls: {enabled: true, detection-ports: {dp: 443}}
    smtp: {enabled: true, mime: {decode-mime: true, decode-base64: true, decode-quoted-printable: true, header-value-depth: 2000}}
    dns: {udp: {enabled: true, detection-ports: {dp: 53, sp: 53}}, tcp: {enabled: true, detection-ports: {dp: 53}}}
    dcerpc: {enabled: true}
    sip: {enabled: true}
    ntp: {enabled: true}
stream: {checksum-validation: true, memcap: 512mb, reassembly: {memcap: 1gb, depth: 1mb}}
flow: {memcap: 512mb, hash-size: 65536}
defrag: {memcap: 64mb, trackers: 65535, max-frags: 65535, timeout: 60}
`

// unhurried skips a short test before it draws anything.
func unhurried(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("is left out of a short test")
	}
}

// suricata runs Suricata over a file with rules of ours and those for its own
// events that its package has.
func suricata(t *testing.T, capture, rules string) sensed {
	t.Helper()
	const settings = "/etc/suricata"
	program, err := exec.LookPath("suricata")
	if err != nil {
		t.Skip("needs suricata: install it, from the distribution's backports where the release has none")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "suricata.yaml")
	all := []byte(rules)
	for _, name := range []string{"decoder", "stream", "http", "dns", "smtp", "tls", "app-layer"} {
		events, err := os.ReadFile(filepath.Join(settings, "rules", name+"-events.rules"))
		if err != nil {
			t.Skip("needs the event rules of the distribution's suricata: ", err)
		}
		all = append(append(all, '\n'), events...)
	}
	file := filepath.Join(dir, "all.rules")
	for name, content := range map[string][]byte{config: fmt.Appendf(nil, suricataConfig, settings), file: all} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(program, "-r", capture, "-c", config, "-S", file, "-l", dir, "--runmode", "single", "-k", "all").CombinedOutput()
	if err != nil {
		t.Fatalf("suricata: %v\n%s", err, out)
	}
	s := sensed{alerts: map[int]uint64{}, events: map[string]uint64{}, stats: map[string]float64{}}
	eve, err := os.Open(filepath.Join(dir, "eve.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer eve.Close()
	lines := bufio.NewScanner(eve)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Type  string `json:"event_type"`
			Alert struct {
				SID       int    `json:"signature_id"`
				Signature string `json:"signature"`
			} `json:"alert"`
			Stats map[string]any `json:"stats"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		switch {
		case e.Type == "stats":
			flatten(s.stats, "", e.Stats)
		case strings.HasPrefix(e.Alert.Signature, "SURICATA "):
			s.events[e.Alert.Signature]++
		default:
			s.alerts[e.Alert.SID]++
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(s.stats) == 0 {
		t.Fatalf("suricata wrote no counters:\n%s", out)
	}
	return s
}

func flatten(to map[string]float64, prefix string, from map[string]any) {
	for k, v := range from {
		switch v := v.(type) {
		case float64:
			to[prefix+k] = v
		case map[string]any:
			flatten(to, prefix+k+".", v)
		}
	}
}

// store writes frames of a source, as they leave, into a capture: those of a pass,
// or the first most.
func store(t *testing.T, s Source, most int) (path string, frames int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "frames.pcap")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	to := bufio.NewWriterSize(f, 1<<20)
	p := pcapgo.NewWriterNanos(to)
	if err := p.WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	w := Window{Blob: make([]byte, 1<<20), Entries: make([]Entry, 4096)}
	wr := NewWriter(s.Shape(), 0, 1, false)
	buf := make([]byte, s.Shape().Longest)
	for end := false; !end; {
		w.Reset()
		err := s.Fill(&w)
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		end = err == io.EOF && most == 0
		for i := range w.Len() {
			n := wr.Write(&w, i, 0, buf)
			at := time.Unix(1_700_000_000, int64(w.Entries[i].At))
			if !s.Shape().Timed {
				at = time.Unix(1_700_000_000, int64(frames)*10_000)
			}
			if err := p.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: n, Length: n}, buf[:n]); err != nil {
				t.Fatal(err)
			}
			if frames++; frames == most {
				end = true
				break
			}
		}
	}
	if err := to.Flush(); err != nil {
		t.Fatal(err)
	}
	return path, frames
}

// harmless are event rules that whole and right conversations set off as well.
var harmless = map[string]string{
	"SURICATA Applayer Detect protocol only one direction": "Suricata takes POP for FTP, and knows SMTP by its client only",
}

// clean fails where Suricata found something wrong with frames or streams.
func (s *sensed) clean(t *testing.T, name string, frames int) {
	t.Helper()
	for event, n := range s.events {
		if harmless[event] == "" {
			t.Errorf("%s: %d times %q", name, n, event)
		}
	}
	if got := s.stats["decoder.pkts"]; got != float64(frames) {
		t.Errorf("%s: it decoded %.0f frames of %d", name, got, frames)
	}
	for _, counter := range slices.Sorted(maps.Keys(s.stats)) {
		last := counter[strings.LastIndexByte(counter, '.')+1:]
		wrong := counter == "decoder.invalid" || strings.HasPrefix(counter, "decoder.event.") || last == "gap" ||
			strings.HasPrefix(counter, "tcp.") && slices.Contains([]string{
				"invalid_checksum", "reassembly_gap", "overlap", "overlap_diff_data", "insert_data_normal_fail", "insert_list_fail", "segment_memcap_drop",
				"ssn_memcap_drop", "pseudo_failed", "no_flow", "rst", "midstream_pickups", "ack_unseen_data", "pkt_on_wrong_thread", "active_sessions_drop",
			}, last)
		if n := s.stats[counter]; wrong && n != 0 {
			t.Errorf("%s: %s is %.0f", name, counter, n)
		}
	}
}

// expect compares the alerts of our own rules.
func (s *sensed) expect(t *testing.T, name string, truth MixTruth) {
	t.Helper()
	for i, want := range truth.Alerts {
		if got := s.alerts[FirstSID+i]; got != want || want == 0 {
			t.Errorf("%s: %d alerts for %s, and %d flows match", name, got, Alerts()[i].Name, want)
		}
	}
}

func ownRules(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	if err := WriteRules(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A real IDS finds every alert that the mix states, once, and nothing wrong.
func TestSuricataSeesTheMix(t *testing.T) {
	unhurried(t)
	share := 0.2
	v6 := AppMix{Seed: 5, Flows: 1500, AlertShare: &share, MTU: 1280, Clients: netip.MustParsePrefix("2001:2:0:1::/64"), Servers: netip.MustParsePrefix("2001:2:0:2::/64")}
	for name, m := range map[string]AppMix{
		"whole conversations": {Seed: 1, Flows: 4000}, "steady": {Seed: 2, Duration: 2 * time.Second}, "IPv6": v6,
		"many alerts": {Seed: 3, Duration: time.Second, AlertShare: &share},
	} {
		s, err := NewAppMix(m)
		if err != nil {
			t.Fatal(err)
		}
		truth := s.Truth()
		path, frames := store(t, s, 0)
		got := suricata(t, path, ownRules(t))
		got.clean(t, name, frames)
		got.expect(t, name, truth)
		if m.Flows == 0 {
			continue
		}
		flows := func(kinds ...int) (n uint64) {
			for _, a := range kinds {
				n += truth.Classes[a].Flows
			}
			return n
		}
		tcp := uint64(0)
		for i, a := range apps {
			if !a.udp {
				tcp += flows(i)
			}
		}
		for counter, want := range map[string]uint64{
			"tcp.sessions": tcp, "tcp.syn": tcp, "tcp.synack": tcp, "flow.end.tcp_state.closed": tcp,
			"app_layer.flow.dns_udp": flows(appDNS), "app_layer.flow.http": flows(appBrowsing, appGet, appPost),
			"app_layer.flow.tls": flows(appHTTPS), "app_layer.flow.smtp": flows(appSMTP), "app_layer.flow.dcerpc_tcp": flows(appExchange),
			"app_layer.error.http.parser": 0, "app_layer.error.tls.parser": 0, "app_layer.error.smtp.parser": 0,
			"app_layer.error.dns_udp.parser": 0, "app_layer.error.dcerpc_tcp.parser": 0,
		} {
			if got := got.stats[counter]; got != float64(want) {
				t.Errorf("%s: %s is %.0f, want %d", name, counter, got, want)
			}
		}
	}
}

// Rules that others wrote find the same flows.
func TestSuricataWithKnownRules(t *testing.T) {
	unhurried(t)
	f, err := os.Open("../../shared/rules/et-open-2020.rules.gz")
	if err != nil {
		t.Skip("needs the file ../shared/rules/et-open-2020.rules.gz beside this project")
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	share := 0.1
	s, err := NewAppMix(AppMix{Seed: 6, Flows: 1000, AlertShare: &share})
	if err != nil {
		t.Fatal(err)
	}
	truth := s.Truth()
	path, frames := store(t, s, 0)
	known := map[string]bool{}
	for _, a := range Alerts() {
		known[fmt.Sprintf("sid:%d;", a.Known)] = true
	}
	sid := regexp.MustCompile(`sid:\d+;`)
	every := 20 // one rule of so many, and those that match our alerts
	if testutil.Full() {
		every = 1
	}
	var loaded []string
	for i, line := range strings.SplitAfter(string(rules), "\n") {
		if i%every == 0 || known[sid.FindString(line)] {
			loaded = append(loaded, line)
		}
	}
	got := suricata(t, path, strings.Join(loaded, ""))
	got.clean(t, "known rules", frames)
	found := 0
	for i, a := range Alerts() {
		if a.Known == 0 || !strings.Contains(string(rules), fmt.Sprintf("sid:%d;", a.Known)) {
			continue
		}
		found++
		if n := got.alerts[a.Known]; n != truth.Alerts[i] {
			t.Errorf("%d alerts of rule %d, and %d flows match for %s", n, a.Known, truth.Alerts[i], a.Name)
		}
	}
	if found < 6 {
		t.Errorf("%d of our alerts have a rule there", found)
	}
}

// An IDS takes each flood for what it claims to be.
func TestSuricataSeesFloods(t *testing.T) {
	unhurried(t)
	const frames, sid = 3000, 1
	claims := map[string]struct {
		match    string   // of a rule that every frame matches; the protocol is before it
		counters []string // that are the number of frames
	}{
		"syn":       {"tcp any any -> any 443 (flags:S,CE; ", []string{"decoder.tcp", "tcp.syn", "tcp.sessions"}},
		"ack":       {"tcp any any -> any 443 (flags:A; ", []string{"decoder.tcp", "flow.tcp"}},
		"udp":       {"udp any 1024: -> any any (", []string{"decoder.udp", "flow.udp"}},
		"icmp":      {"icmp any any -> any any (itype:%d; icode:0; ", nil},
		"dns":       {`udp any 53 -> any 1024: (content:"|81 80 00 01|"; offset:2; depth:4; `, []string{"decoder.udp", "app_layer.flow.dns_udp", "app_layer.tx.dns_udp"}},
		"ntp":       {`udp any 123 -> any 1024: (content:"|03 2a|"; offset:2; depth:2; byte_test:1,&,128,0; dsize:440; `, []string{"decoder.udp"}},
		"fragments": {"", nil},
	}
	for _, kind := range Floods {
		claim, ok := claims[kind.Name]
		if !ok {
			t.Errorf("nobody says what the flood %s claims", kind.Name)
		}
		for v, target := range map[int]string{4: "198.19.0.1/32", 6: "2001:2::1/128"} {
			name := fmt.Sprintf("%s over IPv%d", kind.Name, v)
			s, err := NewFlood(Flood{Name: kind.Name, Target: netip.MustParsePrefix(target)})
			if err != nil {
				t.Fatal(err)
			}
			rules, counters := "", append([]string{fmt.Sprintf("decoder.ipv%d", v)}, claim.counters...)
			switch kind.Name {
			case "icmp":
				claim.match = fmt.Sprintf("icmp any any -> any any (itype:%d; icode:0; ", map[int]int{4: 8, 6: 128}[v])
				counters = append(counters, fmt.Sprintf("decoder.icmpv%d", v))
			case "fragments":
				counters = append(counters, fmt.Sprintf("defrag.ipv%d.fragments", v))
			}
			if claim.match != "" {
				rules = fmt.Sprintf("alert %ssid:%d;)", claim.match, sid)
			}
			path, _ := store(t, s, frames)
			got := suricata(t, path, rules)
			got.clean(t, name, frames)
			for _, c := range counters {
				if got.stats[c] != frames {
					t.Errorf("%s: %s is %.0f of %d frames", name, c, got.stats[c], frames)
				}
			}
			if n := got.alerts[sid]; rules != "" && n != frames {
				t.Errorf("%s: %d of %d frames match %q", name, n, frames, rules)
			}
			if whole := fmt.Sprintf("defrag.ipv%d.reassembled", v); got.stats[whole] != 0 {
				t.Errorf("%s: %.0f datagrams became whole", name, got.stats[whole])
			}
		}
	}
}

// Among a flood of a stated share the alerts stay what they are.
func TestSuricataSeesTheMixInAFlood(t *testing.T) {
	unhurried(t)
	const share, sid = 0.2, 1
	mix, err := NewAppMix(AppMix{Seed: 9, Rate: 500e6, Duration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	truth := mix.Truth()
	flood, err := NewFlood(Flood{Name: "syn", Target: netip.MustParsePrefix("203.0.113.1/32")})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Blend(mix, flood, share, 1)
	if err != nil {
		t.Fatal(err)
	}
	path, frames := store(t, s, 0)
	got := suricata(t, path, ownRules(t)+fmt.Sprintf("alert tcp any any -> 203.0.113.1 443 (flags:S,CE; sid:%d;)", sid))
	got.clean(t, "blend", frames)
	got.expect(t, "blend", truth)
	flooded := got.alerts[sid]
	if uint64(frames) != truth.Frames+flooded || uint64(frames) != s.Shape().Frames || flooded < uint64(frames/1000)*200 || flooded > uint64(frames/1000+1)*200 {
		t.Errorf("%d frames of the flood of %d, %d are of the mix; want a share of %v", flooded, frames, truth.Frames, share)
	}
}
