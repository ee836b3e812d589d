// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"

	"boxdyno/result"
)

// A probe passes by one of its programs; the sentence counts frames, the finding tells
// of the others, and what does better is advised where it was measured.
func TestProbe(t *testing.T) {
	run, recs := captureRun()
	run.Role = "probe"
	none, hot := 0.0, 80.0
	run.Criteria = []result.Criterion{
		{Text: "148 B at 20 Mbit/s", Metric: uncounted, Where: []result.Pair{{Key: "rate", Value: "20Mbps"}, {Key: "payload_size", Value: "148"}}, Any: []string{"subject", "buffer"}, Max: &none},
		{Text: "no sensor above 80 °C", Metric: result.HottestMetric, Max: &hot, Optional: true},
	}
	for i, r := range recs {
		if lost, sent := r.Value("frames_lost"), r.Value("frames_offered"); lost != nil {
			recs[i].Values = append(slices.Clip(r.Values), result.Value{Metric: uncounted, Unit: "1", Value: lost.Value / sent.Value})
		}
	}
	d := Summarize(run, recs)
	if want := "Passes as a probe: 148 B at 20 Mbit/s was asked, and 0 of 13 000 frames were not counted (capture, tcpdump, 148 B payload, at 20Mbps)."; d.Sentence != want {
		t.Errorf("%q", d.Sentence)
	}
	if f := d.Findings[0]; f.Status != result.Passed || !strings.HasPrefix(f.Text, "tcpdump: 0, and no more is allowed (the worst of 2 points); scapy does not: 0.8") || !strings.Contains(f.Text, "pyshark does not: not measured: missing the program tshark") {
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
	d = Summarize(run, recs)
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
	if d = Summarize(run, recs); !slices.ContainsFunc(d.Next, func(s string) bool {
		return strings.HasPrefix(s, "Take scapy with a buffer of 67.1 MB in place of scapy with its own buffer")
	}) {
		t.Errorf("%q", d.Next)
	}
}
