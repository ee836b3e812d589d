// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/stress"
	"boxdyno/unit"
)

// Surroundings see to it that each trial is carried out beside the load, and as hot,
// as its settings ask for (Beside). Around one trial that is carried out
//
//	Calm: a load of another point's is ended
//	Prepare: heated or cooled down -> the load started, warm -> its usage read
//	the trial
//	Account: its usage read again; a trial whose load has ended is invalid
//
// A load goes on between trials that ask for the same one, and ends with Close, or with
// this process, however it ends (host.Process). Heating is with all CPUs. What a trial
// does not last is made up before the next: the box is heated for as long as it has not
// been, if that is long enough to matter. Before a trial that wants a cold box it cools
// down. Not safe for concurrent use.
type Surroundings struct {
	Bed  *lab.Testbed
	Say  func(text string) // what goes on and may take minutes; nil: nobody listens
	Warn func(text string) // what touches the whole run, each once; nil: nobody listens

	load    subject.Running // nil: nothing runs; an Ender
	of      string          // Beside of load, as text
	poor    string          // what load is not as asked; ""
	trial   prepared
	cold    []host.Temperature // before the first heating
	hotAt   time.Time          // end of the last heating; zero: it is cold
	hotFor  time.Duration      // that it was heated since it was cold
	told    []string
	sensors func() []host.Temperature
	pace    pace
}

// A pace is how often sensors are looked at, and what of them is steady.
type pace struct {
	look   time.Duration
	window time.Duration // a mean over it
	rise   float64       // °C against the window before: less is steady
	again  time.Duration // a pause shorter than this needs no heating
	warm   time.Duration // that a load takes until it is even
	memory time.Duration // that it may take to fill its memory
}

const besideWarm = time.Second

var usualPace = pace{look: time.Second, window: time.Minute, rise: 0.5, again: 5 * time.Second, warm: besideWarm, memory: time.Minute}

// nearCold is how far above where it was a sensor may be for the box to be cold.
const nearCold = 2 // °C

// A prepared trial is one that Prepare was called for, and Account was not.
type prepared struct {
	phases   []result.Phase
	warnings []string
	usage    []result.Usage
	before   result.Usage
	begin    unit.Instant
}

// NewSurroundings are those of a testbed that nothing runs beside yet.
func NewSurroundings(bed *lab.Testbed) *Surroundings {
	s := &Surroundings{Bed: bed, sensors: (&host.Local{}).Temperatures, pace: usualPace}
	if box := s.box(); box != nil {
		s.sensors = func() []host.Temperature {
			r, err := box.Resources()
			if err != nil {
				return nil // what runs there says that it is lost
			}
			return r.Temperatures
		}
	}
	return s
}

// box is what runs beside runs on; nil: this machine.
func (s *Surroundings) box() lab.Lender {
	if s.Bed == nil {
		return nil
	}
	box, _ := s.Bed.Means.(lab.Lender)
	return box
}

// Calm ends a load that is not that of the trial to come, whose settings are cfg, and
// says whether nothing of ours runs then.
func (s *Surroundings) Calm(ctx context.Context, cfg []result.Pair) (bool, error) {
	if s.load == nil {
		return true, nil
	}
	want, _, err := ParseBeside(cfg)
	if err != nil || s.of == want.load(s.Bed) {
		return false, err
	}
	return true, s.end(ctx)
}

// load identifies what runs, "" where nothing does.
func (b *Beside) load(bed *lab.Testbed) string {
	if b.Load.kind == "" {
		return ""
	}
	return fmt.Sprint(&b.Load, b.CPUs.on(bed))
}

// Prepare makes the machine as a trial with the settings cfg wants it.
func (s *Surroundings) Prepare(ctx context.Context, cfg []result.Pair) error {
	s.trial = prepared{}
	want, said, err := ParseBeside(cfg)
	if err != nil || !said {
		return err
	}
	if want.Heat.On() {
		err = s.heat(ctx, want.Heat)
	} else {
		err = s.cool(ctx)
	}
	if err != nil || want.Load.kind == "" {
		return err
	}
	if s.load == nil {
		if err := s.start(ctx, want); err != nil {
			return fmt.Errorf("beside %s: %w", &want.Load, err)
		}
	}
	s.trial.begin = unit.Now()
	s.trial.before, err = s.load.Usage()
	return err
}

