// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"boxdyno/internal/testutil"
	"boxdyno/report"
	"boxdyno/report/compare"
	"boxdyno/report/internal/grid"
	"boxdyno/result"
	"boxdyno/stat"
	"boxdyno/unit"
)

// stalling scatters as rates of small machines do: about 1 by spread, with a
// heavy tail below, for one repeat in ten stands still for a while.
func stalling(r *rand.Rand, spread float64) float64 {
	if r.IntN(10) == 0 {
		return math.Exp(-spread * (3 + 5*r.ExpFloat64()))
	}
	return math.Exp(spread * r.NormFloat64())
}

var comparedMetrics = []result.Metric{
	{Name: "throughput_fps", Unit: "frame/s", Better: 1}, {Name: "throughput_bps", Unit: "bit/s", Better: 1},
	{Name: "forwarding_rate_fps", Unit: "frame/s", Better: 1}, {Name: "ceiling_fps", Unit: "frame/s", Better: 1},
	{Name: "latency_p50_s", Unit: "s", Better: -1},
}

var measuredSizes = []string{"64", "imix"}

// oneRun is a run with one repeat of two frame sizes; the box's speed is a share
// of some other's.
func oneRun(r *rand.Rand, id string, start time.Time, speed, spread float64) report.Kept {
	run := result.Run{Version: "v1", ID: id, Start: start, Preset: "quick", Topology: "sandbox", Kind: "sandbox", Metrics: comparedMetrics, Seed: 7,
		Machines:     []result.Machine{{Name: "m", CPU: "C", CPUs: 2, Kernel: "6.1", Machine: "x86_64", Userland: "amd64", BootID: "b"}},
		Environments: [][]result.Pair{{{Key: "governor", Value: "performance"}, {Key: "placement", Value: "split"}}},
		Plan:         json.RawMessage(`{"lab":{"use":"sandbox","mtu":1500},"seed":7,"procedures":[{"use":"forward"}]}`)}
	var recs []result.Record
	for i, size := range measuredSizes {
		scale := speed / float64(i+1)
		limit := 4e5 * scale * stalling(r, spread)
		recs = append(recs, result.Record{ID: size, Procedure: "forward", Repeat: 1, Status: result.Passed,
			Config: []result.Pair{{Key: "service", Value: "route"}, {Key: "frame_size", Value: size}},
			Values: []result.Value{
				{Metric: "throughput_fps", Unit: "frame/s", Value: limit},
				{Metric: "throughput_bps", Unit: "bit/s", Value: limit * float64(512*(i+1))},
				{Metric: "forwarding_rate_fps", Unit: "frame/s", Value: 1e6 * scale * stalling(r, spread)},
				{Metric: "ceiling_fps", Unit: "frame/s", Value: 9e6},
				{Metric: "latency_p50_s", Unit: "s", Value: 12e-6 / speed * stalling(r, spread)},
			}})
	}
	return report.Kept{Document: report.Summarized(run, recs), Records: recs}
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// inTurn are n runs of a box and n of another, speed times as fast, measured in
// turn.
func inTurn(r *rand.Rand, n int, speed, spread float64) []report.Side {
	a, b := report.Side{Name: "A"}, report.Side{Name: "B"}
	for i := range n {
		at := epoch.Add(time.Duration(2*i) * time.Minute)
		a.Runs = append(a.Runs, oneRun(r, fmt.Sprint("a", i), at, 1, spread))
		b.Runs = append(b.Runs, oneRun(r, fmt.Sprint("b", i), at.Add(time.Minute), speed, spread))
	}
	return []report.Side{a, b}
}

func found(c report.Comparison) (better, worse int) {
	for _, m := range c.Metrics {
		for _, r := range m.Rows {
			switch r.Verdict {
			case report.Better:
				better++
			case report.Worse:
				worse++
			}
		}
	}
	return better, worse
}

func mustCompare(t *testing.T, sides []report.Side, ignore ...string) report.Comparison {
	t.Helper()
	c, err := report.Compare("v1", sides, ignore)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Of two boxes that are the same, all six figures together say ~ in at least 90
// of 100 shuffled comparisons, at every scatter seen.
func TestSameBoxIsAlike(t *testing.T) {
	testutil.Computed(t)
	draws := testutil.Cases(100)
	for _, spread := range []float64{0.01, 0.03, 0.07} {
		r := rand.New(rand.NewPCG(21, uint64(spread*100)))
		alike := 0
		for range draws {
			const n = 8
			sides := inTurn(r, n, 1, spread)
			all := slices.Concat(sides[0].Runs, sides[1].Runs)
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			sides[0].Runs, sides[1].Runs = all[:n], all[n:]
			c := mustCompare(t, sides)
			if c.Count != 6 {
				t.Fatalf("%d comparisons", c.Count)
			}
			if better, worse := found(c); better+worse == 0 {
				alike++
			}
		}
		t.Logf("scatter %g: ~ in %d of %d", spread, alike, draws)
		if alike*10 < draws*9 {
			t.Errorf("scatter %g: only %d of %d comparisons of a box with itself say ~", spread, alike, draws)
		}
	}
}

// Of a box that is 5 % slower each rate is found slower in at least 90 of 100
// comparisons with as many repeats as are stated.
func TestSlowerBoxIsFound(t *testing.T) {
	testutil.Computed(t)
	draws := testutil.Cases(100)
	for _, spread := range []float64{0.01, 0.03, 0.07} {
		n := stat.RepeatsFor(0.05, spread, 6)
		r := rand.New(rand.NewPCG(22, uint64(n)))
		seen, wrong := 0, 0
		for range draws {
			c := mustCompare(t, inTurn(r, n, 0.95, spread))
			better, _ := found(c)
			wrong += better
			if row := c.Metrics[1].Rows[0]; c.Metrics[1].Name != "forwarding_rate_fps" {
				t.Fatalf("the second metric is %s", c.Metrics[1].Name)
			} else if row.Verdict == report.Worse && row.Effect < 0 {
				seen++
			}
		}
		t.Logf("scatter %g: %d repeats find it in %d of %d", spread, n, seen, draws)
		if seen*10 < draws*9 || wrong > 0 {
			t.Errorf("scatter %g: %d repeats find a box 5 %% slower in %d of %d, and better in %d", spread, n, seen, draws, wrong)
		}
	}
}

// values sets a metric of one side's points of 64 octets.
func values(s report.Side, metric string, f func(i int, v *result.Value)) {
	for i, k := range s.Runs {
		f(i, k.Records[0].Value(metric))
	}
}

func rowOfMetric(t *testing.T, c report.Comparison, metric string) report.ComparedRow {
	t.Helper()
	for _, m := range c.Metrics {
		if m.Name == metric {
			return m.Rows[0]
		}
	}
	t.Fatalf("%s is not compared", metric)
	return report.ComparedRow{}
}

func TestDirectionIsTheMetrics(t *testing.T) {
	c := mustCompare(t, inTurn(rand.New(rand.NewPCG(1, 1)), 12, 1.3, 0.01))
	for metric, want := range map[string]bool{"throughput_fps": true, "forwarding_rate_fps": true, "latency_p50_s": false} {
		r := rowOfMetric(t, c, metric)
		if r.Verdict != report.Better || (r.Effect > 0) != want || !r.Relative || *r.PHolm < *r.P {
			t.Errorf("%s of a faster box: %+v", metric, r)
		}
	}
	if len(c.Metrics) != 3 || !slices.Equal(c.Metrics[0].Also, []string{"throughput_bps"}) {
		t.Errorf("metrics %+v: want three, and bit/s counted with frame/s", c.Metrics)
	}
}

func TestBounds(t *testing.T) {
	make := func(speed float64, base, other result.Bound) report.ComparedRow {
		sides := inTurn(rand.New(rand.NewPCG(2, 2)), 8, speed, 0.01)
		values(sides[0], "forwarding_rate_fps", func(_ int, v *result.Value) { v.Bound = base })
		values(sides[1], "forwarding_rate_fps", func(_ int, v *result.Value) { v.Bound = other })
		return rowOfMetric(t, mustCompare(t, sides), "forwarding_rate_fps")
	}
	for _, c := range []struct {
		speed       float64
		base, other result.Bound
		verdict     string
		bound       result.Bound
	}{
		{0.8, result.AtLeast, result.AtLeast, report.BoundOnly, ""},
		{0.8, result.AtLeast, "", report.Worse, result.AtMost},
		{1.2, result.AtLeast, "", report.BoundOnly, ""},
		{1.2, "", result.AtLeast, report.Better, result.AtLeast},
		{0.8, "", result.AtLeast, report.BoundOnly, ""},
		{1, "", result.AtLeast, report.BoundOnly, ""},
		{0.8, "", "", report.Worse, ""},
	} {
		r := make(c.speed, c.base, c.other)
		if r.Verdict != c.verdict || r.Bound != c.bound {
			t.Errorf("at %g, %q against %q: %s %q, want %s %q", c.speed, c.base, c.other, r.Verdict, r.Bound, c.verdict, c.bound)
		}
	}
}

// What is invalid is in no figure, however large it is, and is counted.
func TestInvalidStaysOut(t *testing.T) {
	for _, status := range []result.Status{result.Invalid, result.Aborted, result.Skipped, result.Running} {
		sides := inTurn(rand.New(rand.NewPCG(3, 3)), 6, 1, 0.01)
		sides[1].Runs[2].Records[0].Status = status
		values(sides[1], "forwarding_rate_fps", func(i int, v *result.Value) {
			if i == 2 {
				v.Value = 9e9
			}
		})
		c := mustCompare(t, sides)
		r := rowOfMetric(t, c, "forwarding_rate_fps")
		if len(r.Other.Samples) != 5 || slices.Max(r.Other.Samples) > 1e8 || c.Sides[1].Invalid != 1 || !strings.Contains(strings.Join(c.Notes, ";"), "1 of 12 points of B is invalid") {
			t.Errorf("%s: samples %v, notes %q", status, r.Other.Samples, c.Notes)
		}
	}
	sides := inTurn(rand.New(rand.NewPCG(3, 3)), 1, 1, 0.01)
	for i := range sides[1].Runs[0].Records {
		sides[1].Runs[0].Records[i].Status = result.Invalid
	}
	if _, err := report.Compare("v1", sides, nil); !errors.Is(err, report.ErrNothingValid) {
		t.Errorf("of invalid points alone: %v", err)
	}
}

func TestTooFewIsSaid(t *testing.T) {
	c := mustCompare(t, inTurn(rand.New(rand.NewPCG(4, 4)), 3, 0.5, 0.01))
	r := rowOfMetric(t, c, "forwarding_rate_fps")
	if r.Verdict != report.TooFew || r.P != nil || c.Count != 0 || !strings.Contains(strings.Join(r.Warnings, ";"), "it takes 4 + 4") {
		t.Errorf("three repeats: %+v", r)
	}
	c = mustCompare(t, inTurn(rand.New(rand.NewPCG(4, 4)), 4, 0.5, 0.01))
	r = rowOfMetric(t, c, "forwarding_rate_fps")
	if r.Verdict != report.Alike || !strings.Contains(strings.Join(r.Warnings, ";"), "among 6 comparisons at once: it takes 5 + 5") {
		t.Errorf("four repeats of six figures: %+v", r)
	}
	c = mustCompare(t, inTurn(rand.New(rand.NewPCG(4, 4)), 6, 1, 0.07))
	r = rowOfMetric(t, c, "forwarding_rate_fps")
	if r.Verdict != report.Alike || !strings.Contains(strings.Join(r.Warnings, ";"), "to find a difference of 5 % in 90 % of all attempts takes") {
		t.Errorf("six repeats that scatter: %+v", r)
	}
}

func TestMatching(t *testing.T) {
	sides := inTurn(rand.New(rand.NewPCG(5, 5)), 6, 1, 0.01)
	for i := range sides[1].Runs {
		k := &sides[1].Runs[i]
		k.Records[0].Config = []result.Pair{{Key: "service", Value: "nat"}, {Key: "frame_size", Value: "64"}}
		k.Records = k.Records[:1]
	}
	_, err := report.Compare("v1", sides, nil)
	if err == nil || !strings.Contains(err.Error(), "service route against nat") || !strings.Contains(err.Error(), "--ignore service") {
		t.Errorf("of nothing in common: %v", err)
	}
	c := mustCompare(t, sides, "service")
	if len(c.Metrics[0].Rows) != 1 || !strings.Contains(strings.Join(c.Notes, ";"), "6 points of A have no counterpart and are left out") {
		t.Errorf("with service ignored: %d rows, notes %q", len(c.Metrics[0].Rows), c.Notes)
	}
	if _, err := report.Compare("v1", []report.Side{sides[0], {Name: "empty", Runs: []report.Kept{{}}}}, nil); err == nil || !strings.Contains(err.Error(), "empty has no point") {
		t.Errorf("of a run without points: %v", err)
	}
}

func TestDifferencesAndNotes(t *testing.T) {
	sides := inTurn(rand.New(rand.NewPCG(6, 6)), 6, 1, 0.01)
	if c := mustCompare(t, sides); len(c.Differences) != 0 || len(c.Notes) != 0 {
		t.Errorf("of the same in turn: %+v %q", c.Differences, c.Notes)
	}
	late := report.Side{Name: "late"}
	for i := range 6 {
		k := oneRun(rand.New(rand.NewPCG(7, uint64(i))), fmt.Sprint("l", i), epoch.Add(time.Hour), 1, 0.01)
		k.Document.Version, k.Document.Machines[0].Kernel = "v2", "6.9"
		k.Document.Environment[0].Before = "powersave"
		k.Document.Plan = json.RawMessage(`{"lab":{"use":"sandbox","mtu":9000},"seed":8}`)
		k.Document.Warnings = []string{"the machine was not idle"}
		k.Records[0].Value("ceiling_fps").Value = 5e6
		late.Runs = append(late.Runs, k)
	}
	c := mustCompare(t, []report.Side{sides[0], late})
	var keys []string
	for _, d := range c.Differences {
		keys = append(keys, d.Key+"="+strings.Join(d.Values, "|"))
	}
	if want := []string{"boxdyno=v1|v2", "kernel=6.1 x86_64|6.9 x86_64", "governor=performance|powersave", "plan.lab.mtu=1500|9000"}; !slices.Equal(keys, want) {
		t.Errorf("differences %q, want %q", keys, want)
	}
	notes := strings.Join(c.Notes, "\n")
	for _, want := range []string{"late: the machine was not idle", "A and late were measured one after the other", "the tester's own ceiling in late is up to -44 % off that in A"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes lack %q:\n%s", want, notes)
		}
	}
}

// overloads are the trials of one point that came to it visits times, twice each,
// searching in between.
func overloads(point string, rates ...float64) (recs []result.Record) {
	for i, v := range rates {
		for k := range 2 {
			recs = append(recs, result.Record{ID: fmt.Sprint(point, "/o", i, k), Parent: point, Procedure: "forward", Status: result.Failed,
				Config: []result.Pair{{Key: "service", Value: "route"}, {Key: "trial", Value: "overload"}}, Load: &result.Load{Forwarded: unit.FrameRate(v + float64(2*k-1))}})
		}
		recs = append(recs, result.Record{ID: fmt.Sprint(point, "/s", i), Parent: point, Status: result.Passed, Config: []result.Pair{{Key: "trial", Value: "search"}}})
	}
	return recs
}

func TestVisitsOfOneRun(t *testing.T) {
	recs := overloads("64", 1000, 1010, 990, 1005, 995)
	recs[3].Status, recs[3].Load.Forwarded = result.Invalid, 9e9
	if got := report.VisitRates("forwarding_rate_fps", "64", recs); !slices.Equal(got, []float64{1000, 1011, 990, 1005, 995}) {
		t.Errorf("visits %v", got)
	}
	if got := report.VisitRates("throughput_fps", "64", recs); got != nil {
		t.Errorf("throughput has no visits: %v", got)
	}
	sides := inTurn(rand.New(rand.NewPCG(8, 8)), 1, 1, 0.01)
	sides[0].Runs[0].Records = append(sides[0].Runs[0].Records, overloads("64", 1000, 1010, 990, 1005, 995)...)
	sides[1].Runs[0].Records = append(sides[1].Runs[0].Records, overloads("64", 900, 910, 890, 905, 895)...)
	c := mustCompare(t, sides)
	r := rowOfMetric(t, c, "forwarding_rate_fps")
	if r.Samples != "visits" || r.Verdict != report.Worse || math.Abs(r.Effect+0.1) > 0.005 || !strings.Contains(strings.Join(r.Warnings, ";"), "what shifts a whole run is not in them") {
		t.Errorf("visits of one run each: %+v", r)
	}
	if r := rowOfMetric(t, c, "throughput_fps"); r.Verdict != report.TooFew {
		t.Errorf("throughput measured once: %+v", r)
	}
	drop := result.Record{ID: "d", Parent: "x", Status: result.Passed, Config: []result.Pair{{Key: "service", Value: "drop-tc"}, {Key: "trial", Value: "overload"}},
		Phases:  []result.Phase{{Name: "traffic", Begin: 0, End: 500_000_000}},
		Account: &result.Account{Accepted: 100, Drops: []result.Term{{Place: result.TC, N: 100}}}}
	if got := report.VisitRates("drop_rate_fps", "x", []result.Record{drop}); !slices.Equal(got, []float64{200}) {
		t.Errorf("100 frames in half a second are thrown away at %v", got)
	}
}

// A level that moved while a configuration was measured is said beside its row.
func TestCourseIsInTheReport(t *testing.T) {
	run, recs := report.Firewall()
	point := recs[slices.IndexFunc(recs, func(r result.Record) bool { return r.Parent == "" && r.Procedure == "forward" })]
	recs = slices.DeleteFunc(recs, func(r result.Record) bool { return r.Parent == point.ID })
	recs = append(recs, overloads(point.ID, 100, 99, 98, 97, 96, 95, 94, 93)...)
	i := slices.IndexFunc(report.Summarized(run, recs).Rows, func(r report.Row) bool { return r.ID == point.ID })
	warnings := strings.Join(report.Summarized(run, recs).Rows[i].Warnings, ";")
	if !strings.Contains(warnings, "not stationary: ") || !strings.Contains(warnings, "8 readings under overload") {
		t.Errorf("a drift is not said: %q", warnings)
	}
}

func TestCompareGolden(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	sides := inTurn(r, 12, 0.93, 0.01)
	values(sides[0], "forwarding_rate_fps", func(i int, v *result.Value) {
		if i == 4 {
			v.Value /= 2
		}
	})
	third := report.Side{Name: "C"}
	for i := range 5 {
		k := oneRun(r, fmt.Sprint("c", i), epoch.Add(time.Hour), 1.2, 0.02)
		k.Document.Machines[0].Kernel = "6.9"
		k.Records[0].Value("forwarding_rate_fps").Bound = result.AtLeast
		third.Runs = append(third.Runs, k)
	}
	for name, sides := range map[string][]report.Side{"two": sides, "three": append(slices.Clone(sides), third)} {
		c := mustCompare(t, sides)
		for ext, f := range map[string]func(io.Writer, report.Comparison) error{".txt": compare.Terminal, ".md": compare.Markdown, ".csv": compare.CSV, ".json": compare.JSON} {
			if name != "three" && ext != ".txt" {
				continue
			}
			var b bytes.Buffer
			if err := f(&b, c); err != nil {
				t.Fatal(err)
			}
			text := b.Bytes()
			if ext == ".json" {
				text = folded(text)
			}
			golden(t, filepath.Join("testdata", "compare-"+name+ext), text)
			if ext != ".txt" {
				continue
			}
			for i, line := range strings.Split(b.String(), "\n") {
				if n := utf8.RuneCountInString(line); n > grid.Width {
					t.Errorf("%s line %d has %d columns: %s", name, i+1, n, line)
				}
			}
		}
	}
}

// Many settings that differ do not make a table wider than a terminal.
func TestManySettingsFit(t *testing.T) {
	sides := inTurn(rand.New(rand.NewPCG(10, 10)), 5, 1, 0.01)
	for _, s := range sides {
		for i := range s.Runs {
			s.Runs[i].Records = slices.Clone(s.Runs[i].Records)
			for j := range s.Runs[i].Records {
				cfg := &s.Runs[i].Records[j].Config
				*cfg = slices.Clone(*cfg)
				for k := range 5 {
					*cfg = append(*cfg, result.Pair{Key: fmt.Sprint("setting_", k), Value: fmt.Sprint("some value ", j)})
				}
			}
		}
	}
	var b bytes.Buffer
	if err := compare.Terminal(&b, mustCompare(t, sides)); err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(b.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > grid.Width {
			t.Errorf("line %d has %d columns: %s", i+1, n, line)
		}
	}
}
