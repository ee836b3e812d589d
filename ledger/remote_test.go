// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	"boxdyno/result"
)

// Frames that a program of boxdyno's own drops in XDP are in the account once, whether the
// driver counts them by themselves, among others, or not at all.
func TestAddXDPCountsOnce(t *testing.T) {
	driver := func(name string) result.Term {
		return result.Term{Place: result.DUTNIC, Host: "dut", Name: name, From: "eth0 counter", Link: "eth0"}
	}
	for _, c := range []struct {
		name   string
		grows  uint64 // the driver's counter, while 500 frames are dropped by the program
		native bool
		other  int64 // drops that are not the program's
	}{
		{XDPDrop, 500, true, 0},
		{"receive failed in the driver, or XDP drop", 507, true, 7},
		{"receive failed in the driver", 7, true, 7},
		{XDPDrop, 0, false, 0},
		{XDPDrop, 7, false, 7}, // another program's
	} {
		var r [2]Reading
		for i := range r {
			r[i].Tallies = []Tally{{Term: driver(c.name), Value: 1000 + uint64(i)*c.grows}}
			r[i].AddXDP("dut", "eth0", 40+uint64(i)*500, c.native)
			r[i].AddXDP("dut", "eth1", 3, c.native)
		}
		own, other := int64(0), int64(0)
		for _, g := range r[1].since(r[0]) {
			if g.Place == result.XDP && g.From != "eth0 counter" {
				own += g.N
			} else {
				other += g.N
			}
		}
		if own != 500 || other != c.other {
			t.Errorf("%+v: %d by the program, %d others", c, own, other)
		}
	}
}
