// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/subject/catalog"
)

func TestMain(m *testing.M) {
	catalog.Main()
	os.Exit(m.Run())
}

// fakeStress is a stress-ng of a class with a stressor for each way to end.
const fakeStress = `#!/bin/sh
case "$1" in
--version) echo "stress-ng, version 9.9.9 (fake)"; exit;;
--stressors) echo "fails good hangs idle refused uprobe"; exit;;
--class) echo "class 'cpu' stressors: fails good hangs idle refused uprobe"; exit;;
--hangs) trap '' INT TERM; sleep 1000 & sleep 1000 & echo $! >> "$FAKE_PIDS"; wait; wait; wait; exit;;
--fails) echo "stress-ng: fail:  [7] fails: 2 is not 3" >&2; exit 2;;
--refused) echo "stress-ng: info:  [7] refused stressor will be skipped, it does not like it here" >&2; exit 0;;
--uprobe) echo "stress-ng: info:  [7] uprobe: cannot set uprobe_event: errno=2" >&2; exit 3;;
esac
touch left-behind
ops=40; [ "$1" = --idle ] && ops=0
printf -- '---\n\nmetrics:\n    - stressor: x\n      bogo-ops: %s\n      bogo-ops-per-second-real-time: 20.5\n\n...\n' $ops
`

// fake puts fakeStress before all programs, and its temporary files apart.
func fake(t *testing.T) (temporary string) {
	t.Helper()
	dir, temporary := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stress-ng"), []byte(fakeStress), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", temporary)
	t.Setenv("FAKE_PIDS", filepath.Join(dir, "pids"))
	return temporary
}

// soakEnv runs trials at once; unfinished is the record of a stressor that an earlier
// part of the run began.
func soakEnv(recs *[]result.Record, unfinished *result.Record) *Env {
	stressor := func(cfg []result.Pair) string { return result.Get(cfg, "stressor") }
	return &Env{
		Bed: &lab.Testbed{Topology: lab.Here, CPUs: []int{0}},
		Unfinished: func(cfg []result.Pair) *result.Record {
			if unfinished == nil || stressor(cfg) != stressor(unfinished.Config) {
				return nil
			}
			return unfinished
		},
		Trial: func(ctx context.Context, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
			o, err := f(ctx)
			r := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Usage: o.Usage, Copies: o.Copies, Warnings: o.Warnings}
			*recs = append(*recs, r)
			return r, err
		},
	}
}

