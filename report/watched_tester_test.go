// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	"boxdyno/result"
)

// Heat of a tester that is another machine is none of the box's.
func TestWatchedBox(t *testing.T) {
	heat := func(machine string) result.Series {
		s := result.Series{Name: "node_thermal_zone_temp", Unit: "°C", Labels: []result.Pair{{Key: "type", Value: "cpu-thermal"}}}
		if machine != "" {
			s.Labels = append(s.Labels, result.Pair{Key: result.MachineLabel, Value: machine})
		}
		return s
	}
	for _, c := range []struct {
		machines [2]string
		want     float64
	}{{[2]string{"", ""}, 80}, {[2]string{result.MachineTester, result.MachineDUT}, 50}} {
		run := result.Run{Series: []result.Series{heat(c.machines[0]), heat(c.machines[1])}}
		w := watched(run, []result.Record{{ID: "a/1", Parent: "a", Digests: []result.Digest{{Series: 0, N: 1, Max: 80}, {Series: 1, N: 1, Max: 50}}}})
		if w == nil || w.Hottest == nil || w.Hottest.Value != c.want {
			t.Errorf("%v: %+v, want %v", c.machines, w, c.want)
		}
	}
}
