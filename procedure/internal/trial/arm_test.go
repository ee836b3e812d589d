// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"testing"

	"boxdyno/result"
)

// Frames that a cable lost are named by the way on which they were. What the box itself loses without
// a counter is no cable's, however little. As many as others sent to a port are not known of a cable.
func TestBetweenBoards(t *testing.T) {
	for name, c := range map[string]struct {
		came, forwarded, left, back, received int64 // back: at the tester's port
		drops                                 []result.Term
		there, again, unexplained             int64
	}{
		"nothing":                  {1030, 1000, 1010, 1020, 1000, nil, 0, 0, 0},
		"on the way there":         {800, 800, 810, 820, 800, nil, 200, 0, 0},
		"there, beside others":     {830, 800, 810, 820, 800, nil, 170, 0, 30},
		"on the way back":          {1030, 1000, 1000, 700, 700, nil, 0, 300, 0},
		"back, beside others":      {1030, 1000, 1010, 720, 700, nil, 0, 280, 20},
		"on both":                  {830, 800, 810, 520, 500, nil, 170, 280, 50},
		"all":                      {30, 0, 10, 20, 0, nil, 970, 0, 30},
		"all, and nothing came":    {0, 0, 0, 0, 0, nil, 1000, 0, 0},
		"by the box, silently":     {1000, 400, 400, 400, 400, nil, 0, 0, 600},
		"by the box, a few":        {1000, 940, 940, 940, 940, nil, 0, 0, 60},
		"by the box, some by both": {900, 840, 840, 840, 840, nil, 100, 0, 60},
		"by the box's qdisc":       {1000, 1000, 600, 600, 600, []result.Term{{Place: result.Qdisc, N: 400}}, 0, 0, 0},
		"by the box's ring":        {600, 600, 600, 600, 600, []result.Term{{Place: result.DUTNIC, N: 400}}, 0, 0, 0},
		"its ring, and silently":   {600, 500, 500, 500, 500, []result.Term{{Place: result.DUTNIC, N: 400}}, 0, 0, 100},
		"by the box, after it":     {1000, 1000, 500, 500, 500, nil, 0, 0, 500},
		"by the meter, without":    {1000, 1000, 1000, 1000, 500, nil, 0, 0, 500},
		"by the meter's ring":      {1000, 1000, 1000, 600, 500, []result.Term{{Place: result.MeterAt, N: 400}}, 0, 0, 100},
	} {
		a := result.Account{Accepted: 1000, Received: c.received, Drops: c.drops, Passed: []result.Term{
			{Place: result.DUTNIC, From: "eth1 rx_packets", N: c.came}, {Place: result.DUTNIC, From: "eth1 tx_packets", N: c.left},
			{Place: result.Tester, From: "eth1 tx_packets", N: 1005}, {Place: result.MeterAt, From: "eth1 rx_packets", N: c.back},
		}}
		if c.forwarded > 0 { // a checkpoint that nothing passed is left out
			a.Passed = append(a.Passed, result.Term{Place: result.Routing, From: "Ip.ForwDatagrams", N: c.forwarded})
		}
		a.Unexplained = a.Accepted - a.Received - a.Dropped()
		betweenBoards(&a)
		lost := map[string]int64{}
		for _, d := range a.Drops {
			lost[d.Name] += d.N
		}
		if lost["lost on the way to the other board"] != c.there || lost["lost on the way back"] != c.again || a.Unexplained != c.unexplained || a.Accepted != a.Received+a.Dropped()+a.Unexplained {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
