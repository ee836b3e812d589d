// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
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

// A loadable box is one whose power a test moves. Neither call depends on how fast its
// meters are read.
type loadable interface {
	// load raises the power, and returns when readings of it were taken; each reading
	// since begin is one of them.
	load() (begin unit.Instant)
	// idle lowers the power, once no reading that began earlier can see it.
	idle()
}

// eventually waits for what telemetry does by itself.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for guard := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(guard) {
			t.Fatalf("after a minute there is none: %s", what)
		}
	}
}

// loadedRun measures the point of a fake box: it is loaded in each of four trials, and
// forwards framesPerSecond.
func loadedRun(t *testing.T, f *fake, box loadable, specs ...telemetry.Spec) (result.Telemetry, []result.Record) {
	t.Helper()
	testutil.Privileged(t) // other kinds than memory take the measuring lock
	f.kind = "sandbox"
	f.trial = func(string) (procedure.Outcome, error) {
		begin := box.load()
		end := unit.Now()
		box.idle()
		return procedure.Outcome{
			Status: result.Passed, Load: &result.Load{Backend: "fake", Offered: framesPerSecond, Forwarded: framesPerSecond},
			Account: &result.Account{Accepted: 1, Received: 1}, Values: []result.Value{{Metric: "steps", Unit: "1", Value: 2}},
			Phases: []result.Phase{{Name: "traffic", Begin: begin, End: end}},
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
	all := telemetry.All()
	return all[slices.IndexFunc(all, func(s telemetry.Spec) bool { return s.Name == collector })]
}

func within1(got, want float64) bool { return math.Abs(got/want-1) <= 0.01 }

// A whole run beside an INA219 whose power the test moves: the joules of a frame are those
// of the power while loads ran, and the idle power is that of before.
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
	box := &chip{t: t, file: power}
	box.idle()
	hwmon := named("hwmon")
	of := hwmon.New
	hwmon.New = func(ctx context.Context, m *telemetry.Machine) (telemetry.Collector, error) {
		c, err := of(ctx, &telemetry.Machine{Root: os.DirFS(root)})
		if err != nil {
			return nil, err
		}
		box.sensor = c.(sensor)
		return box, nil
	}
	tel, recs := loadedRun(t, &fake{dut: &host.Local{}}, box, hwmon)
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

// A sensor is asked in a goroutine of its own. What the sampler reads is its latest answer.
type sensor interface {
	telemetry.Collector
	io.Closer
	Measured(int) (at unit.Instant, over time.Duration)
}

// A chip is a loadable box with one sensor, and the collector that reads it.
type chip struct {
	sensor
	t    *testing.T
	file *os.File

	mu    sync.Mutex
	watts float64      // that the sampler read last
	at    unit.Instant // that they were measured at
	from  unit.Instant // that they are a mean from
}

// set writes in place: a reader never sees less than a number.
func (c *chip) set(watts float64) {
	if _, err := c.file.WriteAt(fmt.Appendf(nil, "%010.0f\n", watts*1e6), 0); err != nil {
		c.t.Error(err)
	}
}

func (c *chip) Read(dst []float64) error {
	err := c.sensor.Read(dst)
	c.mu.Lock()
	defer c.mu.Unlock()
	at, over := c.Measured(0)
	c.watts, c.at, c.from = dst[0], at, at-unit.Instant(over)
	return err
}

func (c *chip) load() unit.Instant {
	c.set(loadWatts)
	begin := unit.Now()
	eventually(c.t, "answer of the chip under load", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !within1(c.watts, loadWatts) {
			begin = max(begin, c.at+1) // it was asked before the power rose, and was late to answer
		}
		return within1(c.watts, loadWatts) && c.from >= begin
	})
	return begin
}

// idle needs not wait: an answer dates from after the file was read.
func (c *chip) idle() { c.set(idleWatts) }

// A gauge reads the power that a test sets, at each sample.
type gauge struct {
	watts  atomic.Uint64
	reads  atomic.Int64
	covers string
}

func (g *gauge) Series() []result.Series {
	return []result.Series{{Name: "boxdyno_power_watts", Unit: "W", Help: "power",
		Labels: []result.Pair{{Key: "meter", Value: g.covers}, {Key: "covers", Value: g.covers}}}}
}

func (g *gauge) Read(dst []float64) error {
	dst[0] = math.Float64frombits(g.watts.Load())
	g.reads.Add(1)
	return nil
}

// gauges are the meters of a loadable box.
type gauges struct {
	t   *testing.T
	all []*gauge
}

func (g gauges) set(watts float64) {
	for _, one := range g.all {
		one.watts.Store(math.Float64bits(watts))
	}
}

// read waits until each was read n times more.
func (g gauges) read(n int64) {
	for _, one := range g.all {
		most := one.reads.Load() + n
		eventually(g.t, "reading of "+one.covers, func() bool { return one.reads.Load() >= most })
	}
}

// load waits for one reading more than it needs: the first may have begun earlier.
func (g gauges) load() unit.Instant {
	g.set(loadWatts)
	begin := unit.Now()
	g.read(2)
	return begin
}

func (g gauges) idle() {
	g.read(1)
	g.set(idleWatts)
}

// Of a box that is another machine, a plug may measure the joules and a meter in the
// tester does not: its energy is kept with the trial, and makes no figure.
func TestJoulesOfAnotherMachine(t *testing.T) {
	testutil.NoLeaks(t)
	var specs []telemetry.Spec
	box := gauges{t, []*gauge{{covers: "wall"}, {covers: "package"}}}
	box.set(idleWatts)
	for _, g := range box.all {
		specs = append(specs, telemetry.Spec{Name: g.covers, Default: true, New: func(context.Context, *telemetry.Machine) (telemetry.Collector, error) { return g, nil }})
	}
	_, recs := loadedRun(t, &fake{}, box, specs...)
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

// The idle machine is measured until each meter was read often enough, and never for long.
func TestIdleIsBounded(t *testing.T) {
	for _, c := range []struct {
		looks  int
		took   time.Duration
		enough bool
		over   bool
	}{
		{1, 250 * time.Millisecond, true, false},
		{4, time.Second, true, true},
		{4, time.Second, false, false},
		{9, 29 * time.Second, false, false}, // held up
		{9, 30 * time.Second, false, true},
		{idleLooks - 1, 6 * time.Second, false, false},
		{idleLooks, 6 * time.Second, false, true},
	} {
		if got := idleOver(c.looks, c.took, c.enough); got != c.over {
			t.Errorf("%+v: over %v", c, got)
		}
	}
}
