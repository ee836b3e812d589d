// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/result"
)

func stressInstalled(t *testing.T) {
	t.Helper()
	var missing *host.Missing
	if err := host.Has("stress-ng"); errors.As(err, &missing) {
		t.Skip(missing)
	} else if err != nil {
		t.Fatal(err)
	}
}

func quickPace() pace {
	return pace{look: 20 * time.Millisecond, window: 40 * time.Millisecond, rise: 0.5, again: time.Hour, warm: 50 * time.Millisecond, memory: 20 * time.Second}
}

// of is the settings of a trial.
func of(beside, heat string) []result.Pair {
	return []result.Pair{{Key: result.BesideKey, Value: beside}, {Key: result.BesideCPUsKey, Value: "auto"}, {Key: result.HeatKey, Value: heat}}
}

// A newBeside is of a machine with one sensor, which f reads.
func newBeside(t *testing.T, f func() float64) (s *Surroundings, said, warned *[]string) {
	said, warned = &[]string{}, &[]string{}
	s = NewSurroundings(&lab.Testbed{Facts: lab.Facts{Topology: "mem", Kind: "memory", TesterCPU: -1}})
	s.pace = quickPace()
	s.Say = func(text string) { *said = append(*said, text) }
	s.Warn = func(text string) { *warned = append(*warned, text) }
	s.sensors = func() []host.Temperature { return nil }
	if f != nil {
		s.sensors = func() []host.Temperature {
			return []host.Temperature{{Sensor: "stuck", Celsius: 127}, {Sensor: "cpu", Celsius: f()}}
		}
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, said, warned
}

// The real stress-ng: each load does what it shall while a trial lasts, goes on to the
// next one that wants it, and leaves nothing.
func TestLoadBeside(t *testing.T) {
	testutil.Timed(t) // starved of CPU time, a load has used none
	stressInstalled(t)
	testutil.NoLeaks(t)
	disk, temporary := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	s, _, warned := newBeside(t, nil)
	ctx := t.Context()
	trial := func(cfg []result.Pair) Outcome {
		t.Helper()
		if _, err := s.Calm(ctx, cfg); err != nil {
			t.Fatal(err)
		}
		if err := s.Prepare(ctx, cfg); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		o := Outcome{Status: result.Passed, Phases: []result.Phase{{Name: "traffic"}}}
		s.Account(&o)
		return o
	}
	for _, c := range []struct {
		load, subject string
		check         func(u result.Usage) error
	}{
		{"cpu:1", "stress-ng cpu", nil},
		{"cpu:2@30%", "stress-ng cpu", nil},
		{"memory:64M", "stress-ng vm", func(u result.Usage) error {
			if u.PeakMemory != 0 && u.PeakMemory < 57<<20 {
				return fmt.Errorf("it has %d octets of memory", u.PeakMemory)
			}
			return nil
		}},
		{"disk:" + disk, "stress-ng hdd", nil},
	} {
		o := trial(of(c.load, "0"))
		if len(o.Usage) != 1 || o.Status != result.Passed {
			t.Fatalf("%s: %+v", c.load, o)
		}
		if u := o.Usage[0]; u.Subject != c.subject || u.Phase != result.BesideKey || u.CPU <= 0 || u.Processes < 2 {
			t.Errorf("%s used %+v", c.load, u)
		}
		if c.check != nil {
			if err := c.check(o.Usage[0]); err != nil {
				t.Errorf("%s: %v", c.load, err)
			}
		}
		if len(o.Phases) != 2 || o.Phases[0].Name != "traffic" || o.Phases[1].Name != result.BesideKey || o.Phases[1].End-o.Phases[1].Begin < 3e8 {
			t.Errorf("%s: phases %+v", c.load, o.Phases)
		}
		if strings.HasPrefix(c.load, "disk") {
			if left, _ := os.ReadDir(disk); len(left) != 1 {
				t.Errorf("a disk load has the files %v", left)
			}
		}
		ran := s.load
		if calm, err := s.Calm(ctx, of(c.load, "0")); calm || err != nil || s.load != ran {
			t.Errorf("%s does not go on: %v", c.load, err)
		}
		o = trial(of(c.load, "0"))
		if all, err := ran.Usage(); s.load != ran || len(o.Usage) != 1 || err != nil || o.Usage[0].CPU >= all.CPU {
			t.Errorf("%s, second trial: %+v, since its start %+v, %v", c.load, o.Usage, all, err)
		}
	}
	if len(*warned) != 4 || !strings.Contains((*warned)[1], "stress-ng cpu, 2 workers at 30 % each runs beside them, on any CPU") {
		t.Errorf("said of the run: %q", *warned)
	}
	// A self-test has none of it, and its settings do not speak of it.
	if calm, err := s.Calm(ctx, []result.Pair{{Key: "frame_size", Value: "64"}}); !calm || err != nil || s.load != nil {
		t.Errorf("before a self-test: %v, %v", calm, err)
	}
	if o := trial(nil); len(o.Usage) != 0 || len(o.Phases) != 1 {
		t.Errorf("a self-test: %+v", o)
	}
	for _, dir := range []string{disk, temporary} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind in %s: %v %v", dir, left, err)
		}
	}
}

