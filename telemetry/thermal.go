// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"path"
	"strings"

	"boxdyno/result"
)

// newThermal reads thermal zones, and the state of cooling devices: one whose type
// begins with cpufreq or Processor holds the clock down when its state is above 0.
// A zone may be an ACPI method or a firmware call, so it is asked beside the tick.
func newThermal(ctx context.Context, m *Machine) (Collector, error) {
	root := m.root()
	zones, cooling := &group{}, &group{}
	for _, dir := range numbered(root, "sys/class/thermal/thermal_zone*") {
		_ = zones.add(root, dir+"/temp", 1e-3, result.Series{Name: "node_thermal_zone_temp", Unit: "°C", // what cannot be opened is absent
			Labels: []result.Pair{{Key: "zone", Value: strings.TrimPrefix(path.Base(dir), "thermal_zone")}, {Key: "type", Value: sysText(root, dir+"/type")}},
			Help:   "temperature of a thermal zone"})
	}
	for _, dir := range numbered(root, "sys/class/thermal/cooling_device*") {
		_ = cooling.add(root, dir+"/cur_state", 1, result.Series{Name: "node_cooling_device_cur_state", Unit: "1",
			Labels: []result.Pair{{Key: "name", Value: strings.TrimPrefix(path.Base(dir), "cooling_device")}, {Key: "type", Value: sysText(root, dir+"/type")},
				{Key: "max_state", Value: sysText(root, dir+"/max_state")}},
			Help: "how hard a cooling device works, from 0 to max_state; of a CPU, how far it is throttled"})
	}
	p := &polled{}
	p.add(ctx, "thermal zones", sensorEvery, zones)
	p.add(ctx, "cooling devices", sensorEvery, cooling)
	return p.found()
}
