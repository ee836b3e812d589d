// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"boxdyno/engine"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/unit"
)

// Whoever watches the machines is told when traffic begins and when it is over.
func TestTrafficIsTold(t *testing.T) {
	for _, kind := range []string{"sandbox", "memory"} {
		var told []bool
		env := &procedure.Env{Bed: &lab.Testbed{Facts: lab.Facts{Kind: kind}}, Traffic: func(begins bool) { told = append(told, begins) }}
		w := WatchTraffic(env)
		if !slices.Equal(told, []bool{true}) {
			t.Errorf("%s: before the traffic it is told %v", kind, told)
		}
		w.Stop()
		if !slices.Equal(told, []bool{true, false}) {
			t.Errorf("%s: it is told %v", kind, told)
		}
	}
}

// Nobody watches any more when the tester could not send.
func TestWatchEndsWithAnError(t *testing.T) {
	var told []bool
	bed := roomtest.Build(t, "mem", nil)
	p := NewTraffic(lab.Services)
	r, err := p.Open(t.Context(), &procedure.Env{Bed: bed, Traffic: func(begins bool) { told = append(told, begins) }}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	failure := errors.New("no buffer space")
	_, _, _, err = r.Account(t.Context(), false, func(context.Context) (engine.Load, []engine.TxReport, error) {
		return engine.Load{}, nil, failure
	})
	if !errors.Is(err, failure) || !slices.Equal(told, []bool{true, false}) {
		t.Errorf("%v, told %v", err, told)
	}
}

// fakeBox is a box that says how its CPUs took frames, so often.
type fakeBox struct{ asked, answers int }

func (b *fakeBox) Receive(context.Context) (w result.DUTWork, err error) {
	if b.asked++; b.asked > b.answers {
		return w, errors.New("it has gone")
	}
	if b.asked > 1 {
		w.Receive = &result.Receive{Ran: 0.5}
	}
	return w, nil
}

// A box that has our agent is asked before the traffic and after it; what it says is the
// trial's. One that does not answer is left out.
func TestBoxIsAsked(t *testing.T) {
	for _, answers := range []int{0, 1, 2} {
		box := &fakeBox{answers: answers}
		env := &procedure.Env{Bed: &lab.Testbed{Facts: lab.Facts{Kind: "real"}, Means: box}}
		w := WatchTraffic(env)
		w.Stop()
		var o procedure.Outcome
		w.Tell(t.Context(), &o, 1, 2)
		if got := o.DUT != nil && o.DUT.Receive != nil && o.DUT.Receive.Ran == 0.5; got != (answers == 2) || box.asked != max(1, min(answers+1, 2)) {
			t.Errorf("%d answers: %+v after %d questions", answers, o.DUT, box.asked)
		}
	}
}

// The load that is tried next is one at which the ring outlasts the stall.
func TestRoom(t *testing.T) {
	const ring, accepted = 200, 1_500_000
	for _, c := range []struct {
		offered         unit.FrameRate
		lost, elsewhere int64
		want            float64
	}{
		{1_500_000, 1000, 0, ringShare * ring / 1200},
		{150_000, 13_000, 0, ringShare * ring / 3000}, // no stall of 20 ms loses more
		{9_000, 13_000, 0, 0},                         // the ring outlasts that
		{1_500_000, 13_000, 14_000, 0},                // the ring lost the fewer
		{1_500_000, 0, 0, 0},
	} {
		r := result.Record{Load: &result.Load{Offered: c.offered}, Account: &result.Account{
			Accepted: accepted, Received: accepted - c.lost - c.elsewhere,
			Drops: []result.Term{{Place: result.DUTNIC, N: c.lost}, {Place: result.Softnet, N: c.elsewhere}},
		}}
		if got := Room(r, ring); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
