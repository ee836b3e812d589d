// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/catalog"
	"boxdyno/unit"
)

// noSensor is the name of no subject.
const noSensor = "none"

// udpFloods are the kinds that a sensor's filter for UDP lets pass, too.
var udpFloods = []string{"udp", "dns", "ntp", "fragments"}

// A floodSensor is a subject that captures on the port where both come in, on the box's
// CPU, and is told to count benign frames alone: what it still sees of them is known.
type floodSensor struct {
	point *capturePoint
	run   *capturing
}

// capture is the subject as procedure capture has it.
func (p *Flood) capture() *Capture {
	c := newCaptureOf(catalog.Captures)
	c.subject.Value = p.sensor.Value
	if slices.Contains(udpFloods, p.kind.Value) {
		c.options = []result.Pair{{Key: "filter", Value: fmt.Sprintf("udp[8:4] = %#x", frame.Magic)}}
	}
	return c
}

// Needs implements Needing: a sensor listens.
func (p *Flood) Needs() (need lab.Capability, service string) {
	if p.sensor.Value != noSensor {
		need = lab.Listener
	}
	return need, p.service.Value
}

// checkSensor refuses what no sensor can do.
func (p *Flood) checkSensor() error {
	if p.sensor.Value == noSensor {
		return nil
	}
	if p.ipv6() {
		return fmt.Errorf("sensor %s: it is watched over IPv4 only", p.sensor.Value)
	}
	if _, err := p.capture().software(); err != nil {
		return fmt.Errorf("sensor: %w", err)
	}
	return nil
}

// sense starts the sensor and waits until it counts; nil: there is none. A *subjectError
// is its fault.
func (m *floodPoint) sense(ctx context.Context) (_ *floodSensor, err error) {
	if m.sensor.Value == noSensor {
		return nil, nil
	}
	bed := m.env.Bed
	from, to := m.from(), 1-m.from()
	smallest := frame.Mix{Sizes: []unit.FrameSize{frame.Smallest(false)}}
	p := &capturePoint{
		Capture: m.capture(), env: m.env, tx: m.rig.tx, dut: m.rig.paths[0].Hops[1].Port,
		stream: engine.Stream{ID: captureStream, Lane: from, Frames: between(bed.Ports[from], bed.Ports[to], smallest, 1, false)},
	}
	s := &floodSensor{point: p}
	if s.run, err = p.begin(ctx, engine.Load{Rate: m.benignRate()}); err != nil {
		return nil, err
	}
	return s, nil
}

// end stops the sensor, and adds to o what it saw of so many benign frames, the last of
// which left at an instant.
func (s *floodSensor) end(ctx context.Context, o *Outcome, sent int64, last unit.Instant) error {
	if s == nil {
		return nil
	}
	d, err := s.run.drain(ctx, last, sent, s.point.standing, drainMost)
	if err != nil {
		return errors.Join(err, s.point.end(ctx, s.run))
	}
	if err := s.point.end(ctx, s.run); err != nil {
		return fault("it did not end: %w", err)
	}
	counted := int64(-1)
	if n := len(s.run.readings); n > 0 {
		counted = s.run.readings[n-1].n
	}
	if t, ok := s.run.run.(totaller); ok {
		if n := t.Totals().Captured - s.run.probed; n >= 0 {
			counted = n
		}
	}
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
	o.Values = append(o.Values, floodFigures.Value("sensor_seen_ratio", float64(counted)/float64(max(sent, 1))), floodFigures.Value("sensor_missed", float64(sent-counted)))
	if c, ok := s.run.run.(subject.Counter); ok {
		terms, err := c.Count(ctx)
		if err != nil {
			o.Warnings = append(o.Warnings, s.point.said(fmt.Errorf("its own counters are not known: %w", err)))
		}
		var own int64
		for _, t := range terms {
			own += t.N
		}
		o.Values = append(o.Values, floodFigures.Value("sensor_dropped", float64(own)))
	}
	return nil
}

// broken is what a sensor that failed makes of a trial; false: it was not the sensor.
func (m *floodPoint) broken(err error) (Outcome, bool) {
	var fault *subjectError
	if !errors.As(err, &fault) || errors.Is(err, subject.ErrLost) {
		return Outcome{}, false
	}
	return Outcome{Status: result.Failed, Reason: m.capture().said(fault.err)}, true
}
