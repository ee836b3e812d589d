// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"boxdyno/report"
	"boxdyno/report/internal/grid"
	"boxdyno/report/text"
	"boxdyno/result"
	"boxdyno/unit"
)

// suiteRun is made up: RFC 2544's suite at three frame sizes, each way.
func suiteRun() (result.Run, []result.Record) {
	run, _ := report.Firewall()
	run.Role, run.Criteria, run.Preset = "", nil, "quick"
	var recs []result.Record
	now := unit.Instant(0)
	pair := func(k, v string) result.Pair { return result.Pair{Key: k, Value: v} }
	val := func(metric, sym string, v float64) result.Value {
		lo, hi := v*0.9, v*1.1
		return result.Value{Metric: metric, Unit: unit.Symbol(sym), Value: v, Lo: &lo, Hi: &hi, N: 5}
	}
	for d, direction := range []string{"lan-to-wan", "wan-to-lan"} {
		for i, size := range []string{"64", "1518", "imix"} {
			mean := []float64{64, 1518, 361.8}[i]
			limit := 1e6 - 1e5*float64(i) - 5e4*float64(d)
			for procedure, values := range map[string][]result.Value{
				"throughput":   {val("throughput_fps", "frame/s", limit), val("forwarding_rate_fps", "frame/s", limit*1.05), val("ceiling_fps", "frame/s", 8e6)},
				"latency":      {val("latency_p50_s", "s", 2e-5), val("latency_p90_s", "s", 4e-5), val("latency_p99_s", "s", 9e-5), val("latency_p999_s", "s", 2e-4), val("latency_max_s", "s", 1e-3), val("latency_load_fps", "frame/s", limit)},
				"loss-curve":   {val("loss_highest_fps", "frame/s", 4e6), val("loss_ratio", "1", 1-limit/4e6), val("loss_free_fps", "frame/s", limit*0.95), val("loss_onset_fps", "frame/s", limit*1.05)},
				"back-to-back": {val("back_to_back_frames", "frame", 350), val("burst_rate_fps", "frame/s", 3e6), val("buffer_time_s", "s", 1.2e-4), val("buffer_time_corrected_s", "s", 8e-5)},
				"recovery":     {val("recovery_s", "s", 2.56e-4), val("recovery_overload_fps", "frame/s", limit*1.1), val("recovery_load_fps", "frame/s", limit/2)},
			} {
				now += 1e9
				point := result.Record{
					Schema: result.Schema, ID: fmt.Sprintf("%s/route/%s/%s#1", procedure, direction, size), Procedure: procedure, Repeat: 1,
					Config: []result.Pair{pair("service", "route"), pair("direction", direction), pair("frame_size", size), pair("flows", "1"), pair("ip", "4"), pair("rules", "0")},
					Start:  report.Origin.Add(time.Duration(now)), Begin: now, End: now + 5e8, Status: result.Passed, Values: values,
				}
				if procedure == "loss-curve" {
					for n := range 12 {
						offered := limit * 1.6
						for range n {
							offered *= 0.95
						}
						frames := int64(offered / 20)
						lost := max(0, frames-int64(limit/20))
						recs = append(recs, result.Record{
							Schema: result.Schema, ID: fmt.Sprintf("%s/%d", point.ID, n), Parent: point.ID, Procedure: procedure, Repeat: 1, Start: point.Start, Begin: now + unit.Instant(n), End: now + unit.Instant(n) + 1,
							Config: append([]result.Pair{pair("trial", "loss-curve"), pair("n", fmt.Sprint(n))}, point.Config...),
							Status: map[bool]result.Status{true: result.Passed, false: result.Failed}[lost == 0],
							Load:   &result.Load{MeanSize: mean, Streams: 1, Offered: unit.FrameRate(offered), Backend: "made up"},
							Account: &result.Account{Accepted: frames, Received: frames - lost, Settled: true,
								Drops: []result.Term{{Place: result.DUTNIC, Host: "dut", Name: "receive ring full", From: "p0 tx_dropped", N: lost}}},
						})
					}
				}
				recs = append(recs, point)
			}
		}
	}
	return run, recs
}

