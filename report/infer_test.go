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

// inferRun is made up: two models in two libraries without a rate, one of which computes
// something else, and at a rate a detector that keeps up and one that does not.
func inferRun() (result.Run, []result.Record) {
	run, _ := report.Firewall()
	run.ID, run.Role, run.Criteria, run.Warnings = "20260314T092653Z-infer", "", nil, nil
	run.Command = []string{"boxdyno", "run", "infer", "--set", "model=logistic,forest", "--repeat", "2"}
	run.NotMeasured, run.Deviations = nil, nil
	run.Metrics = []result.Metric{{Name: "windows_per_s", Unit: "1/s", Better: 1, Help: "windows a second"}}
	var recs []result.Record
	val := func(metric string, sym unit.Symbol, v float64) result.Value {
		return result.Value{Metric: metric, Unit: sym, Value: v}
	}
	point := func(status result.Status, reason, model, runtime, window, batch, rate string, values ...result.Value) *result.Record {
		now := unit.Instant(len(recs)) * 2e9
		recs = append(recs, result.Record{
			Schema: result.Schema, ID: fmt.Sprintf("infer/%d", len(recs)), Procedure: "infer", Repeat: 1, Status: status, Reason: reason, Start: report.Origin.Add(time.Duration(now)), Begin: now, End: now + 1e9, Values: values,
			Config: []result.Pair{{Key: "model", Value: model}, {Key: "runtime", Value: runtime}, {Key: "window", Value: window}, {Key: "batch", Value: batch}, {Key: "cpus", Value: "1"}, {Key: "rate", Value: rate}, {Key: "frame_size", Value: "0"}, {Key: "buffer", Value: "0"}},
		})
		return &recs[len(recs)-1]
	}
	alone := func(model float64, more ...result.Value) []result.Value {
		window := 10*86e-9 + model
		low, high := 0.98/window, 1.01/window
		rate := val("windows_per_s", "1/s", 1/window)
		rate.Lo, rate.Hi, rate.N = &low, &high, 3
		return append([]result.Value{rate, val("window_s", "s", window), val("model_s", "s", model), val("model_cpu_s", "s", 0.99*model), val("features_per_frame_s", "s", 86e-9), val("frames_per_window", "1", 10), val("subject_memory_bytes", "B", 8.1e6), val("startup_s", "s", 0.028)}, more...)
	}
	same := []result.Value{val("outputs_compared", "1", 2048), val("outputs_differ", "1", 0)}
	point(result.Passed, "", "forest", "sklearn", "10", "1", "none", alone(2.3e-3, same...)...)
	point(result.Passed, "", "forest", "go", "10", "1", "none", alone(2.8e-6)...)
	point(result.Passed, "", "logistic", "go", "10", "1", "none", alone(49e-9)...)
	point(result.Failed, "runtime onnx says something else than this program's evaluator for 988 of 2048 windows: it computes another model", "tree", "onnx", "10", "256", "none", alone(140e-9, val("outputs_compared", "1", 2048), val("outputs_differ", "1", 988))...)
	point(result.Passed, "", "none", "go", "1s", "1", "none", val("windows_per_s", "1/s", 1.3e5), val("window_s", "s", 7.7e-6), val("features_per_frame_s", "s", 39e-9), val("frames_per_window", "1", 200))
	live := func(before, after, cpu float64) []result.Value {
		added := val("drops_added_ratio", "1", after-before)
		low, high := after-before-0.004, after-before+0.01
		added.Lo, added.Hi, added.N = &low, &high, 3
		return []result.Value{added, val("bare_lost_ratio", "1", before), val("detector_lost_ratio", "1", after), val("cpu_added_per_frame_s", "s", cpu), val("detected_windows_per_s", "1/s", 2e4), val("model_wait_share", "1", 0.046), val("capture_offered_fps", "frame/s", 2e5), val("subject_memory_bytes", "B", 23e6), val("startup_s", "s", 0.07), val("drain_s", "s", 0.01)}
	}
	for _, r := range []*result.Record{
		point(result.Passed, "", "forest", "go", "10", "1", "200k", live(0, 0, 143e-9)...),
		point(result.Failed, "the detector does not keep up with 200 kframe/s: it adds drops of 41.2 % of the frames to those of the capture alone", "forest", "sklearn", "10", "1", "200k", live(0.001, 0.413, 31e-6)...),
	} {
		r.Load = &result.Load{MeanSize: 64, Streams: 1, Intended: 2e5, Offered: 2e5, Backend: "xdp/native"}
		r.Account = &result.Account{Accepted: 200_000, Received: 200_000, Settled: true}
	}
	recs[len(recs)-1].Account.Received = 117_400
	recs[len(recs)-1].Account.Drops = []result.Term{{Place: result.Socket, Host: "dut", Name: "capture buffer full", From: "infer-sklearn dropped by kernel", N: 82_600}}
	return run, recs
}

// Rows with and without a rate have tables of their own, a model's runtimes stand side
// by side, and nothing speaks of what a model finds.
func TestInferTables(t *testing.T) {
	run, recs := inferRun()
	d := report.Summarized(run, recs)
	got := printed(t, d)
	at := -1
	for _, want := range []string{
		"none go 1s 1 130 k/s - 7.70 µs - 39.0 ns",
		"logistic go 10 1 1.10 M/s 1.08–1.11 M/s 909 ns 49.0 ns 86.0 ns",
		"logistic go 10 none 1 48.5 ns",
		"tree onnx 10 256 1.00 M",
		"forest go 10 1 273 k",
		"forest sklearn 10 1 435",
		"forest go 10 200k 0.0 % -0.4 % to 1.0 % 0.0 % 0.0 %",
		"forest sklearn 10 200k 41.2 % 40.8 % to 42.2 % 0.1 % 41.3 %",
		"143 ns 20.0 k/s",
		"-82 600 41.3 % socket capture buffer full",
		"117 400 58.7 % subject counted",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q:\n%s", want, got)
		}
	}
	for _, model := range []string{"logistic go", "tree onnx", "forest go", "forest sklearn"} {
		next := strings.Index(got, model+" 10 none")
		if next <= at {
			t.Errorf("%s does not stand in its place", model)
		}
		at = next
	}
	for _, word := range []string{"accuracy", "precision", "recall", "detection rate"} {
		if strings.Contains(strings.ToLower(got), word) {
			t.Errorf("a load has no %s", word)
		}
	}
}

func TestInferSummary(t *testing.T) {
	run, recs := inferRun()
	for i, want := range []string{
		"infer, forest, sklearn, 10 frames: 435 windows/s, 2.30 ms a window, of which the model takes 2.30 ms.",
		"", "", "", "infer, features alone, go, 1 s: 130 k windows/s, 7.70 µs a window.",
		"infer, forest, go, 10 frames, at 200k: no drops are added to those of the capture alone, 143 ns of CPU a frame are.",
		"infer, forest, sklearn, 10 frames, at 200k: drops of 41.2 % of the frames are added to those of the capture alone.",
	} {
		if got := report.Summarized(run, only(recs, recs[i].ID)).Summary; want != "" && got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
}
