// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"boxdyno/reference"
	"boxdyno/result"
)

func config(words ...string) (kv []result.Pair) {
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		kv = append(kv, result.Pair{Key: k, Value: v})
	}
	return kv
}

// A run that all citations stand beside.
func citedRun() (result.Run, []result.Record) {
	meter := []result.Energy{{Meter: "m", Joules: 1, Seconds: 1, Work: 1}}
	var points []result.Record
	add := func(procedure string, v *result.Value, words ...string) {
		p := result.Record{ID: procedure + "#1", Procedure: procedure, Config: config(words...), Energy: meter}
		if v != nil {
			p.Values = []result.Value{*v}
		}
		points = append(points, p)
	}
	rate := &result.Value{Metric: "forwarding_rate_fps", Unit: "frame/s", Value: 783e3, Bound: result.AtLeast}
	for _, way := range []string{"lan-to-wan", "wan-to-lan"} {
		for _, size := range []string{"64", "1518"} {
			add("forward", rate, "service=nat", "direction="+way, "frame_size="+size)
		}
	}
	add("forward", rate, "service=drop-tc", "direction=lan-to-wan", "frame_size=64")
	add("soak", nil, "class=cpu")
	for _, pcap := range []string{"bigFlows.pcap", "/srv/smallFlows.pcap", "maccdc2012_00000.pcap"} {
		add("ids", &result.Value{Metric: "ids_rate_bps", Unit: "bit/s", Value: 310e6}, "traffic="+pcap)
	}
	for _, s := range []string{"pyshark", "scapy", "pypcap"} {
		add("flood", nil, "kind=syn", "sensor="+s)
	}
	add("crypto", nil)
	run := result.Run{Settings: []result.Setting{{Knob: "rings"}, {Knob: "sysctl:net.core.netdev_max_backlog"}, {Knob: "sysctl:net.core.rmem_max"}, {Knob: "sysctl:net.core.wmem_max"}}}
	return run, points
}

