// SPDX-License-Identifier: Apache-2.0

package stress

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/subject"
)

func TestMain(m *testing.M) {
	subject.Main()
	os.Exit(m.Run())
}

// The files in testdata are of stress-ng 0.15.06 on a virtual machine with Linux 6.18.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		stressor string
		code     int
		status   result.Status
		known    bool
		reason   string
	}{
		{"hash", 0, result.Passed, false, ""},
		{"af-alg", 0, result.Skipped, true, "AF_ALG"},
		{"cyclic", 0, result.Skipped, true, "real-time policy"},
		{"uprobe", 3, result.Skipped, true, "uprobes"},
		{"rseq", 0, result.Skipped, true, "glibc"},
		{"io-uring", 2, result.Skipped, true, "statx"},
		{"physpage", 2, result.Skipped, true, "/proc/mtrr"},
		{"netlink-proc", 3, result.Skipped, true, "network namespace"},
		{"ping-sock", 0, result.Skipped, true, "ping_group_range"},
		{"smi", 1, result.Skipped, false, "disabled 'smi' as it may hang or reboot the machine"},
		{"exec", 0, result.Skipped, false, "must not run as root"},
		{"sockdiag", 0, result.Skipped, false, "tested nothing"},
		{"dev-shm", 2, result.Failed, false, "corrupted bogo-ops counter"},
	} {
		log, err := os.ReadFile(filepath.Join("testdata", c.stressor+".log"))
		if err != nil {
			t.Fatal(err)
		}
		figures, _ := os.ReadFile(filepath.Join("testdata", c.stressor+".yaml")) // what was not run has none
		e := Judge(c.stressor, c.code, 0, string(log), string(figures))
		if e.Status != c.status || e.Known != c.known || !strings.Contains(e.Reason, c.reason) || c.reason == "" && e.Reason != "" {
			t.Errorf("%s: %s, known %v, %q; want %s, %v, %q", c.stressor, e.Status, e.Known, e.Reason, c.status, c.known, c.reason)
		}
		if c.stressor == "hash" {
			want := map[string]float64{"bogo_ops": 241551, "bogo_ops_rate": 241530.816305, "bogo_ops_cpu_rate": 123120.577642, "stressor_s": 1.000084, "stressor_memory_bytes": 2740 * 1024}
			for _, v := range e.Values {
				if want[v.Metric] != v.Value {
					t.Errorf("%s is %v, not %v", v.Metric, v.Value, want[v.Metric])
				}
				delete(want, v.Metric)
			}
			if len(want) > 0 {
				t.Errorf("lacks %v", want)
			}
		}
	}
	// A cause is only one where the log says so: other failures of the same stressor are failures.
	if e := Judge("io-uring", 2, 0, "stress-ng: fail:  [1] io-uring: data mismatch\n", "\nmetrics:\n bogo-ops: 5\n"); e.Status != result.Failed || e.Reason != "io-uring: data mismatch" {
		t.Errorf("another failure of io-uring: %+v", e)
	}
	if e := Judge("af-alg", 2, 0, "stress-ng: fail:  [1] af-alg: wrong digest\n", "\nmetrics:\n bogo-ops: 5\n"); e.Status != result.Failed {
		t.Errorf("another failure of af-alg: %+v", e)
	}
	if e := Judge("cpu", 0, 9, "", ""); e.Status != result.Failed || !strings.Contains(e.Reason, "killed") {
		t.Errorf("a killed stress-ng: %+v", e)
	}
	if e := Judge("cpu", 1, 0, "", ""); e.Status != result.Failed || e.Reason == "" {
		t.Errorf("exit code 1 without a word: %+v", e)
	}
}

func TestStressValuesAreFinite(t *testing.T) {
	vs, ops := stressValues("\nmetrics:\n - stressor: x\n   bogo-ops: 3\n   bogo-ops-per-second-real-time: inf\n   bogo-ops-per-second-usr-sys-time: nan\n   wall-clock-time: -1\n")
	if ops != 3 || len(vs) != 1 {
		t.Errorf("%v, %v", vs, ops)
	}
	if vs, ops := stressValues(""); ops >= 0 || vs != nil {
		t.Errorf("nothing is %v, %v", vs, ops)
	}
}

func TestCausesAreOfOneStressorEach(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range causes {
		if seen[c.stressor] || c.why == "" {
			t.Errorf("%s stands twice, or has no cause", c.stressor)
		}
		seen[c.stressor] = true
	}
}

func installed(t *testing.T) {
	t.Helper()
	var missing *host.Missing
	if err := host.Has(Name); errors.As(err, &missing) {
		t.Skip(missing)
	} else if err != nil {
		t.Fatal(err)
	}
}

func TestStress(t *testing.T) {
	installed(t)
	testutil.NoLeaks(t)
	run, err := (&Stress{Stressor: "matrix", Workers: 1, For: time.Second}).Run(t.Context(), subject.Env{CPUs: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	end, err := run.End(t.Context())
	if err != nil || end.Status != result.Passed {
		t.Fatalf("%+v, %v", end, err)
	}
	if end.Usage.CPU < 20*time.Millisecond || end.Usage.Subject != "stress-ng matrix" {
		t.Errorf("usage %+v", end.Usage)
	}
	if _, err := os.Stat(run.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is still there: %v", err)
	}
	if err := run.Stop(context.Background()); err != nil {
		t.Errorf("stop after the end: %v", err)
	}
}

// Without an end of its own it runs until it is stopped, and says of a name that does
// not exist what is wrong.
func TestStressRunsUntilStopped(t *testing.T) {
	installed(t)
	running, err := New().Start(t.Context(), subject.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	pids := running.(*Stressing).process.PIDs()
	if err := running.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
	run, err := (&Stress{Stressor: "no-such-stressor"}).Run(t.Context(), subject.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if end, err := run.End(t.Context()); err != nil || end.Status != result.Failed {
		t.Errorf("no-such-stressor: %+v, %v", end, err)
	}
	if err := (&Stress{Stressor: "cpu; id"}).Check(t.Context(), nil); err == nil {
		t.Error("a name with a blank is accepted")
	}
}

func TestStressors(t *testing.T) {
	installed(t)
	cpu, err := Stressors(t.Context(), "cpu")
	if err != nil || len(cpu) < 30 {
		t.Errorf("class cpu: %v, %v", cpu, err)
	}
	if all, err := Stressors(t.Context(), "all"); err != nil || len(all) <= len(cpu) {
		t.Errorf("all: %v, %v", all, err)
	}
	if _, err := Stressors(t.Context(), "no-such-class"); err == nil || !strings.Contains(err.Error(), "cpu") {
		t.Errorf("no-such-class: %v", err)
	}
	if v, err := Version(t.Context(), &host.Local{}); err != nil || strings.Count(v, ".") < 1 {
		t.Errorf("version %q, %v", v, err)
	}
}
