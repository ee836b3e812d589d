// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/frame"
	"boxdyno/internal/netns"
)

// Routes to networks are there for as long as the service asks for them, and each
// carries its frames; without them IPv6 has no way to those networks.
func TestNetworks(t *testing.T) {
	tb := testSandbox(t, shared)
	before := routes(t, tb)
	serve := func(n int) time.Duration {
		begin := time.Now()
		if err := tb.Serve(t.Context(), Service{Kind: "route", Networks: n}); err != nil {
			t.Fatal(err)
		}
		return time.Since(begin)
	}
	ways := map[string]way{}
	for _, n := range []int{0, 1, 255} {
		ways[fmt.Sprintf("lan-to-wan, network %d", n)] = way{from: 0, to: 1, src: "198.18.0.2", dst: fmt.Sprintf("198.19.%d.2", n)}
		ways[fmt.Sprintf("wan-to-lan, network %d", n)] = way{from: 1, to: 0, src: "198.19.0.2", dst: fmt.Sprintf("198.18.%d.2", n)}
		ways[fmt.Sprintf("lan-to-wan, IPv6 network %d", n)] = way{from: 0, to: 1, src: "2001:2:0:1::2", dst: fmt.Sprintf("2001:2:0:%x::2", n<<8|2)}
		ways[fmt.Sprintf("wan-to-lan, IPv6 network %d", n)] = way{from: 1, to: 0, src: "2001:2:0:2::2", dst: fmt.Sprintf("2001:2:0:%x::2", n<<8|1)}
	}
	for range 2 {
		t.Logf("routes set in %v", serve(frame.MaxNetworks))
		with := routes(t, tb)
		// Of each side 256 of IPv4 and, beside the connected one, 255 of IPv6.
		if got := len(with) - len(before); got != 2*(256+255) {
			t.Fatalf("%d routes were added", got)
		}
		for _, want := range []string{
			"198.19.0.0/24 via 198.19.0.2", "198.19.255.0/24 via 198.19.0.2", "198.18.7.0/24 via 198.18.0.2",
			"2001:2:0:102::/64 via 2001:2:0:2::2", "2001:2:0:ff01::/64 via 2001:2:0:1::2",
		} {
			if !with[want] {
				t.Errorf("there is no route %s", want)
			}
		}
		for name, w := range ways {
			w.srcPort, w.dstPort = 10_000, frame.Port
			if got := burst(t, tb, w, 10, -1); got != 10 {
				t.Errorf("%s: %d of 10 came through", name, got)
			}
		}
		t.Logf("routes removed in %v", serve(0))
		if left := routes(t, tb); fmt.Sprint(left) != fmt.Sprint(before) {
			t.Errorf("%d routes are left, %d were there before", len(left), len(before))
		}
	}
	if err := tb.Serve(t.Context(), Service{Kind: "route", Networks: 257}); err == nil {
		t.Error("257 networks were taken")
	}
}

// routes are those of the DUT's main table.
func routes(t *testing.T, tb *Testbed) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	if err := netns.Do(tb.DUT.Netns, func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer nl.Close()
		list, err := nl.RouteList(nil, netlink.FAMILY_ALL)
		for _, r := range list {
			if r.Gw != nil {
				all[fmt.Sprintf("%v via %v", r.Dst, r.Gw)] = true
			} else {
				all[fmt.Sprintf("%v dev %d", r.Dst, r.LinkIndex)] = true
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}
