// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"slices"
	"strings"
	"testing"

	"boxdyno/report"
	"boxdyno/result"
)

// A probe passes by one of its programs; the sentence counts frames, the finding tells
// of the others, and what does better is advised where it was measured.
func TestProbe(t *testing.T) {
	run, recs := captureRun()
	run.Role = "probe"
	none, hot := 0.0, 80.0
	run.Criteria = []result.Criterion{
		{Text: "148 B at 20 Mbit/s", Metric: report.Uncounted, Where: []result.Pair{{Key: "rate", Value: "20Mbps"}, {Key: "payload_size", Value: "148"}}, Any: []string{"subject", "buffer"}, Max: &none},
		{Text: "no sensor above 80 °C", Metric: result.HottestMetric, Max: &hot, Optional: true},
	}
	for i, r := range recs {
		if lost, sent := r.Value("frames_lost"), r.Value("frames_offered"); lost != nil {
			recs[i].Values = append(slices.Clip(r.Values), result.Value{Metric: report.Uncounted, Unit: "1", Value: lost.Value / sent.Value})
		}
	}
	d := report.Summarized(run, recs)
	if want := "Passes: loses none of 13,000 frames at 20.0 Mbit/s, with tcpdump"; d.Sentence != want {
		t.Errorf("%q", d.Sentence)
	}
	if f := d.Findings[0]; f.Status != result.Passed || !strings.HasPrefix(f.Text, "tcpdump: 0, and no more is allowed (the worst of 2 points); scapy does not: 0.8") || !strings.Contains(f.Text, "pyshark: not measured: missing the program tshark") {
		t.Errorf("%+v", f)
	}
	if f := d.Findings[1]; f.Status != result.Skipped {
		t.Errorf("nothing told a temperature, and the finding is %+v", f)
	}
	if want := "Take tcpdump in place of scapy: of the same load every one of 13 000 frames was counted, where 10 600 of 13 000 were not."; !slices.Contains(d.Next, want) {
		t.Errorf("%q lacks %q", d.Next, want)
	}

	// A sensor that was too hot in a trial.
	run.Series = []result.Series{{Name: "node_thermal_zone_temp", Labels: []result.Pair{{Key: "type", Value: "cpu"}, {Key: "zone", Value: "0"}}, Unit: "°C"}}
	recs[0].Digests = []result.Digest{{Series: 0, N: 3, Min: 50, Mean: 70, Max: 85.5}}
	d = report.Summarized(run, recs)
	if f := d.Findings[1]; f.Status != result.Failed || d.Verdict != result.Failed || !strings.Contains(f.Text, "85.5 °C") {
		t.Errorf("%s, %+v", d.Verdict, f)
	}
	// A buffer of another size is advised under its name.

	for i := range recs {
		if result.Get(recs[i].Config, "subject") != "tcpdump" {
			continue
		}
		recs[i].Config = slices.Clone(recs[i].Config)
		for j, p := range recs[i].Config {
			if p.Key == "buffer" {
				recs[i].Config[j].Value = "67108864"
			} else if p.Key == "subject" {
				recs[i].Config[j].Value = "scapy"
			}
		}
	}
	if d = report.Summarized(run, recs); !slices.ContainsFunc(d.Next, func(s string) bool {
		return strings.HasPrefix(s, "Take scapy with a buffer of 67.1 MB in place of scapy with its own buffer")
	}) {
		t.Errorf("%q", d.Next)
	}
}

// A sensor that keeps up and is blind fails, and its findings say by how much.
func TestSensor(t *testing.T) {
	run, made := captureRun()
	run.Role, run.ID = "sensor", "20260314T092653Z-sensor"
	where := []result.Pair{{Key: "rate", Value: "100Mbps"}, {Key: "rules", Value: "1000"}, {Key: "duration", Value: "2s"}}
	most, one, link := 1e-4, 1.0, 1e8
	run.Criteria = []result.Criterion{
		{Text: "loss", Metric: report.Uncounted, Where: where, Any: []string{"ring"}, Max: &most},
		{Text: "detections", Metric: "detected_ratio", Where: where, Any: []string{"ring"}, Min: &one},
		{Text: "margin", Metric: "ids_rate_bps", Where: []result.Pair{{Key: "rate", Value: "search"}, {Key: "rules", Value: "1000"}, {Key: "flood", Value: "none"}}, Min: &link, Optional: true},
	}
	records := func(detected float64) (recs []result.Record) {
		v := func(metric string, v float64) result.Value { return result.Value{Metric: metric, Unit: "1", Value: v} }
		for i, p := range []struct{ rate, duration, flood string }{{"100Mbps", "2s", "none"}, {"search", "0s", "none"}, {"search", "0s", "syn"}} {
			r := made[1]
			r.ID, r.Procedure, r.Status, r.Warnings = "ids/"+string(rune('a'+i)), report.IDSProcedure, result.Passed, nil
			r.Config = []result.Pair{{Key: "subject", Value: "suricata"}, {Key: "rules", Value: "1000"}, {Key: "traffic", Value: "appmix"}, {Key: "flood", Value: p.flood}, {Key: "rate", Value: p.rate}, {Key: "duration", Value: p.duration}, {Key: "ring", Value: "2048"}}
			r.Values = []result.Value{v("frames_offered", 50_000), v("frames_lost", 2), v(report.Uncounted, 4e-5), v("detected_ratio", detected), v("idle_detected_ratio", 1)}
			if p.rate == "search" {
				r.Values = append(r.Values, result.Value{Metric: "ids_rate_bps", Unit: "bit/s", Value: map[string]float64{"none": 1.5e8, "syn": 0.5e8}[p.flood]})
			}
			recs = append(recs, r)
		}
		return recs
	}
	d := report.Summarized(run, records(1))
	if d.Verdict != result.Passed || d.Sentence != "Passes: carries 150 Mbit/s, 100 Mbit/s asked, with 1,000 rules" {
		t.Errorf("%s: %q", d.Verdict, d.Sentence)
	}
	if f := d.Findings[2]; !strings.Contains(f.Text, "150 Mbit/s, 50 % above") {
		t.Errorf("the margin is of the search without a flood: %+v", f)
	}
	d = report.Summarized(run, records(0.9))
	if d.Verdict != result.Failed || d.Sentence != "Detects 90.0 % of the planted attacks, 100 % asked (detections)" {
		t.Errorf("%s: %q", d.Verdict, d.Sentence)
	}
	most = 1e-5
	if d = report.Summarized(run, records(1)); d.Sentence != "Loses 2 of 50,000 frames at 100 Mbit/s, with 1,000 rules" {
		t.Errorf("%q", d.Sentence)
	}
}