// Published figures stand beside a run of the same experiment, with what must be said of
// them, and beside no other.
func TestCitations(t *testing.T) {
	run, points := citedRun()
	all := citedSentences(citations(run, points))
	text := strings.Join(all, "\n")
	for _, want := range []string{
		"BRIX IoT Core i3, pfSense: 450000 64-byte frames a second by NAT, direction LAN->WAN, frame bytes 64 (", "NAT firewall, sendmmsg/recvmmsg generator", "here >= 783 kframe/s (forward#1)",
		"Raspberry Pi 5 16GB: 742 Mbit/s replayed to it, pcap maccdc2012_00013 (IntelliBro", "they are no evidence for the tuning", "here 310 Mbit/s (ids#1)",
		"81 °C or less under stress-ng", "set to 10000, sysctl net.core.netdev_max_backlog", "80086115 interrupts", "bigFlows.pcap: 791615 frames",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for _, none := range [][]result.Record{nil, {{Procedure: "forward", Config: config("service=route", "frame_size=imix", "direction=both")}}, {{Procedure: "latency", Config: config("service=route", "frame_size=64")}}} {
		if got := citations(result.Run{}, none); len(got) > 0 {
			t.Errorf("beside %+v: %+v", none, got)
		}
	}
}

// leftOut are the figures that stand beside no run, by source and experiment, and metric
// where not all of it is meant; each with the reason.
var leftOut = map[string]string{
	"imeusp-09 method_or_text":               "the study's method, which method=published follows",
	"imeusp-07 capture_10s":                  "TCP, the loopback's 64 KB frames, no rate, and how long a program ran: not measured by method=published",
	"imeusp-04 pcap_file_parse":              "no procedure times the parsing of a file",
	"imeusp-12 sniff_to_csv":                 "no subject writes windows of frames to a file",
	"sweclockers-brix line_rate":             "arithmetic, which reports do themselves",
	"sweclockers-brix generator":             "of senders, not of a box",
	"imeusp-14 ml_quality":                   "models of infer learned nothing, and have no quality",
	"imeusp-14 ml_train_test":                "infer trains nothing",
	"imeusp-13 ml_train_test":                "infer trains nothing",
	"imeusp-06 ml_train_test":                "infer trains nothing",
	"hawthorne2020 table1_platform":          "a price, a size of memory, or of a cluster",
	"hawthorne2020 text_cost":                "a price",
	"croce-pi4 price":                        "a price",
	"hawthorne2020 text_net":                 "a network card's limit, of prior work",
	"hawthorne2020 text_hpl":                 "a sum over the nodes of a cluster",
	"hawthorne2020 text_cryptsetup":          "a sum over the nodes of a cluster, or a ratio to it",
	"cryptopi-raw cryptsetup_cluster":        "a sum over the nodes of a cluster",
	"cryptopi-raw hpl":                       "a sum over the nodes of a cluster",
	"cryptopi-raw power_cryptsetup_peak":     "power of a cluster",
	"cryptopi-raw power_mini_cluster":        "power of a cluster",
	"cryptopi-raw power_idle_breakdown":      "power of a cluster's parts",
	"cryptopi-raw cryptsetup_raw throughput": "the study has another value of it, which stands",
	"cryptopi-raw cryptsetup_raw rate":       "no procedure measures key derivation",
}

// shown says whether f stands beside some run.
func shown(f reference.Figure, cited []string) bool {
	if slices.ContainsFunc(cited, func(text string) bool {
		return strings.HasPrefix(text, f.Subject+": ") && strings.Contains(text, textOf(f))
	}) {
		return true
	}
	c := &Capture{Subject: f.Subject, Method: methodPublished, Rate: "2Mbps"}
	for _, l := range f.Levels {
		switch l.Factor {
		case "packets":
			fmt.Sscan(l.Value, &c.Packets)
		case "udp_payload_bytes":
			fmt.Sscan(l.Value, &c.Payload)
		case "rate_mbit":
			c.Rate = l.Value + "Mbps"
		case "scenario":
			c.Payload = 1448
			if rate, ok := strings.CutPrefix(l.Value, "Remote server UDP "); ok {
				c.Rate = strings.TrimSuffix(rate, "Mb/sec") + "Mbps"
			}
		}
	}
	if slices.ContainsFunc(c.published(&Row{}), func(p Published) bool { return p.Source == f.Source && p.Metric == f.Metric && p.Value == f.Value }) {
		return true
	}
	if f.Metric == "aes_instructions" && strings.HasPrefix(publishedCPU(f.Subject), "AES") == (f.Value == 1) || f.Metric == "core_speed" || f.Metric == "cores" && strings.Contains(publishedCPU(f.Subject), fmt.Sprint(f.Value, " cores")) {
		return len(publishedCiphers("aes-cbc-128")) > 0 && slices.ContainsFunc(publishedCiphers("aes-cbc-128"), func(p PublishedCipher) bool { return p.Box == f.Subject })
	}
	mib := f.Value * (1 << 20)
	if a := f.Level("algorithm"); a != "" && slices.ContainsFunc(publishedCiphers(a), func(p PublishedCipher) bool {
		return strings.HasPrefix(f.Subject+" (", p.Box+" (") && (p.Encrypt != nil && *p.Encrypt == mib || p.Decrypt != nil && *p.Decrypt == mib)
	}) {
		return true
	}
	tunnel := &Tunnel{Tunnel: "wireguard"}
	rows := []Row{RowOf(Row{Block: tunnel}, result.Value{Metric: goodput, Value: 1})}
	if publishTunnels(rows); f.Experiment == "vpn" && strings.Contains(tunnel.Published, f.Subject) {
		return true
	}
	for _, w := range workTables {
		for _, a := range w.published {
			for _, p := range publishedWorks([]publication{a}, result.Record{Config: a.when}) {
				if a.experiment == f.Experiment && a.metric == f.Metric && p.Box == f.Subject && p.Text == fmt.Sprintf(a.words, f.Value) {
					return true
				}
			}
		}
	}
	return false
}

func textOf(f reference.Figure) string {
	for _, c := range cites {
		if c.source == f.Source && c.experiment == f.Experiment && c.words[f.Metric] != "" {
			return citedText(c, f)
		}
	}
	return "\x00"
}

// Every published figure can stand beside some run, or there is a reason why not.
func TestEveryFigureCanAppear(t *testing.T) {
	run, points := citedRun()
	var cited []string
	for _, c := range citations(run, points) {
		cited = append(cited, fmt.Sprintf("%s: %s (%s)", c.Box, c.Text, c.Said))
	}
	count, used := 0, map[string]bool{}
	for _, f := range reference.Figures() {
		if shown(f, cited) {
			count++
			continue
		}
		key := f.Source + " " + f.Experiment
		if leftOut[key] == "" {
			key += " " + f.Metric
		}
		if used[key] = true; leftOut[key] == "" {
			t.Errorf("%s of %s %v (%g) can stand beside no run, and there is no reason", key, f.Subject, f.Levels, f.Value)
		}
	}
	for key, why := range leftOut {
		if !used[key] {
			t.Errorf("%s (%s) is no figure that is left out", key, why)
		}
	}
	t.Logf("%d of %d figures can stand beside a run", count, len(reference.Figures()))
}

// Speeds in memory and on emulated boards mean nothing: no published figure stands beside them.
func TestNothingBesideWhatIsNoBox(t *testing.T) {
	run, points := citedRun()
	if len(citations(run, points)) == 0 {
		t.Fatal("no figure stands beside a run of a box")
	}
	for _, kind := range []string{"memory", "emulated"} {
		run.Kind = kind
		if all := citations(run, points); len(all) > 0 {
			t.Errorf("%s: %d published figures stand beside it, the first of %s", kind, len(all), all[0].Box)
		}
	}
}

// What is in memory has no port whose counters can be read.
func TestNoAdviceInMemory(t *testing.T) {
	const advice = "Read the port's own counters."
	if got := next(Document{Kind: result.KindMemory}, advice); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if got := next(Document{Kind: result.KindSandbox}, advice); !slices.Equal(got, []string{advice}) {
		t.Errorf("%q", got)
	}
}
