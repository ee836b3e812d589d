// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"strconv"
	"strings"
	"testing"

	"boxdyno/engine"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// Every fault loses frames where it says, under the name that the kernel's own
// counters give them.
func TestFaults(t *testing.T) {
	testutil.Privileged(t)
	for _, c := range []struct {
		fault string
		place result.Place
		names string // of the terms, any of them
	}{
		{"blackhole", result.Routing, "blackhole route"},
		{"conntrack-full", result.Conntrack, "refused by connection tracking"},
		{"forwarding-off", result.Routing, "address not acceptable, or forwarding off"},
		{"mtu", result.Routing, "larger than the MTU"},
		{"neighbour", result.Neighbour, "neighbour queue full neighbour does not answer"},
		{"rp-filter", result.Routing, "reverse path filter"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			if c.fault == "conntrack-full" {
				needNFT(t)
			}
			const frames = 500
			tb := buildPlanted(t, Plant{Fault: c.fault})
			r := through(t, tb, 0, 1518, engine.Load{Rate: 5_000, Count: frames})
			var n int64
			for _, d := range r.Drops {
				if d.Place == c.place && strings.Contains(c.names, d.Name) {
					n += d.N
				}
			}
			if n == 0 || n != r.Dropped() && r.DroppedAt(result.DUTNIC) == 0 || r.seen.Frames != 0 {
				t.Errorf("%d of %d ended in %s: %+v", n, frames, c.place, r.Drops)
			}
			state, err := tb.Means.(Inspector).State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch c.fault {
			case "conntrack-full":
				entries, _ := strconv.Atoi(result.Get(state, "conntrack entries"))
				if most, _ := strconv.Atoi(result.Get(state, "conntrack most")); entries < most || most == 0 || result.Get(state, "nft rules") != "1" {
					t.Errorf("state %v", state)
				}
			case "mtu":
				if result.Get(state, "wan mtu") != strconv.Itoa(minMTU) || result.Get(state, "lan mtu") != strconv.Itoa(defaultMTU) {
					t.Errorf("state %v", state)
				}
			}
		})
	}
}

// The other work on the DUT's CPU ends with the testbed.
func TestBusyCore(t *testing.T) {
	testutil.Alone(t)
	tb := buildPlanted(t, Plant{Fault: "busy-core", Shaper: 10e6})
	if r := through(t, tb, 0, 512, engine.Load{Rate: 5_000, Count: 500}); r.seen.Frames == 0 {
		t.Errorf("nothing came through: %+v", r.Drops)
	}
	state, err := tb.Means.(Inspector).State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range []result.Pair{{Key: "nft rules", Value: "0"}, {Key: "lan rx queues", Value: "1"}, {Key: "lan rps", Value: "off"}, {Key: "wan qdisc", Value: "tbf"}, {Key: "wan mtu", Value: "1500"}} {
		if got := result.Get(state, kv.Key); got != kv.Value {
			t.Errorf("%s is %q, want %q", kv.Key, got, kv.Value)
		}
	}
	if err := tb.Close(); err != nil {
		t.Error(err)
	}
}

func TestFaultNames(t *testing.T) {
	for _, name := range faultNames() {
		p := Plant{Fault: name}
		if n := len(p.planted(1500)); name == "none" && n != 0 || name != "none" && n != 1 {
			t.Errorf("%s says %q", name, p.planted(1500))
		}
	}
}

// Rules are counted again when the ruleset has changed.
func TestStateCountsRules(t *testing.T) {
	tb := testSandbox(t, shared)
	needNFT(t)
	for _, c := range []struct {
		service Service
		rules   string
	}{{Service{Kind: "filter", Rules: 10}, "12"}, {Service{Kind: "filter", Rules: 2_000}, "2002"}, {Service{Kind: "route"}, "0"}} {
		if err := tb.Serve(t.Context(), c.service); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			state, err := tb.Means.(Inspector).State(t.Context())
			if err != nil || result.Get(state, "nft rules") != c.rules {
				t.Errorf("%+v: %v, %v, want %s rules", c.service, state, err, c.rules)
			}
		}
	}
}
