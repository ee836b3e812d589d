// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"fmt"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/catalog"
	"boxdyno/unit"
)

// A Sensor is a subject that listens to a port of the DUT while another procedure sends,
// and counts that procedure's frames.
//
//	Begin -> Follow -> the procedure's frames -> End, or Stop
type Sensor struct {
	point *capturePoint
	run   *capturing // nil: it has not begun
}

// NewSensor returns the subject of that name with flags of its own.
func NewSensor(name string, flags ...result.Pair) *Sensor {
	c := newCaptureOf(catalog.Captures)
	c.subject.Value, c.options = name, flags
	return &Sensor{point: &capturePoint{Capture: c}}
}

// Software is the subject. An error says that none captures by that name, or that it
// lacks one of the flags.
func (s *Sensor) Software() (subject.Named, error) { return s.point.software() }

// Begin starts the subject at port dut, and sends probe frames as probe does until it
// counts. The load to come is rate. Its own fault is an error that Broken knows.
func (s *Sensor) Begin(ctx context.Context, env *procedure.Env, tx engine.Transmitter, dut host.Port, probe engine.Stream, rate unit.FrameRate) (err error) {
	p := s.point
	p.env, p.tx, p.dut, p.stream = env, tx, dut, probe
	s.run, err = p.begin(ctx, engine.Load{Rate: rate})
	return err
}

// Follow reads the count until the function is called that it returns.
func (s *Sensor) Follow(ctx context.Context) (end func()) { return s.run.follow(ctx) }

// Stop ends the subject, however ctx stands.
func (s *Sensor) Stop(ctx context.Context) error { return s.point.end(ctx, s.run) }

// End stops the sensor, and adds to o what it saw of so many benign frames, the last of
// which left at an instant.
func (s *Sensor) End(ctx context.Context, o *procedure.Outcome, sent int64, last unit.Instant) error {
	d, err := s.run.drain(ctx, last, sent, s.point.standing, drainMost)
	if err != nil {
		return errors.Join(err, s.Stop(ctx))
	}
	if err := s.Stop(ctx); err != nil {
		return fault("it did not end: %w", err)
	}
	o.Warnings = append(o.Warnings, s.run.left()...)
	counted := int64(-1)
	if n := len(s.run.readings); n > 0 {
		counted = s.run.readings[n-1].n
	}
	if t, ok := s.run.run.(totaller); ok {
		if n := t.Totals().Captured - s.run.probed; n >= 0 {
			counted = n
		}
	}
	counted -= s.run.late(counted - sent)
	name := s.point.subject.Value
	switch {
	case counted < 0:
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s did not say how many frames it counted", name))
		return nil
	case counted > sent:
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s counted %d frames more than there were benign ones: others are among them", name, counted-sent))
		return nil
	case !d.still:
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s still counted %v after the last frame: what it would have counted later is missing", name, d.most))
	}
	o.Values = append(o.Values, figures.Value("sensor_seen_ratio", float64(counted)/float64(max(sent, 1))), figures.Value("sensor_missed", float64(sent-counted)))
	if _, ok := s.run.run.(subject.Counter); ok {
		terms, _, err := s.run.ownDrops(ctx)
		if err != nil {
			o.Warnings = append(o.Warnings, s.point.said(fmt.Errorf("its own counters are not known: %w", err)))
		}
		var own int64
		for _, t := range terms {
			own += t.N
		}
		o.Values = append(o.Values, figures.Value("sensor_dropped", float64(own)))
	}
	return nil
}

// Broken is what a subject that failed makes of a trial; false: err is not its fault.
func (s *Sensor) Broken(err error) (procedure.Outcome, bool) {
	var fault *subjectError
	if !errors.As(err, &fault) || errors.Is(err, subject.ErrLost) {
		return procedure.Outcome{}, false
	}
	return procedure.Outcome{Status: result.Failed, Reason: s.point.said(fault.err)}, true
}

// SensorMetrics are what End adds.
var SensorMetrics = []result.Metric{
	{Name: "sensor_seen_ratio", Label: "seen", Group: "A sensor beside a flood: benign frames of all phases that it counted", Share: true, Unit: "1", Better: 1, Help: "share of the benign frames of all phases that the sensor counted"},
	{Name: "sensor_missed", Label: "missed", Unit: "1", Better: -1, Help: "benign frames of all phases that it did not count, whether they came as far as its socket or not"},
	{Name: "sensor_dropped", Label: "dropped there", Unit: "1", Better: -1, Help: "of them, those that it says were dropped at its socket or by itself"},
}