func testSoak(t *testing.T, set ...string) *Soak {
	t.Helper()
	p := newSoak().(*Soak)
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	p.Flags(fs)
	for _, s := range set {
		k, v, _ := strings.Cut(s, "=")
		if err := fs.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	p.grace = 500 * time.Millisecond
	return p
}

// Each way to end is told from the others, and the survey goes on after all of them.
func TestSoak(t *testing.T) {
	testutil.NoLeaks(t)
	temporary := fake(t)
	var recs []result.Record
	p := testSoak(t, "class=cpu", "each=1s")
	if n, d := p.Estimate(); n != 6 || d < 6*time.Second || d > 10*time.Second {
		t.Errorf("an estimate of %d trials in %v for 6 stressors of 1 s", n, d)
	}
	o, err := p.Run(t.Context(), soakEnv(&recs, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name   string
		status result.Status
		reason string
	}{
		{"fails", result.Failed, "fails: 2 is not 3"},
		{"good", result.Passed, ""},
		{"hangs", result.Failed, "it hung: it did not end within 1.5s and was killed"},
		{"idle", result.Skipped, "tested nothing"},
		{"refused", result.Skipped, "it does not like it here"},
		{"uprobe", result.Skipped, result.KnownCause + "this kernel has no uprobes"},
	}
	if len(recs) != len(want) {
		t.Fatalf("%d trials, not %d", len(recs), len(want))
	}
	for i, w := range want {
		r := recs[i]
		if result.Get(r.Config, "stressor") != w.name || r.Status != w.status || !strings.Contains(r.Reason, w.reason) || w.reason == "" && r.Reason != "" {
			t.Errorf("%v: %s, %q; want %s, %s, %q", r.Config, r.Status, r.Reason, w.name, w.status, w.reason)
		}
		if result.Get(r.Config, "stress_ng") != "9.9.9" {
			t.Errorf("%s does not say which stress-ng it is of", w.name)
		}
		if len(r.Usage) != 1 || r.Usage[0].Source == "" {
			t.Errorf("%s: usage %+v", w.name, r.Usage)
		}
	}
	for metric, want := range map[string]float64{"bogo_ops": 40, "bogo_ops_rate": 20.5} {
		if v := recs[1].Value(metric); v == nil || v.Value != want {
			t.Errorf("%s is %v, not %v", metric, v, want)
		}
	}
	for _, metric := range []string{"loop_before_rps", "loop_after_rps", "standstill_s"} {
		if v := recs[1].Value(metric); v == nil || v.Value < 0 {
			t.Errorf("%s is %v", metric, v)
		}
	}
	for metric, want := range map[string]float64{"stressors_passed": 1, "stressors_failed": 2, "stressors_skipped": 2, "stressors_known": 1} {
		r := result.Record{Values: o.Values}
		if v := r.Value(metric); v == nil || v.Value != want {
			t.Errorf("%s is %v, not %v", metric, v, want)
		}
	}
	if o.Status != result.Failed || !strings.Contains(o.Reason, "hangs") || !strings.Contains(o.Reason, "2 is not 3") {
		t.Errorf("in all %s, %q", o.Status, o.Reason)
	}
	left, _ := os.ReadDir(temporary)
	if len(left) > 0 {
		t.Errorf("%v is left in the folder of temporary files", left)
	}
	pids, _ := os.ReadFile(os.Getenv("FAKE_PIDS"))
	if len(pids) == 0 {
		t.Error("the one that hangs did not say which processes it has")
	}
	for _, pid := range strings.Fields(string(pids)) {
		if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && strings.Contains(string(stat), "sleep") {
			t.Errorf("process %s of the one that hangs is there", pid)
		}
	}
}

func TestSoakIsInterrupted(t *testing.T) {
	testutil.NoLeaks(t)
	temporary := fake(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	var recs []result.Record
	p := testSoak(t, "stressors=hangs+good", "each=1h")
	_, err := p.Run(ctx, soakEnv(&recs, nil))
	if !errors.Is(err, context.Canceled) || len(recs) > 1 {
		t.Errorf("%v after %d trials", err, len(recs))
	}
	if left, _ := os.ReadDir(temporary); len(left) > 0 {
		t.Errorf("%v is left in the folder of temporary files", left)
	}
}

// A stressor that the machine went down in is not run again; one that was killed
// together with boxdyno is.
func TestSoakSaysWhereTheBoxDied(t *testing.T) {
	fake(t)
	booted, err := host.Booted()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		start  time.Time
		status result.Status
	}{{booted.Add(-time.Minute), result.Failed}, {booted.Add(time.Second), result.Passed}} {
		var recs []result.Record
		was := &result.Record{Config: []result.Pair{{Key: "stressor", Value: "good"}}, Start: c.start, Status: result.Running}
		o, err := testSoak(t, "stressors=good+idle", "each=1s").Run(t.Context(), soakEnv(&recs, was))
		if err != nil {
			t.Fatal(err)
		}
		if recs[0].Status != c.status || o.Status != c.status || len(recs) != 2 {
			t.Errorf("begun at %v, the machine at %v: %s (%s), in all %s", c.start, booted, recs[0].Status, recs[0].Reason, o.Status)
		}
		if down := strings.Contains(recs[0].Reason, "the machine went down while it ran"); down != (c.status == result.Failed) {
			t.Errorf("the reason is %q", recs[0].Reason)
		}
	}
}

func TestSoakCheck(t *testing.T) {
	here := &lab.Testbed{Topology: lab.Here, CPUs: []int{0}}
	for _, c := range []struct {
		set  []string
		bed  *lab.Testbed
		want string // "": none
	}{
		{nil, nil, ""},
		{[]string{"class=cpu"}, here, ""},
		{[]string{"stressors=good+idle"}, here, ""},
		{[]string{"each=1500ms"}, nil, "whole seconds"},
		{[]string{"each=25h"}, nil, "whole seconds"},
		{[]string{"class=cpu", "stressors=good"}, nil, "give one of them"},
		{[]string{"stressors=good+"}, nil, "empty"},
		{[]string{"stressors=nonsense"}, here, `no stressor "nonsense"`},
	} {
		fake(t)
		err := testSoak(t, c.set...).Check(c.bed)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.set, err, c.want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	var missing *host.Missing
	if err := testSoak(t).Check(here); host.Has("stress-ng") != nil && !errors.As(err, &missing) {
		t.Errorf("without stress-ng: %v", err)
	}
	if n, _ := testSoak(t, "class=cpu").Estimate(); n < 30 {
		t.Errorf("an estimate of %d stressors of class cpu where stress-ng is not installed", n)
	}
}