// Account adds to o, the outcome of the trial that was prepared, what ran beside it.
func (s *Surroundings) Account(o *Outcome) {
	t := s.trial
	s.trial = prepared{}
	o.Phases = append(slices.Clip(o.Phases), t.phases...)
	o.Warnings = append(slices.Clip(o.Warnings), t.warnings...)
	o.Usage = append(slices.Clip(o.Usage), t.usage...)
	if t.begin == 0 {
		return
	}
	if s.poor != "" {
		o.Warnings = append(o.Warnings, s.poor)
	}
	o.Phases = append(o.Phases, result.Phase{Name: result.BesideKey, Begin: t.begin, End: unit.Now()})
	u, err := s.load.Usage()
	if gone := ended(s.load); gone != nil {
		o.Status, o.Reason = result.Invalid, "the load beside it ended: "+gone.Error()
		return
	}
	if err != nil {
		o.Status, o.Reason = result.Invalid, fmt.Sprintf("what ran beside it is not known: %v", err)
		return
	}
	u = u.Since(t.before)
	u.Phase = result.BesideKey
	o.Usage = append(o.Usage, u)
}

// launch starts a stressor on the DUT: on this machine, or on the box that the testbed has.
func (s *Surroundings) launch(ctx context.Context, st *stress.Stress, cpus []int) (subject.Running, error) {
	if s.box() == nil {
		return st.Run(ctx, subject.Env{CPUs: cpus})
	}
	return s.Bed.Subjects.Start(ctx, subject.Named{Name: stress.Name, Subject: st}, subject.Env{CPUs: cpus})
}

// ended says why what runs beside does not run any more; nil: it does.
func ended(run subject.Running) error {
	if e, ok := run.(subject.Ender); ok {
		if err := e.Ended(); err != nil {
			return err
		}
	}
	if d, ok := run.(interface{ Done() <-chan struct{} }); ok {
		select {
		case <-d.Done():
			return errors.New("by itself")
		default:
		}
	}
	return nil
}

// start starts a load and waits until it is even.
func (s *Surroundings) start(ctx context.Context, want Beside) error {
	on := want.CPUs.on(s.Bed)
	where := "on any CPU"
	if len(on) > 0 {
		where = fmt.Sprintf("on CPU %d", on[0])
		if len(on) > 1 {
			where = fmt.Sprintf("on CPUs %v", on)
		}
		if s.box() == nil && s.Bed.TesterCPU >= 0 && slices.Contains(on, s.Bed.TesterCPU) {
			where += ", which is the tester's, too: what it slows down may be the tester"
		}
	}
	s.warn(fmt.Sprintf("by intention the machine is not idle while trials with %s %s run: %s runs beside them, %s", result.BesideKey, &want.Load, want.Load.Words(), where))
	run, err := s.launch(ctx, want.Load.stress(), on)
	if err != nil {
		return err
	}
	s.load, s.of, s.poor = run, want.load(s.Bed), ""
	err = run.Ready(ctx)
	if err == nil {
		err = host.Pause(ctx, s.pace.warm)
	}
	for begun := time.Now(); err == nil && want.Load.memory > 0; {
		u, uerr := run.Usage()
		if uerr != nil || u.PeakMemory == 0 || u.PeakMemory >= want.Load.memory/10*9 {
			break // not known, or there
		}
		if time.Since(begun) > s.pace.memory {
			s.poor = fmt.Sprintf("the load beside has %sB of memory, and should have %sB", unit.SI(float64(u.PeakMemory)), unit.SI(float64(want.Load.memory)))
			s.warn(s.poor)
			break
		}
		err = host.Pause(ctx, s.pace.warm/10)
	}
	if err != nil {
		return errors.Join(err, s.end(ctx))
	}
	return nil
}

