// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/result"
)

func history(t *testing.T, x *Index, q Query) History {
	t.Helper()
	h, err := x.History(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// where are settings as --where has them.
func where(words ...string) (pairs []result.Pair) {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		pairs = append(pairs, result.Pair{Key: key, Value: value})
	}
	return pairs
}

func TestHistory(t *testing.T) {
	each(t, func(t *testing.T, x *Index, _ string) {
		runs := t.TempDir()
		for n := range 12 {
			fps := 1e6 + float64(n%3)*1000
			if n >= 7 {
				fps *= 0.9
			}
			three := []result.Record{aPoint("64", 1, fps-5), aPoint("64", 2, fps), aPoint("64", 3, fps+5), aPoint("512", 1, 3e5)}
			if n == 2 { // a bound, which is in no level
				three = three[:1]
				three[0].Values[0].Bound = result.AtLeast
			}
			keep(t, filepath.Join(runs, fmt.Sprint(n)), aRun(n, func(r *result.Run) {
				if n >= 5 {
					r.Version = "1.1"
				}
				if n >= 7 {
					r.Machines[0].Kernel = "6.12"
				}
				if n == 11 {
					r.Kind = "real"
				}
			}), three...)
		}
		update(t, x, Scan{Dirs: []string{runs}})

		// What differs is named, and never mixed.
		h := history(t, x, Query{Metric: "throughput_fps"})
		same(t, "varies", h.Varies, []Varying{{"kind", []string{"real", "sandbox"}}, {"frame_size", []string{"64", "512"}}})
		points := map[string]int{}
		for _, s := range h.Series {
			points[result.Get(s.Settings, "kind")+" "+result.Get(s.Settings, "frame_size")] = len(s.Points)
		}
		same(t, "series", points, map[string]int{"real 64": 1, "real 512": 1, "sandbox 64": 11, "sandbox 512": 10})

		// Of several boxes each has its own series, and those of others have none.
		keep(t, filepath.Join(runs, "pi5"), aRun(20, func(r *result.Run) { r.Box = "pi5" }), aPoint("64", 1, 2e6))
		keep(t, filepath.Join(runs, "pi6"), aRun(21, func(r *result.Run) { r.Box = "pi6" }), aPoint("64", 1, 3e6))
		update(t, x, Scan{Dirs: []string{runs}})
		h = history(t, x, Query{Metric: "throughput_fps", Boxes: []string{"pi5", "pi6", "none"}})
		same(t, "varies", h.Varies, []Varying{{"box", []string{"pi5", "pi6"}}})
		if _, err := x.History(t.Context(), Query{Metric: "throughput_fps", Boxes: []string{"none", "neither"}}); err == nil || !strings.Contains(err.Error(), "of the boxes none, neither") {
			t.Error(err)
		}

		h = history(t, x, Query{Metric: "throughput_fps", Boxes: []string{"lab"}, Procedure: "forward", Where: where("frame_size=64", "kind=sandbox")})
		if len(h.Series) != 1 || len(h.Varies) != 0 {
			t.Fatalf("%d series, %+v", len(h.Series), h.Varies)
		}
		s := h.Series[0]
		if s.Unit != "frame/s" || s.Better != 1 || len(s.Points) != 11 {
			t.Errorf("%+v", s)
		}
		if p := s.Points[0]; p.Value != 1e6 || *p.Lo != 1e6-5 || *p.Hi != 1e6+5 || p.N != 3 || p.Run != "run000" || p.Bound != result.Exactly || p.Environment != nil {
			t.Errorf("%+v", p)
		}
		if p := s.Points[2]; p.Bound != result.AtLeast || p.N != 1 {
			t.Errorf("%+v", p)
		}
		same(t, "environment", s.Points[5].Environment, []Difference{{"boxdyno", "1.0", "1.1"}})
		same(t, "environment", s.Points[7].Environment, []Difference{{"kernel", "6.1 aarch64", "6.12 aarch64"}})
		if len(s.Levels) != 2 || s.Levels[0].Version != "1.0" || s.Levels[0].N != 4 || s.Levels[0].Lo != nil || s.Levels[1].N != 6 || s.Levels[1].Lo == nil {
			t.Errorf("%+v", s.Levels)
		}
		if len(s.Changes) != 1 || s.Changes[0].Run != "run007" || !s.Changes[0].Worse || s.Changes[0].Better || s.Changes[0].At != 7 {
			t.Fatalf("%+v", s.Changes)
		}
		same(t, "with the change", s.Changes[0].Environment, []Difference{{"kernel", "6.1 aarch64", "6.12 aarch64"}})
		why := s.Regression("throughput_fps", 0)
		for _, want := range []string{"throughput_fps is worse since run007: -10.0 %, from 1.001e+06 to 9.009e+05 frame/s, in the last 4 runs", "kernel 6.1 aarch64 -> 6.12 aarch64"} {
			if !strings.Contains(why, want) {
				t.Errorf("%q lacks %q", why, want)
			}
		}
		if s.Regression("", 0.2) != "" {
			t.Error("10 % are more than 20 %")
		}
		notes := strings.Join(s.Notes, "\n")
		if !strings.Contains(notes, "1 of 11 figures are bounds") || !strings.Contains(notes, "differs in most runs: pid") {
			t.Errorf("%q", notes)
		}
		if notes := history(t, x, Query{Metric: "throughput_fps", Where: where("frame_size=64", "kind=real")}).Series[0].Notes; !slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, "1 run is too few to tell") }) {
			t.Errorf("of one run: %q", notes)
		}
		// Latency rose with it: less is better.
		if s := history(t, x, Query{Metric: "latency_s", Where: where("frame_size=64", "kind=sandbox")}).Series[0]; len(s.Changes) != 1 || !s.Changes[0].Worse {
			t.Errorf("%+v", s.Changes)
		}
		// From the change on there is none, and too few runs for any.
		s = history(t, x, Query{Metric: "throughput_fps", Where: where("frame_size=64", "kind=sandbox"), Since: day(7)}).Series[0]
		if len(s.Points) != 4 || s.Changes != nil || s.Judged() || s.Regression("", 0) != "" {
			t.Errorf("%+v", s)
		}
		if s := history(t, x, Query{Metric: "throughput_fps", Where: where("frame_size=64"), Until: day(7)}).Series[0]; len(s.Points) != 7 || !s.Judged() {
			t.Errorf("%d points", len(s.Points))
		}
		for _, c := range []struct {
			q    Query
			want string
		}{
			{Query{Metric: "nothing"}, "the runs have latency_s, throughput_fps"}, {Query{Metric: "throughput_fps", Boxes: []string{"pi"}}, "with box=pi: box is lab"},
			{Query{Metric: "throughput_fps", Where: where("frame_size=65")}, "frame_size is 64, 512"}, {Query{Metric: "throughput_fps", Since: day(99)}, "in that time"},
		} {
			if _, err := x.History(context.Background(), c.q); !errors.Is(err, ErrNoSeries) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c.q, err)
			}
		}
	})
}

