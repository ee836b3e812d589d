// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/unit"
)

// Near wants a rate within a relative tolerance.
func Near(t testing.TB, what string, got, want unit.FrameRate, tolerance float64) {
	t.Helper()
	if math.Abs(float64(got-want)) > float64(want)*tolerance {
		t.Errorf("%s %v, want %v", what, got, want)
	}
}

// Settled reads a meter until it has counted n frames, or none come any more; once more
// then, for while frames arrive its counters may be some frames apart.
func Settled(t testing.TB, m engine.Meter, n uint64) engine.MeterReport {
	t.Helper()
	for deadline, all := time.Now().Add(5*time.Second), false; ; time.Sleep(time.Millisecond) {
		r := Read(t, m)
		sum := r.Foreign + r.Drops
		for _, s := range r.Streams {
			sum += s.Frames + s.Broken
		}
		if all || time.Now().After(deadline) {
			return r
		}
		all = sum >= n
	}
}

// UntilCounted is a context that is cancelled once m has counted a frame, whatever that
// takes: of a load that obeys it at least one was accepted.
func UntilCounted(t testing.TB, m engine.Meter) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	guard.Go(func() {
		defer close(ended)
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			r, err := m.Read(ctx)
			if err != nil || r.Foreign > 0 || slices.ContainsFunc(r.Streams, func(s engine.RxReport) bool { return s.Frames > 0 }) {
				cancel()
			}
		}
	})
	t.Cleanup(func() { cancel(); <-ended })
	return ctx
}

// Open opens a transmitter of b and a meter on each of to.
func Open(t testing.TB, b engine.Backend, from []host.Port, to ...host.Port) (engine.Transmitter, []engine.Meter) {
	t.Helper()
	ctx := context.Background()
	var meters []engine.Meter
	for _, p := range to {
		m, err := b.OpenMeter(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(m.Close(), m.Close()); err != nil {
				t.Error(err)
			}
		})
		meters = append(meters, m)
	}
	tx, err := b.OpenTransmitter(ctx, from, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(tx.Close(), tx.Close()); err != nil {
			t.Error(err)
		}
	})
	return tx, meters
}

// Arm arms a meter.
func Arm(t testing.TB, m engine.Meter, timing bool, streams ...uint16) {
	t.Helper()
	if err := m.Arm(context.Background(), timing, streams...); err != nil {
		t.Fatal(err)
	}
}

// Read reads a meter.
func Read(t testing.TB, m engine.Meter) engine.MeterReport {
	t.Helper()
	r, err := m.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}
