// SPDX-License-Identifier: Apache-2.0

package infer

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/subject/detector"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// inferRun runs infer, and returns the trials' records.
func inferRun(t *testing.T, bed *lab.Testbed, set map[string]string) (procedure.Outcome, []result.Record) {
	t.Helper()
	p := newInfer()
	roomtest.Assign(t, p.Flags, set)
	if err := p.Check(bed); err != nil {
		t.Fatal(err)
	}
	var recs []result.Record
	do := func(ctx context.Context, of string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		o, err := f(ctx)
		r := result.Record{Parent: "infer", Procedure: of, Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Load: o.Load, Account: o.Account, Phases: o.Phases, Usage: o.Usage, Warnings: o.Warnings}
		r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
		recs = append(recs, r)
		return r, err
	}
	trial := func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		return do(ctx, "infer", cfg, f)
	}
	once := func(ctx context.Context, key string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		what, _, _ := strings.Cut(key, "/")
		return do(ctx, what, cfg, f)
	}
	o, err := p.Run(t.Context(), &procedure.Env{Bed: bed, Trial: trial, Once: once})
	if err != nil {
		t.Fatal(err)
	}
	return o, recs
}

// Without a rate it needs no port and no privilege, and its figures are those of its
// trials.
func TestInferOffline(t *testing.T) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	bed := &lab.Testbed{Facts: lab.Facts{Topology: lab.Here}}
	for c := range len(set) * bits.UintSize {
		if set.IsSet(c) {
			bed.CPUs = append(bed.CPUs, c)
		}
	}
	o, recs := inferRun(t, bed, map[string]string{"model": "tree", "duration": "20ms"})
	if o.Status != result.Passed || len(recs) != 3 {
		t.Fatalf("%s %s, %d trials", o.Status, o.Reason, len(recs))
	}
	for _, r := range recs {
		window, model, features := measured(t, r.Values, "window_s"), measured(t, r.Values, "model_s"), measured(t, r.Values, "features_per_frame_s")
		if model <= 0 || features <= 0 || math.Abs(window-(10*features+model)) > 1e-12 {
			t.Errorf("a window takes %v s, its model %v s, features %v s a frame", window, model, features)
		}
		if len(r.Usage) != 1 || result.Get(r.Config, "on_cpus") != strconv.Itoa(bed.CPUs[len(bed.CPUs)-1]) {
			t.Errorf("%d processes, %v", len(r.Usage), r.Config)
		}
	}
	v := roomtest.Figure(t, o, "windows_per_s")
	if v.N != 3 || v.Lo == nil || *v.Lo > v.Value || *v.Hi < v.Value {
		t.Errorf("%+v", v)
	}
	o, _ = inferRun(t, bed, map[string]string{"model": "none", "window": "1s", "duration": "20ms"})
	if roomtest.Measured(t, o, "frames_per_window") != 200 || has(o.Values, "model_s") {
		t.Errorf("features alone: %v", o.Values)
	}
}

func has(vs []result.Value, metric string) bool {
	return (&result.Record{Values: vs}).Value(metric) != nil
}

func measured(t *testing.T, vs []result.Value, metric string) float64 {
	t.Helper()
	v := (&result.Record{Values: vs}).Value(metric)
	if v == nil {
		t.Fatalf("there is no %s", metric)
	}
	return v.Value
}

// Two CPUs of known speed: 10 frames of 1 us and a model of 10 us, and of 2 us and 30
// us.
func TestInferFigures(t *testing.T) {
	p := newInfer().(*Infer)
	var o procedure.Outcome
	p.evaluated(&o, []detector.Evaluation{
		{Windows: 1000, Seconds: 0.01, CPU: 0.008, Features: 1e-6, Frames: 10, Compared: 2000},
		{Windows: 1000, Seconds: 0.03, CPU: 0.03, Features: 2e-6, Frames: 10, Compared: 2000, Differ: 3},
	})
	for name, want := range map[string]float64{
		"windows_per_s": 1/20e-6 + 1/50e-6, "window_s": 35e-6, "model_s": 20e-6, "model_cpu_s": 19e-6, "features_per_frame_s": 1.5e-6,
		"frames_per_window": 10, "outputs_compared": 4000, "outputs_differ": 3,
	} {
		if got := roomtest.Measured(t, o, name); math.Abs(got-want) > want*1e-9 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if o.Status != result.Passed {
		t.Errorf("%s: %s", o.Status, o.Reason)
	}
	o = procedure.Outcome{}
	p.evaluated(&o, []detector.Evaluation{{Windows: 1, Seconds: 1, Frames: 10, Compared: 2000, Differ: 3}})
	if o.Status != result.Failed || !strings.Contains(o.Reason, "for 3 of 2000 windows") {
		t.Errorf("%s: %s", o.Status, o.Reason)
	}
	o = procedure.Outcome{}
	p.evaluated(&o, []detector.Evaluation{{Frames: 10, Features: 1e-6}})
	if o.Status != result.Failed || has(o.Values, "model_s") {
		t.Errorf("%s: %v", o.Status, o.Values)
	}
}

// Drops added are those of a round's two trials; rounds with an invalid one do not
// count.
func TestInferAdded(t *testing.T) {
	rec := func(s result.Status, lost, cpu, drain float64) result.Record {
		return result.Record{Status: s, Reason: "the tester was slow", Load: &result.Load{}, Values: []result.Value{figures.Value("uncounted_ratio", lost), figures.Value("subject_cpu_per_frame_s", cpu), figures.Value("drain_s", drain)}}
	}
	good := func(before, after float64) pair {
		return pair{rec(result.Failed, before, 1e-7, 0), rec(result.Failed, after, 4e-7, 0)}
	}
	p := newInfer().(*Infer)
	roomtest.Assign(t, p.Flags, map[string]string{"rate": "1k"})
	o := p.added([]pair{good(0.01, 0.31), good(0.02, 0.12), {rec(result.Invalid, 0, 0, 0), rec(result.Failed, 0.9, 1, 0)}, good(0, 0.2)}, "split")
	v := roomtest.Figure(t, o, "drops_added_ratio")
	if math.Abs(v.Value-0.2) > 1e-12 || math.Abs(*v.Lo-0.1) > 1e-12 || math.Abs(*v.Hi-0.3) > 1e-12 || v.N != 3 || math.Abs(roomtest.Measured(t, o, "cpu_added_per_frame_s")-3e-7) > 1e-15 {
		t.Errorf("%+v, %v", v, o.Values)
	}
	if o.Status != result.Failed || !strings.Contains(o.Reason, "20 %") || len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0], "1 of 4 rounds") {
		t.Errorf("%s %q, %q", o.Status, o.Reason, o.Warnings)
	}
	if o := p.added([]pair{good(0.02, 0.01), good(0, 0)}, "split"); o.Status != result.Passed || *roomtest.Figure(t, o, "drops_added_ratio").Lo >= 0 {
		t.Errorf("%s: %v", o.Status, o.Values)
	}
	if o := p.added([]pair{{rec(result.Passed, 0, 0, 0), rec(result.Passed, 0, 0, 2)}}, "split"); o.Status != result.Failed || !strings.Contains(o.Reason, "the last 2 s after") {
		t.Errorf("%s %q", o.Status, o.Reason)
	}
	if o := p.added([]pair{{rec(result.Passed, 0, 0, 0), rec(result.Invalid, 0, 0, 0)}}, "shared"); o.Status != result.Invalid || !strings.Contains(o.Reason, "the tester was slow") || len(o.Warnings) != 2 {
		t.Errorf("%s %q %q", o.Status, o.Reason, o.Warnings)
	}
}

