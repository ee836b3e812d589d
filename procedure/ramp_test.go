// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"math"
	"strings"
	"testing"

	"boxdyno/engine"
	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/unit"
)

// A box that wakes up carries less from a standing start than after a ramp, and both
// are found; without a ramp the standing start is all that there is.
func TestRampTellsAStandingStart(t *testing.T) {
	testutil.Computed(t)
	const awake, asleep = 40e3, 10e3
	box := map[string]string{"capacity": "40000", "asleep": "10000", "wake": "100ms", "queue": "16", "ceiling": "100000"}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got/want-1) > 0.03 {
			t.Errorf("%s is %v, and %v is true", what, got, want)
		}
	}
	out, recs := bench(t, "mem", box, map[string]string{"ramp": "300ms"})
	near("throughput after a ramp", figure(t, out, "throughput_fps").Value, awake)
	near("throughput from a standing start", figure(t, out, "standing_start_fps").Value, asleep)
	if told := strings.Join(out.Warnings, "; "); !strings.Contains(told, "after a ramp of 300ms the box carries 39.9") || !strings.Contains(told, "from a standing start 9.") || strings.Contains(told, "latency") {
		t.Errorf("the difference is not told: %s", told)
	}
	ramps := 0
	for _, r := range recs {
		if r.Account.Unexplained != 0 {
			t.Errorf("%v: %d frames unexplained", r.Config, r.Account.Unexplained)
		}
		if p := r.Load.Ramp; p != nil {
			ramps++
			if p.Sent == 0 || p.Lasts.Milliseconds() < 299 || p.Lasts.Milliseconds() > 310 {
				t.Errorf("%v: ramp %+v", r.Config, *p)
			}
		}
	}
	if ramps == 0 {
		t.Error("no trial had a ramp")
	}

	out, _ = bench(t, "mem", box, nil)
	near("throughput without a ramp", figure(t, out, "throughput_fps").Value, asleep)

	delete(box, "wake")
	delete(box, "asleep")
	out, _ = bench(t, "mem", box, map[string]string{"ramp": "300ms"})
	near("throughput of a box that never sleeps", figure(t, out, "throughput_fps").Value, awake)
	near("its throughput from a standing start", figure(t, out, "standing_start_fps").Value, awake)
	if told := strings.Join(out.Warnings, "; "); strings.Contains(told, "standing start") {
		t.Errorf("a difference is told: %s", told)
	}
}

// Trials that begin with their full load start from what the box carries so, and each
// procedure tells the difference.
func TestRampIsNotForStandingStarts(t *testing.T) {
	const asleep = 10e3
	b := newSuiteBench(t, "mem", map[string]string{"capacity": "40000", "asleep": "10000", "wake": "100ms", "queue": "16", "ceiling": "100000"})
	for name, metric := range map[string]string{"latency": "latency_load_fps", "recovery": "recovery_load_fps"} {
		out := b.run(name, map[string]string{"ramp": "300ms"})
		if v := figure(t, out, metric).Value; v > asleep*1.03 {
			t.Errorf("%s: %s is %v, and the box carries %v from a standing start", name, metric, v, asleep)
		}
		told := strings.Join(out.Warnings, "; ")
		if strings.Contains(told, "frames were lost") || !strings.Contains(told, "from a standing start 9.") {
			t.Errorf("%s: %s", name, told)
		}
	}
}

// A ramp is long enough for steps, or is none.
func TestRampBounds(t *testing.T) {
	for ramp, ok := range map[string]bool{"0s": true, "10ms": true, "10m": true, "1ns": false, "9999us": false, "-1s": false, "10m1ns": false} {
		p := newThroughput()
		assign(t, p.Flags, map[string]string{"ramp": ramp})
		if err := p.Check(nil); (err == nil) != ok {
			t.Errorf("ramp %s: %v", ramp, err)
		}
	}
}

// What a ramp loses is in the account, and in no verdict.
func TestRampLosesByItself(t *testing.T) {
	// The box wakes only once the ramp is at its third step, of 15 kframe/s.
	_, recs := bench(t, "mem", map[string]string{"capacity": "40000", "asleep": "3000", "wake": "150ms", "queue": "16", "ceiling": "100000"}, map[string]string{"ramp": "200ms"})
	passed := 0
	for _, r := range recs {
		if p := r.Load.Ramp; p != nil && p.Lost > 0 && r.Status == "passed" {
			passed++
			if r.Account.Lost() != p.Lost {
				t.Errorf("%v: %d lost, %d in the ramp, and it passed", r.Config, r.Account.Lost(), p.Lost)
			}
		}
	}
	if passed == 0 {
		t.Error("no trial passed whose ramp lost frames")
	}
}

// Late frames of a ramp that came stand for no late frames of the load that were lost.
func TestRampLateFrames(t *testing.T) {
	report := func(first unit.Instant, accepted, late uint64) engine.TxReport {
		return engine.TxReport{Stream: 1, Accepted: accepted, Late: late, First: first, Last: first + 99}
	}
	for _, c := range []struct {
		lead, lost, came uint64 // of the ramp's frames: late, and lost; late ones that came, of both
		want             int64
	}{{0, 0, 10, 20}, {40, 0, 50, 20}, {40, 0, 70, 0}, {40, 5, 45, 20}, {40, 60, 50, 0}} {
		r := &rig{streams: make([]engine.Stream, 1), lead: []engine.TxReport{report(100, 100, c.lead)}}
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
		if got := keptOff(r); got != float64(c.want) {
			t.Errorf("ring %d, ramp %d: %v frames, want %d", c.ring, c.ramp, got, c.want)
		}
	}
}
