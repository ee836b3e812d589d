// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestHeld(t *testing.T) {
	up := []Link{{Host: "tester", Port: "p0", Losses: 3}, {Host: "dut", Port: "p0", Losses: 1}}
	for _, c := range []struct {
		now  []Link
		lost bool
	}{
		{up, false},
		{[]Link{{Host: "tester", Port: "p0", Losses: 3}, {Host: "dut", Port: "p0", Losses: 2}}, true},
		{[]Link{{Host: "tester", Port: "p0", Losses: 3, Down: true}}, true},
		{[]Link{{Host: "dut", Port: "p9", Losses: 7}}, false}, // it came meanwhile
	} {
		if err := held(up, c.now); errors.Is(err, ErrLink) != c.lost {
			t.Errorf("%+v: %v", c.now, err)
		}
	}
}

// A link that goes and comes back in mid-trial ends the account.
func TestLinkLost(t *testing.T) {
	b := newBed(t, false)
	book, err := Open([]Path{b.path("p0", "lan", "wan", "p1")})
	b.must(err)
	defer book.Close()
	ends := func(context.Context) (Ends, error) { return Ends{}, nil }
	for _, pull := range []bool{false, true} {
		b.must(book.Begin(t.Context()))
		b.in(b.tester, func() {
			if pull {
				b.must(errors.Join(netlink.LinkSetDown(b.link("p1")), netlink.LinkSetUp(b.link("p1"))))
			}
		})
		if _, err := book.Balance(t.Context(), ends); errors.Is(err, ErrLink) != pull {
			t.Errorf("pulled %v: %v", pull, err)
		}
	}
}
