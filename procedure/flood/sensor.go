// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"fmt"
	"slices"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/lab"
	"boxdyno/procedure/capture"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// noSensor is the name of no subject.
const noSensor = "none"

// udpFloods are the kinds that a sensor's filter for UDP lets pass, too.
var udpFloods = []string{"udp", "dns", "ntp", "fragments"}

// newSensor is the subject, told to count benign frames alone: what it still sees of them
// is known.
func (p *Flood) newSensor(bed *lab.Testbed) *capture.Sensor {
	if p.attacksBox() { // the flood, and not the clients
		return capture.NewSensor(p.sensor.Value, result.Pair{Key: "filter", Value: ofTheFlood(bed)})
	}
	if !slices.Contains(udpFloods, p.kind.Value) {
		return capture.NewSensor(p.sensor.Value)
	}
	return capture.NewSensor(p.sensor.Value, result.Pair{Key: "filter", Value: fmt.Sprintf("udp[8:4] = %#x", frame.Magic)})
}

// Needs implements Needing: a sensor listens.
func (p *Flood) Needs() (need lab.Capability, service string) {
	if p.sensor.Value != noSensor {
		need = lab.Listener
	}
	if p.attacksBox() {
		return need | lab.Sockets, ""
	}
	return need, p.Service.Value
}

// checkSensor refuses what no sensor can do.
func (p *Flood) checkSensor(bed *lab.Testbed) error {
	if p.sensor.Value == noSensor {
		return nil
	}
	if p.IPv6() {
		return fmt.Errorf("sensor %s: it is watched over IPv4 only", p.sensor.Value)
	}
	if _, err := p.newSensor(bed).Software(); err != nil {
		return fmt.Errorf("sensor: %w", err)
	}
	return nil
}

// sense starts the sensor on the port where both come in, on the box's CPU, and waits until
// it counts; nil: there is none.
func (m *floodPoint) sense(ctx context.Context) (*capture.Sensor, error) {
	if m.sensor.Value == noSensor {
		return nil, nil
	}
	bed, s := m.env.Bed, m.newSensor(m.env.Bed)
	from, to := m.from(), 1-m.from()
	smallest := frame.Mix{Sizes: []unit.FrameSize{frame.Smallest(false)}}
	probe := engine.Stream{Lane: from, Frames: trial.Between(bed.Ports[from], bed.Ports[to], smallest, 1, false)}
	if err := s.Begin(ctx, m.env, m.rig.TX, m.rig.Paths[0].Hops[1].Port, probe, m.benignRate()); err != nil {
		return nil, err
	}
	return s, nil
}