// In the sandbox both captures are measured in turns at one load, and every datagram
// stands in the account of its trial.
func TestInferOnline(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	o, recs := inferRun(t, roomtest.Build(t, "sandbox", nil), map[string]string{"model": "mlp", "rate": "20k", "duration": "100ms"})
	var order []string
	for _, r := range recs {
		kind := result.Get(r.Config, "trial")
		if kind != bare && kind != "mlp" {
			continue // the self-test
		}
		order = append(order, kind)
		if r.Account == nil {
			t.Fatalf("%v: %s %s", r.Config, r.Status, r.Reason)
		}
		if a := r.Account; a.Unexplained != 0 {
			t.Errorf("%s: %d frames are unexplained: %+v", kind, a.Unexplained, a)
		}
		if wait := r.Value("model_wait_share"); kind == "mlp" && (wait == nil || wait.Value <= 0) || kind == bare && wait != nil && wait.Value != 0 {
			t.Errorf("%s: it waited for its model for %v", kind, wait)
		}
		for _, v := range r.Values {
			if !slices.ContainsFunc(inferMetrics, func(m result.Metric) bool { return m.Name == v.Metric }) {
				t.Errorf("%s is not declared", v.Metric)
			}
		}
	}
	if want := "bare mlp mlp bare bare mlp"; strings.Join(order, " ") != want {
		t.Errorf("trials %v, want %s", order, want)
	}
	if o.Status == result.Invalid {
		t.Skipf("the tester was held up: %s", o.Reason)
	}
	if windows := roomtest.Measured(t, o, "detected_windows_per_s"); windows <= 0 || windows > 2100 {
		t.Errorf("%v windows a second of 20000 frame/s", windows)
	}
}

func TestInferParameters(t *testing.T) {
	here := &lab.Testbed{Facts: lab.Facts{Topology: lab.Here, CPUs: []int{0, 1}}}
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"runtime": "sklearn", "model": "hoeffding"}, ""}, // it is skipped
		{map[string]string{"frame_size": "64"}, "without a rate"},
		{map[string]string{"buffer": "262144"}, "without a rate"},
		{map[string]string{"cpus": "3"}, "the box has 2"},
		{map[string]string{"duration": "1ms"}, "10ms"},
		{map[string]string{"rate": "1k", "cpus": "2"}, "receiving CPU"},
		{map[string]string{"rate": "1k", "buffer": "1000"}, "multiple of 262144"},
	} {
		p := newInfer()
		roomtest.Assign(t, p.Flags, c.set)
		err := p.Check(here)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.set, err, c.want)
		}
	}
	p := newInfer().(*Infer)
	roomtest.Assign(t, p.Flags, map[string]string{"rate": "1Mbps", "frame_size": "1000"})
	if got := p.inferRate(); got != unit.FrameRate(125) {
		t.Errorf("1 Mbit/s of 1000 octets is %v", got)
	}
	if err := p.rate.Set(param.SearchRate); err == nil {
		t.Error("no rate is searched")
	}
	p = newInfer().(*Infer)
	roomtest.Assign(t, p.Flags, map[string]string{"runtime": "sklearn", "model": "hoeffding"})
	if o, err := p.Run(t.Context(), &procedure.Env{Bed: here}); err != nil || o.Status != result.Skipped || !strings.Contains(o.Reason, "has no model hoeffding") {
		t.Errorf("%s %q, %v", o.Status, o.Reason, err)
	}
	var missing *host.Missing
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p = newInfer().(*Infer)
	roomtest.Assign(t, p.Flags, map[string]string{"runtime": "river"})
	if _, err := p.Run(t.Context(), &procedure.Env{Bed: here}); !errors.As(err, &missing) {
		t.Errorf("%v", err)
	}
}
