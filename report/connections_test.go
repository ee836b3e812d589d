// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"boxdyno/report"
	"boxdyno/report/page"
	"boxdyno/report/text"
	"boxdyno/result"
	"boxdyno/unit"
)

// connectionsRun is made up: rates of a router, of a firewall whose search ended too
// high and of a NAT whose table fills, a rate that the NAT does not take, and more
// connections at once than its table has entries.
func connectionsRun() (result.Run, []result.Record) {
	run, _ := report.Firewall()
	run.ID, run.Role, run.Criteria, run.Warnings = "20260314T092653Z-connections", "", nil, nil
	run.Command = []string{"boxdyno", "run", "connections", "--set", "service=route,filter,nat"}
	run.NotMeasured, run.Deviations = nil, []string{"RFC 9411 7.2: no segment is sent again, and no connection may fail"}
	pair := func(k, v string) result.Pair { return result.Pair{Key: k, Value: v} }
	run.Metrics = []result.Metric{{Name: "connections_cps", Unit: "1/s", Better: 1, Help: "highest rate without a failed connection"}}
	now := unit.Instant(0)
	var recs []result.Record
	val := func(metric string, sym unit.Symbol, v float64) result.Value {
		return result.Value{Metric: metric, Unit: sym, Value: v}
	}
	// trial offers n connections at rate, of which failed ones found the table full
	// or no place in a ring.
	trial := func(parent, kind string, cfg []result.Pair, rate float64, n, failed int64, tableFull bool) result.Record {
		now += 1e9
		r := result.Record{
			Schema: result.Schema, ID: fmt.Sprintf("t%02d", len(recs)), Parent: parent, Procedure: "connections", Repeat: 1, Start: report.Origin.Add(time.Duration(now)), Begin: now, End: now + 5e8,
			Config: append([]result.Pair{pair("trial", kind), pair("n", fmt.Sprint(len(recs)))}, cfg...), Status: result.Passed,
			Load:    &result.Load{MeanSize: 64, Streams: 1, Intended: unit.FrameRate(rate), Offered: unit.FrameRate(rate), Forwarded: unit.FrameRate(rate * float64(n-failed) / float64(n)), Backend: "xdp/native"},
			Account: &result.Account{Accepted: 7*n - 6*failed, Received: 7*n - 7*failed, Settled: true},
			Values: []result.Value{
				val("connections_complete_cps", "1/s", rate*float64(n-failed)/float64(n)), val("connections_offered_cps", "1/s", rate),
				val("handshake_p50_s", "s", 1.21e-5), val("handshake_p99_s", "s", 8.4e-5), val("ttfb_p50_s", "s", 2.6e-5), val("ttfb_p99_s", "s", 1.9e-4), val("ttfb_max_s", "s", 2.1e-3),
				val("goodput_bps", "bit/s", rate*float64(n-failed)/float64(n)*8*1126),
				val("connections_opened", "1", float64(n)), val("connections_closed", "1", float64(n-failed)), val("connections_failed", "1", float64(failed)),
			},
		}
		term := result.Term{Place: result.DUTNIC, Host: "dut", Name: "receive ring full", From: "lan rx_queue_0_drops", N: failed, Link: "lan"}
		entries, refused := 90_000.0, 0.0
		if tableFull {
			entries, refused = 262_144, float64(failed)
			term = result.Term{Place: result.Conntrack, Host: "dut", Name: "table full or refused", From: "/proc/net/stat/nf_conntrack drop", N: failed}
		}
		if result.Get(cfg, "service") != "route" && parent != report.SelfTestProcedure {
			r.Values = append(r.Values, val("conntrack_entries", "1", entries), val("conntrack_most", "1", 262_144), val("conntrack_insert_failed", "1", 0), val("conntrack_drop", "1", refused), val("conntrack_early_drop", "1", 0))
		}
		if failed > 0 {
			r.Status, r.Reason = result.Failed, fmt.Sprintf("%d of %d connections failed (%d without a SYN-ACK)", failed, n, failed)
			r.Account.Drops = []result.Term{term}
			if tableFull {
				r.Reason += fmt.Sprintf("; the connection table is full: 262144 of 262144 entries, and %d packets were refused", failed)
			}
		}
		recs = append(recs, r)
		return r
	}
	trial(report.SelfTestProcedure, "", nil, 1.31e6, 262_000, 0, false)
	recs[0].Procedure, recs[0].Config = report.SelfTestProcedure, []result.Pair{pair("connections", "flat-out"), pair("response_size", "1024")}
	recs[0].Warnings = []string{"the tester offered 1.31 M connections/s of 1.40 M connections/s"}

	point := func(id string, last result.Record, cfg []result.Pair, values []result.Value, warnings ...string) {
		recs = append(recs, result.Record{
			Schema: result.Schema, ID: id, Procedure: "connections", Repeat: 1, Config: cfg, Start: last.Start, Begin: last.Begin, End: last.End,
			Status: last.Status, Reason: last.Reason, Load: last.Load, Account: last.Account, Values: append(values, last.Values...), Warnings: warnings,
		})
	}
	config := func(service, mode string, rules, rate, connections int) []result.Pair {
		return []result.Pair{pair("service", service), pair("mode", mode), pair("rules", fmt.Sprint(rules)), pair("response_size", "1024"), pair("rate", fmt.Sprint(rate)), pair("connections", fmt.Sprint(connections))}
	}
	for _, c := range []struct {
		service             string
		rules               int
		found, hi, complete float64
		full                bool
		warning             string
	}{
		{"nat", 0, 144e3, 151e3, 122e3, true, ""},
		{"filter", 100, 96e3, 127e3, 108e3, false, "the search ended at 120 k connections/s, and a longer trial did not confirm it: 3 of 60000 connections failed (3 without a SYN-ACK)"},
		{"route", 0, 298e3, 305e3, 281e3, false, "the tester offered 298 k connections/s of 300 k connections/s"},
	} {
		cfg := config(c.service, "rate", c.rules, 0, 100_000)
		id := "connections/" + c.service
		trial(id, "overload", cfg, 1.31e6, 262_000, 262_000-int64(c.complete/5), c.full)
		trial(id, "overload", cfg, 655e3, 131_000, 131_000-int64(c.complete/5)+3000, c.full)
		last := trial(id, "limit", cfg, c.found, int64(c.found/2), 0, false)
		found := result.Value{Metric: "connections_cps", Unit: "1/s", Value: c.found, Lo: &c.found, Hi: &c.hi, N: 23}
		var warnings []string
		if c.warning != "" {
			warnings = []string{c.warning}
		}
		point(id, last, cfg, []result.Value{found, val("connections_overload_cps", "1/s", c.complete), val("connections_ceiling_cps", "1/s", 1.31e6)}, warnings...)
	}
	cfg := config("nat", "rate", 0, 200_000, 100_000)
	point("connections/nat/200000", trial("connections/nat/200000", "rate", cfg, 200e3, 100_000, 1234, false), cfg, []result.Value{val("connections_ceiling_cps", "1/s", 1.31e6)})
	cfg = config("nat", "concurrent", 0, 50_000, 300_000)
	last := trial("connections/nat/concurrent", "concurrent", cfg, 50e3, 300_000, 37_856, true)
	point("connections/nat/concurrent", last, cfg, []result.Value{val("connections_concurrent", "1", 262_144), val("connections_ceiling_cps", "1/s", 1.31e6)})
	return run, recs
}

