// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"strings"
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

// Where frames end before a port's own count, and its ring's counters stand still, they are
// named; not where one of them grew, or the port received the frames.
func TestSilentRings(t *testing.T) {
	for _, c := range []struct {
		received, missed, drops, refused int64
		want                             string
	}{
		{600, 0, 0, 0, "rx_missed_errors, rx_queue_*_drops"},
		{603, 0, 0, 0, "rx_missed_errors, rx_queue_*_drops"}, // some of others
		{600, 0, 1, 0, ""},
		{600, 1, 0, 0, ""},
		{1000, 0, 0, 0, ""},
		{600, 0, 0, 300, ""}, // most of them are the sender's
	} {
		port := func(name, counter string, passed bool, n uint64) Tally {
			return Tally{Term: result.Term{Place: result.DUTNIC, Host: "dut", Name: name, From: "eth0 " + counter, Link: "eth0"}, Value: n, Passed: passed, Driver: "igb"}
		}
		after := Reading{Tallies: []Tally{port(fifoFull, "rx_missed_errors", false, uint64(c.missed)), port(ringFull, "rx_queue_*_drops", false, uint64(c.drops)),
			port(wrongSize, "rx_length_errors", false, 0), port(portReceived, "rx_packets", true, uint64(c.received))}}
		a := result.Account{Accepted: 1000, Unexplained: 400, Drops: []result.Term{{Place: result.Tester, N: c.refused}}}
		got := silentRings(after.since(Reading{}), a)
		if c.want == "" && got != nil || c.want != "" && (len(got) != 1 || got[0].Counter != c.want || got[0].N != 0 || got[0].Port != "eth0") {
			t.Errorf("%+v: %+v", c, got)
		}
		for _, u := range got {
			for _, word := range []string{"driver igb", "of 1000 frames", "this port does not count them"} {
				if !strings.Contains(u.Why, word) {
					t.Errorf("%q lacks %q", u.Why, word)
				}
			}
		}
		a.Unexplained = 0
		if got := silentRings(after.since(Reading{}), a); got != nil {
			t.Errorf("nothing is unexplained: %+v", got)
		}
	}
}
