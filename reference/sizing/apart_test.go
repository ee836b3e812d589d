// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"math"
	"strings"
	"testing"

	"boxdyno/result"
)

// Two of four boards serve. Whichever meters there are, of boards, shelves, the switch and the
// wall, a board is counted once: 5 W at work, 2 W idle, and the switch 6 W and 8 W.
func TestBoardsAreCountedOnce(t *testing.T) {
	energy := func(of string, watts float64) result.Energy {
		return result.Energy{Meter: "plug of " + of, Covers: "wall", Of: of, Joules: 10 * watts, Seconds: 10, Readings: 9}
	}
	idle := []result.Energy{energy("all+switch", 14), energy("all", 8), energy("b1", 2), energy("b2", 2), energy("b3", 2), energy("b1+b2", 4), energy("b2+b3", 4), energy("switch", 6)}
	known := func(boards, idles, shared, before float64) Apart {
		return Apart{Boards: boards, Idle: idles, Shared: shared, Before: &before}
	}
	for name, c := range map[string]struct {
		meters []result.Energy
		want   Apart
		meter  string // by which it is known
		idles  int
		why    string
	}{
		"the wall":                 {[]result.Energy{energy("all+switch", 22)}, known(10, 4, 8, 4), "plug of all+switch", 2, ""},
		"all boards":               {[]result.Energy{energy("all", 14)}, known(10, 4, 8, 4), "plug of all", 2, ""},
		"the wall and its boards":  {[]result.Energy{energy("all+switch", 22), energy("b1", 5), energy("b2", 5)}, known(10, 0, 8, 4), "plug of b1 + plug of b2", 0, ""},
		"an idle board's own":      {[]result.Energy{energy("all+switch", 23), energy("b3", 3)}, known(10, 5, 8, 4), "plug of all+switch", 2, ""},
		"a shelf and its board":    {[]result.Energy{energy("b1", 5), energy("b1+b2", 10)}, known(10, 0, 8, 4), "plug of b1+b2", 0, ""},
		"a board and a shelf":      {[]result.Energy{energy("b1", 5), energy("b2+b3", 7)}, known(10, 2, 8, 4), "plug of b1 + plug of b2+b3", 1, ""},
		"shelves that overlap":     {[]result.Energy{energy("b1+b2", 10), energy("b2+b3", 7)}, known(10, 0, 8, 4), "plug of b1+b2", 0, ""},
		"the switch's own":         {[]result.Energy{energy("all+switch", 23), energy("switch", 9)}, known(10, 4, 9, 4), "plug of all+switch", 2, ""},
		"one of two":               {[]result.Energy{energy("b1", 5), energy("b3", 2)}, Apart{}, "", 0, "not all boards that served"},
		"none":                     {nil, Apart{}, "", 0, ""},
		"less than the parts take": {[]result.Energy{energy("all+switch", 7)}, Apart{}, "", 0, "it read less than is stated"},
	} {
		run := fleetRun("Raspberry Pi 4 Model B Rev 1.4", nil).Run
		run.Machines = []result.Machine{{Name: "b1"}, {Name: "b2"}, {Name: "b3"}, {Name: "b4"}}
		run.Environments = [][]result.Pair{{{Key: result.SharedKey, Value: "switch=60USD,6..8W"}}}
		run.Telemetry = []result.Telemetry{{Idle: idle}}
		p := point("fleet-hpl-mpi", "hpl_rate", 1e9, 0, 0, "nodes", "2")
		p.Boards = []result.Board{{Name: "b1"}, {Name: "b2"}}
		p.Energy = c.meters
		a, why := TellApart(run, p)
		near := func(got, want float64) bool { return math.Abs(got-want) < 1e-9 }
		if !near(a.Boards, c.want.Boards) || !near(a.Idle, c.want.Idle) || a.IdleN != c.idles || strings.Join(a.Meters, " + ") != c.meter || (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %+v, %q, want %+v by %s", name, a, why, c.want, c.meter)
		}
		if c.want.Before != nil && (!near(a.Shared, c.want.Shared) || a.Before == nil || !near(*a.Before, *c.want.Before)) {
			t.Errorf("%s: %+v, want %+v and %g W before", name, a, c.want, *c.want.Before)
		}
	}
}
