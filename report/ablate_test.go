// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"boxdyno/report"
	"boxdyno/report/page"
	"boxdyno/result"
	"boxdyno/unit"
)

// A model is a made-up box: the factor by which each knob that is on changes its rate
// of 1 Mframe/s; on holds their names.
type model func(on map[string]bool) float64

// ablationOfModel is the run that takes a recipe of knobs apart on such a box, whose
// repeats scatter by 2 %.
func ablationOfModel(knobs []string, repeats int, m model) (result.Run, []result.Record) {
	run, _ := report.Firewall()
	run.ID, run.Role, run.Criteria, run.Warnings = "20260314T092653Z-ablate", "", nil, nil
	run.Command = []string{"boxdyno", "tune", "ablate", "./mine.yaml", "--set", "service=route,nat"}
	run.NotMeasured, run.Deviations, run.Backend = nil, nil, nil
	run.Metrics = []result.Metric{{Name: "forwarding_rate_fps", Unit: "frame/s", Better: 1, Help: "what came out under overload"}}
	run.Recipe = json.RawMessage(`{"name":"mine"}`)
	run.Ablation = &result.Ablation{Metric: "forwarding_rate_fps"}
	for _, k := range knobs {
		run.Ablation.Knobs = append(run.Ablation.Knobs, result.Ablated{Name: k, Knob: k, Target: "{port}", Value: "1"})
	}
	all := map[string]bool{}
	for _, k := range knobs {
		all[k] = true
	}
	parts := map[string]map[string]bool{result.Full: all, result.None: {}}
	for i, k := range knobs {
		rest := map[string]bool{}
		for o := range all {
			rest[o] = o != k
		}
		parts[run.Ablation.Without(i)], parts[run.Ablation.Only(i)] = rest, map[string]bool{k: true}
	}
	names := make([]string, 0, len(parts))
	for n := range parts {
		names = append(names, n)
	}
	slices.Sort(names)
	random := rand.New(rand.NewPCG(1, 2))
	var recs []result.Record
	for r := 1; r <= repeats; r++ {
		for _, i := range random.Perm(len(names)) {
			for _, service := range []string{"route", "nat"} {
				rate := 1e6 * m(parts[names[i]]) * (1 + 0.02*random.NormFloat64())
				if service == "nat" {
					rate *= 0.7
				}
				now := unit.Instant(len(recs)) * 1e9
				recs = append(recs, result.Record{
					Schema: result.Schema, ID: fmt.Sprintf("forward/%s/64/tune=%s#%d", service, names[i], r), Procedure: "forward", Repeat: r,
					Config: []result.Pair{{Key: "service", Value: service}, {Key: "direction", Value: "lan-to-wan"}, {Key: "frame_size", Value: "64"}, {Key: "flows", Value: "1"}, {Key: result.TuneKey, Value: names[i]}},
					Begin:  now, End: now + 5e8, Status: result.Passed,
					Values: []result.Value{{Metric: "forwarding_rate_fps", Unit: "frame/s", Value: rate, N: 2}, {Metric: "offered_fps", Unit: "frame/s", Value: 6e6, N: 2}},
				})
			}
		}
	}
	return run, recs
}

// ablationRun has a knob that helps, one that harms, two that help together alone, and
// two that do nothing.
func ablationRun() (result.Run, []result.Record) {
	run, recs := ablationOfModel([]string{"mtu", "gro", "key", "door", "sysctl:net.ipv4.tcp_rmem", "txqueuelen"}, 12, func(on map[string]bool) float64 {
		f := 1.0
		if on["mtu"] {
			f *= 1.4
		}
		if on["gro"] {
			f *= 0.88
		}
		if on["key"] && on["door"] {
			f *= 1.2
		}
		return f
	})
	run.Ablation.Untested = []result.Ablated{
		{Name: "rings", Knob: "rings", Target: "{port}", Value: "rx=4096", Reason: "lan: not supported here (operation not supported)"},
		{Name: "channels", Knob: "channels", Target: "{port}", Value: "rx=1 tx=1", Reason: "it is rx=1 tx=1 already"},
	}
	return run, recs
}

