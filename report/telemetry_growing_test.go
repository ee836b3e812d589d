// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"boxdyno/report/timeline"
	"boxdyno/result"
)

// A timeline that was looked at after each batch is the one that is read at once.
func TestGrowingTimeline(t *testing.T) {
	run, recs, dir := boardRun(t, true)
	want, err := readTimeline(t, dir, run, recs)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, result.TelemetryFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g := timeline.NewGrowing(0, recs)
	if g.Timeline(run, recs) != nil {
		t.Error("nothing was added, and there is a timeline")
	}
	g.Trials(recs)
	var tail result.TelemetryTail
	n := 0
	if _, err := tail.Read(f, 1<<30, func(h result.TelemetryHead, b result.Batch) {
		if g.Add(h, b); n%20 == 0 {
			g.Timeline(run, recs)
		}
		n++
	}); err != nil {
		t.Fatal(err)
	}
	got := g.Timeline(run, recs)
	if a, b := marshalled(t, got), marshalled(t, want); a != b || n < 100 {
		t.Errorf("%d batches make\n%s\nwant\n%s", n, a, b)
	}
	// Its end alone, and a part of it in fewer steps.
	end := timeline.From(got, got.Steps-5)
	if end.First != got.Steps-5 || end.Steps != 5 || len(end.Panels[0].Lines[0].Mean) != 5 {
		t.Errorf("the last 5 steps are %d from %d", end.Steps, end.First)
	}
	w := timeline.Window(got, 0, got.Step*int64(got.Steps), 10)
	if w.Steps > 10 || w.Steps < 5 || w.First != 0 {
		t.Fatalf("%d steps from %d, want at most 10", w.Steps, w.First)
	}
	of := int(w.Step / got.Step)
	for i, p := range got.Panels {
		for j, l := range p.Lines {
			if l.Mean == nil {
				continue
			}
			hi := l.Hi
			if hi == nil {
				hi = l.Mean
			}
			most := math.Inf(-1)
			for _, v := range hi[:of] {
				most = math.Max(most, v)
			}
			if v := w.Panels[i].Lines[j].Hi[0]; v != most && !math.IsNaN(most) {
				t.Errorf("%s %s %s: greatest of the first step is %v, want %v", p.Kind, l.Row, l.Name, v, most)
			}
		}
	}
}

func marshalled(t *testing.T, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
