// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"strconv"
	"strings"

	"boxdyno/result"
)

// A Driver is one of the dictionary, for people.
type Driver struct {
	Names    []string  `json:"names"`          // as ethtool -i has them; "every port" is what holds for all
	Note     string    `json:"note,omitempty"` // on its counters as a whole
	Source   string    `json:"source"`         // of the kernel, read for Linux 6.12
	Counters []Counter `json:"counters"`
}

// A Counter is a row of the dictionary, for people.
type Counter struct {
	Counter string       `json:"counter"`         // "rx_dropped" of ip -s, "ethtool rx_missed" of ethtool -S; a star is a number, and the sum over it counts
	Use     string       `json:"use"`             // drop, checkpoint, counted by another, not used
	Place   result.Place `json:"place,omitempty"` // "": the port's own, tester, dut nic or meter
	Name    string       `json:"name,omitempty"`  // as in accounts
	In      string       `json:"in,omitempty"`    // the counters that count the same frames
	Why     string       `json:"why,omitempty"`   // why it is not used, or may count less than was lost
}

// Drivers is the dictionary of ports: first what holds for every port, then each
// driver's own.
func Drivers() (all []Driver) {
	every := driver{name: "every port", source: "include/uapi/linux/if_link.h: struct rtnl_link_stats64; net/core/dev.c: dev_get_stats", meanings: everyPort, unread: everyUnread,
		note: "Of a driver that is not in the dictionary these alone are used."}
	for _, d := range append([]driver{every}, drivers...) {
		e := Driver{Names: []string{d.name}, Note: d.note, Source: d.source}
		if d.known() && d.name != every.name {
			e.Names = strings.Fields(d.name)
		}
		for _, m := range d.meanings {
			c := Counter{Counter: m.counter, Use: "drop", Place: m.place, Name: m.name, Why: m.limit}
			if m.passed {
				c.Use = "checkpoint"
			}
			var more []string
			if m.limit != "" {
				more = append(more, m.limit)
			}
			if m.bits != 0 {
				more = append(more, strconv.Itoa(m.bits)+" bit")
			}
			if other := m.lacking + m.unless; other != "" {
				more = append(more, "not where the port has "+other)
			}
			c.Why = strings.Join(more, "; ")
			if !slices.Contains(e.Counters, c) { // of both directions
				e.Counters = append(e.Counters, c)
			}
		}
		for _, u := range d.unread {
			c := Counter{Counter: u.counter, Use: "not used", In: u.in, Why: u.why}
			if u.in != "" {
				c.Use = "counted by another"
			}
			e.Counters = append(e.Counters, c)
		}
		all = append(all, e)
	}
	return all
}