// only are the records of one point and its trials.
func only(recs []result.Record, id string) (out []result.Record) {
	for _, r := range recs {
		if r.ID == id || r.Parent == id {
			out = append(out, r)
		}
	}
	return out
}

func TestConnectionsSentences(t *testing.T) {
	run, recs := connectionsRun()
	for id, want := range map[string]string{
		"connections/nat":            "TCP, nat: 144 k connections/s without a failed one, 122 k completed under overload; the connection table was full.",
		"connections/filter":         "TCP, filter, 100 rules: 96.0 k connections/s without a failed one, 108 k completed under overload; most lost frames ended at dut nic (receive ring full).",
		"connections/nat/200000":     "TCP, nat: 198 k connections/s complete, 200 k offered, 1 234 of 100 000 failed; most lost frames ended at dut nic (receive ring full).",
		"connections/nat/concurrent": "TCP, nat: 262 144 of 300 000 connections open at once; the connection table was full.",
	} {
		d := report.Summarized(run, only(recs, id))
		if got := strings.ReplaceAll(d.Summary, string(result.DUTNIC), "dut nic"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", id, got, want)
		}
		if failed := d.Rows[0].At("connections_failed").Value > 0; failed != (d.Verdict == result.Failed) || !failed && d.Sentence != d.Summary {
			t.Errorf("%s: %s: %s", id, d.Verdict, d.Sentence)
		}
	}
}

