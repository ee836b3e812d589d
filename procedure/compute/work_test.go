// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/subject"
)

// A shellWorker is a script of the shell that prints a number.
type shellWorker struct {
	script  string
	program string // instead of sh
	wrong   error
}

func (s shellWorker) Flags(*flag.FlagSet) {}

func (s shellWorker) Check(context.Context, *host.Local) error { return host.Has(s.argv()[0]) }

func (s shellWorker) argv() []string {
	if s.program != "" {
		return []string{s.program}
	}
	return []string{"sh", "-c", s.script}
}

func (s shellWorker) Identify(context.Context, *host.Local) ([]result.Pair, error) {
	return []result.Pair{{Key: "version", Value: "1.0 of  today"}}, nil
}

func (s shellWorker) Prove(context.Context, *host.Local) error { return s.wrong }

func (s shellWorker) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	return subject.Command{Name: "a script", Argv: s.argv(), Read: func(w subject.Worked) ([]result.Value, error) {
		v, err := strconv.ParseFloat(strings.TrimSpace(w.Stdout), 64)
		if err != nil {
			return nil, fmt.Errorf("it printed what is no figure: %q", w.Stdout)
		}
		if w.Elapsed <= 0 {
			return nil, errors.New("it took no time")
		}
		return []result.Value{declared.Value("dhrystones_per_s", v), declared.Value("loop_before_rps", v), declared.Value("whetstones_per_s", v)}, nil
	}}.Start(ctx, e)
}

// workRun runs a work of the worker with the parameters.
func workRun(t *testing.T, j job, set map[string]string) (procedure.Outcome, []result.Record, error) {
	t.Helper()
	w := newWork()
	roomtest.Assign(t, w.flags, set)
	var recs []result.Record
	o, err := w.run(t.Context(), roomtest.Env(&recs, nil), j)
	return o, recs, err
}

// Rounds are measured after the known answer, and their figures are the median.
func TestWork(t *testing.T) {
	testutil.NoLeaks(t)
	o, recs, err := workRun(t, job{name: "script", limit: time.Minute, worker: shellWorker{script: "echo 21"}}, nil)
	if err != nil || o.Status != result.Passed || len(recs) != 4 {
		t.Fatalf("%s %s, %d trials, %v", o.Status, o.Reason, len(recs), err)
	}
	if got := result.Get(recs[0].Config, "trial") + " " + result.Get(recs[3].Config, "trial") + " " + result.Get(recs[1].Config, "version") + " " + result.Get(recs[1].Config, "on_cpus"); got != "known-answer 3 1.0_of_today 0" {
		t.Errorf("the trials say %q", got)
	}
	v := roomtest.Figure(t, o, "dhrystones_per_s")
	if v.Value != 21 || v.N != 3 || *v.Lo != 21 || roomtest.Measured(t, o, "copies") != 1 || roomtest.Measured(t, o, "work_s") <= 0 || roomtest.Measured(t, o, "loop_after_rps") <= 0 {
		t.Errorf("%+v", o.Values)
	}
	if len(o.Usage) != 1 || o.Usage[0].Subject != "a script" || len(o.Copies) != 1 || o.Copies[0].Values[0].Value != 21 {
		t.Errorf("%+v, %+v", o.Usage, o.Copies)
	}
}

// Copies stand still until all are ready, and their figures are summed or as the job says.
func TestWorkCopies(t *testing.T) {
	testutil.NoLeaks(t)
	j := job{name: "script", limit: time.Minute, worker: shellWorker{script: "echo 21"}, mean: []string{"loop_before_rps"}, most: []string{"whetstones_per_s"}}
	o, err := j.round(t.Context(), &procedure.Env{}, &host.Local{}, []int{0, 0, 0})
	if err != nil || o.Status != result.Passed {
		t.Fatalf("%s %s, %v", o.Status, o.Reason, err)
	}
	own := o.Values[2:] // after the two looks at the clock
	for i, want := range []float64{63, 21, 21} {
		if own[i].Value < want-1e-9 || own[i].Value > want+1e-9 {
			t.Errorf("%s is %v, want %v", own[i].Metric, own[i].Value, want)
		}
	}
	if len(o.Copies) != 3 || roomtest.Measured(t, o, "copies") != 3 {
		t.Errorf("%+v", o.Copies)
	}
	j.together = true
	o, err = j.round(t.Context(), &procedure.Env{}, &host.Local{}, []int{0})
	if err != nil || len(o.Copies) != 0 || o.Values[2].Value != 21 {
		t.Errorf("%+v, %v", o, err)
	}
	j.judge = func(vs []result.Value) string { return fmt.Sprintf("%v is too much", vs[0].Value) }
	if o, err := j.round(t.Context(), &procedure.Env{}, &host.Local{}, []int{0}); err != nil || o.Status != result.Failed || o.Reason != "21 is too much" {
		t.Errorf("%s %q %v", o.Status, o.Reason, err)
	}
}

