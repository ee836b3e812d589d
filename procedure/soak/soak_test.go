// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

func testSoak(t *testing.T, set ...string) *Soak {
	t.Helper()
	p := Spec.New().(*Soak)
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	p.Flags(fs)
	for _, s := range set {
		k, v, _ := strings.Cut(s, "=")
		if err := fs.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	p.grace = 5 * time.Second
	return p
}

// Each way to end is told from the others, and the survey goes on after all of them.
func TestSoak(t *testing.T) {
	testutil.NoLeaks(t)
	temporary := testutil.FakeStress(t)
	var recs []result.Record
	p := testSoak(t, "class=cpu", "each=1s")
	p.grace = 2 * time.Second
	if n, d := p.Estimate(); n != 6 || d < 6*time.Second || d > 10*time.Second {
		t.Errorf("an estimate of %d trials in %v for 6 stressors of 1 s", n, d)
	}
	o, err := p.Run(t.Context(), roomtest.Env(&recs, nil))
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
		{"hangs", result.Failed, "it hung: it did not end within 3s and was killed"},
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
	temporary := testutil.FakeStress(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	var recs []result.Record
	p := testSoak(t, "stressors=hangs+good", "each=1h")
	_, err := p.Run(ctx, roomtest.Env(&recs, nil))
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
	testutil.FakeStress(t)
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
		o, err := testSoak(t, "stressors=good+idle", "each=1s").Run(t.Context(), roomtest.Env(&recs, was))
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
	here := &lab.Testbed{Facts: lab.Facts{Topology: lab.Here, CPUs: []int{0}}}
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
		testutil.FakeStress(t)
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
