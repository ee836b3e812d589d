// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"path/filepath"
	"testing"

	"boxdyno/result"
)

// Runs that have a figure are listed with its settings; an upper bound is none, and neither is 0.
func TestHolders(t *testing.T) {
	each(t, func(t *testing.T, x *Index, _ string) {
		runs := t.TempDir()
		for n, p := range []result.Record{aPoint("64", 1, 5e5), aPoint("64", 1, 4e5), aPoint("64", 1, 0), aPoint("512", 1, 3e5)} {
			if n == 1 {
				p.Values[0].Bound = result.AtMost
			}
			keep(t, filepath.Join(runs, fmt.Sprint(n)), aRun(n, nil), p, aPoint("128", 1, 1))
		}
		update(t, x, Scan{Dirs: []string{runs}})
		got, err := x.Holders(t.Context(), "throughput_fps", func(s []result.Pair) bool { return result.Get(s, "frame_size") != "128" })
		if err != nil || len(got) != 2 || got[0].ID != "run000" || got[1].ID != "run003" {
			t.Fatalf("%+v, %v", got, err)
		}
		if s := got[1].Settings; len(s) != 1 || result.Get(s[0], "frame_size") != "512" || got[1].Machines != "machine=lab\nboard=Board 1\nCPU=4 x A72\n" {
			t.Errorf("%q, %q", s, got[1].Machines)
		}
		if got, err := x.Holders(t.Context(), "no_metric", func([]result.Pair) bool { return true }); got != nil || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
