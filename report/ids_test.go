// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/unit"
)

// idsRun is made up: an IDS that keeps up and sees, one that loses frames and attacks,
// one that keeps up and does not see, searched limits by number of rules, a capture
// without any rule, and an IDS that is missing.
func idsRun() (result.Run, []result.Record) {
	run, _ := report.Firewall()
	run.ID, run.Role, run.Criteria, run.Warnings = "20260314T092653Z-ids", "", nil, nil
	run.Command = []string{"boxdyno", "run", "ids", "--set", "rules=0,1000", "--set", "rate=search,50Mbps"}
	run.NotMeasured, run.Deviations = nil, nil
	run.Metrics = []result.Metric{{Name: "ids_rate_bps", Unit: "bit/s", Better: 1, Help: "highest load of which no more than the share loss was lost"}}
	now := unit.Instant(0)
	var recs []result.Record
	val := func(metric string, sym unit.Symbol, v float64) result.Value {
		return result.Value{Metric: metric, Unit: sym, Value: v}
	}
	config := func(rules, file, sample, traffic, flood, rate string) []result.Pair {
		return []result.Pair{{Key: "subject", Value: "suricata"}, {Key: "rules", Value: rules}, {Key: "rules_file", Value: file}, {Key: "rules_sample", Value: sample}, {Key: "traffic", Value: traffic},
			{Key: "flood", Value: flood}, {Key: "flood_share", Value: "0.3"}, {Key: "rate", Value: rate}}
	}
	// seen is one trial of n frames and ten attacks at bps.
	seen := func(id, parent string, cfg []result.Pair, bps float64, n, lost, kernel, detected int64) result.Record {
		now += 2e9
		fps := bps / 8 / 450
		r := result.Record{
			Schema: result.Schema, ID: id, Parent: parent, Procedure: "ids", Repeat: 1, Config: cfg, Start: report.Origin.Add(time.Duration(now)), Begin: now, End: now + 1e9, Status: result.Passed,
			Load:    &result.Load{MeanSize: 450, Streams: 1, Intended: unit.FrameRate(fps), Offered: unit.FrameRate(fps), Forwarded: unit.FrameRate(fps * float64(n-lost) / float64(n)), Backend: "xdp/native"},
			Account: &result.Account{Accepted: n, Received: n - lost, Unexplained: lost - kernel, Settled: true},
			Values: []result.Value{
				val("capture_offered_fps", "frame/s", fps), val("capture_offered_bps", "bit/s", bps), val("frames_offered", "1", float64(n)), val("frames_counted", "1", float64(n-lost)), val("frames_lost", "1", float64(lost)),
				val("drops_before", "1", 0), val("drops_kernel", "1", float64(kernel)), val("drops_subject", "1", 0), val("frames_unexplained", "1", float64(lost-kernel)),
				val("attacks_planted", "1", 10), val("attacks_detected", "1", float64(detected)), val("detected_ratio", "1", float64(detected)/10),
				val("subject_cpu_per_frame_s", "s", 2.1e-6), val("subject_cpu_share", "1", fps*2.1e-6), val("host_cpu_per_frame_s", "s", 4.4e-6), val("host_cpu_above_per_frame_s", "s", 2.7e-6), val("subject_memory_bytes", "B", 43e6), val("startup_s", "s", 0.27), val("rules_failed", "1", 0), val("memory_drops", "1", 0),
			},
		}
		if kernel > 0 {
			r.Account.Drops = []result.Term{{Place: result.Socket, Host: "dut", Name: "capture buffer full", From: "suricata dropped by kernel", N: kernel}}
		}
		switch {
		case lost > 0:
			r.Status, r.Reason = result.Failed, fmt.Sprintf("suricata did not count %d of %d frames", lost, n)
		case detected < 10:
			r.Status, r.Reason = result.Failed, fmt.Sprintf("suricata missed %d of 10 attacks, and lost 0 of %d frames: it keeps up and does not see", 10-detected, n)
		}
		return r
	}
	point := func(cfg []result.Pair, loaded float64, trials []result.Record, more ...result.Value) {
		p := trials[len(trials)-1]
		p.ID, p.Parent, p.Config = trials[0].Parent, "", cfg
		p.Values = append(append(p.Values[:len(p.Values):len(p.Values)], val("rules_loaded", "1", loaded), val("idle_detected_ratio", "1", 1)), more...)
		recs = append(append(recs, trials...), p)
	}
	given := func(id string, cfg []result.Pair, loaded, bps float64, n, lost, kernel, detected int64, more ...result.Value) {
		point(cfg, loaded, []result.Record{seen(id+"/1", id, cfg, bps, n, lost, kernel, detected)}, more...)
	}
	given("ids/sees", config("0", "", "0", "appmix", "none", "50Mbps"), 9, 50e6, 27_000, 0, 0, 10)
	given("ids/loses", config("1000", "", "0", "appmix", "syn", "50Mbps"), 1009, 50e6, 27_000, 2_700, 2_650, 7, val("blind_bps", "bit/s", 50e6))
	given("ids/blind", config("0", "/rules/mine.rules.gz", "100", "appmix", "none", "50Mbps"), 109, 50e6, 27_000, 0, 0, 8, val("blind_bps", "bit/s", 50e6))
	limit := func(id string, cfg []result.Pair, loaded, bps float64) {
		lo, hi := bps, bps*1.1
		point(cfg, loaded, []result.Record{
			seen(id+"/1", id, cfg, 4*bps, 100_000, 60_000, 60_000, 4), seen(id+"/2", id, cfg, hi, 30_000, 30, 30, 9), seen(id+"/3", id, cfg, bps, 27_000, 0, 0, 10),
		}, result.Value{Metric: "ids_rate_bps", Unit: "bit/s", Value: bps, Lo: &lo, Hi: &hi, N: 8}, val("ids_rate_fps", "frame/s", bps/8/450), val("blind_bps", "bit/s", hi))
	}
	limit("ids/limit-0", config("0", "", "0", "appmix", "none", "search"), 9, 180e6)
	limit("ids/limit-1000", config("1000", "", "0", "appmix", "none", "search"), 1009, 120e6)
	limit("ids/limit-capture", config("0", "", "0", "/captures/office.pcap", "none", "search"), 0, 200e6)
	missing := config("10000", "", "0", "appmix", "none", "search")
	recs = append(recs, result.Record{Schema: result.Schema, ID: "ids/missing", Procedure: "ids", Repeat: 1, Config: missing, Start: report.Origin, Status: result.Skipped, Reason: "missing the program suricata: run apt-get install -y suricata"})
	return run, recs
}

