// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/unit"
)

// floodRun is made up: a firewall that bears a flood, a router that does not and comes
// back late, one that never does, a rate that was searched, and one that the tester
// could not send.
func floodRun() (result.Run, []result.Record) {
	run, _ := report.Firewall()
	run.ID, run.Role, run.Criteria, run.Warnings = "20260314T092653Z-flood", "", nil, nil
	run.Command = []string{"boxdyno", "run", "flood", "--set", "rate=500k"}
	run.NotMeasured, run.Deviations = nil, nil
	run.Metrics = []result.Metric{{Name: "benign_survival_ratio", Unit: "1", Better: 1, Help: "share of the benign frames that came out of the box"}}
	now := unit.Instant(0)
	var recs []result.Record
	val := func(metric string, sym unit.Symbol, v float64) result.Value {
		return result.Value{Metric: metric, Unit: sym, Value: v}
	}
	const benign, ring = 9766, "receive ring full"
	point := func(service, kind, rate string, sent, through, lost int64, drop result.Term, more ...result.Value) *result.Record {
		begin := now
		now += 5e9
		fps := unit.FrameRate(sent) / 2
		cfg := []result.Pair{{Key: "kind", Value: kind}, {Key: "rate", Value: rate}, {Key: "port", Value: "0"}, {Key: "sources", Value: "network"}, {Key: "benign", Value: "20Mbps"}, {Key: "frame_size", Value: "512"},
			{Key: "flows", Value: "1"}, {Key: "service", Value: service}, {Key: "direction", Value: "lan-to-wan"}, {Key: "rules", Value: "0"}, {Key: "ip", Value: "4"}}
		survived := 1 - float64(lost)/benign
		least := max(survived-0.1, 0)
		drop.N = sent - through + lost
		p := result.Record{
			Schema: result.Schema, ID: fmt.Sprintf("flood/%d", len(recs)), Procedure: "flood", Repeat: 1, Config: cfg, Start: report.Origin.Add(time.Duration(begin)), Begin: begin, End: now - 1e9, Status: result.Passed,
			Load:    &result.Load{MeanSize: 81.4, Streams: 1, Intended: fps + 4883, Offered: fps + 4883, Forwarded: unit.FrameRate(through+benign-lost) / 2, Backend: "xdp/native"},
			Account: &result.Account{Intended: sent + 17090, Accepted: sent + 17090, Received: through + 17090 - lost, Settled: true, Drops: []result.Term{drop}},
			Values: append([]result.Value{
				{Metric: "benign_survival_ratio", Unit: "1", Value: survived, Lo: &least, Hi: new(1.0), N: 34}, val("flood_offered_fps", "frame/s", float64(fps)), val("flood_forwarded_fps", "frame/s", float64(through)/2), val("flood_sent", "1", float64(sent)), val("flood_arrived", "1", float64(through)),
				val("benign_offered_bps", "bit/s", 20e6), val("benign_sent", "1", benign), val("benign_lost", "1", float64(lost)), val("benign_latency_before_p99_s", "s", 26.6e-6), val("benign_latency_p99_s", "s", 98.3e-6), val("flood_cpu_ratio", "1", 0.433), val("ceiling_fps", "frame/s", 8.4e6),
			}, more...),
		}
		t := p
		t.ID, t.Parent = p.ID+"/1", p.ID
		t.Config = append([]result.Pair{{Key: "trial", Value: "flood"}, {Key: "n", Value: "0"}, {Key: "flood_rate", Value: strconv.Itoa(int(sent / 2))}}, cfg...)
		delay := &result.Delay{Min: 2.4e-6, Mean: 3.6e-6, P99: 26.6e-6, Max: 86e-6}
		t.KPIs = []result.KPI{
			{Phase: "before", Begin: begin, End: begin + 5e8, Offered: 4883, Forwarded: 4883, Sent: 2442, Delay: delay},
			{Phase: "flood", Begin: begin + 5e8, End: begin + 25e8, Offered: 4883, Forwarded: 4883 * unit.FrameRate(survived), Sent: benign, Lost: lost, Delay: delay, BadSent: sent, BadArrived: through},
			{Phase: "after", Begin: begin + 25e8, End: begin + 35e8, Offered: 4883, Forwarded: 4883, Sent: 4882, Delay: delay},
		}
		for i := range 14 {
			k := result.KPI{Phase: t.KPIs[min(i/2, 1)+i/10].Phase, Begin: begin + unit.Instant(i)*25e7, End: begin + unit.Instant(i+1)*25e7, Offered: 4883, Forwarded: 4883, Sent: 1220}
			if k.Phase == "flood" {
				k.Lost, k.BadArrived = lost/8, through/8
				k.Forwarded = unit.FrameRate(k.Sent-k.Lost) * 4
			}
			t.Samples = append(t.Samples, k)
		}
		recs = append(recs, t, p)
		return &recs[len(recs)-1]
	}
	quick := val("flood_recovery_s", "s", 204.8e-6)
	quick.Bound = result.AtMost
	full := result.Term{Place: result.DUTNIC, Host: "dut", Name: ring, From: "p0 tx_dropped", Link: "lan"}
	policy := result.Term{Place: result.NFT, Host: "dut", Name: "nft drop (policy)", From: "inet boxdyno drop_policy"}
	point("filter", "syn", "500k", 1_000_000, 0, 0, policy, quick)
	late := point("nat", "syn", "500k", 1_000_000, 64_515, 8_673, full, val("flood_recovery_s", "s", 0.0111),
		val("conntrack_entries", "1", 64_513), val("conntrack_most", "1", 262_144), val("conntrack_insert_failed", "1", 51_004), val("conntrack_early_drop", "1", 0))
	late.Config = append(late.Config, result.Pair{Key: "sensor", Value: "tcpdump"})
	late.Values = append(late.Values, val("sensor_seen_ratio", "1", 0.4712), val("sensor_missed", "1", 9_037))
	late.Status, late.Reason = result.Failed, "11.2 % of 20.0 Mbit/s benign survived a SYN flood of 500 kframe/s (8673 of 9766 frames were lost, and 0.1 % may be)"
	never := point("route", "dns", "line", 900_000, 899_999, 9_000, full)
	never.Status, never.Reason = result.Failed, "benign frames were still lost 1s after the flood had ended"
	low, high := 412e3, 431e3
	point("route", "udp", "search", 824_000, 824_000, 3, full, quick, result.Value{Metric: "flood_borne_fps", Unit: "frame/s", Value: low, Lo: &low, Hi: &high, N: 14})
	slow := point("filter", "ack", "900k", 1_800_000, 0, 0, policy)
	trial := &recs[len(recs)-2]
	trial.Status, slow.Load.Offered = result.Invalid, 450e3
	slow.Status, slow.Reason, slow.Values = result.Invalid, "the tester offered 450 kframe/s of 900 kframe/s (50.00 %, and 99 % is the least)", nil
	return run, recs
}

