// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"strings"

	"boxdyno/result"
)

// Counters of a port that are no term, and look like lost frames. Where they count
// what a term counts, they are silent; else what they grew by stands in the
// account, with why it is no term: it is where to look when frames are unexplained.

// everyUnread are those of every port.
var everyUnread = []unread{
	{"rx_dropped", "", "a sum of what the driver and the kernel dropped before a protocol saw it: a full CPU backlog (also in softnet.dropped), an unhandled protocol"},
	{"tx_dropped", "", "a sum of what the driver and the kernel before it dropped"},
	{"rx_nohandler", "", "frames for a port that is not the active one of a bond"},
}

var vethUnread = []unread{
	{"rx_dropped", "tx_dropped", "of the other end: the same frames, or what XDP dropped"},
	{"ethtool tx_queue_*_xdp_xmit_errors", "tx_dropped", "what XDP could not redirect to it"},
	{"rx_errors", "tx_dropped", "a veth has none"},
}

// lossy are parts of names of counters that may tell of lost frames.
var lossy = []string{"drop", "miss", "discard", "err", "fail", "overr", "overf", "ovf", "over_", "no_buf", "no_dma", "fifo", "out_of", "crc", "fcs", "bad_", "abort"}

func looksLost(counter string) bool {
	name := strings.ToLower(strings.TrimPrefix(counter, "ethtool "))
	return slices.ContainsFunc(lossy, func(s string) bool { return strings.Contains(name, s) })
}

// because says why a counter of a driver's port is no term; ok is false where it is
// one, counts what a term counts, or says nothing of lost frames.
func (d driver) because(counter string, want map[string]bool) (why string, ok bool) {
	if !looksLost(counter) {
		return "", false
	}
	for w := range want {
		if matches(w, counter) {
			return "", false
		}
	}
	for _, u := range slices.Concat(d.unread, everyUnread) {
		if matches(u.counter, counter) {
			return u.why, u.in == ""
		}
	}
	if !d.known() {
		return "driver " + d.name + " is not in the dictionary: nobody has said what it counts", true
	}
	for _, m := range d.meanings {
		if matches(m.counter, counter) {
			return "", false // of the other direction
		}
	}
	return "the dictionary has no place for it", true
}

// unreadOf are the counters of a port that are no term, with their values.
func (p *portOf) unreadOf(all counters) (list []result.Unread) {
	for name, n := range all {
		if why, ok := p.driver.because(name, p.want); ok {
			list = append(list, result.Unread{Host: p.label, Port: p.port.Name, Counter: name, N: int64(n), Why: why})
		}
	}
	return list
}

// unreadSince is what counters that are no term grew by, in the order of ports and
// names.
func unreadSince(before, after snapshot) (list []result.Unread) {
	type key struct{ host, port, counter string }
	every := func(s snapshot) (all []result.Unread) {
		all = slices.Clone(s.unread)
		for _, r := range s.remotes {
			all = append(all, r.Unread...)
		}
		return all
	}
	old := map[key]int64{}
	for _, u := range every(before) {
		old[key{u.Host, u.Port, u.Counter}] = u.N
	}
	for _, u := range every(after) {
		if u.N -= old[key{u.Host, u.Port, u.Counter}]; u.N != 0 {
			list = append(list, u)
		}
	}
	slices.SortStableFunc(list, func(a, b result.Unread) int {
		if c := strings.Compare(a.Host, b.Host); c != 0 {
			return c
		}
		if c := strings.Compare(a.Port, b.Port); c != 0 {
			return c
		}
		return strings.Compare(a.Counter, b.Counter)
	})
	return list
}

// portReceived names the frames that a port's driver handed on (everyPort).
const portReceived = "received"

// missed is the share of the unexplained frames that must be missing in the DUT's ports' own
// count before it is said that they ended there. A port also counts frames of others.
const missed = 0.9

// silentRings are the counters of frames without room in a ring of the DUT's ports, if all of
// them stood still while most unexplained frames never came as far as the ports' own count. An
// emulated igb is such a port: it has the counters, and nothing counts them up.
func silentRings(moved []term, a result.Account) (list []result.Unread) {
	var received, before int64
	for _, t := range moved {
		if t.passed && t.Place == result.DUTNIC && t.Name == portReceived {
			received += t.N
		}
	}
	for _, t := range a.Drops {
		if rank(t.Place) <= rank(result.DUTNIC) {
			before += t.N
		}
	}
	if float64(a.Accepted-received-before) < missed*float64(a.Unexplained) || a.Unexplained <= 0 {
		return nil
	}
	for _, t := range moved {
		if t.passed || t.Place != result.DUTNIC || t.driver == "" || !slices.Contains([]string{ringFull, fifoFull}, t.Name) {
			continue
		}
		if t.N != 0 {
			return nil
		}
		counter := strings.TrimPrefix(t.From, t.Link+" ")
		if n := len(list); n > 0 && list[n-1].Host == t.Host && list[n-1].Port == t.Link {
			list[n-1].Counter += ", " + counter
			continue
		}
		list = append(list, result.Unread{Host: t.Host, Port: t.Link, Counter: counter,
			Why: fmt.Sprintf("frames without room in a ring of driver %s belong there, and the ports received %d of %d frames: this port does not count them, or the cable lost them", t.driver, received, a.Accepted)})
	}
	return list
}
