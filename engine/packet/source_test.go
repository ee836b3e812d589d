// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/frame"
	"boxdyno/host"
)

// A capture leaves at its own times, and its passes follow each other evenly.
func TestPacketReplaysTimes(t *testing.T) {
	a, b := enginetest.Quiet(t)
	tx, m := enginetest.Open(t, New(), []host.Port{a}, b)
	enginetest.Arm(t, m[0], true)
	src, err := frame.OpenCaptureReader(bytes.NewReader(enginetest.SmallCapture()), "test.pcap", frame.CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	// 30 frames, 50 us apart, 10 times, at a twentieth of the speed.
	reps, err := tx.Transmit(context.Background(), engine.Load{Speed: 0.05, Passes: 10, Gaps: true}, engine.Stream{ID: 1, Source: src})
	if err != nil {
		t.Fatal(err)
	}
	s := reps[0]
	want := 299 * time.Millisecond
	// The first frame may be held up; the last is late where it is more than a gap behind.
	if took := time.Duration(s.Last - s.First); s.Accepted != 300 || s.Passes != 10 || took < want-s.LongestStall-time.Millisecond || s.Late == 0 && took > want+time.Millisecond {
		t.Errorf("took %v, want %v: %+v", took, want, s)
	}
	if s.Gaps.Total() != 299 || s.GapErrors.Total() != 299 || s.Gaps.Quantile(0) < 0.888e-3 { // made up without a burst
		t.Errorf("gaps %+v", s.Gaps)
	}
	if r := enginetest.Read(t, m[0]); r.Foreign != 300 {
		t.Errorf("%+v", r)
	}
}

// Frames that the port would not take are refused before any is sent, by name.
func TestPacketRefusesLongSource(t *testing.T) {
	a, b := enginetest.Quiet(t)
	tx, m := enginetest.Open(t, New(), []host.Port{a}, b)
	enginetest.Arm(t, m[0], false)
	for _, length := range []int{1519, 1516, 1515} { // the latter might have a tag, and has none
		src := enginetest.PlainSource(10, 0, 60, length)
		reps, err := tx.Transmit(context.Background(), engine.Load{Passes: 1}, engine.Stream{ID: 1, Source: src})
		if err == nil {
			t.Fatalf("%d octets were sent: %+v", length, reps)
		}
		t.Log(err)
	}
	if r := enginetest.Read(t, m[0]); r.Foreign != 0 {
		t.Errorf("%+v", r)
	}
}

// A source that breaks off ends the load with its error, and its frames count.
func TestPacketSourceFails(t *testing.T) {
	a, b := enginetest.Quiet(t)
	tx, m := enginetest.Open(t, New(), []host.Port{a}, b)
	enginetest.Arm(t, m[0], false)
	src := enginetest.PlainSource(100, 0, 60)
	src.Silent, src.FailAt = true, 60
	reps, err := tx.Transmit(context.Background(), engine.Load{Rate: 20e3, Count: 1000}, engine.Stream{ID: 1, Source: src})
	if !errors.Is(err, enginetest.ErrListSource) || len(reps) != 1 || reps[0].Accepted != enginetest.Read(t, m[0]).Foreign || reps[0].Accepted != 60 {
		t.Errorf("%v, %+v", err, reps)
	}
}