// A program that computes and does not have its CPU all the time measures a part of a CPU: such rounds are in no figure.
func TestWorkStarved(t *testing.T) {
	testutil.NoLeaks(t)
	once := func(name string) shellWorker {
		return shellWorker{script: "mkdir " + t.TempDir() + "/" + name + " 2>&- && sleep 0.6; echo 21"}
	}
	for _, c := range []struct {
		name     string
		worker   shellWorker
		computes bool
		status   result.Status
		reason   string
		warning  string
	}{
		{"each time", shellWorker{script: "sleep 0.6; echo 21"}, true, result.Invalid, "script had", ""},
		{"it may wait", once("waits"), false, result.Passed, "", ""},
		{"once", once("computes"), true, result.Passed, "", "1 of 3 rounds were invalid, and are in no figure: script had"},
	} {
		o, _, err := workRun(t, job{name: "script", limit: time.Minute, worker: c.worker, computes: c.computes}, nil)
		if err != nil || o.Status != c.status || !strings.HasPrefix(o.Reason, c.reason) || !strings.HasPrefix(strings.Join(o.Warnings, ""), c.warning) || (c.warning == "") != (o.Warnings == nil) {
			t.Errorf("%s: %s %q %q, %v", c.name, o.Status, o.Reason, o.Warnings, err)
		}
		if c.status == result.Passed && roomtest.Figure(t, o, "dhrystones_per_s").N != map[bool]int{true: 2, false: 3}[c.name == "once"] {
			t.Errorf("%s: %+v", c.name, o.Values)
		}
	}
}

// Each way to go wrong is a sentence, and leaves no process behind.
func TestWorkGoesWrong(t *testing.T) {
	testutil.NoLeaks(t)
	for _, c := range []struct {
		worker shellWorker
		want   string
		trials int
	}{
		{shellWorker{script: "echo 21", wrong: errors.New("3 came out instead of 4")}, "3 came out instead of 4", 1},
		{shellWorker{script: "echo it broke >&2; exit 3"}, `a script ended with exit code 3; it said "it broke"`, 2},
		{shellWorker{script: "kill -SEGV $$"}, "a script was ended by signal segmentation fault", 2},
		{shellWorker{script: "echo nonsense"}, `a script: it printed what is no figure: "nonsense\n"`, 2},
		{shellWorker{script: "sleep 1000"}, "script hung: it did not end within 300ms and was killed", 2},
	} {
		limit := time.Minute
		if strings.Contains(c.worker.script, "sleep") {
			limit = 300 * time.Millisecond
		}
		o, recs, err := workRun(t, job{name: "script", limit: limit, worker: c.worker}, nil)
		if err != nil || o.Status != result.Failed || o.Reason != c.want || len(recs) != c.trials {
			t.Errorf("%q: %s %q after %d trials, %v", c.worker.script, o.Status, o.Reason, len(recs), err)
		}
	}
	var missing *host.Missing
	if _, _, err := workRun(t, job{name: "script", worker: shellWorker{program: "no-such-program"}}, nil); !errors.As(err, &missing) {
		t.Errorf("a program that is missing: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	var recs []result.Record
	w := newWork()
	if _, err := w.run(ctx, roomtest.Env(&recs, nil), job{name: "script", limit: time.Minute, worker: shellWorker{script: "sleep 1000"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// What works in several processes is accounted from its beginning on, and not before.
func TestWorkStandsStillUntilItBegins(t *testing.T) {
	testutil.NoLeaks(t)
	dir := t.TempDir()
	r, err := shellWorker{script: "touch " + dir + "/begun; echo 1"}.Start(t.Context(), subject.Env{CPUs: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	run := r.(*subject.Working)
	defer func() {
		if err := run.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := run.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/begun"); !errors.Is(err, os.ErrNotExist) {
		t.Error("it began by itself")
	}
	if err := run.Begin(); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/begun"); err != nil {
		t.Error(err)
	}
	// One that never began is gone after Stop all the same.
	r, err = shellWorker{script: "sleep 1000"}.Start(t.Context(), subject.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := r.(*subject.Working).Wait(t.Context()); err == nil {
		t.Error("it says that it worked")
	}
}

func TestWorkParameters(t *testing.T) {
	for _, c := range []struct {
		parallel, core, want string
		cpus                 string
	}{
		{"1", "0", "", "3"},
		{"2", "0", "", "2+3"},
		{"all", "0", "", "0+1+2+3"},
		{"cpu1", "0", "", "1"},
		{"cpu2+0-1", "0", "", "0+1+2"},
		{"5", "0", "may use 4 CPUs", ""},
		{"1", "1", "counted from 0 to 0", ""},
		{"cpu7", "0", "CPU 7 is not one of those", ""},
	} {
		w := newWork()
		roomtest.Assign(t, w.flags, map[string]string{"parallel": c.parallel, "core_type": c.core})
		got, err := w.cpus(&host.Local{Root: os.DirFS(t.TempDir())}, []int{0, 1, 2, 3})
		if c.want == "" && (err != nil || host.Words(got) != c.cpus) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	for _, bad := range []string{"0", "-1", "cpu", "cpu2-1", "cpux", "many", ""} {
		if err := new(parallel).Set(bad); err == nil {
			t.Errorf("parallel %q is taken", bad)
		}
	}
	w := newWork()
	if n, d := w.estimate(time.Second); n != 4 || d < 3*time.Second {
		t.Errorf("%d trials in %v", n, d)
	}
}
