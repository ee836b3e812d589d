// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"strings"
	"testing"

	"boxdyno/result"
)

func TestPlaceOfPort(t *testing.T) {
	any := func(string) bool { return true }
	for _, c := range []struct {
		owner           result.Place
		driver, counter string
		has             func(string) bool
		want            result.Place
	}{
		{result.Tester, "veth", "tx_dropped", any, result.DUTNIC},
		{result.DUTNIC, "veth", "tx_dropped", any, result.MeterAt},
		{result.Tester, "veth", "ethtool rx_queue_12_drops", any, result.MeterAt},
		{result.DUTNIC, "veth", "ethtool rx_queue_12_drops", any, result.DUTNIC},
		{result.DUTNIC, "veth", "ethtool rx_queue_0_xdp_drops", any, result.XDP},
		{result.Tester, "veth", "ethtool rx_queue_0_xdp_drops", any, ""},     // the meter's own program
		{result.DUTNIC, "veth", "ethtool rx_queue_0_xdp_tx_errors", any, ""}, // tx_dropped has them
		{result.DUTNIC, "veth", "ethtool rx_queue_0_xdp_redirect", any, ""},  // no loss
		{result.DUTNIC, "veth", "ethtool rx_queue_one_drops", any, ""},       // the star is a number
		{result.DUTNIC, "no such driver", "rx_missed_errors", any, result.DUTNIC},
		{result.Tester, "no such driver", "rx_missed_errors", any, result.MeterAt},
		{result.DUTNIC, "no such driver", "rx_dropped", any, ""},
		{result.DUTNIC, "no such driver", "rx_packets", any, ""},
		{result.DUTNIC, "no such driver", "qdisc drops", any, result.Qdisc},
		{result.DUTNIC, "macb", "rx_missed_errors", any, ""}, // the driver's row says why
		{result.DUTNIC, "macb", "ethtool rx_resource_errors", any, result.DUTNIC},
	} {
		if got := PlaceOfPort(c.owner, c.driver, c.counter, c.has); got != c.want {
			t.Errorf("%s of %s at the port of %q is at %q, want %q", c.counter, c.driver, c.owner, got, c.want)
		}
	}
	if got := BitsOfPort("no such driver", "qdisc drops"); got != 32 {
		t.Errorf("qdisc drops has %d bit, want 32", got)
	}
	if a, b := PlaceInStack("Ip.FragFails"), PlaceInStack("Ip.InReceives"); a != result.Routing || b != "" {
		t.Errorf("places in the stack are %q and %q", a, b)
	}
}

// A counter that another one of the port includes is no loss of its own.
func TestPlaceLacking(t *testing.T) {
	for _, d := range drivers {
		for _, m := range d.meanings {
			if m.lacking == "" || m.passed {
				continue
			}
			name := strings.Fields(d.name)[0]
			if got := PlaceOfPort(result.DUTNIC, name, m.counter, func(c string) bool { return c == m.lacking }); got != "" {
				t.Errorf("%s of %s is at %q although the port has %s", m.counter, name, got, m.lacking)
			}
			if got := PlaceOfPort(result.DUTNIC, name, m.counter, func(string) bool { return false }); got == "" && m.unless == "" {
				t.Errorf("%s of %s is nowhere although the port has no %s", m.counter, name, m.lacking)
			}
		}
	}
}
