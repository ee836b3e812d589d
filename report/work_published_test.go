// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"boxdyno/reference"
	"boxdyno/result"
)

// A published figure that can be laid beside one of ours is in its unit; those measured
// otherwise are left out.
func TestPublishedWorks(t *testing.T) {
	hpl := publication{experiment: "text_hpl", metric: "gflops", levels: []reference.Level{{Factor: "nodes", Value: "1"}}, words: "%g Gflop/s", ours: "hpl_rate", factor: 1e9}
	got := publishedWorks([]publication{hpl}, result.Record{})
	if len(got) != 4 || got[1].Box != "NUC i5-8500T" || got[1].Value < 16.50e9 || got[1].Value > 16.52e9 || got[1].Metric != "hpl_rate" || !strings.HasPrefix(got[1].Said, "D. Hawthorne") {
		t.Errorf("%+v", got)
	}
	hpl.box = "NUC i5-8500T"
	if got := publishedWorks([]publication{hpl}, result.Record{}); len(got) != 1 {
		t.Errorf("of one box: %+v", got)
	}
	hpl.source = "croce-pi4"
	if got := publishedWorks([]publication{hpl}, result.Record{}); len(got) != 0 {
		t.Errorf("of another source: %+v", got)
	}
	for _, w := range workTables {
		for _, a := range w.published {
			p := result.Record{Config: a.when}
			if len(publishedWorks([]publication{a}, p)) == 0 {
				t.Errorf("%s: there is no %s %s of %s", w.procedure, a.experiment, a.metric, a.source)
			}
			if a.when != nil && len(publishedWorks([]publication{a}, result.Record{})) != 0 {
				t.Errorf("%s: %s stands beside every row", w.procedure, a.words)
			}
		}
		if len(w.keys) != len(w.leave) {
			t.Errorf("%s: %d keys and %d values that are left out", w.procedure, len(w.keys), len(w.leave))
		}
	}
}
