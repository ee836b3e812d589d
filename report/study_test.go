// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/unit"
)

// studyRun is made up: two of the published comparison's programs at points of both its
// kinds, by both methods, and a point that is none of the study's.
func studyRun() (result.Run, []result.Record) {
	run, recs := captureRun()
	run.ID, run.Command = "20260314T092653Z-study", []string{"boxdyno", "run", "capture-published-matrix"}
	made := recs[1]
	recs = nil
	add := func(subject, method, rate, duration string, packets, payload, repeat int, processes, share, main float64) {
		p := made
		n := float64(packets)
		if n == 0 {
			n = 1e6 / 8 / float64(payload) * 10
		}
		p.ID, p.Repeat = fmt.Sprintf("capture/study/%d", len(recs)), repeat
		p.Begin, p.End = unit.Instant(len(recs))*1e9, unit.Instant(len(recs)+1)*1e9
		p.Config = []result.Pair{{Key: "subject", Value: subject}, {Key: "payload_size", Value: fmt.Sprint(payload)}, {Key: "frame_size", Value: "0"}, {Key: "rate", Value: rate}, {Key: "packets", Value: fmt.Sprint(packets)},
			{Key: "duration", Value: duration}, {Key: "burst", Value: "0"}, {Key: "buffer", Value: "0"}, {Key: "method", Value: method}, {Key: "window", Value: "0s"}}
		v := func(metric string, sym unit.Symbol, v float64) result.Value {
			return result.Value{Metric: metric, Unit: sym, Value: v}
		}
		late := 0.1 * n
		p.Account = &result.Account{Accepted: int64(n), Received: int64(n), Settled: true}
		p.Values = []result.Value{v("frames_offered", "1", n), v("frames_counted", "1", n), v("frames_at_end", "1", n-late), v("frames_lag", "1", late), v("frames_lost", "1", 0), v("drain_s", "s", 0.8), v("frames_unexplained", "1", 0),
			v("subject_cpu_share", "1", share), v("subject_cpu_s", "s", 10), v("subject_cpu_per_frame_s", "s", share*10/n), v("subject_memory_bytes", "B", 200<<20), v("subject_processes", "1", processes)}
		if method == report.MethodPublished {
			p.Values = append(p.Values, v("main_cpu_share", "1", main), v("main_memory_bytes", "B", 50<<20))
		}
		trial := p
		trial.ID, trial.Parent = p.ID+"/1", p.ID
		recs = append(recs, trial, p)
	}
	for r := 1; r <= 3; r++ {
		d := float64(r-2) / 100
		for _, s := range []string{"pyshark", "pypcap"} {
			processes := map[string]float64{"pyshark": 4, "pypcap": 1}[s]
			for _, payload := range []int{148, 724, 1448} {
				add(s, "ours", "payload:2Mbps", "0s", 1000, payload, r, processes, 0.9+d, 0)
				add(s, report.MethodPublished, "2Mbps", "0s", 1000, payload, r, processes, 0.9+d, 0.12+d)
			}
			for _, payload := range []int{48, 1448} {
				add(s, "ours", "payload:1Mbps", "10s", 0, payload, r, processes, 0.5+d, 0)
			}
		}
	}
	add("pyshark", report.MethodPublished, "1Mbps", "0s", 0, 48, 1, 4, 0.5, 0.1)
	add("pyshark", "ours", "1Mbps", "10s", 0, 48, 1, 4, 0.5, 0)                  // of layer 2: another load
	add("pyshark", report.MethodPublished, "7Mbps", "0s", 0, 48, 1, 4, 0.5, 0.1) // at no rate of the study
	return run, recs
}