// Connections are in no table of frames, and their rates have their own unit in
// every form.
func TestConnectionsAreNoFrames(t *testing.T) {
	run, recs := connectionsRun()
	d := report.Summarized(run, recs)
	var terminal, csv, markdown, shown bytes.Buffer
	for _, err := range []error{text.Terminal(&terminal, d), text.CSV(&csv, report.Kept{Document: d, Records: recs}), text.Markdown(&markdown, d), page.Write(&shown, d, recs)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, data, _ := strings.Cut(shown.String(), `id="boxdyno-data">`)
	data, _, _ = strings.Cut(data, "</script>")
	for form, s := range map[string]string{"text": terminal.String(), "CSV": csv.String(), "Markdown": markdown.String(), "page": data} {
		if strings.Contains(s, "frame/s") {
			i := strings.Index(s, "frame/s")
			t.Errorf("%s has connections in frames: ...%s", form, s[max(0, i-200):i+10])
		}
		if !strings.Contains(s, "298 k connections/s of 300 k connections/s") {
			t.Errorf("%s lacks the warning in connections/s", form)
		}
	}
	for _, r := range d.Rows {
		if _, ok := r.Block.(*report.Connections); r.MeanFrameSize != 0 || !ok {
			t.Errorf("%s: mean frame size %v, connections %v", r.ID, r.MeanFrameSize, r.Block)
		}
	}
	if strings.Contains(terminal.String(), "forwarding rate") {
		t.Errorf("a table of frames:\n%s", terminal.String())
	}
	fields := map[string]bool{}
	for line := range strings.Lines(terminal.String()) {
		fields[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{
		"route rate 1024 B none 298 k/s 298–305 k/s 281 k/s 1.31 M/s 22.7 % a",
		"nat rate 1024 B none 144 k/s 144–151 k/s 122 k/s 1.31 M/s 11.0 %",
		"nat concurrent 300 000 50 000 none 50.0 k/s 262 144 12.1 µs b",
	} {
		if !fields[want] {
			t.Errorf("the text has no line %q:\n%s", want, terminal.String())
		}
	}
}

// What was complete at one overload is no reading of what was complete at another:
// repeats that fall are no drift of the box.
func TestConnectionsHaveNoCourse(t *testing.T) {
	for _, procedure := range []string{"connections", "forward"} {
		var recs []result.Record
		for i := range 24 {
			id := fmt.Sprint(i)
			trial := result.Record{ID: id + "/0", Parent: id, Procedure: procedure, Status: result.Passed, Config: []result.Pair{{Key: "trial", Value: report.OverloadTrial}}, Load: &result.Load{Forwarded: unit.FrameRate(1e6 - 3e4*float64(i))}}
			recs = append(recs, trial, result.Record{ID: id, Procedure: procedure, Repeat: i, Status: result.Passed})
		}
		d := report.Summarized(result.Run{}, recs)
		if drifts := len(d.Rows[0].Warnings) > 0; drifts != (procedure == "forward") {
			t.Errorf("%s: %q", procedure, d.Rows[0].Warnings)
		}
	}
}