func TestIDSTables(t *testing.T) {
	run, recs := idsRun()
	d := report.Summarized(run, recs)
	got := printed(t, d)
	for _, want := range []string{
		"suricata, appmix, search 180 M 180–198 M 50.0 k", "suricata, appmix, search 198 Mbit/s",
		"suricata, rules 1000, appmix, search 120 M 120–132 M 33.3 k",
		"suricata, office.pcap, search 200 M",
		"appmix, 50Mbps 50.0 M 10 10 100 % 100 %",
		"mine.rules.gz, appmix, 50Mbps, rules sample 100 50.0 M 10 8 80.0 % 100 %",
		"suricata, rules 1000, appmix, 50Mbps, syn 0 2 650 0 50",
		"it keeps up and does not see",
		"missing the program suricata: run apt-get install -y suricata",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q:\n%s", want, got)
		}
	}
	for _, r := range d.Rows {
		s, ok := r.Block.(*report.IDS)
		if !ok {
			t.Fatalf("%s is no row of ids", r.ID)
		}
		if s.Rate == report.Searched && r.At("ids_rate_bps") != nil && len(s.Loads) != 3 {
			t.Errorf("%s: %d loads of three trials", r.Name, len(s.Loads))
		}
	}
}

func TestIDSSummary(t *testing.T) {
	run, recs := idsRun()
	for _, c := range []struct{ id, want string }{
		{"ids/sees", "suricata, rules none, appmix, at 50Mbps: 0 of 27 000 frames lost, 10 of 10 attacks detected there, 2.10 µs of CPU a frame."},
		{"ids/limit-1000", "suricata, rules 1000 generated, appmix: 120 Mbit/s with hardly a frame lost, 10 of 10 attacks detected there, attacks missed from 132 Mbit/s on, 2.10 µs of CPU a frame."},
	} {
		if got := report.Summarized(run, only(recs, c.id)).Summary; got != c.want {
			t.Errorf("%s: %q", c.id, got)
		}
	}
}
