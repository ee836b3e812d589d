// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/catalog"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/unit"
)

// ours are the engine's backends, on CPU 0 and, where two cores are said, CPU 1.
func ours() []sender {
	flat := engine.Load{Duration: time.Minute}
	stamped := engine.Load{Duration: time.Minute, Rate: 50e6} // beyond what it can: every frame reads the clock
	return []sender{
		{"boxdyno xdp, signed", 1, signed("xdp", flat, 1)},
		{"boxdyno xdp, signed, 2 cores", 2, signed("xdp", flat, 2)},
		{"boxdyno xdp, clock in every frame", 1, signed("xdp", stamped, 1)},
		{"boxdyno xdp, replay, copied whole", 1, replay("xdp", flat, 1)},
		{"boxdyno xdp, replay, 2 cores", 2, replay("xdp", flat, 2)},
		{"boxdyno afxdp/copy, signed", 1, signed("afxdp/copy", flat, 1)},
		{"boxdyno afxdp/copy, replay", 1, replay("afxdp/copy", flat, 1)},
		{"boxdyno packet, signed", 1, signed("packet", flat, 1)},
		{"boxdyno packet, replay", 1, replay("packet", flat, 1)},
	}
}

// intoMeter are those whose figures depend on what the meter does.
func intoMeter() []sender {
	armed := func(timing bool, send func(context.Context, *bed, *load) error) func(context.Context, *bed, *load) error {
		return func(ctx context.Context, b *bed, l *load) error {
			if err := b.meter.Arm(ctx, timing, 1, 2); err != nil {
				return err
			}
			return send(ctx, b, l)
		}
	}
	flat := engine.Load{Duration: time.Minute}
	stamped := engine.Load{Duration: time.Minute, Rate: 50e6}
	return []sender{
		{"boxdyno xdp, signed", 1, armed(false, signed("xdp", flat, 1))},
		{"boxdyno xdp, clock in every frame", 1, armed(false, signed("xdp", stamped, 1))},
		{"boxdyno xdp, latency of every frame", 1, armed(true, signed("xdp", stamped, 1))},
	}
}

func signed(backend string, offer engine.Load, cores int) func(context.Context, *bed, *load) error {
	return func(ctx context.Context, b *bed, l *load) error {
		if l.spec == nil {
			return &absent{notForThis}
		}
		return transmit(ctx, b, backend, offer, cores, func(core int) (engine.Stream, error) {
			return engine.Stream{ID: uint16(core + 1), Frames: *l.spec}, nil
		})
	}
}

func replay(backend string, offer engine.Load, cores int) func(context.Context, *bed, *load) error {
	return func(ctx context.Context, b *bed, l *load) error {
		return transmit(ctx, b, backend, offer, cores, func(core int) (engine.Stream, error) {
			src, err := frame.OpenCapture(l.capture, frame.CaptureOptions{Longest: unit.FrameSize(1522).Buffer()})
			return engine.Stream{ID: uint16(core + 1), Source: src}, err
		})
	}
}

// transmit sends a stream on each core until ctx ends. All begin together, once
// each has its program and its source in memory, which a few frames see to.
func transmit(ctx context.Context, b *bed, backend string, offer engine.Load, cores int, stream func(core int) (engine.Stream, error)) error {
	e, err := catalog.Open(backend)
	if err != nil {
		return err
	}
	errs := make([]error, cores)
	var all, ready sync.WaitGroup
	ready.Add(cores)
	for core := range cores {
		all.Go(func() {
			loaded := sync.OnceFunc(ready.Done)
			defer loaded()
			s, err := stream(core)
			if err != nil {
				errs[core] = err
				return
			}
			if s.Source != nil {
				defer s.Source.Close()
			}
			tx, err := e.OpenTransmitter(ctx, []host.Port{b.tx}, core)
			if err != nil {
				errs[core] = err
				return
			}
			defer tx.Close()
			few := offer
			few.Duration, few.Count = 0, warmUp/uint64(cores)
			if _, err := tx.Transmit(ctx, few, s); err != nil {
				errs[core] = err
				return
			}
			loaded()
			ready.Wait()
			_, errs[core] = tx.Transmit(ctx, offer, s)
		})
	}
	all.Wait()
	err = errors.Join(errs...)
	if ctx.Err() != nil {
		return nil
	}
	if errors.Is(err, host.ErrNotSupported) {
		return &absent{err.Error()}
	}
	return err
}
