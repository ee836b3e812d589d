// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"slices"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/unit"
)

// Marks give the rate of each part of a load whose rate changes.
func TestMarksFollowTheRate(t *testing.T) {
	r := newRig(t, Config{})
	_, _ = r.run(t, engine.Load{Rate: 50e3, Then: 200e3, After: 300 * time.Millisecond, Duration: 600 * time.Millisecond}, true)
	for i, m := range []engine.Meter{r.lan, r.wan} {
		rep, err := m.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		checkSteps(t, i, rep, 50e3, 200e3, 1e-3)
	}
}

// checkSteps wants two rates: the first for 300 ms, the second for as long.
func checkSteps(t *testing.T, port int, rep engine.MeterReport, slow, fast unit.FrameRate, tolerance float64) {
	t.Helper()
	marks := rep.Marks
	if len(marks) < 60 || marks[0].Frames != 0 {
		t.Fatalf("port %d: %d marks, the first %+v", port, len(marks), marks[:min(1, len(marks))])
	}
	for i := range marks[1:] {
		if d := time.Duration(marks[i+1].At - marks[i].At); d < 3*time.Millisecond {
			t.Errorf("port %d: mark %d follows after %v", port, i+1, d)
		}
	}
	rate := func(from, to time.Duration) unit.FrameRate {
		a, _ := slices.BinarySearchFunc(marks, marks[0].At+unit.Instant(from), func(m engine.Mark, at unit.Instant) int { return int(m.At - at) })
		b, _ := slices.BinarySearchFunc(marks, marks[0].At+unit.Instant(to), func(m engine.Mark, at unit.Instant) int { return int(m.At - at) })
		return unit.FrameRate(float64(marks[b].Frames-marks[a].Frames) * 1e9 / float64(marks[b].At-marks[a].At))
	}
	enginetest.Near(t, "the first rate", rate(50*time.Millisecond, 280*time.Millisecond), slow, tolerance)
	enginetest.Near(t, "the second rate", rate(320*time.Millisecond, 580*time.Millisecond), fast, tolerance)
}

// A box that wakes up forwards less at first.
func TestMemWake(t *testing.T) {
	cfg := Config{Capacity: 200e3, Queue: 10, Asleep: 50e3, Wake: 100 * time.Millisecond}
	_, rx := newRig(t, cfg).run(t, engine.Load{Rate: 150e3, Duration: 300 * time.Millisecond}, false)
	enginetest.Near(t, "from a standing start", unit.FrameRate(rx[0].Frames), 50e3*0.1+150e3*0.2, 2e-3)
	_, rx = newRig(t, cfg).run(t, engine.Load{Rate: 40e3, Then: 150e3, After: 100 * time.Millisecond, Duration: 300 * time.Millisecond}, false)
	if want := uint64(40e3*0.1 + 150e3*0.2); rx[0].Frames != want {
		t.Errorf("after a gentle start %d frames came, want %d", rx[0].Frames, want)
	}
	for _, bad := range []Config{{Wake: time.Second}, {Asleep: 1}, {Capacity: 1, Asleep: 2, Wake: 1}, {Capacity: 2, Asleep: 1, Wake: -1}} {
		if bad.Check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// Loads of one trial follow each other without a pause in which the box falls asleep,
// those of two trials do not.
func TestMemStaysAwakeWithinATrial(t *testing.T) {
	r := newRig(t, Config{Capacity: 200e3, Queue: 10, Asleep: 50e3, Wake: 100 * time.Millisecond})
	for trial := range 2 {
		if err := r.wan.Arm(t.Context(), false, 1); err != nil {
			t.Fatal(err)
		}
		for _, l := range []engine.Load{{Rate: 40e3, Duration: 100 * time.Millisecond}, {Rate: 150e3, Duration: 100 * time.Millisecond}} {
			if _, err := r.tx.Transmit(t.Context(), l, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)}); err != nil {
				t.Fatal(err)
			}
		}
		rep, err := r.wan.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s := rep.Streams[0]; s.Frames != 4000+15_000 || len(s.Runs) != 2 {
			t.Errorf("trial %d: %d frames in %d runs", trial, s.Frames, len(s.Runs))
		}
	}
}