func TestSuiteTables(t *testing.T) {
	run, recs := suiteRun()
	d := report.Summarized(run, recs)
	if len(d.Rows) != 30 {
		t.Fatalf("%d rows", len(d.Rows))
	}
	for _, r := range d.Rows {
		if (r.Block == nil) != (r.Procedure == "throughput") {
			t.Errorf("%s: suite %+v", r.ID, r.Block)
		}
		if r.FrameSize == "imix" && r.Procedure == "loss-curve" && r.MeanFrameSize != 361.8 {
			t.Errorf("%s: mean frame size %v", r.ID, r.MeanFrameSize)
		}
	}
	if !strings.HasPrefix(d.Summary, "64-byte frames, route, lan-to-wan: 1.00 Mframe/s") {
		t.Errorf("the summary is of another row: %s", d.Summary)
	}
	var b bytes.Buffer
	if err := text.Terminal(&b, d); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > grid.Width && !strings.Contains(line, "boxdyno") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	fields := map[string]bool{}
	for line := range strings.Lines(b.String()) {
		fields[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{
		"route lan-to-wan 64 B 1.00 M 20.0 µs 90.0 µs 1.00 ms 40.0 µs 200 µs",
		"route lan-to-wan 64 B 4.00 M 75.0 % 950 kframe/s 1.05 Mframe/s",
		"route wan-to-lan 1518 B 350 315–385 3.00 M 120 µs 80.0 µs",
		"route wan-to-lan IMIX 825 k 375 k 256 µs 230–282 µs",
	} {
		if !fields[want] {
			t.Errorf("the text has no line %q:\n%s", want, b.String())
		}
	}
}

// Points that differ in their networks are rows of their own, and say so.
func TestNetworksAreTold(t *testing.T) {
	run, recs := suiteRun()
	for _, r := range recs {
		if r.Parent == "" && r.Procedure == "throughput" {
			r.ID += "/networks=256"
			r.Config = append([]result.Pair{{Key: "networks", Value: "256"}}, r.Config...)
			recs = append(recs, r)
		}
	}
	names := map[string]int{}
	for _, row := range report.Summarized(run, recs).Rows {
		if row.Procedure == "throughput" {
			names[row.Name]++
			if many := strings.Contains(row.Name, "route, 256 networks, "); many != (row.Networks == 256) {
				t.Errorf("the row %q has %d networks", row.Name, row.Networks)
			}
		}
	}
	if len(names) != 12 {
		t.Errorf("rows %v", names)
	}
}

// A run from before there were several networks compares with one of one network.
func TestOneNetworkIsNoDifference(t *testing.T) {
	of := func(value string) string {
		r := result.Record{Procedure: "throughput", Config: []result.Pair{{Key: "service", Value: "route"}}}
		if value != "" {
			r.Config = append(r.Config, result.Pair{Key: "networks", Value: value})
		}
		return report.Stripped(r, nil)
	}
	if of("") != of("1") || of("1") == of("256") {
		t.Errorf("%s, %s, %s", of(""), of("1"), of("256"))
	}
}

// A run of the suite alone says what it found.
func TestSuiteSentence(t *testing.T) {
	f := func(metric string, v float64) result.Value { return result.Value{Metric: metric, Value: v, N: 5} }
	for _, c := range []struct {
		suite   report.Suite
		figures []result.Value
		want    string
	}{
		{report.Suite{Latency: []report.Quantile{{Name: "p50", Value: 12e-6}, {Name: "max", Value: 1e-3}}}, nil, "at 200 kframe/s one frame in two takes at most 12.0 µs, the slowest 1.00 ms."},
		{report.Suite{}, []result.Value{f("loss_highest_fps", 1e6), f("loss_ratio", 0.5), f("loss_free_fps", 2e5)}, "50.0 % lost at 1.00 Mframe/s; none from 200 kframe/s down."},
		{report.Suite{}, []result.Value{{Metric: "back_to_back_frames", Value: 318, Bound: result.AtLeast}}, "bursts of >= 318 frames without loss."},
		{report.Suite{}, []result.Value{f("recovery_s", 2e-3)}, "recovered 2.00 ms after an overload."},
	} {
		d := report.Document{Rows: []report.Row{report.RowOf(report.Row{Service: "route", Direction: "lan-to-wan", FrameSize: "64", Procedure: "latency", LatencyLoadFPS: new(2e5), Block: &c.suite}, c.figures...)}}
		if got := report.Summary(d); !strings.HasSuffix(got, "lan-to-wan: "+c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
