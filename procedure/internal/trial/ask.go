// SPDX-License-Identifier: Apache-2.0

package trial

import "boxdyno/unit"

// ask is the load, each stream's, that the criteria which this point decides ask for;
// 0: none does.
func (m *Point) ask() (load unit.FrameRate) {
	mean, streams := m.Mix.Mean(), m.Streams()
	for _, c := range m.Env.Criteria {
		if c.Min == nil || *c.Min <= 0 {
			continue
		}
		least := *c.Min
		switch c.Metric {
		case "throughput_fps":
			load = max(load, unit.FrameRate(least)/streams)
		case "throughput_bps":
			load = max(load, unit.FrameRate(least/8/mean)/streams)
		case "throughput_l1_bps": // is each direction's
			load = max(load, unit.LineRate(unit.BitRate(least), mean))
		}
	}
	return load
}
