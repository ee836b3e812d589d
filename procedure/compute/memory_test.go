// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

func testMemory(t *testing.T, set map[string]string) *Memory {
	t.Helper()
	p := newMemory().(*Memory)
	roomtest.Assign(t, p.Flags, set)
	p.each = 2 * time.Millisecond
	return p
}

// A buffer is written, read and copied, and STREAM's arrays are: each round's program says
// what it is of, and all figures are declared.
func TestMemory(t *testing.T) {
	testutil.NoLeaks(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for name, metric := range map[string]string{"memory-bandwidth": "memory_copy_rate", "memory-stream": "stream_triad_rate"} {
		p := testMemory(t, map[string]string{"subject": name, "size": "1050000", "optimise": "O2", "parallel": "cpu0"})
		var recs []result.Record
		o, err := p.Run(t.Context(), roomtest.Env(&recs, nil))
		var missing *host.Missing
		if errors.As(err, &missing) {
			t.Skip(missing)
		}
		if err != nil || o.Status != result.Passed || len(recs) != 4 {
			t.Fatalf("%s: %s %s, %d trials, %v", name, o.Status, o.Reason, len(recs), err)
		}
		if c := recs[1].Config; result.Get(c, "flags") != "-O2" || result.Get(c, "bits") == "" || result.Get(c, "size_of_each") != "1048576" {
			t.Errorf("%s: %v", name, c)
		}
		if v := roomtest.Figure(t, o, metric); v.Value <= 0 || v.N != 3 || v.Unit != "B/s" {
			t.Errorf("%s: %+v", name, v)
		}
		if name == "memory-bandwidth" && roomtest.Measured(t, o, "locked_bytes") != 1<<20 {
			t.Errorf("%+v", o.Values)
		}
		roomtest.Declared(t, o, memoryMetrics)
	}
}

// Each working set is a trial in each round, and the point has the largest and the smallest.
func TestMemoryLatency(t *testing.T) {
	testutil.NoLeaks(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p := testMemory(t, map[string]string{"subject": "memory-latency", "size": "20000", "parallel": "cpu0"})
	var recs []result.Record
	o, err := p.Run(t.Context(), roomtest.Env(&recs, nil))
	var missing *host.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil || o.Status != result.Passed {
		t.Fatalf("%s %s, %v", o.Status, o.Reason, err)
	}
	var sets []string
	for _, r := range recs[1:] {
		sets = append(sets, result.Get(r.Config, "trial")+":"+result.Get(r.Config, "working_set"))
	}
	if got := strings.Join(sets, " "); got != "1:4096 1:8192 1:16384 2:4096 2:8192 2:16384 3:4096 3:8192 3:16384" {
		t.Errorf("the trials are %s", got)
	}
	if v := roomtest.Figure(t, o, "memory_latency_s"); v.Value <= 0 || v.N != 3 {
		t.Errorf("%+v", v)
	}
	if v := roomtest.Figure(t, o, "cache_latency_s"); v.Value <= 0 || v.N != 3 || roomtest.Measured(t, o, "copies") != 1 {
		t.Errorf("%+v", o.Values)
	}
	roomtest.Declared(t, o, slices.DeleteFunc(slices.Clone(memoryMetrics), func(m result.Metric) bool { return m.Name == "load_latency_s" })) // which is of a trial
}

// Trials in which a walk did not have its CPU are in no figure.
func TestMemoryLatencyWithoutItsCPU(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, c := range []struct {
		spoiled func(cfg []result.Pair) bool
		status  result.Status
		n       int
	}{
		{func(cfg []result.Pair) bool {
			return result.Get(cfg, "trial") == "2" && result.Get(cfg, "working_set") == "8192"
		}, result.Passed, 2},
		{func(cfg []result.Pair) bool { return result.Get(cfg, "working_set") != "" }, result.Invalid, 0},
	} {
		p := testMemory(t, map[string]string{"subject": "memory-latency", "size": "8192", "parallel": "cpu0"})
		var recs []result.Record
		env := roomtest.Env(&recs, nil)
		trial := env.Trial
		env.Trial = func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			return trial(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) {
				if c.spoiled(cfg) {
					return procedure.Outcome{Status: result.Invalid, Reason: "something else ran there"}, nil
				}
				return f(ctx)
			})
		}
		o, err := p.Run(t.Context(), env)
		var missing *host.Missing
		if errors.As(err, &missing) {
			t.Skip(missing)
		}
		if err != nil || o.Status != c.status || len(recs) != 7 {
			t.Fatalf("%s %s after %d trials, %v", o.Status, o.Reason, len(recs), err)
		}
		if c.n == 0 {
			if len(o.Values) != 0 || o.Reason != "something else ran there" {
				t.Errorf("%q, %v", o.Reason, o.Values)
			}
		} else if v := roomtest.Figure(t, o, "memory_latency_s"); v.N != c.n || len(o.Warnings) != 1 || !strings.HasPrefix(o.Warnings[0], "1 of 6 rounds were invalid") || roomtest.Figure(t, o, "cache_latency_s").N != 3 {
			t.Errorf("%+v, %v", v, o.Warnings)
		}
	}
}

