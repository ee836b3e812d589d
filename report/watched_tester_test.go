// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
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

// Frames that a replay's box counted at its port are not lost, whatever its driver calls them.
func TestWatchedReplayIntoBox(t *testing.T) {
	run := result.Run{Series: []result.Series{
		{Name: "node_ethtool_received_queue_0_xdp_drops", Counter: true, Place: result.XDP},
		{Name: "node_ethtool_received_queue_0_drops", Counter: true, Place: result.DUTNIC}, // virtio_net: of XDP, too
		{Name: "boxdyno_softnet_dropped_total", Counter: true, Place: result.Softnet},
	}}
	for target, want := range map[string][]PlaceLost{
		"box":     {{result.DUTNIC, 7}, {result.XDP, 2}, {result.Softnet, 5}},
		"through": {{result.DUTNIC, 1007}, {result.XDP, 1002}, {result.Softnet, 5}},
	} {
		trial := result.Record{
			ID: "a/1", Parent: "a", Procedure: replayProcedure, Config: []result.Pair{{Key: "target", Value: target}},
			Digests: []result.Digest{{Series: 0, N: 1, Growth: 1002}, {Series: 1, N: 1, Growth: 1007}, {Series: 2, N: 1, Growth: 5}},
			Account: &result.Account{Drops: []result.Term{{Place: result.XDP, N: 2}, {Place: result.DUTNIC, N: 7}, {Place: result.Softnet, N: 5}}},
		}
		point := trial // has its last trial's account
		point.ID, point.Parent, point.Digests = "a", "", nil
		if w := watched(run, []result.Record{trial, point}); w == nil || !slices.Equal(w.Lost, want) {
			t.Errorf("%s: %+v, want %+v", target, w, want)
		}
	}
}
