// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/afxdp"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/mem"
	"boxdyno/engine/packet"
	"boxdyno/engine/xdp"
	"boxdyno/host"
)

// A meter that is not armed anew keeps the books of two loads apart: those of mem,
// and those of every backend on a link.
func TestMetersTellRunsApart(t *testing.T) {
	check := func(t *testing.T, r engine.RxReport) {
		t.Helper()
		if len(r.Runs) != 2 || r.Runs[0].Frames != 100 || r.Runs[1].Frames != 40 || r.Runs[0].Span != 100 || r.Runs[1].Span != 40 ||
			r.Frames != 140 || r.Span != 140 || r.Duplicate != 0 || r.Reordered != 0 || r.Runs[1].First <= r.Runs[0].First {
			t.Errorf("%+v", r)
		}
	}
	loads := []engine.Load{{Rate: 10e3, Count: 100}, {Rate: 10e3, Count: 40}}
	t.Run("mem", func(t *testing.T) {
		memory, err := mem.New(mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		tx, rx := enginetest.Open(t, memory, []host.Port{{Name: mem.LAN}}, host.Port{Name: mem.WAN})
		enginetest.Arm(t, rx[0], true, 1)
		for _, l := range loads {
			if _, err := tx.Transmit(context.Background(), l, engine.Stream{ID: 1, Frames: enginetest.Spec()}); err != nil {
				t.Fatal(err)
			}
		}
		check(t, enginetest.Read(t, rx[0]).Streams[0])
	})
	for _, b := range []engine.Backend{xdp.New(), xdp.NewGeneric(), afxdp.New(), packet.New()} {
		t.Run(b.Name(), func(t *testing.T) {
			from, to := enginetest.Quiet(t)
			ctx := context.Background()
			m, err := b.OpenMeter(ctx, to)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			enginetest.Arm(t, m, false, 1)
			for _, l := range loads {
				tx, err := b.OpenTransmitter(ctx, []host.Port{from}, -1)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := tx.Transmit(ctx, l, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)}); err != nil {
					t.Error(err)
				}
				tx.Close()
				time.Sleep(10 * time.Millisecond)
			}
			check(t, enginetest.Settled(t, m, 140).Streams[0])
		})
	}
}
