// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"math"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/unit"
)

// A load in two stages has so many frames at each rate, says when the second
// began, and the meter when the first stage's backlog let the last gap through.
func TestLoadInTwoStages(t *testing.T) {
	l := engine.Load{Rate: 100e3, After: 100 * time.Millisecond, Then: 40e3, Duration: 200 * time.Millisecond}
	r := newRig(t, Config{})
	tx, rx := r.run(t, l, false)
	if s := tx[0]; s.Accepted != 14_000 || time.Duration(s.Changed-s.First) != l.After || rx[0].Gap != 0 {
		t.Errorf("sent %+v, gap %v", s, rx[0].Gap)
	}
	enginetest.Near(t, "offered", tx[0].Offered, l.Mean(), 1e-3)

	// 80 kframe/s are forwarded, so 100 frames of queue are full at the change, and
	// the last frame they took behind a lost one leaves when they are empty.
	r = newRig(t, Config{Capacity: 80e3, Queue: 100})
	ctx := t.Context()
	if err := r.wan.Arm(ctx, true, 1); err != nil {
		t.Fatal(err)
	}
	sent, err := r.tx.Transmit(ctx, l, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := r.wan.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if late := float64(rep.Streams[0].Gap - sent[0].Changed); math.Abs(late/(100/80e3*1e9)-1) > 0.08 {
		t.Errorf("the last gap came through %v after the change", time.Duration(late))
	}
	for _, bad := range []engine.Load{{Rate: 1e3, Then: 1e3, Duration: time.Second}, {Then: 1e3, After: 1, Duration: 2}, {Rate: 1, Then: 1, After: 2, Duration: 2}, {Rate: unit.FrameRate(1), After: 1, Duration: 2}} {
		if bad.Check() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