func TestFloodTables(t *testing.T) {
	run, recs := floodRun()
	d := report.Summarized(run, recs)
	got := printed(t, d)
	for _, want := range []string{
		"filter, syn, 500k, 20Mbps, 512 B - - 100 % 90.0 % to 100 %",
		"filter syn 500k 20Mbps 512 B - 26.6 µs 98.3 µs 43.3 %",
		"tcpdump 11.1 ms 500 k 32.3 k 8.40 M",
		"route, dns, line, 20Mbps, 512 B - - 7.8 % 0.0 % to 100 %",
		"route, udp, search, 20Mbps, 512 B 412 k 412–431 k 99.97 %",
		"filter, ack, 900k, 20Mbps, 512 B - - - - b",
		"flood 4.88 k 546 8 673 2.40 µs 3.60 µs 26.6 µs 86.0 µs 1 000 000 64 515",
		"64 513 262 144 51 004 0",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q:\n%s", want, got)
		}
	}
	if !strings.Contains(got, "tcpdump 47.1 % 9 037") {
		t.Errorf("what the sensor saw is not said:\n%s", got)
	}
}

func TestFloodSummary(t *testing.T) {
	run, recs := floodRun()
	for _, c := range []struct{ id, want, cause string }{
		{"flood/0", "filter, 0 rules: 100 % of 20.0 Mbit/s benign survived a SYN flood of 500 kframe/s, none of which came through; the box was back within 205 µs of its end.", ""},
		{"flood/2", "nat, 1 flow: 11.2 % of 20.0 Mbit/s benign survived a SYN flood of 500 kframe/s, 6.5 % of which came through; the box was back 11.1 ms after it had ended; tcpdump counted 47.1 % of the benign frames.", "receive ring"},
		{"flood/4", "route: 7.8 % of 20.0 Mbit/s benign survived a DNS amplification of 450 kframe/s, 99.9999 % of which came through; the box was not back at the end.", "receive ring"},
		{"flood/6", "route: bears a UDP flood of 412 kframe/s: 99.97 % of 20.0 Mbit/s benign survived a UDP flood of 412 kframe/s, all of which came through; the box was back within 205 µs of its end.", "receive ring"},
		{"flood/8", "", "the tester"},
	} {
		d := report.Summarized(run, only(recs, c.id))
		if d.Summary != c.want {
			t.Errorf("%s: %q", c.id, d.Summary)
		}
		if b := d.Bottleneck; (b != nil) != (c.cause != "") || b != nil && !strings.Contains(b.Sentence, c.cause) {
			t.Errorf("%s: bottleneck %+v", c.id, b)
		}
	}
}

// Where no benign frame was lost, nothing limited the box: what ended in a queue was the flood's.
func TestFloodLostAlone(t *testing.T) {
	run, recs := floodRun()
	for _, lost := range []int64{0, 1} {
		alone := only(recs, "flood/2")
		for i := range alone {
			for k := range alone[i].KPIs {
				alone[i].KPIs[k].Lost = lost
			}
		}
		if d := report.Summarized(run, alone); (d.Bottleneck != nil) != (lost > 0) {
			t.Errorf("%d lost in each phase: bottleneck %+v", lost, d.Bottleneck)
		}
	}
}

func TestSurvived(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0 %", 0.5: "50.0 %", 0.9994: "99.9 %", 0.9996: "99.96 %", 0.99999: "99.999 %", 1: "100 %", 0.99999999999: "< 100 %"} {
		if got := report.Survived(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
