// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"testing"

	"boxdyno/procedure"
	"boxdyno/result"
)

// What a subject counted or dropped before the traffic is in no account of it; what is missing
// stays missing, and what nobody knows of stays unexplained.
func TestBeforehand(t *testing.T) {
	type books struct{ received, socket, own, unexplained int64 }
	for _, c := range []struct {
		name     string
		unprobed int64 // probes of which it had not told
		was      books
		want     books
	}{
		{"nothing", 3, books{100, 0, 0, 0}, books{100, 0, 0, 0}},
		{"Suricata on a slow board", 0, books{100, 0, 1, -1}, books{100, 0, 0, 0}},
		{"two probes were told late", 3, books{102, 0, 0, -2}, books{100, 0, 0, 0}},
		{"late ones, and frames are missing", 3, books{97, 5, 0, -2}, books{95, 5, 0, 0}},
		{"both", 2, books{102, 0, 3, -5}, books{100, 0, 0, 0}},
		{"others' frames", 1, books{104, 0, 0, -4}, books{103, 0, 0, -3}},
		{"some are missing", 2, books{90, 0, 8, 2}, books{90, 0, 8, 2}},
		{"some are missing, some came before", 0, books{95, 2, 6, -3}, books{95, 2, 3, 0}},
	} {
		a := &result.Account{Accepted: 100, Received: c.was.received, Unexplained: c.was.unexplained}
		for place, n := range map[result.Place]int64{result.Socket: c.was.socket, result.SubjectAt: c.was.own} {
			if n > 0 {
				a.Drops = append(a.Drops, result.Term{Place: place, N: n})
			}
		}
		o := procedure.Outcome{Account: a}
		(&capturePoint{Capture: newCapture().(*Capture)}).beforehand(&o, &capturing{probes: 5, probed: 5 - c.unprobed})
		got := books{a.Received, a.DroppedAt(result.Socket), a.DroppedAt(result.SubjectAt), a.Unexplained}
		if got != c.want || a.Unexplained != a.Accepted-a.Received-a.Dropped() || (len(o.Warnings) == 0) != (c.was == c.want) {
			t.Errorf("%s: %+v, want %+v: %q", c.name, got, c.want, o.Warnings)
		}
	}
}
