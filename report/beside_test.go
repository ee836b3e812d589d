// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
)

// besideRun has repeats of two services alone, beside a load that costs route's rate a
// fifth and nat's nothing, and heated, which costs a tenth.
func besideRun(repeats int) (result.Run, []result.Record) {
	rng := rand.New(rand.NewPCG(5, 5))
	run := result.Run{Version: "v1", ID: "r", Start: time.Unix(1e9, 0), Preset: "quick", Topology: "sandbox", Kind: "sandbox", Metrics: comparedMetrics,
		Warnings: []string{"by intention the machine is not idle"}}
	var recs []result.Record
	for n := range repeats {
		for _, service := range []string{"route", "nat"} {
			for _, c := range []struct {
				beside, heat string
				cost         map[string]float64
			}{{"cpu:1", "0", map[string]float64{"route": 0.8, "nat": 1}}, {"none", "0", map[string]float64{"route": 1, "nat": 1}}, {"none", "10m", map[string]float64{"route": 0.9, "nat": 0.9}}} {
				id := fmt.Sprintf("forward/%s/%s/%s#%d", service, c.beside, c.heat, n+1)
				cfg := []result.Pair{{Key: "service", Value: service}, {Key: "frame_size", Value: "64"}, {Key: "beside", Value: c.beside}, {Key: "beside_cpus", Value: "auto"}, {Key: "heat", Value: c.heat}}
				trial := result.Record{ID: id + "/1", Parent: id, Procedure: "forward", Config: cfg, Repeat: n + 1, Status: result.Passed}
				if c.beside != "none" {
					trial.Phases = []result.Phase{{Name: "beside", Begin: 1e9, End: 3e9}}
					trial.Usage = []result.Usage{{Subject: "stress-ng cpu", Phase: "beside", CPU: 1500 * time.Millisecond, PeakMemory: 5e6}}
				}
				recs = append(recs, trial, result.Record{ID: id, Procedure: "forward", Config: cfg, Repeat: n + 1, Status: result.Passed, Values: []result.Value{
					{Metric: "forwarding_rate_fps", Unit: "frame/s", Value: 1e6 * c.cost[service] * (1 + 0.004*rng.NormFloat64())},
					{Metric: "ceiling_fps", Unit: "frame/s", Value: 9e6},
				}})
			}
		}
	}
	return run, recs
}

func TestBesideEffect(t *testing.T) {
	d := report.Summarized(besideRun(8))
	if d.Beside == nil || len(d.Beside.Metrics) != 1 {
		t.Fatalf("%+v", d.Beside)
	}
	want := map[string]string{"route beside cpu:1": report.Worse, "nat beside cpu:1": report.Alike, "route heated 10m": report.Worse, "nat heated 10m": report.Worse}
	for _, r := range d.Beside.Metrics[0].Rows {
		name := result.Get(r.Config, "service") + " " + r.Side
		if want[name] != r.Verdict || r.Lo == nil {
			t.Errorf("%s: %s, %v", name, r.Verdict, r.Effect)
		}
		if (r.Effect > -0.19 || r.Effect < -0.21) && name == "route beside cpu:1" {
			t.Errorf("%s: %v", name, r.Effect)
		}
		if result.Get(r.Config, "beside") != "" {
			t.Errorf("%s: %v", name, r.Config)
		}
		delete(want, name)
	}
	if len(want) > 0 || d.Beside.Sides[0].Name != report.AloneName {
		t.Errorf("lacks %v; base %s", want, d.Beside.Sides[0].Name)
	}
	var terminal, mark bytes.Buffer
	if err := text.Terminal(&terminal, d); err != nil {
		t.Fatal(err)
	}
	if err := text.Markdown(&mark, d); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"Of 4 figures, 3 are worse; most of all forwarding_rate_fps of beside cpu:1 at service route", "-20.", "worse than alone",
		"beside cpu:1: stress-ng cpu had 0.75 CPUs while trials ran, and 5.00 MB of memory at most",
		"Effect of what ran beside, and of heat, forward at service nat", "route 64 B none 10m",
	} {
		if !strings.Contains(strings.Join(strings.Fields(terminal.String()), " "), s) {
			t.Errorf("the text lacks %q:\n%s", s, terminal.String())
		}
	}
	if !strings.Contains(mark.String(), "## Effect of what ran beside, and of heat\n") || !strings.Contains(mark.String(), `| \~ |`) {
		t.Errorf("in Markdown:\n%s", mark.String())
	}
	if strings.Contains(terminal.String(), "run in common") || strings.Count(terminal.String(), "by intention") != 1 {
		t.Errorf("the sides are of one run:\n%s", terminal.String())
	}
}

func TestBesideTooFew(t *testing.T) {
	d := report.Summarized(besideRun(2))
	for _, r := range d.Beside.Metrics[0].Rows {
		if r.Verdict != report.TooFew {
			t.Errorf("%s: %s", r.Side, r.Verdict)
		}
	}
	var terminal bytes.Buffer
	if err := text.Terminal(&terminal, d); err != nil || !strings.Contains(terminal.String(), "2 and 2 repeats are too few") {
		t.Errorf("%v\n%s", err, terminal.String())
	}
}

// A run in which nothing ran beside says nothing of it, and is compared with one of a
// version that did not know how.
func TestAloneIsUnsaid(t *testing.T) {
	run, recs := besideRun(4)
	var old, now []result.Record
	for _, r := range recs {
		if report.BesideWords(r.Config) == "" {
			now = append(now, r)
			r.Config = r.Config[:2]
			old = append(old, r)
		}
	}
	d := report.Summarized(run, now)
	if d.Beside != nil || d.Rows[0].Beside != "" {
		t.Errorf("alone: %+v", d.Rows[0])
	}
	c, err := report.Compare("v1", []report.Side{{Name: "old", Runs: []report.Kept{{Document: report.Summarized(run, old), Records: old}}}, {Name: "now", Runs: []report.Kept{{Document: d, Records: now}}}}, nil)
	if err != nil || len(c.Metrics) != 1 || len(c.Metrics[0].Rows) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}