// More memory than there is skips the point with the remedy, before anything is measured.
func TestMemoryIsMissing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p := testMemory(t, map[string]string{"size": fmt.Sprint(int64(1) << 45)})
	var recs []result.Record
	var missing *host.Missing
	if _, err := p.Run(t.Context(), roomtest.Env(&recs, nil)); !errors.As(err, &missing) || len(recs) != 0 || missing.Remedy == nil && !strings.Contains(err.Error(), "give a smaller --set size") {
		t.Errorf("%v after %d trials", err, len(recs))
	}
}

// Sizes follow the machine where none is asked for, and working sets are in order.
func TestMemorySizes(t *testing.T) {
	box := func(available, cache string) *host.Local {
		files := fstest.MapFS{"proc/meminfo": {Data: []byte("MemAvailable: " + available + " kB\n")}}
		if cache != "" {
			for name, v := range map[string]string{"level": "3", "type": "Unified", "size": cache, "shared_cpu_list": "0-3"} {
				files["sys/devices/system/cpu/cpu0/cache/index3/"+name] = &fstest.MapFile{Data: []byte(v + "\n")}
			}
		}
		return &host.Local{Root: files}
	}
	for _, c := range []struct {
		subject, size string
		on            *host.Local
		want          int64
		by            string
	}{
		{"memory-bandwidth", "0", box("8000000", "32M"), 2_000_000_000, "33554432"},
		{"memory-bandwidth", "0", box("700000", ""), 256 << 20, ""},
		{"memory-bandwidth", "3500000000", box("700000", ""), 3_500_000_000, ""},
		{"memory-stream", "0", box("8000000", "32M"), 128 << 20, "33554432"},
		{"memory-stream", "0", box("8000000", "1M"), 80_000_000, "1048576"},
		{"memory-stream", "0", box("8000000", ""), 80_000_000, "not told, 16777216 assumed"},
		{"memory-latency", "0", box("8000000", "1M"), 64 << 20, "1048576"},
		{"memory-latency", "0", box("8000000", "32M"), 128 << 20, "33554432"},
	} {
		p := testMemory(t, map[string]string{"subject": c.subject, "size": c.size})
		got, by := p.sized(c.on, []int{0})
		if got != c.want || result.Get(by, "last_level_cache") != c.by {
			t.Errorf("%+v: %d, %v", c, got, by)
		}
	}
	for cache, want := range map[string]int64{"8M": 128 << 20, "64M": 256 << 20} {
		p := testMemory(t, map[string]string{"subject": "memory-latency"})
		if got, _ := p.sized(box("8000000", cache), []int{0, 1}); got != want {
			t.Errorf("two walks with a cache of %s: %d, want %d", cache, got, want)
		}
	}
	p := testMemory(t, map[string]string{"preset": "standard"})
	if got := fmt.Sprint(p.sets(20000)); got != "[4096 6144 8192 12288 20000]" {
		t.Errorf("working sets by the standard: %s", got)
	}
	if got := fmt.Sprint(p.sets(4096)); got != "[4096]" {
		t.Errorf("one working set: %s", got)
	}
}

func TestMemoryParameters(t *testing.T) {
	here := &lab.Testbed{Facts: lab.Facts{Topology: lab.Here, CPUs: []int{0, 1}}}
	p := newMemory()
	roomtest.Assign(t, p.Flags, map[string]string{"size": "8191", "parallel": "all"})
	if err := p.Check(here); err == nil || !strings.Contains(err.Error(), "want 4096 octets at least for each of 2 copies") {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"4095", "-1", "2GB", "", "1e9"} {
		if err := new(octets).Set(bad); err == nil || !strings.Contains(err.Error(), "whole number of octets") {
			t.Errorf("size %q: %v", bad, err)
		}
	}
	for name, trials := range map[string]int{"memory-bandwidth": 4, "memory-latency": 58, "memory-stream": 4} {
		p := newMemory()
		roomtest.Assign(t, p.Flags, map[string]string{"subject": name})
		if n, d := p.Estimate(); n != trials || d > 3*time.Minute {
			t.Errorf("%s: %d trials in %v", name, n, d)
		}
	}
}