// Each point of the study that was measured stands there once by each method and once
// as published: medians with their interval, means with their deviation.
func TestStudy(t *testing.T) {
	run, recs := studyRun()
	d := report.Summarized(run, recs)
	st := d.Study
	if st == nil || len(st.Panels) != 6 || st.Caution == "" {
		t.Fatalf("%+v", st)
	}
	var loads []string
	for _, p := range st.Panels[:2] {
		loads = append(loads, p.Metric+" "+p.Unit+" "+p.Load)
	}
	if want := []string{"CPU % 1000 packets at 2 Mbit/s", "CPU % 1 Mbit/s for 10 s"}; !slices.Equal(loads, want) {
		t.Errorf("panels are %q, want %q", loads, want)
	}
	point := func(panel int, subject, kind string, payload int) report.StudyPoint {
		t.Helper()
		var found []report.StudyPoint
		for _, p := range st.Panels[panel].Points {
			if p.Subject == subject && p.Kind == kind && p.Payload == payload {
				found = append(found, p)
			}
		}
		if len(found) != 1 {
			t.Fatalf("panel %d has %d points of %s, %s, %d", panel, len(found), subject, kind, payload)
		}
		return found[0]
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6*math.Abs(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	ours := point(0, "pyshark", report.KindOurs, 148)
	near("our median", ours.Value, 90)
	near("our least", *ours.Lo, 89)
	near("our greatest", *ours.Hi, 91)
	theirs := point(0, "pyshark", report.MethodPublished, 148)
	near("mean", theirs.Value, 12)
	near("one deviation below", *theirs.Lo, 11)
	near("one deviation above", *theirs.Hi, 13)
	was := point(0, "pyshark", report.KindStudy, 148)
	near("as published", was.Value, 28.78)
	if was.Note == "" || ours.N != 3 || theirs.N != 3 {
		t.Errorf("%+v %+v %+v", was, ours, theirs)
	}
	if once := point(1, "pyshark", report.MethodPublished, 48); once.Lo != nil || once.N != 1 {
		t.Errorf("a single repeat has a deviation: %+v", once)
	}
	near("memory in KB", point(2, "pypcap", report.MethodPublished, 724).Value, 50<<10)
	if s := st.Panels[4].Sent; len(s) != 3 || s[0].Value != 1000 {
		t.Errorf("sent: %+v", s)
	}
	if got := printed(t, d); !strings.Contains(got, "Why the figures differ from the published ones") {
		t.Error("the text does not say why the figures differ")
	}
}

// Why they differ is told from what was measured here.
func TestStudyWhy(t *testing.T) {
	run, recs := studyRun()
	why := strings.Join(report.Summarized(run, recs).Study.Why, "\n")
	for _, want := range []string{
		"pypcap is one process: it alone is all of it.",
		"pyshark is 4 processes, and its children had at least 40.0 % of its CPU time and 75.0 % of its memory here (medians of 10 trials)",
		"The CPU time of pyshark is divided by 50.0 s, whatever part of them carries traffic; while frames were sent its tree took 7.",
		"pyshark had not counted 10.0 % of the frames when the last one had left (at most 10.0 %, for 800 ms). It never counted 0.0 %",
		"The study counts 33 packets more than were asked for (",
		"The study's board is a Raspberry Pi 3B, and here it is ",
		"times the published share of CPU (median of 7 points",
	} {
		if !strings.Contains(why, want) {
			t.Errorf("%q is not in\n%s", want, why)
		}
	}
}

// What iperf3 sends beside its datagrams is told where it was measured; by our method
// it is no point of the study.
func TestStudyOfIperf3(t *testing.T) {
	run, recs := studyRun()
	if why := strings.Join(report.Summarized(run, recs).Study.Why, "\n"); !strings.Contains(why, "Here no frame but the engine's is counted.") {
		t.Error(why)
	}
	for i := range recs {
		recs[i].Config = append(slices.Clone(recs[i].Config), result.Pair{Key: "generator", Value: "iperf3"})
		recs[i].Values = append(slices.Clone(recs[i].Values), result.Value{Metric: "control_frames", Unit: "1", Value: 15})
	}
	s := report.Summarized(run, recs).Study
	if why := strings.Join(s.Why, "\n"); !strings.Contains(why, "Here iperf3 sent 15 frames beside its datagrams (15 to 15), and none of them is counted.") {
		t.Error(why)
	}
	for _, p := range s.Panels[0].Points {
		if p.Kind == report.KindOurs {
			t.Errorf("%+v", p)
		}
	}
}

// Without a point by the published method there is nothing to lay beside.
func TestNoStudy(t *testing.T) {
	run, recs := studyRun()
	recs = slices.DeleteFunc(recs, func(r result.Record) bool { return result.Get(r.Config, "method") == report.MethodPublished })
	if d := report.Summarized(run, recs); d.Study != nil {
		t.Errorf("%+v", d.Study)
	}
}
