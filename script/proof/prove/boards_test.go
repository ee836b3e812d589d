// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"boxdyno/result"
)

// A cell works only if each point was measured and no trial's books stay open.
func TestBoardCell(t *testing.T) {
	point := func(s result.Status) result.Record {
		return result.Record{Procedure: "forward", Status: s, Reason: "why"}
	}
	trial := func(s result.Status, unexplained int64) result.Record {
		return result.Record{Procedure: "forward", Parent: "p", Status: s, Account: &result.Account{Accepted: 5, Unexplained: unexplained}}
	}
	for _, c := range []struct {
		recs []result.Record
		want string
	}{
		{nil, "nothing was measured"},
		{[]result.Record{point(result.Passed), trial(result.Failed, 0), trial(result.Invalid, 7)}, "works; unexplained 0 of 5"},
		{[]result.Record{point(result.Failed), trial(result.Passed, -2), trial(result.Passed, 0)}, "unexplained -2 to 0 in 1 of 2 trials, 10 frames"},
		{[]result.Record{point(result.Invalid)}, "invalid: why"},
		{[]result.Record{point(result.Passed), {Procedure: "forward", Parent: "p", Status: result.Invalid, Reason: "late"}}, "no trial is valid: late"},
		{[]result.Record{{Procedure: "self-test", Status: result.Passed}}, "nothing was measured"},
	} {
		if got, works := boardCell(c.recs); got != c.want || works != (c.want[0] == 'w') {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
