// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"math"
	"strings"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
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
	near("throughput after a ramp", roomtest.Figure(t, out, "throughput_fps").Value, awake)
	near("throughput from a standing start", roomtest.Figure(t, out, "standing_start_fps").Value, asleep)
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
	near("throughput without a ramp", roomtest.Figure(t, out, "throughput_fps").Value, asleep)

	delete(box, "wake")
	delete(box, "asleep")
	out, _ = bench(t, "mem", box, map[string]string{"ramp": "300ms"})
	near("throughput of a box that never sleeps", roomtest.Figure(t, out, "throughput_fps").Value, awake)
	near("its throughput from a standing start", roomtest.Figure(t, out, "standing_start_fps").Value, awake)
	if told := strings.Join(out.Warnings, "; "); strings.Contains(told, "standing start") {
		t.Errorf("a difference is told: %s", told)
	}
}

// Trials that begin with their full load start from what the box carries so, and each
// procedure tells the difference.
func TestRampIsNotForStandingStarts(t *testing.T) {
	const asleep = 10e3
	b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "40000", "asleep": "10000", "wake": "100ms", "queue": "16", "ceiling": "100000"})
	for metric, spec := range map[string]procedure.Spec{"latency_load_fps": LatencySpec, "recovery_load_fps": RecoverySpec} {
		out, name := b.Run(spec, map[string]string{"ramp": "300ms"}), spec.Name
		if v := roomtest.Figure(t, out, metric).Value; v > asleep*1.03 {
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
		roomtest.Assign(t, p.Flags, map[string]string{"ramp": ramp})
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
