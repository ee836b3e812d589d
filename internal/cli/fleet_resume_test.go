// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// finishedTrials is how often each trial of a run has finished.
func finishedTrials(dir string) map[string]int {
	n := map[string]int{}
	_, recs, _ := result.Open(dir) // it may not be there yet
	for _, r := range recs {
		if r.Parent != "" && r.Status == result.Passed {
			n[r.ID]++
		}
	}
	return n
}

// One, two and four boards solve a system together over MPI. A run that is interrupted leaves
// no process and no folder, and goes on where it was: what had finished is not done again.
func TestFleetResumes(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	for _, p := range []string{"hpcc", "cc"} {
		if err := host.Has(p); err != nil {
			t.Skip(err)
		}
	}
	r := newRack(t, "network", "network", "network", "network")
	dir := filepath.Join(r.dir, "run")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	var out bytes.Buffer
	go func() {
		ended <- Main(ctx, []string{"fleet", "run", "hpl-mpi", "--quiet", "--out", dir, "--nodes", "1,2,4", "--set", "most_skew=1", "--set", "parallel=1", "--set", "order=512", "--set", "block=64"}, &out, &out)
	}()
	for begin := time.Now(); len(finishedTrials(dir)) < 3; time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("nothing has finished")
		}
	}
	stop()
	if code := <-ended; code != exitInterrupted {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	for begin := time.Now(); len(leftovers(t)) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("left: %q", leftovers(t))
		}
	}
	before := finishedTrials(dir)
	out.Reset()
	if code := Main(t.Context(), []string{"fleet", "run", "--quiet", "--resume", dir}, &out, &out); code != exitOK {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	after := finishedTrials(dir)
	for id := range before {
		if after[id] != 1 {
			t.Errorf("%s has finished %d times", id, after[id])
		}
	}
	rates := map[string]float64{}
	_, recs, err := result.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		if v := rec.Value("hpl_rate"); v != nil && rec.Parent == "" {
			rates[result.Get(rec.Config, "nodes")] = v.Value
		}
	}
	if len(rates) != 3 || len(after) <= len(before) {
		t.Errorf("rates by boards %v, %d trials before and %d after: %s", rates, len(before), len(after), out.Bytes())
	}
	t.Logf("%d trials kept, %d in all: %s", len(before), len(after), out.Bytes())
	if found := leftovers(t); len(found) > 0 {
		t.Errorf("left: %q", found)
	}
}
