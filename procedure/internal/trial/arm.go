// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"slices"
	"strings"

	"boxdyno/result"
)

// othersFrames are more than come to a port in a trial beside test frames: ARP, and what IPv6
// sends of itself.
const othersFrames = 100

// betweenBoards names the frames of a box of one arm that were lost between it and the tester, in a
// cable or a switch, on each way:
//
//	tester: sent ---- rx_packets: box: forwarded by IPv4: tx_packets ---- received: tester
//
// The box's IP layer counts test frames alone, its port also those of others. So no more is lost on a
// way than the counters of the ports at its ends differ by, and othersFrames: what went by the port
// and was not forwarded stays unexplained.
func betweenBoards(a *result.Account) {
	var forwarded, came, left, back result.Term
	for _, t := range a.Passed {
		switch {
		case t.Place == result.Routing && t.From == "Ip.ForwDatagrams":
			forwarded = t
		case t.Place == result.DUTNIC && strings.HasSuffix(t.From, " rx_packets"):
			came = t
		case t.Place == result.DUTNIC && strings.HasSuffix(t.From, " tx_packets"):
			left = t
		case t.Place == result.MeterAt && strings.HasSuffix(t.From, " rx_packets"):
			back = t
		}
	}
	there, again := a.Accepted-forwarded.N, forwarded.N-a.Received
	for _, d := range a.Drops {
		if slices.Index(result.Places, d.Place) <= slices.Index(result.Places, result.Routing) {
			there -= d.N
		} else {
			again -= d.N
		}
	}
	for _, way := range []struct {
		n, ports   int64
		name, from string
		host       string
	}{
		{there, a.Accepted - came.N, "lost on the way to the other board", "sent - Ip.ForwDatagrams", came.Host},
		{again, left.N - back.N, "lost on the way back", "Ip.ForwDatagrams - received", back.Host},
	} {
		if n := min(way.n, way.ports+othersFrames, a.Unexplained); n > 0 {
			a.Drops = append(a.Drops, result.Term{Place: result.Link, Host: way.host, Name: way.name, From: way.from, N: n})
			a.Unexplained -= n
		}
	}
	slices.SortStableFunc(a.Drops, func(x, y result.Term) int {
		return slices.Index(result.Places, x.Place) - slices.Index(result.Places, y.Place)
	})
}
