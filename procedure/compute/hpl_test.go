// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"errors"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure/internal/roomtest"
)

// The problem follows from processes and memory, or is the one that is given.
func TestHPLProblem(t *testing.T) {
	const GB = 1_000_000_000
	for _, c := range []struct {
		set                  map[string]string
		processes            int
		memory               uint64
		order, rows, columns int
		wrong                string
	}{
		{nil, 1, 8 * GB, 1920, 1, 1, ""},
		{nil, 4, 8 * GB, 3072, 2, 2, ""}, // 2000 x 4^(1/3) = 3174
		{nil, 4, GB / 100, 896, 2, 2, ""},
		{map[string]string{"preset": "standard"}, 4, GB, 9984, 2, 2, ""},
		{map[string]string{"preset": "standard", "memory_share": "20", "block": "100"}, 4, GB, 5000, 2, 2, ""},
		{map[string]string{"preset": "standard"}, 6, GB, 9984, 2, 3, ""},
		{map[string]string{"preset": "standard"}, 7, GB, 9984, 1, 7, ""},
		{map[string]string{"grid": "4x1", "order": "777", "block": "7"}, 4, GB, 777, 4, 1, ""},
		{map[string]string{"grid": "2x4"}, 4, GB, 0, 0, 0, "8 processes, and there are 4 CPUs"},
		{map[string]string{"order": "100"}, 4, GB, 0, 0, 0, "larger than the matrix"},
		{nil, 4, 10_000, 0, 0, 0, "not one of them fits"},
	} {
		p := newHPL().(*HPL)
		roomtest.Assign(t, p.Flags, c.set)
		s, err := p.problem(c.processes, c.memory)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%v: %v, want %q", c.set, err, c.wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", c.set, err)
		} else if s.Order != c.order || s.Rows != c.rows || s.Columns != c.columns || s.Order%s.Block != 0 {
			t.Errorf("%v, %d processes: %+v", c.set, c.processes, *s)
		}
	}
	for _, bad := range []string{"2", "2x", "0x4", "axb", "2x2x2", "-1x-4"} {
		if err := new(grid).Set(bad); err == nil {
			t.Errorf("grid %q is one", bad)
		}
	}
}

func TestHPLParameters(t *testing.T) {
	here := &lab.Testbed{Facts: lab.Facts{Topology: lab.Here, CPUs: []int{0}}}
	p := newHPL().(*HPL)
	if err := p.Check(here); err != nil {
		t.Error(err)
	}
	if n, d := p.Estimate(); n != 4 || d > 3*time.Minute {
		t.Errorf("%d trials in %v", n, d)
	}
	roomtest.Assign(t, p.Flags, map[string]string{"grid": "1x2"})
	if err := p.Check(here); err == nil || !strings.Contains(err.Error(), "2 processes, and there are 1 CPUs") {
		t.Error(err)
	}
	if _, err := p.Run(t.Context(), roomtest.Env(nil, nil)); err == nil {
		t.Error("a grid of two processes ran on one CPU")
	}
	q := newHPL().(*HPL)
	roomtest.Assign(t, q.Flags, map[string]string{"order": "900000"})
	var missing *host.Missing
	if _, err := q.Run(t.Context(), roomtest.Env(nil, nil)); !errors.As(err, &missing) {
		t.Errorf("a matrix of 6.5 TB: %v", err)
	}
	for _, m := range hplMetrics {
		declared.Pick(m.Name) // panics where the table of metrics lacks it
	}
}
