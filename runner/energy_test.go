// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/telemetry"
	"boxdyno/unit"
)

const idleWatts, loadWatts, framesPerSecond = 2.0, 7.25, 1000.0

// loadedRun measures the point of a fake box, of which set moves the power: it is loaded
// for a time in each of four trials, and forwards framesPerSecond.
func loadedRun(t *testing.T, f *fake, set func(watts float64), load time.Duration, specs ...telemetry.Spec) (result.Telemetry, []result.Record) {
	t.Helper()
	testutil.Privileged(t) // other kinds than memory take the measuring lock
	f.kind = "sandbox"
	set(idleWatts)
	f.trial = func(string) (procedure.Outcome, error) {
		set(loadWatts)
		defer set(idleWatts)
		time.Sleep(20 * time.Millisecond)
		begin := unit.Now()
		time.Sleep(load)
		return procedure.Outcome{
			Status: result.Passed, Load: &result.Load{Backend: "fake", Offered: framesPerSecond, Forwarded: framesPerSecond},
			Account: &result.Account{Accepted: 1, Received: 1}, Values: []result.Value{{Metric: "steps", Unit: "1", Value: 2}},
			Phases: []result.Phase{{Name: "traffic", Begin: begin, End: unit.Now()}},
		}, nil
	}
	c := f.catalogue()
	c.Procedures[0].Joules = []procedure.Joule{{Per: "frame", When: "always", Rate: func(_, trial result.Record) float64 {
		if trial.Load == nil {
			return 0
		}
		return float64(trial.Load.Forwarded)
	}}}
	c.Collectors = append(specs, named("reading"))
	run, recs, err := Run(t.Context(), resolved(t, c, "procedures: [probe]\ntelemetry: {rate: 50, reading: 5W idle}\n"), &memory{}, Options{Catalogue: c})
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Telemetry) != 1 || run.Telemetry[0].Reading != "5W idle" {
		t.Fatalf("what was typed in is not kept: %+v", run.Telemetry)
	}
	return run.Telemetry[0], slices.DeleteFunc(recs, func(r result.Record) bool { return r.Procedure != "probe" })
}

func named(collector string) telemetry.Spec {
	return telemetry.All[slices.IndexFunc(telemetry.All, func(s telemetry.Spec) bool { return s.Name == collector })]
}

func within1(got, want float64) bool { return math.Abs(got/want-1) <= 0.01 }

// A whole run beside an INA219 whose power the test moves: the joules of a frame are those
// of the power while loads ran, and the idle power is that of before. The kernel's chip is
// asked twice a second, so loads take longer than that.
func TestJoulesOfARun(t *testing.T) {
	testutil.NoLeaks(t)
	root := t.TempDir()
	dir := filepath.Join(root, "sys/class/hwmon/hwmon0")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "name"), []byte("ina219\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	power, err := os.Create(filepath.Join(dir, "power1_input"))
	if err != nil {
		t.Fatal(err)
	}
	defer power.Close()
	set := func(watts float64) { // in place: a reader never sees less than a number
		if _, err := fmt.Fprintf(&at0{power}, "%010.0f\n", watts*1e6); err != nil {
			t.Error(err)
		}
	}
	hwmon := named("hwmon")
	of := hwmon.New
	hwmon.New = func(ctx context.Context, m *telemetry.Machine) (telemetry.Collector, error) {
		return of(ctx, &telemetry.Machine{Root: os.DirFS(root)})
	}
	tel, recs := loadedRun(t, &fake{dut: &host.Local{}}, set, 600*time.Millisecond, hwmon)
	if len(tel.Idle) != 1 || !within1(tel.Idle[0].Watts(), idleWatts) {
		t.Fatalf("idle power %+v, want %g W of one meter", tel.Idle, idleWatts)
	}
	points := 0
	for _, r := range recs {
		if len(r.Energy) != 1 {
			t.Errorf("%s: %+v, want the energy of one meter", r.ID, r.Energy)
			continue
		}
		e := r.Energy[0]
		if e.Covers == "" || e.Accuracy == "" || !within1(e.Watts(), loadWatts) {
			t.Errorf("%s: %+v is %g W, want %g", r.ID, e, e.Watts(), loadWatts)
		}
		if r.Parent != "" {
			continue
		}
		points++
		if above := e.AboveIdle(); e.Trials != 4 || e.Per != "frame" || !within1(e.JoulesPer(), loadWatts/framesPerSecond) ||
			above == nil || !within1(*above, (loadWatts-idleWatts)/framesPerSecond) {
			t.Errorf("%+v: %g J a frame, %v above idle", e, e.JoulesPer(), above)
		}
	}
	if points != 1 {
		t.Errorf("%d points", points)
	}
}

// at0 writes each time to a file's beginning.
type at0 struct{ f *os.File }

func (w *at0) Write(b []byte) (int, error) { return w.f.WriteAt(b, 0) }

// A gauge reads the power that a test sets.
type gauge struct {
	watts  atomic.Uint64
	covers string
}

func (g *gauge) Series() []result.Series {
	return []result.Series{{Name: "boxdyno_power_watts", Unit: "W", Help: "power",
		Labels: []result.Pair{{Key: "meter", Value: g.covers}, {Key: "covers", Value: g.covers}}}}
}

func (g *gauge) Read(dst []float64) error { dst[0] = math.Float64frombits(g.watts.Load()); return nil }

// Of a box that is another machine, a plug may measure the joules and a meter in the
// tester does not: its energy is kept with the trial, and makes no figure.
func TestJoulesOfAnotherMachine(t *testing.T) {
	testutil.NoLeaks(t)
	var specs []telemetry.Spec
	gauges := []*gauge{{covers: "wall"}, {covers: "package"}}
	for _, g := range gauges {
		specs = append(specs, telemetry.Spec{Name: g.covers, Default: true, New: func(context.Context, *telemetry.Machine) (telemetry.Collector, error) { return g, nil }})
	}
	set := func(watts float64) {
		for _, g := range gauges {
			g.watts.Store(math.Float64bits(watts))
		}
	}
	_, recs := loadedRun(t, &fake{}, set, 150*time.Millisecond, specs...)
	for _, r := range recs {
		var got []string
		for _, e := range r.Energy {
			got = append(got, fmt.Sprint(e.Covers, " ", e.Tester))
			if !within1(e.Watts(), loadWatts) {
				t.Errorf("%s: %+v", r.ID, e)
			}
		}
		want := []string{"wall false", "package true"}
		if r.Parent == "" {
			want = want[:1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: meters %q, want %q", r.ID, got, want)
		}
	}
}
