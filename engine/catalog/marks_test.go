// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/unit"
)

// What the meters on real ports had counted whenever they were read lies between the
// marks before and after.
func TestMetersMark(t *testing.T) {
	testutil.Alone(t)
	a, b := enginetest.Quiet(t) // a frame of the kernel's own has another CPU empty the port for a moment
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
				_, err := tx.Transmit(ctx, engine.Load{Rate: 50e3, Duration: 400 * time.Millisecond}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)})
				sent <- err
			}()
			type count struct {
				from, to unit.Instant
				frames   uint64
			}
			var counts []count
			var rep engine.MeterReport
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
