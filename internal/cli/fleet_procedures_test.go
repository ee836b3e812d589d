// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// Every procedure of boards is carried out by two of them, with as little work as it has.
func TestFleetProcedures(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	testutil.Privileged(t) // storage
	cpus, err := host.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(cpus) < 2 || host.Has("taskset") != nil {
		t.Skip("two boards on one machine need two CPUs, and taskset")
	}
	f := newFleeted(t, "pi[1:2]\n")
	f.onCPUs(map[string]int{"pi1": cpus[0], "pi2": cpus[1]})
	f.hub("pi1", "pi2")
	f.call(exitOK, "fleet", "enrol", "--inventory", filepath.Join(f.dir, "hosts"), "--agent", builtAgent(t, runtime.GOARCH))
	for _, c := range []struct {
		procedure string
		set       []string
		metric    string // that is summed
	}{
		{"cpu", []string{"subject=stress-matrix"}, "bogo_ops_rate"},
		{"hash", []string{"size=200000000"}, "hash_rate"},
		{"memory", []string{"size=4000000"}, "memory_write_rate"},
		{"memory", []string{"subject=memory-latency", "size=4000000"}, "memory_latency_s"},
		{"memory", []string{"subject=memory-stream", "size=4000000"}, "stream_copy_rate"},
		{"codec", []string{"subject=flac", "length=5s"}, "codec_speed"},
		{"crypto", []string{"path=openssl", "cipher=aes-cbc-128"}, "encrypt_bytes_per_s"},
		{"storage", []string{"size=8"}, "luks2_write_octet_rate"},
		{"hpl", []string{"order=200"}, "hpl_rate"},
		{"soak", []string{"stressors=cpu", "each=1s"}, "stressors_passed"},
	} {
		t.Run(c.procedure, func(t *testing.T) {
			run := filepath.Join(t.TempDir(), "run")
			args := []string{"fleet", "run", c.procedure, "--nodes", "2", "--quiet", "--out", run, "--set", "most_skew=1"}
			for _, s := range c.set {
				args = append(args, "--set", s)
			}
			f.out.Reset()
			code := Main(t.Context(), args, &f.out, &f.out)
			_, recs, err := result.Open(run)
			if err != nil {
				t.Fatal(code, err, f.out.String())
			}
			i := slices.IndexFunc(recs, func(r result.Record) bool { return r.Parent == "" })
			if i < 0 {
				t.Fatal("no point was measured: ", f.out.String())
			}
			point := recs[i]
			lacks := strings.Contains(point.Reason, "missing on pi") || strings.Contains(point.Reason, "is the least: something else ran there")
			if point.Status == result.Skipped || point.Status == result.Invalid && lacks {
				t.Skip(point.Reason) // a program is missing, or other work keeps the machine busy
			}
			if code != exitOK || point.Status != result.Passed {
				t.Fatalf("exit code %d: %s %s: %s", code, point.Status, point.Reason, f.out.Bytes())
			}
			if len(point.Boards) != 2 || !slices.ContainsFunc(point.Values, func(v result.Value) bool { return v.Metric == c.metric && v.Value > 0 }) {
				t.Errorf("%d boards, %+v", len(point.Boards), point.Values)
			}
			for _, r := range recs {
				if r.Parent != "" && len(r.Boards) != 2 {
					t.Errorf("%s: %d boards", r.ID, len(r.Boards))
				}
			}
		})
	}
}