// A recipe, and a preset that the points do not name, make series of their own. A setting
// of a point cannot pass for one of the run.
func TestSettings(t *testing.T) {
	r := aPoint("64", 1, 1)
	r.Config = []result.Pair{{Key: "box", Value: "other"}, {Key: "frame_size", Value: "64"}}
	got := SettingsOf(aRun(1, func(r *result.Run) { r.Recipe = []byte(`{"name":"fast"}`) }), r)
	same(t, "settings", got, where("procedure=forward", "box=lab", "kind=sandbox", "topology=sandbox", "preset=quick", "tune=fast", "point.box=other", "frame_size=64"))
}

// Runs of a version without a parameter, and runs with what it was then, are one series.
func TestUnsaidSettings(t *testing.T) {
	x, runs := open(t, filepath.Join(t.TempDir(), "i.db")), t.TempDir()
	for i, config := range []string{"frame_size=64", "frame_size=64 vlan=0 dut_cpus=1", "frame_size=64 vlan=7 dut_cpus=1"} {
		r := aPoint("64", 1, float64(i+1))
		r.Config = where(strings.Fields(config)...)
		keep(t, filepath.Join(runs, fmt.Sprint(i)), aRun(i+1, nil), r)
	}
	update(t, x, Scan{Dirs: []string{runs}})
	for want, conditions := range map[int][]string{2: {"vlan=0", "dut_cpus=1"}, 1: {"vlan=7"}} {
		h, err := x.History(t.Context(), Query{Metric: "throughput_fps", Where: where(conditions...)})
		if err != nil || len(h.Series) != 1 || len(h.Series[0].Points) != want {
			t.Errorf("%v: %+v, %v", conditions, h, err)
		}
	}
	h, err := x.History(t.Context(), Query{Metric: "throughput_fps"})
	if err != nil || len(h.Varies) != 1 || h.Varies[0].Key != "vlan" || !slices.Equal(h.Varies[0].Values, []string{"0", "7"}) {
		t.Errorf("%+v, %v", h.Varies, err)
	}
}

// Of 100 series of 30 runs with a noise of 2 %, a drop of 5 % alarms in 95 or more; without
// one, 5 or fewer alarm.
func TestAlarms(t *testing.T) {
	testutil.Computed(t)
	const seed, series, n = 2024, 100, 30
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for _, drop := range []float64{0.05, 0} {
		x, runs := open(t, filepath.Join(t.TempDir(), "i.db")), t.TempDir()
		var at []int
		for range series {
			at = append(at, 8+random.IntN(15))
		}
		for run := range n {
			var points []result.Record
			for i := range series {
				v := 1e6 * (1 + 0.02*random.NormFloat64())
				if run >= at[i] {
					v *= 1 - drop
				}
				points = append(points, aPoint(fmt.Sprint(i), 1, v))
			}
			keep(t, filepath.Join(runs, fmt.Sprint(run)), aRun(run, nil), points...)
		}
		update(t, x, Scan{Dirs: []string{runs}})
		alarms := 0
		h := history(t, x, Query{Metric: "throughput_fps"})
		for _, s := range h.Series {
			if s.Regression(h.Metric, 0) != "" {
				alarms++
			}
		}
		t.Logf("a drop of %g: %d of %d series alarm", drop, alarms, len(h.Series))
		if len(h.Series) != series || drop > 0 && alarms < 95 || drop == 0 && alarms > 5 {
			t.Errorf("a drop of %g: %d of %d series alarm", drop, alarms, len(h.Series))
		}
	}
}
