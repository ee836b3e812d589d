// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

func TestMain(m *testing.M) {
	host.KeepMain()
	os.Exit(m.Run())
}

// The real procedures on links in memory, alone, beside stress-ng, and after it heated
// the machine.
func TestBesideLoad(t *testing.T) {
	testutil.Alone(t)
	var missing *host.Missing
	if err := host.Has("stress-ng"); errors.As(err, &missing) {
		t.Skip(missing)
	}
	t.Setenv("TMPDIR", t.TempDir())
	c := Plugins()
	p := resolved(t, c, `{lab: {use: mem, capacity: 20k, ceiling: 60k}, procedures: [{use: forward, search: none, beside: [none, "cpu:1"], heat: ["0", 1s]}, latency]}`)
	var m memory
	run, recs, err := Run(t.Context(), p, &m, Options{Catalogue: c})
	if err != nil {
		t.Fatal(err)
	}
	used, heated, worked := map[string]int{}, 0, time.Duration(0)
	for _, r := range recs {
		loads := slices.DeleteFunc(slices.Clone(r.Usage), func(u result.Usage) bool { return u.Phase != result.BesideKey })
		asked := result.Get(r.Config, result.BesideKey)
		switch {
		case r.Parent == "":
			continue
		case r.Parent == "self-test":
			if len(r.Usage) > 0 || asked != "" {
				t.Errorf("%s: %+v", r.ID, r.Usage)
			}
		case (asked == "cpu:1") != (len(loads) == 1):
			t.Errorf("%s: beside it %+v", r.ID, r.Usage)
		}
		if len(loads) == 1 { // of a short trial on a busy machine it may have had nothing
			worked += loads[0].CPU
			if !strings.Contains(r.ID, "/beside=cpu:1") {
				t.Errorf("%s: %+v", r.ID, loads)
			}
		}
		if r.Status == result.Invalid {
			t.Errorf("%s is invalid: %s", r.ID, r.Reason)
		}
		if r.Procedure != "self-test" && asked == "" {
			t.Errorf("%s does not say what ran beside: %v", r.ID, r.Config)
		}
		used[asked]++
		if slices.ContainsFunc(r.Phases, func(p result.Phase) bool { return p.Name == result.HeatKey }) {
			heated++
			if result.Get(r.Config, result.HeatKey) != "1s" {
				t.Errorf("%s was heated: %v", r.ID, r.Config)
			}
		}
	}
	if worked <= 0 {
		t.Error("the load beside used no CPU time")
	}
	if used["cpu:1"] < 6 || used["none"] < 6 || heated != 2 {
		t.Errorf("trials by what ran beside: %v, heated before %d", used, heated)
	}
	if said := strings.Join(run.Warnings, "\n"); strings.Count(said, "by intention the machine is not idle while trials with beside cpu:1 run") != 1 {
		t.Errorf("the run says %q", said)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	// Of a finished run nothing is heated or loaded again.
	var again memory
	if _, _, err := Run(t.Context(), p, &again, Options{Catalogue: c, Header: run, Done: recs, Resume: true}); err != nil || len(again.appended) > 0 {
		t.Errorf("resumed: %d records, %v", len(again.appended), err)
	}
}

// All visits to a heated point come at once; others are visited in turn.
func TestHeatedPointsAreVisitedOnce(t *testing.T) {
	testutil.Computed(t)
	if err := host.Has("stress-ng"); err != nil {
		t.Skip(err)
	}
	c := Plugins()
	visits := func(heat string) (n int) {
		p := resolved(t, c, `{lab: {use: mem, capacity: 20k, ceiling: 60k}, procedures: [{use: forward, frame_size: [64, 128], heat: `+heat+`}]}`)
		var m memory
		_, recs, err := Run(t.Context(), p, &m, Options{Catalogue: c})
		if err != nil {
			t.Fatal(err)
		}
		last := ""
		for _, r := range recs {
			if r.Parent != "" && r.Parent != "self-test" && r.Parent != last {
				last = r.Parent
				n++
			}
		}
		return n
	}
	if hot, cold := visits("1s"), visits("0"); hot != 2 || cold < 6 {
		t.Errorf("two points were visited %d times heated, and else %d times", hot, cold)
	}
}
