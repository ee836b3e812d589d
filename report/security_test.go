// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"boxdyno/report"
	"boxdyno/report/internal/grid"
	"boxdyno/report/text"
	"boxdyno/result"
	"boxdyno/unit"
)

// securityRun is made up: one load that a firewall bears, and one at which known-bad
// frames get through.
func securityRun() (result.Run, []result.Record) {
	run, _ := report.Firewall()
	run.Role, run.Criteria = "", nil
	pair := func(k, v string) result.Pair { return result.Pair{Key: k, Value: v} }
	var recs []result.Record
	for i, load := range []string{"80%", "40000"} {
		leaked := int64(i) * 1234
		rate, n := 2e4, int64(60_000_000)
		cfg := []result.Pair{pair("service", "filter"), pair("direction", "lan-to-wan"), pair("frame_size", "1518"), pair("rules", "100"), pair("flows", "1"), pair("ip", "4"), pair("load", load)}
		val := func(metric string, sym unit.Symbol, v float64) result.Value {
			lo, hi := v*0.9, v*1.1
			return result.Value{Metric: metric, Unit: sym, Value: v, Lo: &lo, Hi: &hi, N: 298}
		}
		r := result.Record{
			Schema: result.Schema, ID: "security/filter/" + load, Procedure: "security", Repeat: 1, Config: cfg, Status: result.Passed,
			Load: &result.Load{MeanSize: 1518, Streams: 1, Intended: 4e4, Offered: 4e4, Forwarded: 2e4, Backend: "made up"},
			Account: &result.Account{Accepted: 2 * n, Received: n + leaked, Settled: true, Drops: []result.Term{
				{Place: result.NFT, Host: "dut", Name: "nft drop (known bad)", From: "inet boxdyno drop_known_bad", N: n - leaked}}},
			Values: []result.Value{
				val("sustain_offered_fps", "frame/s", rate), val("sustain_forwarded_fps", "frame/s", rate), val("sustain_loss_ratio", "1", 0),
				val("sustain_latency_min_s", "s", 8e-6), val("sustain_latency_mean_s", "s", 2e-5), val("sustain_latency_p99_s", "s", 9e-5), val("sustain_latency_max_s", "s", 3e-3),
				{Metric: "known_bad_sent", Unit: "frame", Value: float64(n)}, {Metric: "known_bad_blocked", Unit: "frame", Value: float64(n - leaked)}, {Metric: "known_bad_arrived", Unit: "frame", Value: float64(leaked)},
			},
		}
		if leaked > 0 {
			r.Status, r.Reason = result.Failed, "1234 of 60000000 known-bad frames came through"
		}
		t := r
		t.ID, t.Parent, t.Values = r.ID+"/1", r.ID, nil
		t.Config = append([]result.Pair{pair("trial", "phases")}, cfg...)
		d := &result.Delay{Min: 8e-6, Mean: 2e-5, P99: 9e-5, Max: 3e-3}
		for j, phase := range []string{"initialise", "ramp up", "sustain", "ramp down"} {
			k := result.KPI{Phase: phase, Begin: unit.Instant(j) * 1e9, End: unit.Instant(j+1) * 1e9, Offered: unit.FrameRate(rate), Forwarded: unit.FrameRate(rate), Sent: n / 4, Delay: d, BadSent: n / 4}
			if phase == "sustain" {
				k.BadArrived = leaked
			}
			t.KPIs, t.Samples = append(t.KPIs, k), append(t.Samples, k)
		}
		recs = append(recs, t, r)
	}
	return run, recs
}

func TestSecurityReport(t *testing.T) {
	run, recs := securityRun()
	d := report.Summarized(run, recs)
	if d.Verdict != result.Failed || !strings.Contains(d.Sentence, "1234 of 60000000 known-bad") || len(d.Rows) != 2 {
		t.Fatalf("%s: %s: %d rows", d.Verdict, d.Sentence, len(d.Rows))
	}
	if d.Bottleneck != nil {
		t.Errorf("frames that the box must block are a bottleneck: %+v", d.Bottleneck)
	}
	var b bytes.Buffer
	if err := text.Terminal(&b, d); err != nil {
		t.Fatal(err)
	}
	shown := b.String()
	for _, want := range []string{"load 80 %", "initialise", "18.0–22.0 k", "59 998 766", "ramp up", "sustain", "ramp down", "1 234", "none of 60 000 000 known-bad frames came through", "all phases"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in the text:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "Under overload") {
		t.Errorf("security has no rate under overload:\n%s", shown)
	}
	for line := range strings.Lines(shown) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > grid.Width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	b.Reset()
	if err := text.Markdown(&b, d); err != nil || !strings.Contains(b.String(), "ramp down") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// Frames that were lost where they should not be are still named.
func TestSecurityBottleneck(t *testing.T) {
	run, recs := securityRun()
	recs = recs[:2]
	for i := range recs {
		a := recs[i].Account
		recs[i].Status, recs[i].Reason = result.Failed, "frames were lost"
		if i == 0 {
			a.Received -= 5_000_000
			a.Drops = append([]result.Term{{Place: result.DUTNIC, Host: "dut", Name: "receive ring full", From: "lan rx_dropped", N: 5_000_000}}, a.Drops...)
		}
	}
	d := report.Summarized(run, recs)
	if d.Bottleneck == nil || !strings.Contains(d.Bottleneck.Sentence, "5000000 of 5000000") {
		t.Errorf("%+v", d.Bottleneck)
	}
}

// A tuned security row is named by its tuning, then by its load.
func TestSecurityNames(t *testing.T) {
	run, recs := securityRun()
	for i := range recs {
		recs[i].Config = append(recs[i].Config, result.Pair{Key: "tune", Value: "low-jitter"})
	}
	rows := report.Summarized(run, recs).Rows
	if len(rows) != 2 || !strings.HasSuffix(rows[0].Name, ", tune low-jitter, load 80 %") {
		t.Errorf("%+v", rows)
	}
}
