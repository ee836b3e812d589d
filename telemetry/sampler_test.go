// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/unit"
)

// What moves slowly is read at a trial's end, and at its beginning unless it just was:
// its window is the trial.
func TestSlowCollectorsHaveTheTrial(t *testing.T) {
	testutil.NoLeaks(t)
	counts := dials("drops_total", true, 1)
	spec := counts.spec("counts")
	spec.Every = 100
	s := startSampler(t, Options{Specs: []Spec{spec}, Rate: slow})
	defer func() {
		if _, err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.Begin()
	read := counts.count()
	s.Traffic(true)
	counts.set(nil, 3)
	s.Traffic(false)
	if n := counts.count() - read; n != 0 {
		t.Errorf("it was read %d times about the traffic", n)
	}
	counts.set(nil, 7)
	ds, _ := s.End()
	if d := digestOf(t, s, ds, "drops_total", "a"); d == nil || d.Growth != 7 || !(d.Mean > 0) || d.N != 2 {
		t.Errorf("a counter that grew by 7: %+v", d)
	}
	if n := counts.count() - read; n != 1 {
		t.Errorf("it was read %d times, want at the end alone", n)
	}
}

func TestTrialIsExactHoweverShort(t *testing.T) {
	testutil.NoLeaks(t)
	counts, levels := dials("drops_total", true, 3), dials("celsius", false, 2)
	s := startSampler(t, Options{Specs: []Spec{counts.spec("counts"), levels.spec("levels")}, Rate: slow})
	nan := math.NaN()
	counts.set(nil, 1000, 7, 50)
	levels.set(nil, 40, nan)
	s.Begin()
	counts.set(nil, 1001, 7, 50) // before the traffic
	levels.set(nil, 50, nan)
	s.Traffic(true)
	counts.set(nil, 1005, 7, 3) // the last starts anew
	levels.set(nil, 60, nan)
	s.Traffic(false)
	counts.set(nil, 1010, 7, 4) // while it settles
	levels.set(nil, 99, nan)
	ds, gap := s.End()
	if gap != 0 {
		t.Errorf("a gap of %v", gap)
	}
	if d := digestOf(t, s, ds, "drops_total", "a"); d == nil || d.Growth != 10 || d.Mean <= 0 || d.Min != d.Mean || d.Max != d.Mean || d.N != 2 {
		t.Errorf("a counter that grew by 10 of which 4 in the traffic: %+v", d)
	}
	if d := digestOf(t, s, ds, "drops_total", "b"); d != nil {
		t.Errorf("a counter that stood still: %+v", d)
	}
	if d := digestOf(t, s, ds, "drops_total", "c"); d == nil || d.Growth != 4 {
		t.Errorf("a counter that started anew at 0 and counted to 4: %+v", d)
	}
	if d := digestOf(t, s, ds, "celsius", "a"); d == nil || d.Min != 50 || d.Max != 60 || d.Mean < 50 || d.Mean > 60 || d.N != 2 || d.Growth != 0 {
		t.Errorf("50 and then 60 degrees in the traffic: %+v", d)
	}
	if d := digestOf(t, s, ds, "celsius", "b"); d != nil {
		t.Errorf("an absent sensor: %+v", d)
	}
	// The next trial knows nothing of the one before; without Traffic all of it counts.
	s.Begin()
	counts.set(nil, 1013, 7, 4)
	ds, _ = s.End()
	if d := digestOf(t, s, ds, "drops_total", "a"); d == nil || d.Growth != 3 || d.Mean <= 0 {
		t.Errorf("the next trial: %+v", d)
	}
	if d := digestOf(t, s, ds, "drops_total", "c"); d != nil {
		t.Errorf("what grew in the trial before: %+v", d)
	}
	if d := digestOf(t, s, ds, "celsius", "a"); d == nil || d.Min != 99 || d.Max != 99 || d.Mean != 99 {
		t.Errorf("the next trial: %+v", d)
	}
	if _, err := s.Close(); err != nil {
		t.Error(err)
	}
	if counts.closed != 1 || levels.closed != 1 {
		t.Error("a collector was not closed once")
	}
}

// A collector that fails is absent and said once; the others go on, and so does it,
// once it works again. What grew meanwhile counts.
func TestCollectorFails(t *testing.T) {
	testutil.NoLeaks(t)
	bad, good := dials("bad_total", true, 1), dials("good_total", true, 1)
	said := make(chan string, 10)
	s := startSampler(t, Options{Specs: []Spec{bad.spec("bad"), good.spec("good")}, Rate: slow, Warn: func(w string) { said <- w }})
	bad.set(nil, 5)
	s.Begin()
	bad.set(errors.New("it is gone"), 6)
	good.set(nil, 1)
	for range 3 {
		s.Now()
	}
	now := make([]float64, len(s.Series()))
	s.Latest(now)
	if !math.IsNaN(now[0]) || now[1] != 1 {
		t.Errorf("the latest values are %v: want the first absent, the second 1", now)
	}
	bad.mu.Lock()
	bad.fault = true
	bad.mu.Unlock()
	s.Now()
	bad.mu.Lock()
	bad.fault = false
	bad.mu.Unlock()
	bad.set(nil, 9)
	ds, _ := s.End()
	if d := digestOf(t, s, ds, "bad_total", "a"); d == nil || d.Growth != 4 {
		t.Errorf("it grew from 5 to 9 while it was absent: %+v", d)
	}
	if d := digestOf(t, s, ds, "good_total", "a"); d == nil || d.Growth != 1 {
		t.Errorf("the other one: %+v", d)
	}
	if _, err := s.Close(); err != nil {
		t.Error(err)
	}
	if w := <-said; !strings.Contains(w, "collector bad failed") || !strings.Contains(w, "it is gone") {
		t.Errorf("it says %q", w)
	}
	select {
	case w := <-said:
		t.Errorf("and then %q", w)
	default:
	}
}

// What a counter did before a trial is not the trial's, though it was absent when
// the trial began.
func TestAbsentAtTheBeginning(t *testing.T) {
	d := dials("x_total", true, 1)
	s := startSampler(t, Options{Specs: []Spec{d.spec("x")}, Rate: slow})
	defer s.Close()
	d.set(nil, 5)
	s.Now()
	d.set(nil, math.NaN())
	s.Begin()
	d.set(nil, 100)
	s.Now()
	d.set(nil, 102)
	ds, _ := s.End()
	if g := digestOf(t, s, ds, "x_total", "a"); g == nil || g.Growth != 2 {
		t.Errorf("%+v, want a growth of 2", g)
	}
}

// Rates are told over at least half an interval: a tick of the kernel's between two
// samples that stand close together is no rate.
func TestRatesOverStretches(t *testing.T) {
	var all tallies
	all.init([]result.Series{{Name: "x_total", Counter: true}, {Name: "y"}}, 50e6)
	add := func(at unit.Instant, counter, gauge float64) { all.add(0, []float64{counter, gauge}, at, false) }
	add(0, 0, 10)
	all.open(true)
	add(100e6, 1, 20)  // 10/s
	add(101e6, 2, 20)  // 1 ms later
	add(200e6, 2, 20)  // with it 1 in 0.1 s
	add(300e6, 5, 40)  // 30/s
	add(310e6, 15, 40) // too short, at the end
	ds := all.digests()
	if len(ds) != 2 || ds[0].Growth != 15 || ds[0].Min != 10 || ds[0].Max != 30 || math.Abs(ds[0].Mean-15/0.31) > 1e-3 || ds[0].N != 6 {
		t.Errorf("the counter: %+v", ds)
	}
	if want := (15*0.1 + 20*0.1 + 30*0.1 + 40*0.01) / 0.31; len(ds) != 2 || ds[1].Min != 10 || ds[1].Max != 40 || math.Abs(ds[1].Mean-want) > 1e-3 {
		t.Errorf("the gauge's mean over time shall be %v: %+v", want, ds)
	}
}

// A gauge that goes for good in a trial, as those of a box whose connection ended, has
// the value that it had.
func TestGaugeThatGoes(t *testing.T) {
	var all tallies
	all.init([]result.Series{{Name: "y"}}, 50e6)
	all.add(0, []float64{7}, 0, false)
	all.open(true)
	all.add(0, []float64{math.NaN()}, 100e6, false)
	if ds := all.digests(); len(ds) != 1 || ds[0].Mean != 7 {
		t.Errorf("%+v", ds)
	}
}

// A written file holds what was read, and the series of a resumed run keep their
// places.
func TestWrite(t *testing.T) {
	testutil.NoLeaks(t)
	dir := t.TempDir()
	b, err := result.Create(dir, result.Run{Schema: result.Schema})
	if err != nil {
		t.Fatal(err)
	}
	a, c := dials("a", false, 2), dials("c", true, 1)
	a.set(nil, 1.5, math.NaN())
	s := startSampler(t, Options{Specs: []Spec{a.spec("a"), c.spec("c")}, Rate: slow, Write: b.Sample, Every: time.Second})
	c.set(nil, 3)
	s.Now()
	first := s.Series()
	u, err := s.Close()
	if err != nil || u.Samples < 3 || u.CPUShare <= 0 || u.Memory == 0 || !slices.Equal(u.Collectors, []string{"a", "c", "observer"}) {
		t.Errorf("%+v, %v", u, err)
	}
	// The second part lacks a and has d: what is known stays in its place.
	d := dials("d", false, 1)
	s = startSampler(t, Options{Specs: []Spec{c.spec("c"), d.spec("d")}, Rate: slow, Known: first, Write: b.Sample})
	c.set(nil, 8)
	s.Now()
	if got := s.Series(); len(got) != len(first)+1 || !slices.EqualFunc(got[:len(first)], first, result.Series.Same) || got[len(first)].Name != "d" {
		t.Errorf("the series of the second part are %+v", got)
	}
	if _, err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := result.OpenTelemetry(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var seen [][]float64
	last := unit.Instant(0)
	for {
		batch, err := r.Next()
		if err != nil {
			break
		}
		if batch.At < last {
			t.Errorf("a batch at %d after one at %d", batch.At, last)
		}
		last = batch.At
		if batch.First == 2 {
			seen = append(seen, batch.Values)
		}
		if batch.First == 0 && (batch.Values[0] != 1.5 || !math.IsNaN(batch.Values[1])) {
			t.Errorf("a batch of %v", batch.Values)
		}
	}
	if len(seen) < 2 || seen[0][0] != 0 || seen[len(seen)-1][0] != 8 || r.Cut || len(r.Head.Series) != len(first)+1 {
		t.Errorf("series c is %v, cut %v, %d series", seen, r.Cut, len(r.Head.Series))
	}
}

// A writer that stands still costs lines, no memory, and no sample; one that fails
// is told of once.
func TestWriterStands(t *testing.T) {
	testutil.NoLeaks(t)
	d := dials("d", true, 3)
	release, said := make(chan bool), make(chan string, 10)
	calls := 0
	s := startSampler(t, Options{Specs: []Spec{d.spec("d")}, Rate: slow, Warn: func(w string) { said <- w },
		Write: func([]byte) error {
			calls++
			<-release
			return errors.New("no space left")
		}})
	reads := d.count()
	for range 20 {
		s.Now()
	}
	if d.count() != reads+20 {
		t.Errorf("%d reads while the writer stands, want 20", d.count()-reads)
	}
	close(release)
	if _, err := s.Close(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("Close returns %v", err)
	}
	if w := <-said; calls != 1 || !strings.Contains(w, "no space left") {
		t.Errorf("%d calls, and it says %q", calls, w)
	}
}

func TestStartRefuses(t *testing.T) {
	testutil.NoLeaks(t)
	d := dials("d", false, 1)
	for _, o := range []Options{{Rate: 0.5}, {Rate: 51}, {Rate: math.NaN()}, {Names: []string{"nope"}}} {
		o.Specs = []Spec{d.spec("d")}
		if s, err := Start(t.Context(), &Machine{}, o); err == nil {
			s.Close()
			t.Errorf("%+v is accepted", o)
		}
	}
	_, err := Choose([]Spec{d.spec("d")}, []string{"nope"})
	if err == nil || !strings.Contains(err.Error(), `no collector "nope": there are all, d`) {
		t.Error(err)
	}
	for says, spec := range map[string]Spec{
		"collector gone: nothing to read": {Name: "gone", New: func(context.Context, *Machine) (Collector, error) { return nil, ErrAbsent }},
		"collector meter: it is silent":   {Name: "meter", Default: true, New: func(context.Context, *Machine) (Collector, error) { return nil, errors.New("it is silent") }},
	} {
		d := dials("d", false, 1)
		o := Options{Specs: []Spec{d.spec("d"), spec}}
		if !spec.Default {
			o.Names = []string{"d", spec.Name}
		}
		s, err := Start(t.Context(), &Machine{Ask: Ask{Meter: []string{"p"}}}, o)
		if err == nil {
			s.Close()
		}
		if err == nil || err.Error() != says || d.closed != 1 {
			t.Errorf("%v, want %q; the other collector was closed %d times", err, says, d.closed)
		}
	}
	absent := Spec{Name: "absent", Default: true, New: func(context.Context, *Machine) (Collector, error) { return nil, ErrAbsent }}
	seldom := d.spec("d")
	seldom.Default = false
	var said []string
	s := startSampler(t, Options{Specs: []Spec{absent, seldom}, Warn: func(w string) { said = append(said, w) }})
	defer s.Close()
	if !slices.Equal(s.Names(), []string{"observer"}) || len(s.Absent()) != 1 || !strings.HasPrefix(s.Absent()[0], "absent: ") || said != nil {
		t.Errorf("read are %v, absent %v, said %q", s.Names(), s.Absent(), said)
	}
}

// The sampler keeps its rate, reads a slow collector less often, and sees that it
// was late.
func TestTicks(t *testing.T) {
	testutil.NoLeaks(t)
	often, seldom := dials("often", false, 1), dials("seldom", false, 1)
	spec := seldom.spec("seldom")
	spec.Every = 1000
	s := startSampler(t, Options{Specs: []Spec{often.spec("often"), spec}, Rate: MaxRate})
	defer s.Close()
	s.Begin()
	marks := seldom.count()
	deadline := time.Now().Add(time.Minute)
	for n := often.count(); often.count() < n+10 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	if !time.Now().Before(deadline) {
		t.Error("no 10 ticks in a minute")
	}
	if seldom.count() != marks {
		t.Errorf("the collector that is read each 100 s was read %d times more", seldom.count()-marks)
	}
	s.do(func() { time.Sleep(200 * time.Millisecond) }) // 10 intervals
	ds, gap := s.End()
	if gap < 100*time.Millisecond {
		t.Errorf("it stood still for 200 ms and says %v", gap)
	}
	i := slices.IndexFunc(ds, func(d result.Digest) bool { return s.Series()[d.Series].Name == "boxdyno_sampler_lateness_seconds" })
	if i < 0 || ds[i].Max < 0.1 {
		t.Errorf("the series of lateness: %+v", ds)
	}
}

// Ticks that were missed are not made up, and the schedule stays.
func TestMissedTicks(t *testing.T) {
	d := dials("d", false, 1)
	s := startSampler(t, Options{Specs: []Spec{d.spec("d")}, Rate: slow})
	defer s.Close()
	s.do(func() {
		due := s.due
		s.tick(due + 5*s.interval + s.interval/2)
		if s.due != due+6*s.interval || s.use.Gaps != 1 || unit.Instant(s.use.Longest) != 5*s.interval+s.interval/2 {
			t.Errorf("after a tick that was 5.5 intervals late the next one is due %v intervals later; gaps %d, longest %d ns", float64(s.due-due)/float64(s.interval), s.use.Gaps, s.use.Longest)
		}
		s.due = due
	})
}

func TestTickDoesNotAllocate(t *testing.T) {
	d := dials("d", true, 500)
	s := startSampler(t, Options{Specs: []Spec{d.spec("d")}, Rate: slow, Write: func([]byte) error { return nil }, Every: time.Hour})
	defer s.Close()
	n := 1.0
	s.do(func() {
		s.lines = make([]byte, 0, 1<<20)
		s.sample(everything)
		got := testing.AllocsPerRun(50, func() {
			n++
			d.values[0] = n
			s.sample(everything)
		})
		if got > 0 {
			t.Errorf("a sample makes %v allocations", got)
		}
	})
}

func TestRSSAnon(t *testing.T) {
	text := []byte("VmRSS:\t   9000 kB\nRssAnon:\t    1234 kB\nRssFile:\t    5 kB\n")
	if n, ok := rssAnon(text); !ok || n != 1234<<10 {
		t.Error(n, ok)
	}
	for _, bad := range []string{"", "\nRssAnon:", "\nRssAnon:\tx kB\n"} {
		if n, ok := rssAnon([]byte(bad)); ok {
			t.Errorf("%q is %d", bad, n)
		}
	}
}

// Series of the collectors that are there are told apart by name and labels, and
// named as Prometheus wants them.
func TestSeriesOfAll(t *testing.T) {
	if len(All()) == 0 {
		t.Skip("there are no collectors")
	}
	s := startSampler(t, Options{Rate: slow})
	defer s.Close()
	seen := map[string]bool{}
	var key bytes.Buffer
	for _, x := range s.Series() {
		key.Reset()
		key.WriteString(x.Name)
		for _, l := range x.Labels {
			key.WriteString(" " + l.Key + "=" + l.Value)
		}
		if seen[key.String()] {
			t.Errorf("%s is there twice", key.String())
		}
		seen[key.String()] = true
		if x.Help == "" || x.Unit == "" {
			t.Errorf("%s has help %q and unit %q", key.String(), x.Help, x.Unit)
		}
		if x.Counter && !strings.HasSuffix(x.Name, "_total") && !strings.HasPrefix(x.Name, "node_") {
			t.Errorf("%s is a counter, and its name does not end in _total", x.Name)
		}
	}
	t.Logf("%d series of %v; absent: %q", len(s.Series()), s.Names(), s.Absent())
}

func TestNoCollectorIsThereTwice(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		if seen[s.Name] || s.Name == "" || s.Doc == "" || s.New == nil || s.Name == "all" || s.Name == "observer" {
			t.Errorf("the row %+v", s)
		}
		seen[s.Name] = true
	}
}

// A beside is another machine's collectors, of which it has some.
type beside struct{ names []string }

func (b beside) Series() []result.Series { return nil }
func (b beside) Read([]float64) error    { return nil }
func (b beside) Reads(name string) bool  { return slices.Contains(b.names, name) }

// A collector that is asked for by name must be on one of two machines.
func TestNamedOnOneMachine(t *testing.T) {
	spec := func(name string, err error) Spec {
		return Spec{Name: name, New: func(context.Context, *Machine) (Collector, error) { return beside{}, err }}
	}
	specs := []Spec{spec("here", nil), spec("there", ErrAbsent), spec("broken", errors.New("broken"))}
	for _, c := range []struct {
		names, there []string
		any          bool
		want         string // of the error; "": none
	}{
		{[]string{"here"}, nil, false, ""},
		{[]string{"here", "there"}, []string{"there"}, false, ""},
		{[]string{"here", "there"}, []string{"here"}, false, "collector there: "},
		{[]string{"here", "there"}, nil, true, ""},
		{[]string{"here", "broken"}, []string{"broken"}, false, "collector broken: broken"},
	} {
		o := Options{Specs: specs, Names: c.names, Any: c.any, Warn: func(string) {}}
		if !c.any {
			o.Beside = []Spec{{Name: "box", New: func(context.Context, *Machine) (Collector, error) { return beside{c.there}, nil }}}
		}
		_, absent, err := collectors(t.Context(), &Machine{}, o)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c, err, c.want)
		}
		if err == nil && (len(absent) == 1) != slices.Contains(c.names, "there") {
			t.Errorf("%v: absent %q", c, absent)
		}
	}
}
