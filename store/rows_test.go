// SPDX-License-Identifier: Apache-2.0

package store

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"boxdyno/internal/testutil"
)

// A history of many runs costs little for each of them, and what is no index of ours is an error
// that says what to do.
func TestRowsOfAHistory(t *testing.T) {
	testutil.Computed(t)
	const runs = 2000
	x := open(t, filepath.Join(t.TempDir(), "index.db"))
	if err := x.write(t.Context(), func(tx *sql.Tx) error {
		statements := []string{
			`INSERT INTO environments (key, pairs) VALUES (1, '[{"key":"kernel","value":"6.12"}]')`,
			`INSERT INTO series (key, metric, unit, better, settings) VALUES (1, 'throughput_fps', 'frame/s', 1, '[]')`,
		}
		for n := range runs {
			statements = append(statements,
				fmt.Sprintf(`INSERT INTO runs (key, id, start_ns, version, role, preset, topology, box, kind, machine, board, procedures, points, invalid, trials, unfinished, verdict, sentence, environment)
					VALUES (%d, 'run%d', %d, '1.0', '', 'quick', 'mem', 'a', 'memory', 'a', '', 'forward', 1, 0, 1, 0, 'passed', '', 1)`, n*7919%runs, n, n),
				fmt.Sprintf(`INSERT INTO bundles (host, dir, stamp, run, tags, problem) VALUES ('a', '/runs/%d', '', %d, '', '')`, n, n*7919%runs),
				fmt.Sprintf(`INSERT INTO figures (series, run, ordinal, value, bound) VALUES (1, %d, 0, %d, '')`, n*7919%runs, 1000+n%5))
		}
		for _, s := range statements {
			if _, err := tx.Exec(s); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	h := history(t, x, Query{Metric: "throughput_fps"})
	for n, p := range h.Series[0].Points {
		if p.Run != fmt.Sprint("run", n) || p.Dir != fmt.Sprint("/runs/", n) || p.Value != float64(1000+n%5) {
			t.Fatalf("point %d is %+v", n, p)
		}
	}
	if each := testing.AllocsPerRun(3, func() { history(t, x, Query{Metric: "throughput_fps"}) }) / runs; each > 17 {
		t.Errorf("%.1f allocations a run", each)
	}
	if _, err := x.db.Exec(`UPDATE figures SET value = 'much' WHERE run = 7`); err != nil {
		t.Fatal(err)
	}
	if _, err := x.History(t.Context(), Query{Metric: "throughput_fps"}); err == nil || !strings.Contains(err.Error(), "boxdyno index --rebuild") {
		t.Error(err)
	}
}