// heat heats the box for as long as it has not been, h.length at most.
func (s *Surroundings) heat(ctx context.Context, h Heat) error {
	length := h.length
	if !s.hotAt.IsZero() {
		if length = min(length, time.Since(s.hotAt)); length < s.pace.again {
			return nil
		}
	} else {
		s.cold = s.sensors()
	}
	s.say("heating the box for " + s.atMost(h.steady) + length.Round(time.Second).String())
	begin, begun := unit.Now(), time.Now()
	run, err := s.launch(ctx, &stress.Stress{Stressor: "cpu", Method: heatMethod}, nil)
	if err != nil {
		return fmt.Errorf("heat the box: %w", err)
	}
	err = run.Ready(ctx)
	var seen [][]host.Temperature
	steady := false
	for err == nil && !steady && time.Since(begun) < length {
		if h.steady {
			seen = append(seen, s.sensors())
			steady = s.pace.steady(seen)
		}
		err = host.Pause(ctx, min(s.pace.look, length-time.Since(begun)))
		if gone := ended(run); gone != nil {
			err = errors.Join(errors.New("the program that heats the box ended"), gone)
		}
	}
	u, uerr := run.Usage()
	err = errors.Join(err, uerr, run.Stop(ctx))
	s.hotAt = time.Now()
	s.hotFor += time.Since(begun)
	if err != nil {
		return fmt.Errorf("heat the box: %w", err)
	}
	u.Phase = result.HeatKey
	s.trial.usage = append(s.trial.usage, u)
	s.trial.phases = append(s.trial.phases, result.Phase{Name: result.HeatKey, Begin: begin, End: unit.Now()})
	if t, ok := hottest(s.sensors()); ok {
		s.say(fmt.Sprintf("heated for %v: %s is at %.1f °C", time.Since(begun).Round(time.Second), t.Sensor, t.Celsius))
	}
	if h.steady && !steady && length == h.length {
		s.trial.warnings = append(s.trial.warnings, fmt.Sprintf("the box was still getting hotter after %v of heating", length))
	}
	return nil
}

// cool waits until a box that was heated is where it was before, or for as long as it
// was heated where no sensor tells; with one, for three times that at most.
func (s *Surroundings) cool(ctx context.Context) error {
	if s.hotAt.IsZero() {
		return nil
	}
	tells := len(s.cold) > 0
	limit := s.hotFor
	if tells {
		limit *= 3
	}
	end := s.hotAt.Add(limit)
	s.say("the box cools down, for " + s.atMost(tells) + max(time.Until(end), 0).Round(time.Second).String())
	for {
		above, sensor := s.above()
		switch {
		case tells && above <= nearCold:
		case time.Now().Before(end):
			if err := host.Pause(ctx, min(s.pace.look, time.Until(end))); err != nil {
				return err
			}
			continue
		case tells:
			s.trial.warnings = append(s.trial.warnings, fmt.Sprintf("the box has not cooled down in %v: %s is %.1f °C above where it was before it was heated", limit.Round(time.Second), sensor, above))
			return nil // tried again before the next trial
		}
		s.hotAt, s.hotFor = time.Time{}, 0
		return nil
	}
}

// above is by how much a sensor is above where it was when the box was cold, at most.
func (s *Surroundings) above() (most float64, sensor string) {
	now := s.sensors()
	for i, was := range s.cold {
		if i < len(now) && now[i].Sensor == was.Sensor && now[i].Celsius-was.Celsius > most {
			most, sensor = now[i].Celsius-was.Celsius, was.Sensor
		}
	}
	return most, sensor
}

// steady says whether none of the sensors rises any more: of each, the mean over the
// last window against that over the one before. A sensor that says the same forever is
// steady, and does not hide others.
func (p pace) steady(seen [][]host.Temperature) bool {
	n := int(p.window / p.look)
	if n < 1 || len(seen) < 2*n {
		return false
	}
	last, before := seen[len(seen)-n:], seen[len(seen)-2*n:len(seen)-n]
	for i := range last[0] {
		if mean(last, i)-mean(before, i) >= p.rise {
			return false
		}
	}
	return len(last[0]) > 0
}

// mean is sensor i's; a look that lacks it does not count.
func mean(seen [][]host.Temperature, i int) float64 {
	sum, n := 0.0, 0
	for _, ts := range seen {
		if i < len(ts) {
			sum += ts[i].Celsius
			n++
		}
	}
	return sum / float64(max(n, 1))
}

func hottest(ts []host.Temperature) (t host.Temperature, ok bool) {
	for i, x := range ts {
		if i == 0 || x.Celsius > t.Celsius {
			t, ok = x, true
		}
	}
	return t, ok
}

// Close ends what runs.
func (s *Surroundings) Close() error { return s.end(context.Background()) }

func (s *Surroundings) end(ctx context.Context) error {
	if s.load == nil {
		return nil
	}
	err := s.load.Stop(ctx)
	s.load, s.of = nil, ""
	if err != nil {
		return fmt.Errorf("end the load beside: %w", err)
	}
	return nil
}

func (s *Surroundings) atMost(open bool) string {
	if open {
		return "at most "
	}
	return ""
}

func (s *Surroundings) say(text string) {
	if s.Say != nil {
		s.Say(text)
	}
}

func (s *Surroundings) warn(text string) {
	if s.Warn != nil && !slices.Contains(s.told, text) {
		s.told = append(s.told, text)
		s.Warn(text)
	}
}
