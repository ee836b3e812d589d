// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/unit"
)

// However frames arrive on several queues, what the sum of their marks says of an instant
// was true at most catchUp before it or after, also of queues that few frames come to.
func TestMergeMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var arrivals []unit.Instant
		var queues []arrived
		for range rapid.IntRange(1, 4).Draw(t, "queues") {
			var p progress
			gap := rapid.Int64Range(1000, 20e6).Draw(t, "gap")
			at := unit.Instant(rapid.Int64Range(1, 500e6).Draw(t, "begin"))
			frames := rapid.IntRange(1, 300).Draw(t, "frames")
			for n := range frames {
				p.note(uint64(n), at)
				arrivals = append(arrivals, at)
				at += unit.Instant(rapid.Int64Range(1, 2*gap).Draw(t, "next"))
				if rapid.IntRange(0, 19).Draw(t, "pause") == 0 {
					at += unit.Instant(200 * time.Millisecond)
				}
			}
			queues = append(queues, arrived{p.latest(), uint64(frames)})
		}
		slices.Sort(arrivals)
		by := func(t unit.Instant) uint64 {
			n, _ := slices.BinarySearch(arrivals, t)
			return uint64(n)
		}
		merged := mergeMarks(queues...)
		if len(merged) == 0 || merged[0].At != arrivals[0] {
			t.Fatalf("the first frame came at %v: %v", arrivals[0], merged)
		}
		for i, m := range merged {
			if i > 0 && (m.At <= merged[i-1].At || m.Frames < merged[i-1].Frames) {
				t.Fatalf("marks %d and %d are out of order: %v", i-1, i, merged)
			}
			if before, after := by(m.At-catchUp), by(m.At+catchUp); m.Frames+1 < before || m.Frames > after+1 {
				t.Fatalf("%+v, but %d came %v before, and %d by as long after", m, before, time.Duration(catchUp), after)
			}
		}
	})
}

// Marks give the rate of each part of a load whose rate changes.
func TestMarksFollowTheRate(t *testing.T) {
	r := newMemRig(t, MemConfig{})
	_, _ = r.run(t, Load{Rate: 50e3, Then: 200e3, After: 300 * time.Millisecond, Duration: 600 * time.Millisecond}, true)
	for i, m := range []Meter{r.lan, r.wan} {
		rep, err := m.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		checkSteps(t, i, rep, 50e3, 200e3, 1e-3)
	}
}

// checkSteps wants two rates: the first for 300 ms, the second for as long.
func checkSteps(t *testing.T, port int, rep MeterReport, slow, fast unit.FrameRate, tolerance float64) {
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
		a, _ := slices.BinarySearchFunc(marks, marks[0].At+unit.Instant(from), func(m Mark, at unit.Instant) int { return int(m.At - at) })
		b, _ := slices.BinarySearchFunc(marks, marks[0].At+unit.Instant(to), func(m Mark, at unit.Instant) int { return int(m.At - at) })
		return unit.FrameRate(float64(marks[b].Frames-marks[a].Frames) * 1e9 / float64(marks[b].At-marks[a].At))
	}
	near(t, "the first rate", rate(50*time.Millisecond, 280*time.Millisecond), slow, tolerance)
	near(t, "the second rate", rate(320*time.Millisecond, 580*time.Millisecond), fast, tolerance)
}

// What the meters on real ports had counted whenever they were read lies between the
// marks before and after.
func TestMetersMark(t *testing.T) {
	testutil.Alone(t)
	a, b := quiet(t) // a frame of the kernel's own has another CPU empty the port for a moment
	for _, c := range []struct {
		backend string
		behind  time.Duration // counts may be so old
	}{{"xdp", 0}, {"afxdp/copy", time.Second}, {"packet", time.Second}} {
		t.Run(c.backend, func(t *testing.T) {
			ctx := t.Context()
			backend, err := Open(c.backend)
			if err != nil {
				t.Fatal(err)
			}
			m, err := backend.OpenMeter(ctx, b)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			tx, err := backend.OpenTransmitter(ctx, []host.Port{a}, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Close()
			if err := m.Arm(ctx, false, 1); err != nil {
				t.Fatal(err)
			}
			sent := make(chan error, 1)
			go func() {
				_, err := tx.Transmit(ctx, Load{Rate: 50e3, Duration: 400 * time.Millisecond}, Stream{ID: 1, Frames: spec4(1, 64)})
				sent <- err
			}()
			type count struct {
				from, to unit.Instant
				frames   uint64
			}
			var counts []count
			var rep MeterReport
			for over := false; !over; {
				select {
				case err := <-sent:
					if err != nil {
						t.Fatal(err)
					}
					over = true
				case <-time.After(5 * time.Millisecond):
				}
				from := unit.Now()
				if rep, err = m.Read(ctx); err != nil {
					t.Fatal(err)
				}
				counts = append(counts, count{from - unit.Instant(c.behind), unit.Now(), rep.Streams[0].Frames})
			}
			if len(rep.Marks) < 10 || rep.Marks[0].Frames != 0 {
				t.Fatalf("%d marks of %d frames", len(rep.Marks), rep.Streams[0].Frames)
			}
			for _, c := range counts {
				for _, k := range rep.Marks {
					if k.At < c.from && k.Frames > c.frames || k.At > c.to && k.Frames+1 < c.frames {
						t.Fatalf("between %d and %d the meter had counted %d frames, but the mark at %d says %d", c.from, c.to, c.frames, k.At, k.Frames)
					}
				}
			}
		})
	}
}

// A box that wakes up forwards less at first.
func TestMemWake(t *testing.T) {
	cfg := MemConfig{Capacity: 200e3, Queue: 10, Asleep: 50e3, Wake: 100 * time.Millisecond}
	_, rx := newMemRig(t, cfg).run(t, Load{Rate: 150e3, Duration: 300 * time.Millisecond}, false)
	near(t, "from a standing start", unit.FrameRate(rx[0].Frames), 50e3*0.1+150e3*0.2, 2e-3)
	_, rx = newMemRig(t, cfg).run(t, Load{Rate: 40e3, Then: 150e3, After: 100 * time.Millisecond, Duration: 300 * time.Millisecond}, false)
	if want := uint64(40e3*0.1 + 150e3*0.2); rx[0].Frames != want {
		t.Errorf("after a gentle start %d frames came, want %d", rx[0].Frames, want)
	}
	for _, bad := range []MemConfig{{Wake: time.Second}, {Asleep: 1}, {Capacity: 1, Asleep: 2, Wake: 1}, {Capacity: 2, Asleep: 1, Wake: -1}} {
		if bad.Check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// Loads of one trial follow each other without a pause in which the box falls asleep,
// those of two trials do not.
func TestMemStaysAwakeWithinATrial(t *testing.T) {
	r := newMemRig(t, MemConfig{Capacity: 200e3, Queue: 10, Asleep: 50e3, Wake: 100 * time.Millisecond})
	for trial := range 2 {
		if err := r.wan.Arm(t.Context(), false, 1); err != nil {
			t.Fatal(err)
		}
		for _, l := range []Load{{Rate: 40e3, Duration: 100 * time.Millisecond}, {Rate: 150e3, Duration: 100 * time.Millisecond}} {
			if _, err := r.tx.Transmit(t.Context(), l, Stream{ID: 1, Frames: spec4(1, 64)}); err != nil {
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
