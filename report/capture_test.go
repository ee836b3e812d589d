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

// captureRun is made up: a subject that keeps up and one that does not, by both methods,
// a searched limit, and a subject that is missing.
func captureRun() (result.Run, []result.Record) {
	run, _ := report.Firewall()
	run.ID, run.Role, run.Criteria, run.Warnings = "20260314T092653Z-capture", "", nil, nil
	run.Command = []string{"boxdyno", "run", "capture", "--set", "subject=tcpdump,scapy", "--repeat", "2"}
	run.NotMeasured, run.Deviations = nil, nil
	run.Metrics = []result.Metric{{Name: "frames_counted", Unit: "1", Better: 1, Help: "frames that the subject counted"}}
	now := unit.Instant(0)
	var recs []result.Record
	val := func(metric string, sym unit.Symbol, v float64) result.Value {
		return result.Value{Metric: metric, Unit: sym, Value: v}
	}
	config := func(subject, payload, rate, packets, method string) []result.Pair {
		return []result.Pair{{Key: "subject", Value: subject}, {Key: "payload_size", Value: payload}, {Key: "frame_size", Value: "0"}, {Key: "rate", Value: rate}, {Key: "packets", Value: packets},
			{Key: "burst", Value: "0"}, {Key: "buffer", Value: "0"}, {Key: "method", Value: method}}
	}
	point := func(cfg []result.Pair, repeat int, n, end, counted, kernel int64, more ...result.Value) {
		now += 2e9
		rate := 1.3e4
		p := result.Record{
			Schema: result.Schema, ID: fmt.Sprintf("capture/%d", len(recs)), Procedure: "capture", Repeat: repeat, Config: cfg, Start: report.Origin.Add(time.Duration(now)), Begin: now, End: now + 1e9, Status: result.Passed,
			Load:    &result.Load{MeanSize: 194, Streams: 1, Intended: unit.FrameRate(rate), Offered: unit.FrameRate(rate), Forwarded: unit.FrameRate(rate * float64(counted) / float64(n)), Backend: "xdp/native"},
			Account: &result.Account{Accepted: n, Received: counted, Unexplained: n - counted - kernel, Settled: true},
			Values: append([]result.Value{
				val("capture_offered_fps", "frame/s", rate), val("frames_offered", "1", float64(n)), val("frames_counted", "1", float64(counted)), val("frames_at_end", "1", float64(end)), val("frames_lag", "1", float64(counted-end)),
				val("drain_s", "s", float64(counted-end)/1000), val("frames_lost", "1", float64(n-counted)), val("drops_before", "1", 0), val("drops_kernel", "1", float64(kernel)), val("drops_subject", "1", 0), val("frames_unexplained", "1", float64(n-counted-kernel)),
				val("subject_cpu_per_frame_s", "s", 1.2e-6+1e-8*float64(repeat)), val("subject_cpu_share", "1", 0.016), val("host_cpu_per_frame_s", "s", 2.4e-6), val("host_cpu_above_per_frame_s", "s", 1.6e-6),
				val("subject_memory_bytes", "B", 7.1e6), val("subject_processes", "1", 1), val("startup_s", "s", 0.042), val("first_frame_s", "s", 0.1),
			}, more...),
		}
		if kernel > 0 {
			p.Account.Drops = []result.Term{{Place: result.Socket, Host: "dut", Name: "capture buffer full", From: "tcpdump dropped by kernel", N: kernel}}
		}
		if n > counted {
			p.Status, p.Reason = result.Failed, fmt.Sprintf("%s did not count %d of %d frames", result.Get(cfg, "subject"), n-counted, n)
			p.Warnings = []string{fmt.Sprintf("%d frames are unexplained: no counter says where they ended", n-counted-kernel)}
		}
		trial := p
		trial.ID, trial.Parent = p.ID+"/1", p.ID
		recs = append(recs, trial, p)
	}
	for r := range 2 {
		point(config("tcpdump", "148", "20Mbps", "0", "ours"), r+1, 13_000, 13_000, 13_000, 0)
		point(config("scapy", "148", "20Mbps", "0", "ours"), r+1, 13_000, 2_000+int64(r), 2_400, 9_000)
	}
	point(config("scapy", "148", "2Mbps", "1000", "published"), 1, 1000, 980, 1000, 0, val("main_cpu_share", "1", 0.0512), val("main_memory_bytes", "B", 70e6))
	low, high := 412e3, 431e3
	found := result.Value{Metric: "lossless_fps", Unit: "frame/s", Value: low, Lo: &low, Hi: &high, N: 21}
	point(config("tcpdump", "0", "search", "0", "ours"), 1, 412_000, 411_000, 412_000, 0, found, val("lossless_bps", "bit/s", low*8*64), val("counted_0_1pct_fps", "frame/s", 428e3), val("counting_overload_fps", "frame/s", 477e3))
	missing := config("pyshark", "148", "20Mbps", "0", "ours")
	recs = append(recs, result.Record{Schema: result.Schema, ID: "capture/missing", Procedure: "capture", Repeat: 1, Config: missing, Start: report.Origin, Status: result.Skipped, Reason: "missing the program tshark: run apt-get install -y tshark"})
	return run, recs
}

// Counted, late and lost are apart, and a published figure stands beside that of the
// same subject, payload and rate with what is unfair in it, and beside no other.
func TestCaptureTables(t *testing.T) {
	run, recs := captureRun()
	d := report.Summarized(run, recs)
	got := printed(t, d)
	for _, want := range []string{
		"tcpdump 148 B 20Mbps ours - 13 000 13 000 13 000 0",
		"scapy 148 B 20Mbps ours - 13 000 2 400", "scapy 148 B 20Mbps ours - 400 ms 10 600",
		"scapy 148 B 20Mbps ours - 0 9 000 0 1 600",
		"tcpdump - search 412 k 412–431 k 428 kframe/s 477 k",
		"CPU 5.1 % 2.4 %", "memory 68359 KB 67228 KB", "counted 1000 339.0",
		"20 % is one saturated core",
		"missing the program tshark: run apt-get install -y tshark",
		"subject counted",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q:\n%s", want, got)
		}
	}
	published := 0
	for _, r := range d.Rows {
		c, ok := r.Block.(*report.Capture)
		if !ok {
			t.Fatalf("%s is no row of capture", r.ID)
		}
		if (len(c.Published) > 0) != (c.Method == report.MethodPublished) {
			t.Errorf("%s: published figures %+v", r.Name, c.Published)
		}
		for _, p := range c.Published {
			if published++; p.Caution == "" || p.Source != "imeusp-09" || p.Here == nil {
				t.Errorf("%+v", p)
			}
		}
	}
	if published != 6 {
		t.Errorf("%d published figures: CPU, memory, count, and three of the sender", published)
	}
}

func TestCaptureSummary(t *testing.T) {
	run, recs := captureRun()
	for _, c := range []struct{ id, want string }{
		{"capture/0", "capture, tcpdump, 148 B payload, at 20Mbps: 13 000 of 13 000 frames counted, 1.21 µs of CPU for each."},
		{"capture/10", "capture, tcpdump, 64 B: 412 kframe/s of which every frame is counted, 477 kframe/s counted under overload, 1.21 µs of CPU for each."},
	} {
		if got := report.Summarized(run, only(recs, c.id)).Summary; got != c.want {
			t.Errorf("%s: %q", c.id, got)
		}
	}
}
