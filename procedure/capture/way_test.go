// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"testing"

	"boxdyno/result"
)

// Frames that never came to the box's port are named, as far as no counter has them.
func TestOnTheWay(t *testing.T) {
	arrived := func(port string, n int64) result.Term {
		return result.Term{Place: result.DUTNIC, Host: "dut", Name: "received", From: port + " rx_packets", N: n, Link: port}
	}
	ended := func(n int64) result.Term {
		return result.Term{Place: result.Routing, Host: "dut", Name: "after the subject's socket: MAC address of another host", From: "eth1 rx_otherhost_dropped", N: n, Link: "eth1"}
	}
	for name, c := range map[string]struct {
		passed []result.Term
		drops  []result.Term
		counts int64 // frames that the subject counted
		want   int64
		rest   int64
	}{
		"a switch":         {[]result.Term{arrived("eth1", 258)}, nil, 258, 142, 0},
		"all of them":      {[]result.Term{arrived("eth1", 0)}, nil, 0, 400, 0},
		"all, and others":  {[]result.Term{arrived("eth1", 30), ended(0)}, nil, 0, 400, 0},
		"others' frames":   {[]result.Term{arrived("eth1", 260)}, nil, 258, 140, 2},
		"told apart":       {[]result.Term{arrived("eth1", 269), ended(258)}, nil, 258, 142, 0},
		"before the port":  {[]result.Term{ended(258), arrived("eth1", 269)}, nil, 258, 142, 0},
		"not counted":      {[]result.Term{arrived("eth1", 411), ended(400)}, nil, 390, 0, 10},
		"a full backlog":   {[]result.Term{arrived("eth1", 311), ended(250)}, []result.Term{{Place: result.Softnet, N: 50}}, 250, 100, 0},
		"past the stack":   {[]result.Term{arrived("eth1", 258), ended(3)}, nil, 258, 142, 0},
		"no loss":          {[]result.Term{arrived("eth1", 401)}, nil, 400, 0, 0},
		"the subject's":    {[]result.Term{arrived("eth1", 400)}, nil, 300, 0, 100},
		"a full ring":      {[]result.Term{arrived("eth1", 300)}, []result.Term{{Place: result.DUTNIC, N: 60}}, 300, 40, 0},
		"another port":     {[]result.Term{arrived("eth0", 258)}, nil, 258, 0, 142},
		"before and after": {[]result.Term{arrived("eth1", 300)}, []result.Term{{Place: result.Softnet, N: 50}}, 250, 100, 0},
	} {
		a := &result.Account{Accepted: 400, Received: c.counts, Passed: c.passed, Drops: c.drops}
		a.Unexplained = a.Accepted - a.Received - a.Dropped()
		onTheWay(a, "eth1")
		if a.DroppedAt(result.Link) != c.want || a.Unexplained != c.rest || a.Accepted != a.Received+a.Dropped()+a.Unexplained {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
