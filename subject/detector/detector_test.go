// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/infer"
	"boxdyno/subject"
	"boxdyno/subject/internal/subjecttest"
)

// evaluated lets a child evaluate for a moment.
func evaluated(t *testing.T, runtime, model, window string, batch int) Evaluation {
	t.Helper()
	d, err := New(runtime)
	if err != nil {
		t.Fatal(err)
	}
	d.Model, d.Window, d.Batch, d.For = model, window, batch, 20*time.Millisecond
	var missing *host.Missing
	if err := d.Check(t.Context(), nil); errors.As(err, &missing) {
		t.Skip(missing)
	}
	r, err := d.Evaluate(t.Context(), subject.Env{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop(context.Background())
	if err := r.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Begin(); err != nil {
		t.Fatal(err)
	}
	e, err := r.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if u, err := r.Usage(); err != nil || u.CPU <= 0 {
		t.Errorf("its usage is %+v, %v", u, err)
	}
	return e
}

func TestEvaluate(t *testing.T) {
	for _, model := range []string{infer.Forest, infer.Hoeffding} {
		if e := evaluated(t, Go, model, infer.PerTen, 1); e.Windows < 1 || e.Seconds < 0.02 || e.CPU <= 0 || e.Features <= 0 || e.Frames != 10 || e.Compared != 0 {
			t.Errorf("%s: %+v", model, e)
		}
	}
	if e := evaluated(t, Go, infer.None, infer.PerSecond, 1); e.Windows != 0 || e.Features <= 0 || e.Frames != 200 {
		t.Errorf("features alone: %+v", e)
	}
}

// Libraries say of every synthetic window what this program's evaluator says. ONNX
// Runtime adds up in single precision, and may decide a sum close to the limit
// otherwise.
func TestLibrariesAgree(t *testing.T) {
	for _, c := range []struct {
		runtime, model, window string
		differ                 int
	}{
		{"sklearn", infer.Logistic, infer.PerSecond, 0}, {"sklearn", infer.Tree, infer.PerTen, 0}, {"sklearn", infer.Forest, infer.PerTen, 0}, {"sklearn", infer.MLP, infer.PerTen, 0},
		{"onnx", infer.Logistic, infer.PerTen, 2}, {"onnx", infer.Tree, infer.PerTen, 0}, {"onnx", infer.Forest, infer.PerSecond, 0}, {"onnx", infer.MLP, infer.PerTen, 2},
		{"river", infer.Logistic, infer.PerTen, 0},
	} {
		t.Run(c.runtime+"/"+c.model, func(t *testing.T) {
			if e := evaluated(t, c.runtime, c.model, c.window, 512); e.Windows < 1 || e.CPU <= 0 || e.Compared < 1000 || e.Differ > c.differ {
				t.Errorf("%+v", e)
			}
		})
	}
	t.Run("river/"+infer.Hoeffding, func(t *testing.T) {
		if e := evaluated(t, "river", infer.Hoeffding, infer.PerTen, 1); e.Windows < 1 || e.Compared != 0 {
			t.Errorf("%+v", e)
		}
	})
}

// slow takes a millisecond.
type slow struct{ calls int64 }

func (s *slow) Predict(*infer.Vector) byte {
	s.calls++
	time.Sleep(time.Millisecond)
	return 0
}

// The cost of a model of known cost is found, and every window is counted once.
func TestKnownCost(t *testing.T) {
	s := &slow{}
	d := detection{For: 30 * time.Millisecond, Window: infer.PerTen}
	var e Evaluation
	d.evaluate(&infer.Detector{Model: s}, make([]infer.Vector, 70), &e)
	if e.Windows != s.calls || e.Windows < 1 {
		t.Errorf("%d windows, and the model was asked %d times", e.Windows, s.calls)
	}
	if each := e.Seconds / float64(e.Windows); each < 1e-3 {
		t.Errorf("%v s a window, which takes a millisecond at least", each)
	}
}

// A library that fails gives one sentence.
func TestLibraryFails(t *testing.T) {
	if err := host.Has("false"); err != nil {
		t.Skip(err)
	}
	t.Chdir(t.TempDir())
	d := detection{Runtime: "onnx", Model: infer.Tree, Window: infer.PerTen, Batch: 1, Seed: 1, Python: "false"}
	if _, err := d.evaluator(); err == nil || !strings.Contains(err.Error(), "onnx failed: exit status 1") {
		t.Errorf("%v", err)
	}
}

func TestDetectorTakes(t *testing.T) {
	if _, err := New("torch"); err == nil || !strings.Contains(err.Error(), "go, sklearn, onnx, river") {
		t.Errorf("%v", err)
	}
	for _, c := range []struct {
		runtime, set, value, want string
	}{
		{Go, "model", "oracle", "runtime go has no model oracle: it has logistic"},
		{"sklearn", "model", infer.Hoeffding, "runtime sklearn has no model hoeffding: it has logistic, tree, forest, mlp"},
		{"river", "model", infer.Forest, "runtime river has no model forest"},
		{Go, "window", "1m", "want one of 10, 1s"},
		{Go, "batch", "0", "want 1 to 4096"},
		{Go, "for", "2h", "at most 1h"},
		{Go, "model", infer.None, ""},
	} {
		d, err := New(c.runtime)
		if err != nil {
			t.Fatal(err)
		}
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		d.Flags(fs)
		if err := fs.Set(c.set, c.value); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Takes(), d.Lacks()); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// What is not installed is named with the command that installs it, and only where it
// is needed.
func TestDetectorMissing(t *testing.T) {
	if err := host.Has("python3"); err != nil {
		t.Skip(err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	d, _ := New("onnx")
	var missing *host.Missing
	if err := d.Check(t.Context(), nil); !errors.As(err, &missing) || strings.Join(missing.Remedy[0], " ") != "boxdyno doctor --install infer-onnx" {
		t.Errorf("%v", err)
	}
	d.Model = Bare
	if err := d.Check(t.Context(), nil); err != nil {
		t.Errorf("a bare capture needs no library: %v", err)
	}
	var ran []string
	broken := errors.New("no network")
	spec := subject.Spec{Name: "infer-onnx", New: func() subject.Subject { d, _ := New("onnx"); return d }}
	err := subject.Install(t.Context(), spec, func(_ context.Context, argv []string) error {
		ran = append(ran, strings.Join(argv, " "))
		return broken
	})
	if !errors.Is(err, broken) || len(ran) != 1 || !strings.HasPrefix(ran[0], "python3 -m venv") && !strings.HasPrefix(ran[0], "apt-get") {
		t.Errorf("%v, %v", ran, err)
	}
}

// On a port every datagram is counted once it has been through features and model: the
// ring's drops and the windows are told.
func TestDetecting(t *testing.T) {
	a, b := subjecttest.Pair(t)
	for _, c := range []struct{ runtime, model string }{{Go, Bare}, {Go, infer.Forest}, {"onnx", infer.MLP}} {
		d, err := New(c.runtime)
		if err != nil {
			t.Fatal(err)
		}
		d.Model, d.Batch = c.model, 3
		var missing *host.Missing
		if err := d.Check(t.Context(), nil); errors.As(err, &missing) {
			t.Log(missing)
			continue
		}
		run, err := d.Start(t.Context(), subject.Env{Port: b, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		r := run.(*Detecting)
		if err := r.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		subjecttest.Send(t, a, 2005, 50_000)
		for range 3000 { // a minute
			if n, _, _ := r.Progress(); n >= 2005 {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		windows := int64(200)
		if c.model == Bare {
			windows = 0
		}
		got := r.Totals()
		if err := r.Ended(); err != nil || got.Captured != 2005 || got.Kernel != 0 || r.Detections().Windows != windows || (r.Detections().Model > 0) != (windows > 0) {
			t.Errorf("%s, %s: %+v, %+v, %v", c.runtime, c.model, got, r.Detections(), err)
		}
	}
}
