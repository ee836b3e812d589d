// SPDX-License-Identifier: Apache-2.0

package text

import (
	"testing"

	"boxdyno/report"
	"boxdyno/result"
)

// A loss of the receiver that its sender counted is explained under the account, once.
func TestAccountExplainsTheSendersCounter(t *testing.T) {
	ring := func(from string) result.Term {
		return result.Term{Place: result.DUTNIC, Name: "receive ring full", From: from, N: 5}
	}
	for want, drops := range map[int][]result.Term{
		0: {ring("lan rx_queue_0_drops"), {Place: result.Link, Name: "lost", From: "p0 tx_dropped", N: 1}},
		1: {ring("p0 tx_dropped"), ring("p1 tx_dropped")},
	} {
		a := accounted(&report.Row{Ledger: &result.Account{Accepted: 20, Received: 10, Drops: drops}})
		if len(a.Notes) != want || len(parts(a)[0].Notes) != want {
			t.Errorf("%v: notes %v, want %d", drops, a.Notes, want)
		}
	}
}
