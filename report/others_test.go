// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
)

// formatted is what a writer of a format makes of runs.
func formatted(t *testing.T, f func(io.Writer, ...report.Kept) error, runs ...report.Kept) string {
	t.Helper()
	var b bytes.Buffer
	if err := f(&b, runs...); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// ptsOrder is the order of elements in the Phoronix Test Suite's schema of results, as that
// suite documents it; a trailing ? may be absent, a trailing + may be repeated.
var ptsOrder = map[string]string{
	"PhoronixTestSuite": "Generated System+ Result+",
	"Generated":         "Title LastModified TestClient Description Notes?",
	"System":            "Identifier Hardware Software User TimeStamp TestClientVersion Notes",
	"Result":            "Identifier Title AppVersion Arguments Description Scale Proportion DisplayFormat Data",
	"Data":              "Entry+",
	"Entry":             "Identifier Value RawString",
}

type ptsElement struct {
	XMLName xml.Name
	Text    string       `xml:",chardata"`
	Inner   []ptsElement `xml:",any"`
}

func (e ptsElement) get(name string) string {
	for _, in := range e.Inner {
		if in.XMLName.Local == name {
			return in.Text
		}
	}
	return ""
}

// check holds an element against the schema: order, and the length or pattern of texts.
func (e ptsElement) check(t *testing.T) {
	t.Helper()
	var names []string
	for _, in := range e.Inner {
		if n := in.XMLName.Local; len(names) == 0 || names[len(names)-1] != n {
			names = append(names, n)
		}
	}
	i := 0
	for want := range strings.FieldsSeq(ptsOrder[e.XMLName.Local]) {
		name := strings.TrimRight(want, "?+")
		switch {
		case i < len(names) && names[i] == name:
			i++
		case !strings.HasSuffix(want, "?"):
			t.Errorf("%s has %q where %s must be", e.XMLName.Local, names, name)
		}
	}
	if i < len(names) {
		t.Errorf("%s has %q, of which %q is not in the schema", e.XMLName.Local, names, names[i:])
	}
	stamp := regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$`)
	for _, in := range e.Inner {
		n := utf8.RuneCountInString(in.Text)
		ok := true
		switch in.XMLName.Local {
		case "Title":
			ok = n >= 2 && n <= 50
		case "LastModified", "TimeStamp":
			ok = stamp.MatchString(in.Text)
		case "Identifier":
			ok = e.XMLName.Local == "Result" || n >= 1 && n <= 128
		case "Proportion":
			ok = slices.Contains([]string{"HIB", "LIB"}, in.Text)
		case "DisplayFormat":
			ok = in.Text == "BAR_GRAPH"
		}
		if !ok {
			t.Errorf("%s %q of %s is not as the schema wants it", in.XMLName.Local, in.Text, e.XMLName.Local)
		}
		in.check(t)
	}
}

// Runs are systems, metrics of points are results, repeats are in RawString, and every
// valid figure with a better end is there once.
func TestPhoronix(t *testing.T) {
	run, recs := report.Firewall()
	run.Machines[0].Board = "A board, with: commas"
	recs = append(recs, recs[len(recs)-1])
	again := &recs[len(recs)-1]
	if again.Parent != "" || len(again.Values) == 0 {
		t.Fatal("the fixture does not end with a point")
	}
	again.ID, again.Repeat = strings.Split(again.ID, "#")[0]+"#2", 2
	again.Values = slices.Clone(again.Values)
	for i := range again.Values {
		again.Values[i].Value *= 2
	}
	twice := report.Kept{Document: report.Summarized(run, recs), Records: recs}
	run.ID, run.Start = "another \x1b[2J<run>", run.Start.Add(time.Hour)
	other := report.Kept{Document: report.Summarized(run, recs[:len(recs)-1]), Records: recs[:len(recs)-1]}
	said := formatted(t, text.Phoronix, twice, other)
	var root ptsElement
	if err := xml.Unmarshal([]byte(said), &root); err != nil {
		t.Fatal(err)
	}
	root.check(t)
	want := map[string]int{}
	better := map[string]int{}
	for _, m := range run.Metrics {
		better[m.Name] = m.Better
	}
	for _, k := range []report.Kept{twice, other} {
		for _, r := range k.Records {
			for _, v := range r.Values {
				if r.Parent == "" && r.Procedure != report.SelfTestProcedure && report.Fit(r) && better[v.Metric] != 0 {
					want[v.Metric]++
				}
			}
		}
	}
	got, twos := map[string]int{}, 0
	for _, e := range root.Inner {
		if e.XMLName.Local != "Result" {
			continue
		}
		metric, _, _ := strings.Cut(e.get("Arguments"), " ")
		data := e.Inner[len(e.Inner)-1]
		if len(data.Inner) != 2 {
			t.Errorf("%s: %d systems, want both", e.get("Description"), len(data.Inner))
		}
		for _, entry := range data.Inner {
			raw := strings.Split(entry.get("RawString"), ":")
			got[metric] += len(raw)
			var a, b, mean float64
			if _, err := fmt.Sscan(entry.get("Value"), &mean); err != nil {
				t.Error(err)
			}
			if len(raw) == 2 {
				twos++
				if _, err := fmt.Sscan(raw[0]+" "+raw[1], &a, &b); err != nil || b != 2*a || mean != a/2+b/2 {
					t.Errorf("value %v of %q: %v", mean, raw, err)
				}
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || twos == 0 || len(got) < 2 {
		t.Errorf("%v figures, want %v; %d results with repeats", got, want, twos)
	}
	if s := root.Inner[1]; s.get("Hardware") == "" || !strings.Contains(s.get("Hardware"), "Motherboard: A board with commas, Memory") || !strings.Contains(s.get("Software"), "OS: Debian") {
		t.Errorf("hardware %q, software %q", s.get("Hardware"), s.get("Software"))
	}
	if a, b := root.Inner[1].get("Identifier"), root.Inner[2].get("Identifier"); a == b || strings.ContainsRune(said, '\x1b') {
		t.Errorf("systems %q and %q", a, b)
	}
	if !strings.Contains(said, ", a lower bound</Description>") {
		t.Error("a bound is not named")
	}
	// A box behind cables is not the tester.
	run.Topology = "wire2"
	if s := formatted(t, text.Phoronix, report.Kept{Document: report.Summarized(run, recs), Records: recs}); strings.Contains(s, "EPYC") {
		t.Error("the tester is shown as the box")
	}
	odd := report.Kept{Document: twice.Document, Records: slices.Clone(twice.Records)}
	for i := range odd.Records {
		odd.Records[i].Values = slices.Clone(odd.Records[i].Values)
		for k := range odd.Records[i].Values {
			odd.Records[i].Values[k].Unit = "\u009b2J"
		}
	}
	if s := formatted(t, text.Phoronix, odd); strings.ContainsRune(s, '\u009b') {
		t.Error("a unit has a terminal's control character")
	}
	if err := text.Phoronix(io.Discard, report.Kept{Document: twice.Document}); !errors.Is(err, text.ErrNothing) {
		t.Errorf("without records: %v", err)
	}
}

// A row has what the same programs measured, and nothing else.
func TestSBCBench(t *testing.T) {
	run, recs := workRun()
	run.Machines[0].Board, run.Machines[0].Kernel = "A|Board", "6.18.5-rpi"
	crypto := result.Record{Procedure: "crypto", ID: "crypto/openssl/aes-cbc-256/1#1", Status: result.Passed, Repeat: 1,
		Config: []result.Pair{{Key: "path", Value: "openssl"}, {Key: "cipher", Value: "aes-cbc-256"}, {Key: "parallel", Value: "1"}, {Key: "block", Value: "0"}, {Key: "core_type", Value: "0"}},
		Values: []result.Value{{Metric: "encrypt_bytes_per_s", Unit: "B/s", Value: 1_234_567_890}}}
	others := []result.Record{crypto, crypto, crypto, crypto, crypto}
	for i, p := range []result.Pair{{Key: "parallel", Value: "all"}, {Key: "cipher", Value: "aes-cbc-128"}, {Key: "path", Value: "botan"}, {Key: "block", Value: "64"}, {Key: "core_type", Value: "1"}} {
		others[i].Config = append([]result.Pair{p}, crypto.Config...) // the first one counts
		others[i].Values = []result.Value{{Metric: "encrypt_bytes_per_s", Unit: "B/s", Value: 1}}
	}
	kept := func(recs []result.Record) report.Kept {
		return report.Kept{Document: report.Summarized(run, recs), Records: recs}
	}
	said := formatted(t, text.SBCBench, kept(append(slices.Concat(recs, others), crypto)))
	const want = `| A\|Board | - | 6.18 | Debian GNU/Linux 12 (bookworm) x86\_64/amd64 | - | 1850 | 1234568 | - | - | - |`
	lines := strings.Split(said, "\n")
	if lines[2] != want || strings.Count(lines[0], "|") != 11 || strings.Count(lines[1], "|") != 11 || !strings.Contains(said, "\n\n7-zip single: MIPS") || !strings.Contains(said, "\n\nAES: thousands") {
		t.Errorf("%s\nwant the row\n%s", said, want)
	}
	if said := formatted(t, text.SBCBench, kept(recs)); !strings.Contains(said, "| 1850 | - |") || strings.Contains(said, "AES: ") {
		t.Error(said)
	}
	if err := text.SBCBench(io.Discard, kept(others)); !errors.Is(err, text.ErrNothing) {
		t.Errorf("of other settings: %v", err)
	}
}

// iperfKeys are the places of a document's values, with their kinds.
func iperfKeys(v any, at string, into map[string]string) {
	if m, ok := v.(map[string]any); ok {
		for k, in := range m {
			iperfKeys(in, at+"."+k, into)
		}
		return
	}
	into[at] = fmt.Sprintf("%T", v)
}

// A trial has the names and kinds that iperf3's own report has, and its figures.
func TestIperf3(t *testing.T) {
	program, err := exec.LookPath("iperf3")
	if err != nil {
		t.Skip("iperf3 is missing: script/setup installs it")
	}
	trial := func(config []result.Pair, values ...result.Value) result.Record {
		return result.Record{ID: "stream/tcp#1/1", Parent: "stream/tcp#1", Procedure: "stream", Status: result.Passed, Start: report.Origin, Begin: 5e9, End: 9e9, Config: append(config, result.Pair{Key: "duration", Value: "1s"}),
			Phases: []result.Phase{{Name: "stream", Begin: 7e9, End: 8e9}}, Warnings: []string{"something else", "iperf 3.12, TCP cubic"}, Values: values}
	}
	rate := func(name string, v float64) result.Value { return result.Value{Metric: name, Value: v} }
	tcp := trial([]result.Pair{{Key: "protocol", Value: "tcp"}, {Key: "connections", Value: "2"}, {Key: "payload_size", Value: "1400"}}, rate("goodput_bps", 9e9), rate("sent_bps", 9.5e9), rate("retransmits", 7))
	udp := trial([]result.Pair{{Key: "protocol", Value: "udp"}, {Key: "connections", Value: "1"}, {Key: "payload_size", Value: "1400"}}, rate("goodput_bps", 1e9), rate("sent_bps", 2e9), rate("datagrams_lost_ratio", 0.125))
	udp.Warnings = []string{"iperf 3.12"}
	counted := udp // udp itself is of an older version
	counted.Values = append(slices.Clone(udp.Values), rate("datagrams_sent", 200), rate("datagrams_lost", 20), rate("jitter_s", 2.5e-5))
	invalid, point, half := tcp, tcp, trial(nil, rate("goodput_bps", 1))
	invalid.Status, point.Parent = result.Invalid, ""
	said := formatted(t, text.Iperf3, report.Kept{Records: []result.Record{invalid, tcp, point, half, counted, udp}})
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d documents, want one for each of three trials:\n%s", len(lines), said)
	}
	for i, more := range [][]string{{"-P", "2"}, {"--udp", "--length", "1400", "--bitrate", "100M"}} {
		var ours, theirs any
		if err := json.Unmarshal([]byte(lines[i]), &ours); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(realIperf3(t, program, more), &theirs); err != nil {
			t.Fatal(err)
		}
		real, got := map[string]string{}, map[string]string{}
		iperfKeys(theirs, "", real)
		iperfKeys(ours, "", got)
		for at, kind := range got {
			if want, known := real[at]; want != kind && !(known && kind == "<nil>") {
				t.Errorf("%s is a %s, and iperf3 has %q", at, kind, want)
			}
		}
	}
	for i, all := range [][]string{
		{`{"title":"stream/tcp#1/1","start":{`, `"version":"iperf 3.12","system_info":null,"timestamp":{"time":"Sat, 14 Mar 2026 09:26:55 GMT","timesecs":1773480415},"test_start":{"protocol":"TCP","num_streams":2,"blksize":null,"omit":0,"duration":1,"reverse":0}},"intervals":[]`,
			`"sum_sent":{"bytes":null,"bits_per_second":9500000000,"retransmits":7},"sum_received":{"bytes":null,"bits_per_second":9000000000}`, `"sender_tcp_congestion":"cubic"}}`},
		{`"test_start":{"protocol":"UDP","num_streams":1,"blksize":1400,"omit":0,"duration":1,"reverse":0}}`, `"sum":{"bytes":null,"bits_per_second":2000000000,"seconds":null,"jitter_ms":0.025,"lost_packets":20,"packets":200,"lost_percent":10}`, `"sum_sent":{"bytes":null,"bits_per_second":2000000000},"sum_received":{"bytes":null,"bits_per_second":1000000000}`},
		{`"jitter_ms":null,"lost_packets":null,"packets":null,"lost_percent":12.5}`},
	} {
		for _, want := range all {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s\nwant\n%s", lines[i], want)
			}
		}
	}
	// A preset's duration is that of the phase; what no count can be is left out.
	tcp.Config[len(tcp.Config)-1].Value = "0s"
	for retransmits, want := range map[float64]string{9.3e18: "", math.Inf(1): "", math.NaN(): "", -1: "", 1 << 62: `"retransmits":4611686018427387904`} {
		tcp.Values = []result.Value{rate("goodput_bps", 9e9), rate("sent_bps", 9.5e9), rate("retransmits", retransmits)}
		said := formatted(t, text.Iperf3, report.Kept{Records: []result.Record{tcp}})
		if !strings.Contains(said, `"duration":1,`) || !strings.Contains(said, want) || want == "" && strings.Contains(said, "retransmits") {
			t.Errorf("%v: %s", retransmits, said)
		}
	}
	if err := text.Iperf3(io.Discard, report.Kept{Records: []result.Record{point}}); !errors.Is(err, text.ErrNothing) {
		t.Errorf("without trials: %v", err)
	}
}

// realIperf3 is the report of a client on the loopback, of few octets.
func realIperf3(t *testing.T, program string, more []string) []byte {
	t.Helper()
	port := "0"
	for n := range 20 { // others may have it
		port = fmt.Sprint(20000 + (os.Getpid()*7+n*131)%20000)
		server := exec.Command(program, "--server", "--one-off", "--bind", "127.0.0.1", "--port", port)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() { _ = server.Wait(); close(gone) }()
		t.Cleanup(func() { _ = server.Process.Kill(); <-gone })
		for begin := time.Now(); time.Since(begin) < 5*time.Second; time.Sleep(10 * time.Millisecond) {
			args := append([]string{"--client", "127.0.0.1", "--port", port, "--json", "--interval", "0", "--bytes", "100K", "--title", "x"}, more...)
			out, err := exec.Command(program, args...).Output()
			if err == nil && !bytes.Contains(out, []byte(`"error"`)) {
				return out
			}
			select {
			case <-gone:
				begin = time.Time{} // the port is taken
			default:
			}
		}
	}
	t.Fatal("iperf3 does not serve on the loopback")
	return nil
}
