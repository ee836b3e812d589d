// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"strings"
	"testing"

	"boxdyno/report"
	"boxdyno/result"
)

// HPL's row names what it is of, and has published figures of single nodes beside it.
func TestHPLRows(t *testing.T) {
	run, recs := workRun()
	run.Metrics = []result.Metric{{Name: "hpl_rate", Unit: "flop/s", Better: 1, Help: "operations a second"}}
	point, trial := recs[1], recs[0]
	for _, r := range []*result.Record{&point, &trial} {
		r.Procedure, r.ID, r.Parent = "hpl", strings.Replace(r.ID, "cpu/", "hpl/", 1), strings.Replace(r.Parent, "cpu/", "hpl/", 1)
		r.Copies = nil
	}
	cfg := []result.Pair{{Key: "blas", Value: "openblas"}, {Key: "parallel", Value: "all"}, {Key: "grid", Value: "auto"}, {Key: "order", Value: "0"}, {Key: "block", Value: "64"}}
	point.Config = cfg
	trial.Config = append(cfg[:len(cfg):len(cfg)], result.Pair{Key: "trial", Value: "1"}, result.Pair{Key: "on_cpus", Value: "0-3"}, result.Pair{Key: "N", Value: "3136"}, result.Pair{Key: "PxQ", Value: "2x2"})
	point.Values = []result.Value{{Metric: "hpl_rate", Unit: "flop/s", Value: 3.1e9}, {Metric: "hpl_order", Unit: "1", Value: 3136}}
	got := printed(t, report.Summarized(run, []result.Record{trial, point}))
	for _, want := range []string{
		"openblas all 64 3.10 Gflop/s 3 136", "N 3136, PxQ 2x2",
		"published of a MRD Ryzen 7 2700: 20.48 Gflop/s by one node", "NUC i5-8500T: 16.51", "Pi 3B+ cluster: 3.4 Gflop/s by one node",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "44.1") {
		t.Errorf("a cluster's sum is beside one node:\n%s", got)
	}
}