// A load that does not live through a trial makes it invalid, whatever came of it.
func TestLoadBesideThatEnds(t *testing.T) {
	testutil.Timed(t)      // the stressor must end while the load warms up
	testutil.FakeStress(t) // its stressor good ends at once, and cpu is none of its own
	s, _, _ := newBeside(t, nil)
	if err := s.Prepare(t.Context(), of("cpu:1", "0")); err == nil || !strings.Contains(err.Error(), "beside cpu:1") || s.load != nil {
		t.Errorf("a load that ends at once: %v", err)
	}
	s.Account(&Outcome{})

	stressInstalled(t)
	t.Setenv("PATH", strings.SplitN(os.Getenv("PATH"), ":", 2)[1]) // the real one
	if err := host.Has("stress-ng"); err != nil {
		t.Skip(err)
	}
	if err := s.Prepare(t.Context(), of("cpu:1", "0")); err != nil {
		t.Fatal(err)
	}
	if err := s.load.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := Outcome{Status: result.Passed}
	s.Account(&o)
	if o.Status != result.Invalid || !strings.Contains(o.Reason, "ended") {
		t.Errorf("the load ended in the trial: %s, %q", o.Status, o.Reason)
	}
}

// Heated once until no sensor rises, kept so, cooled down before a cold trial, and
// heated in full again after that.
func TestHeat(t *testing.T) {
	stressInstalled(t)
	testutil.NoLeaks(t)
	heat := 40.0
	step, to := 3.0, 70.0 // of a look
	s, said, _ := newBeside(t, func() float64 {
		if step > 0 {
			heat = min(heat+step, to)
		} else {
			heat = max(heat+step, to)
		}
		return heat
	})
	ctx := t.Context()
	trial := func(cfg []result.Pair) Outcome {
		t.Helper()
		if err := s.Prepare(ctx, cfg); err != nil {
			t.Fatal(err)
		}
		var o Outcome
		s.Account(&o)
		return o
	}
	hot := func(o Outcome) bool {
		return len(o.Phases) == 1 && o.Phases[0].Name == result.HeatKey && len(o.Usage) == 1 && o.Usage[0].Phase == result.HeatKey && o.Usage[0].CPU > 0
	}
	if o := trial(of("none", "steady")); !hot(o) || heat != 70 || len(o.Warnings) != 0 {
		t.Errorf("heated to %v °C: %+v", heat, o)
	}
	if o := trial(of("none", "steady")); len(o.Phases) != 0 {
		t.Errorf("heated again at once: %+v", o)
	}
	s.pace.again = 0
	s.hotAt = time.Now().Add(-300 * time.Millisecond)
	if o := trial(of("none", "10m")); !hot(o) || time.Duration(o.Phases[0].End-o.Phases[0].Begin) > time.Minute {
		t.Errorf("heated after a pause of 0.3 s: %+v", o)
	}
	step, to = -1, 50 // it stays too hot: 43 was the first look
	s.hotFor = 100 * time.Millisecond
	if o := trial(of("none", "0")); len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0], "°C above") || !strings.Contains(o.Warnings[0], "cpu is ") || s.hotAt.IsZero() {
		t.Errorf("not cooled down to %v °C: %+v", heat, o.Warnings)
	}
	to = 40
	s.hotAt, s.hotFor = time.Now(), time.Minute
	if o := trial(of("none", "0")); len(o.Warnings) != 0 || heat > 45 || !s.hotAt.IsZero() {
		t.Errorf("cooled down to %v °C: %+v", heat, o.Warnings)
	}
	n := len(*said)
	if o := trial(of("none", "0")); len(o.Phases)+len(o.Warnings) != 0 || len(*said) != n {
		t.Errorf("a cold trial after a cold one: %+v, %q", o, (*said)[n:])
	}
	if !slices.ContainsFunc(*said, func(s string) bool {
		return strings.HasPrefix(s, "heated for ") && strings.Contains(s, "stuck is at 127.0 °C")
	}) {
		t.Errorf("said %q", *said)
	}
}

// Without a sensor a box cools for as long as it was heated.
func TestCoolWithoutSensors(t *testing.T) {
	s, _, _ := newBeside(t, nil)
	s.hotAt, s.hotFor = time.Now(), 150*time.Millisecond
	begun := time.Now()
	if err := s.Prepare(t.Context(), of("none", "0")); err != nil || time.Since(begun) < 140*time.Millisecond || !s.hotAt.IsZero() {
		t.Errorf("it cooled for %v: %v", time.Since(begun), err)
	}
	s.hotAt, s.hotFor = time.Now(), time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Prepare(ctx, of("none", "0")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestSteadyTemperature(t *testing.T) {
	p := pace{look: time.Second, window: 4 * time.Second, rise: 0.5}
	series := func(f func(i int) float64, n int) (seen [][]host.Temperature) {
		for i := range n {
			seen = append(seen, []host.Temperature{{Sensor: "stuck", Celsius: 127}, {Sensor: "cpu", Celsius: f(i)}})
		}
		return seen
	}
	for _, c := range []struct {
		what string
		f    func(i int) float64
		n    int
		want bool
	}{
		{"still", func(int) float64 { return 50 }, 8, true},
		{"too short", func(int) float64 { return 50 }, 7, false},
		{"rising", func(i int) float64 { return 50 + float64(i) }, 20, false},
		{"falling", func(i int) float64 { return 50 - float64(i) }, 8, true},
		{"noisy", func(i int) float64 { return 50 + 3*float64(i%2) }, 8, true},
		{"rising slowly", func(i int) float64 { return 50 + 0.1*float64(i) }, 20, true},
		{"rising, no longer", func(i int) float64 { return min(50+float64(i), 60) }, 20, true},
	} {
		if got := p.steady(series(c.f, c.n)); got != c.want {
			t.Errorf("%s is steady: %v", c.what, got)
		}
	}
	if p.steady(make([][]host.Temperature, 20)) {
		t.Error("no sensor is steady")
	}
}
