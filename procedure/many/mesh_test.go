// SPDX-License-Identifier: Apache-2.0

package many

import (
	"strings"
	"testing"

	"boxdyno/procedure"
)

// The slowest pair is named, and so is a board whose streams one way are all slow; a pair
// that is slow by itself is no board's fault.
func TestMeshNames(t *testing.T) {
	names := []string{"b1", "b2", "b3", "b4"}
	for name, c := range map[string]struct {
		slow func(from, to int) bool
		want string
		none string
	}{
		"a board sends slowly":    {func(from, _ int) bool { return from == 2 }, "all streams from b3 are slow: at most 100 Mbit/s, 11 % of the median", "streams to"},
		"a board receives slowly": {func(_, to int) bool { return to == 0 }, "all streams to b1 are slow", "streams from"},
		"no pair":                 {func(int, int) bool { return false }, "940 Mbit/s, 100 % of the median", "e+"},
		"one pair":                {func(from, to int) bool { return from == 1 && to == 3 }, "the slowest pair is b2 to b4: 100 Mbit/s", "all streams"},
	} {
		all := map[[2]int][]float64{}
		for i := range names {
			for k := range names {
				if i != k {
					v := 940e6
					if c.slow(i, k) {
						v = 100e6
					}
					all[[2]int{i, k}] = []float64{v - 1e6, v, v + 2e6}
				}
			}
		}
		var o procedure.Outcome
		(&mesh{}).figures(&o, names, all)
		if said := strings.Join(o.Warnings, ""); !strings.Contains(said, c.want) || strings.Contains(said, c.none) || value(o.Values, "pairs_worst_bps") != map[bool]float64{true: 940e6, false: 100e6}[name == "no pair"] || value(o.Values, "pairs_median_bps") != 940e6 {
			t.Errorf("%s: %q, %+v", name, said, o.Values)
		}
	}
}

// Figures of fast networks, and of pairs that carry nothing, can be read.
func TestMeshSays(t *testing.T) {
	for v, want := range map[float64]string{2350e6: "2.35 Gbit/s, 100 % of the median", 18.3e6: "18.3 Mbit/s, 0.78 % of the median", 0: "0 bit/s, 0 % of the median"} {
		if got := beside(v, 2350e6, "bit/s"); got != want {
			t.Errorf("%g: %q, want %q", v, got, want)
		}
	}
	if got := beside(0, 0, "bit/s"); got != "0 bit/s" {
		t.Errorf("beside nothing: %q", got)
	}
}
