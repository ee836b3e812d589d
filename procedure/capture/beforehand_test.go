// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"testing"

	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/subject"
)

// dropped are a subject's counters of drops since its start.
type dropped struct {
	subject.Running
	socket, own int64
}

func (d dropped) Count(context.Context) ([]result.Term, error) {
	return []result.Term{{Place: result.Socket, N: d.socket}, {Place: result.SubjectAt, N: d.own}}, nil
}

// What a subject says before the traffic that it dropped, and probes that it counted late, are in
// no account of it. What is missing stays missing, and what nobody knows of stays unexplained.
func TestBeforehand(t *testing.T) {
	type books struct{ received, socket, own, unexplained int64 }
	for _, c := range []struct {
		name     string
		unprobed int64 // probes that it had not counted
		before   int64 // frames that it had said it dropped
		received int64
		run      dropped
		want     books
	}{
		{"nothing", 3, 0, 100, dropped{}, books{100, 0, 0, 0}},
		{"Suricata on a slow board", 1, 1, 100, dropped{own: 1}, books{100, 0, 0, 0}},
		{"it had not said so", 1, 0, 100, dropped{own: 1}, books{100, 0, 1, -1}},
		{"it had said that it dropped more", 0, 2, 100, dropped{own: 1}, books{100, 0, 1, -1}},
		{"two probes were told late", 3, 0, 102, dropped{}, books{100, 0, 0, 0}},
		{"late ones, and frames are missing", 3, 0, 97, dropped{socket: 5}, books{95, 5, 0, 0}},
		{"both", 2, 3, 102, dropped{own: 3}, books{100, 0, 0, 0}},
		{"late ones, and it drops", 2, 0, 101, dropped{own: 3}, books{100, 0, 3, -3}},
		{"others' frames", 1, 0, 104, dropped{}, books{103, 0, 0, -3}},
		{"others' frames, all probes were told", 0, 0, 104, dropped{}, books{104, 0, 0, -4}},
		{"it counts frames of others as probes", -1, 0, 104, dropped{}, books{104, 0, 0, -4}},
		{"some are missing", 2, 0, 90, dropped{own: 8}, books{90, 0, 8, 2}},
		{"some are missing, some came before", 0, 3, 95, dropped{socket: 2, own: 6}, books{95, 2, 3, 0}},
		{"others' frames, and it drops", 0, 0, 95, dropped{socket: 2, own: 6}, books{95, 2, 6, -3}},
	} {
		run := &capturing{run: c.run, probes: 5, probed: 5 - c.unprobed, dropped: c.before}
		own, before, err := run.ownDrops(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a := &result.Account{Accepted: 100, Received: c.received}
		settleAccount(a, own)
		o := procedure.Outcome{Account: a}
		(&capturePoint{Capture: newCapture().(*Capture)}).probedLate(&o, run)
		got := books{a.Received, a.DroppedAt(result.Socket), a.DroppedAt(result.SubjectAt), a.Unexplained}
		if got != c.want || a.Unexplained != a.Accepted-a.Received-a.Dropped() || (len(o.Warnings) == 0) != (c.received == got.received) || before != c.run.own-got.own {
			t.Errorf("%s: %+v, want %+v; %d before: %q", c.name, got, c.want, before, o.Warnings)
		}
	}
}
