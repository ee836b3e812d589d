// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"regexp"
	"strings"
	"testing"

	"boxdyno/result"
)

var sample = regexp.MustCompile(`^[a-z_]+(\{([a-z_]+="([^"\\\n]|\\[\\"n])*"(,|}))*)? -?[0-9.e+-]+$`)

// Each line is one of OpenMetrics, whatever a run is called.
func TestMetrics(t *testing.T) {
	runs := t.TempDir()
	b := bundle(t, runs, `a "run"\ with {names}`)
	trial(t, b, 1, result.Passed)
	r := result.Record{Schema: result.Schema, ID: "forward/route/64#1", Procedure: "forward", Config: []result.Pair{{Key: "service", Value: "route"}}, Start: begun, End: 1e9, Status: result.Passed,
		Values: []result.Value{{Metric: "throughput_fps", Value: 1234.5, N: 1}}}
	if err := b.Append(r); err != nil {
		t.Fatal(err)
	}
	b.Close()
	h := listening(t, opts(runs), "")
	await(t, "the run in the index", func() bool { return !h.listed(t.Context(), listBudget).More && len(h.runs.due()) == 0 })
	code, text := ask(t, "GET", h.url("/metrics"), "")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if code != 200 || lines[len(lines)-1] != "# EOF" {
		t.Fatalf("%d\n%s", code, text)
	}
	for _, l := range lines[:len(lines)-1] {
		if !strings.HasPrefix(l, "# TYPE ") && !strings.HasPrefix(l, "# HELP ") && !sample.MatchString(l) {
			t.Errorf("not a line of OpenMetrics: %s", l)
		}
	}
	for _, want := range []string{"boxdyno_runs_active 0", `run="a \"run\"\\ with {names}"`, `metric="throughput_fps"} 1234.5`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