func TestAblation(t *testing.T) {
	run, recs := ablationRun()
	a := report.Summarized(run, recs).Ablation
	want := map[string][2]string{
		"mtu": {report.Better, report.Better}, "gro": {report.Worse, report.Worse}, "key": {report.Better, report.Alike}, "door": {report.Better, report.Alike},
		"sysctl:net.ipv4.tcp_rmem": {report.Alike, report.Alike}, "txqueuelen": {report.Alike, report.Alike},
	}
	if len(a.Places) != 2 || a.Count != 2*(2*6+1) {
		t.Fatalf("%d places, %d comparisons", len(a.Places), a.Count)
	}
	for _, p := range a.Places {
		if p.Whole.Verdict != report.Better || p.Whole.Effect < 0.4 || p.Whole.Effect > 0.55 {
			t.Errorf("%s: the whole recipe: %s %.2f, want 1.4 x 0.88 x 1.2 - 1", p.Name, p.Whole.Verdict, p.Whole.Effect)
		}
		for _, k := range p.Knobs {
			if got := [2]string{k.In.Verdict, k.Alone.Verdict}; got != want[k.Knob.Name] {
				t.Errorf("%s: %s is %v, want %v", p.Name, k.Knob.Name, got, want[k.Knob.Name])
			}
		}
		if e := p.Knobs[0].In; e.Effect < 0.37 || e.Effect > 0.43 || *e.Lo > 0.4 || *e.Hi < 0.4 {
			t.Errorf("%s: mtu adds %.3f [%.3f, %.3f], want 0.4", p.Name, e.Effect, *e.Lo, *e.Hi)
		}
	}
	if report.Names(a.Best) != "mtu, key, door" || report.Names(a.Harm) != "gro" || len(a.Untested) != 2 {
		t.Errorf("best %v, harm %v, untested %v", a.Best, a.Harm, a.Untested)
	}
	advice := strings.Join(a.Advice, " ")
	for _, s := range []string{"Best subset: mtu, key, door.", "Leave out gro", "of 64 subsets of 6 knobs, 14 were measured", "key: it is better in the recipe, and alone nothing was found"} {
		if !strings.Contains(advice, s) {
			t.Errorf("the advice lacks %q: %s", s, advice)
		}
	}
}

// The same box in all parts of the recipe: knobs that do nothing are called ~.
func TestAblationOfNothing(t *testing.T) {
	run, recs := ablationOfModel([]string{"a", "b", "c"}, 12, func(map[string]bool) float64 { return 1 })
	d := report.Summarized(run, recs)
	if len(d.Ablation.Best)+len(d.Ablation.Harm) > 0 || !strings.Contains(d.Sentence, "of 3 knobs 3 ~; the whole recipe ~") || d.Verdict != result.Passed {
		t.Errorf("%s: %s", d.Verdict, d.Sentence)
	}
}

// Of one knob or two, parts of the recipe are the same: each comparison counts once.
func TestAblationOfFew(t *testing.T) {
	helps := func(on map[string]bool) float64 {
		if on["a"] {
			return 1.3
		}
		return 1
	}
	for knobs, comparisons := range map[int]int{1: 1, 2: 5} {
		run, recs := ablationOfModel([]string{"a", "b"}[:knobs], 10, helps)
		a := report.Summarized(run, recs).Ablation
		if a.Count != 2*comparisons || report.Names(a.Best) != "a" {
			t.Errorf("%d knobs: %d comparisons, best %v", knobs, a.Count, a.Best)
		}
		if k := a.Places[0].Knobs[0]; k.In.Verdict != report.Better || k.Alone.Verdict != report.Better || k.In.PHolm == nil || k.Alone.PHolm == nil {
			t.Errorf("%d knobs: %+v", knobs, k)
		}
	}
}

// Too few repeats, and a part of which no repeat is valid, are said in words.
func TestAblationOfTooLittle(t *testing.T) {
	run, recs := ablationOfModel([]string{"a", "b", "c"}, 2, func(map[string]bool) float64 { return 1 })
	d := report.Summarized(run, recs)
	if d.Verdict != result.Invalid || d.Ablation.Places[0].Knobs[0].In.Verdict != report.TooFew || !strings.Contains(printed(t, d), "2 and 2 repeats are too few") {
		t.Errorf("%s: %s", d.Verdict, d.Sentence)
	}
	run, recs = ablationOfModel([]string{"a", "b", "c"}, 12, func(map[string]bool) float64 { return 1 })
	for i := range recs {
		if result.Get(recs[i].Config, result.TuneKey) == "without b" {
			recs[i].Status = result.Invalid
		}
	}
	d = report.Summarized(run, recs)
	b := d.Ablation.Places[0].Knobs[1]
	if b.In.Verdict != report.TooFew || b.Alone.Verdict != report.Alike || d.Ablation.Invalid != 24 || !strings.Contains(printed(t, d), "a side has no valid repeat") {
		t.Errorf("%d invalid, %+v", d.Ablation.Invalid, b.In)
	}
	d = report.Summarized(run, nil)
	var shown bytes.Buffer
	if err := page.Write(&shown, d, nil); err != nil || d.Ablation == nil {
		t.Error("a run that broke off before its first point has no page:", err)
	}
}
