// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"testing"

	"boxdyno/engine"
	"boxdyno/result"
	"boxdyno/unit"
)

// Late frames of a ramp that came stand for no late frames of the load that were lost.
func TestRampLateFrames(t *testing.T) {
	report := func(first unit.Instant, accepted, late uint64) engine.TxReport {
		return engine.TxReport{Stream: 1, Accepted: accepted, Late: late, First: first, Last: first + 99}
	}
	for _, c := range []struct {
		lead, lost, came uint64 // of the ramp's frames: late, and lost; late ones that came, of both
		want             int64
	}{{0, 0, 10, 20}, {40, 0, 50, 20}, {40, 0, 70, 0}, {40, 5, 45, 20}, {40, 60, 50, 0}} {
		r := &Rig{Streams: make([]engine.Stream, 1), lead: []engine.TxReport{report(100, 100, c.lead)}}
		sent := []engine.TxReport{report(1000, 100, 30)}
		seen := []engine.MeterReport{{Streams: []engine.RxReport{{Stream: 1, Frames: 180 - c.lost, Late: c.came, Runs: []engine.RxRun{
			{Frames: 100 - c.lost, Begin: 100, First: 101, Last: 200}, {Frames: 80, Begin: 1000, First: 1001, Last: 1100},
		}}}}}
		own, ramp := r.afterRamp(sent, seen)
		if got := r.load(engine.Load{Rate: 1000}, sent, own).LateLost; got != c.want || ramp.Lost != int64(c.lost) {
			t.Errorf("%+v: %d late frames lost, ramp %+v", c, got, *ramp)
		}
	}
}

// What a ring lost of a ramp excuses nothing of the trial that follows.
func TestKeptOffOfARamp(t *testing.T) {
	for _, c := range []struct{ ring, ramp, want int64 }{{100, 100, 0}, {105, 100, 5}, {90, 100, 0}, {700, 100, 500}} {
		r := result.Record{
			Account: &result.Account{Accepted: 2000, Drops: []result.Term{{Place: result.DUTNIC, N: c.ring}}},
			Load:    &result.Load{Ramp: &result.Ramp{Sent: 1000, Lost: c.ramp}},
			DUT:     &result.DUTWork{Waited: 0.5},
		}
		if got := KeptOff(r); got != float64(c.want) {
			t.Errorf("ring %d, ramp %d: %v frames, want %d", c.ring, c.ramp, got, c.want)
		}
	}
}
