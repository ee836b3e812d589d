// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"strings"

	"boxdyno/result"
)

// PlaceOfPort says where frames ended that a port's counter counts:
// "rx_missed_errors", "qdisc drops" or, of the driver's own, "ethtool
// rx_queue_0_drops". The port is the tester's (result.Tester) or the DUT's
// (result.DUTNIC), and its link leads to the other of the two; has says which
// counters it has. "" is for a counter that counts no lost frames, or none that
// another one does not count too.
func PlaceOfPort(owner result.Place, driver, counter string, has func(counter string) bool) result.Place {
	d := driverOf(driver)
	for i, list := range [][]meaning{d.meanings, everyPort} {
		for _, m := range list {
			if m.passed || !matches(m.counter, counter) || i == 1 && d.skips(m.counter) {
				continue
			}
			if m.lacking != "" && has(m.lacking) || m.unless != "" && PlaceOfPort(owner, driver, m.unless, has) != "" {
				continue
			}
			hop := owner
			if owner == result.Tester && m.dir == receives {
				hop = result.MeterAt
			}
			switch {
			case m.at != "" && m.at != hop:
			case m.far != "" && owner == result.DUTNIC:
				return result.MeterAt
			case m.place == "":
				return hop
			default:
				return m.place
			}
		}
	}
	return ""
}

// BitsOfPort says after how many bits a port's counter wraps, where the dictionary
// knows that a driver's has fewer than 64; else 0.
func BitsOfPort(driver, counter string) int {
	for _, list := range [][]meaning{driverOf(driver).meanings, everyPort} {
		for _, m := range list {
			if m.bits != 0 && matches(m.counter, counter) {
				return m.bits
			}
		}
	}
	return 0
}

// PlaceInStack is the same of a counter of a namespace or machine:
// "Ip.InHdrErrors", "conntrack.drop".
func PlaceInStack(counter string) result.Place {
	for _, m := range stack {
		if m.counter == counter && !m.passed {
			return m.place
		}
	}
	return ""
}

// matches says whether a counter is the one that a pattern of the dictionary names
// ("ethtool rx_queue_*_drops": the star is a number).
func matches(pattern, counter string) bool {
	before, after, starred := strings.Cut(pattern, "*")
	middle, ok := strings.CutPrefix(counter, before)
	if ok {
		middle, ok = strings.CutSuffix(middle, after)
	}
	return ok && (starred && middle != "" && strings.Trim(middle, "0123456789") == "" || !starred && middle == "")
}
