// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/result"
)

// A box is said to carry only what trials confirmed; else the row's forwarding rate stands.
func TestBurstNamesTheRate(t *testing.T) {
	traffic := NewTraffic(Forwarding)
	m := &Point{Traffic: &traffic, Rig: &Rig{Streams: make([]engine.Stream, 1)}, Effort: EffortOf(traffic.Preset.Value),
		Readings: []underLoad{{858e3, time.Second}}, stamina: stamina{beyond: []float64{9e5, 8e5}, rested: true}}
	row := result.Value{Value: 853e3}
	for _, c := range []struct {
		carried float64
		bound   result.Bound
		row     result.Bound
		want    string
	}{
		{0, result.Exactly, result.Exactly, "under overload it forwards 853 kframe/s without end, and bursts of 800,000 frames above that"},
		{0, result.Exactly, result.AtMost, "under overload it forwards at most 853 kframe/s without end, "},
		{700e3, result.AtLeast, result.Exactly, "carries at least 700 kframe/s without end, and bursts of 800,000 frames above that"},
	} {
		row.Bound = c.row
		if _, told := m.burst(c.carried, c.bound, row); !strings.HasPrefix(told, c.want) {
			t.Errorf("%v carried: %q, want %q", c.carried, told, c.want)
		}
	}
}
