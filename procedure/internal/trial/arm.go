// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"slices"
	"strings"

	"boxdyno/result"
)

// betweenBoards names the frames of a box of one arm that were lost between it and the tester, in a
// cable or a switch, on each way:
//
//	tester: sent ---- rx_packets: box: forwarded by IPv4: tx_packets ---- rx_packets: tester
//
// They are what the counters at the two ends of a way differ by, less what a ring at an end dropped.
// The ports count frames of others, too, which stand for as many lost ones: those stay unexplained,
// as does what came to the box's port and was not forwarded.
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
	there, again := a.Accepted-max(came.N, forwarded.N), min(left.N, forwarded.N)-back.N
	for _, d := range a.Drops {
		switch n := max(d.N, 0); {
		case slices.Index(result.Places, d.Place) <= slices.Index(result.Places, result.DUTNIC):
			there -= n
		case d.Place == result.MeterAt:
			again -= n
		}
	}
	for _, way := range []result.Term{
		{Name: "lost on the way to the other board", From: "sent - " + counterOf(came), Host: came.Host, N: there},
		{Name: "lost on the way back", From: counterOf(left) + " - " + counterOf(back), Host: back.Host, N: again},
	} {
		way.Place = result.Link
		if way.N = min(way.N, a.Unexplained); way.N > 0 {
			a.Drops = append(a.Drops, way)
			a.Unexplained -= way.N
		}
	}
	slices.SortStableFunc(a.Drops, func(x, y result.Term) int {
		return slices.Index(result.Places, x.Place) - slices.Index(result.Places, y.Place)
	})
}

// counterOf is a checkpoint's counter with its machine; one that nothing passed is not in an account.
func counterOf(t result.Term) string {
	if t.From == "" {
		return "0"
	}
	return t.Host + " " + t.From
}
