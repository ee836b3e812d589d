// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"net/netip"
	"testing"
)

// No two boards of one network have a test address in common, whichever run they are in. A network
// in which they could is refused.
func TestArmAddresses(t *testing.T) {
	network := netip.MustParsePrefix("10.7.192.0/18")
	if err := ArmPrefix(network); err != nil {
		t.Error(err)
	}
	seen := map[netip.Addr]netip.Addr{}
	for a := network.Addr(); network.Contains(a); a = a.Next() {
		for i, p := range (BoardCable{Address: a, To: "eth1"}).Ports() {
			for _, x := range []netip.Addr{p.Addresses[0].Addr(), p.Hops[0]} {
				if other, is := seen[x]; is || !sides[i].net4.Masked().Contains(x) {
					t.Fatalf("%s and %s have %s", other, a, x)
				}
				seen[x] = a
			}
		}
	}
	if len(seen) != 4<<slotBits {
		t.Errorf("%d addresses", len(seen))
	}
	for _, wide := range []string{"10.0.0.0/17", "10.0.0.0/8"} {
		if ArmPrefix(netip.MustParsePrefix(wide)) == nil {
			t.Errorf("%s is not refused", wide)
		}
	}
}
