// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/binary"
	"testing"

	"boxdyno/frame"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"pgregory.net/rapid"
)

// The meter in the kernel counts what the tracker in Go counts, whatever comes.
func TestMeterProgramCountsAsTheTracker(t *testing.T) {
	testutil.Privileged(t)
	for _, timed := range []bool{false, true} {
		p, err := loadMeterFor(timed)
		if err != nil {
			t.Fatal(err)
		}
		defer p.coll.Close()
		m := &xdpMeter{plain: p, timed: p, armed: p}
		run := func(f []byte) {
			if _, err := p.coll.Programs[meterProgMeter].Run(&ebpf.RunOptions{Data: f, Repeat: 1}); err != nil {
				t.Fatal(err)
			}
		}
		// The meter judges order per CPU, so all frames come from one.
		thread, err := netns.Go("", []int{0}, func() error {
			rapid.Check(t, func(rt *rapid.T) {
				v6 := rapid.Bool().Draw(rt, "v6")
				spec := spec4(1, 128)
				if v6 {
					spec = spec6(1, 128)
				}
				b, err := frame.NewBuilder(spec, 3)
				if err != nil {
					rt.Fatal(err)
				}
				if err := m.Arm(context.Background(), timed, 9, 3); err != nil {
					rt.Fatal(err)
				}
				want := newTally(timed, []uint16{9, 3})
				seq := rapid.Uint32().Draw(rt, "first")
				buf := make([]byte, 200)
				for range rapid.IntRange(1, 300).Draw(rt, "frames") {
					seq += uint32(rapid.OneOf(rapid.Just(1), rapid.IntRange(-3, 5), rapid.IntRange(-9000, 9000), rapid.Just(64)).Draw(rt, "step"))
					n := b.Build(uint64(seq), buf)
					f := append([]byte(nil), buf[:n]...)
					if rapid.IntRange(0, 9).Draw(rt, "damage") == 0 {
						at := rapid.IntRange(12, 70).Draw(rt, "at")
						f[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
					}
					if _, class := frame.Parse(f); class == frame.Whole && rapid.Bool().Draw(rt, "cut") && rapid.IntRange(0, 9).Draw(rt, "cuts") == 0 {
						f = f[:len(f)-1]
					}
					run(f)
					want.arrive(f, unit.Now())
				}
				got, err := m.Read(context.Background())
				if err != nil {
					rt.Fatal(err)
				}
				w := want.report(0)
				if got.Foreign != w.Foreign {
					rt.Fatalf("%d foreign, want %d", got.Foreign, w.Foreign)
				}
				for i := range w.Streams {
					g, w := got.Streams[i], w.Streams[i]
					if g.Frames != w.Frames || g.Octets != w.Octets || g.Reordered != w.Reordered || g.Duplicate != w.Duplicate || g.Broken != w.Broken {
						rt.Fatalf("stream %d: %+v, want %+v", i, g, w)
					}
					if timed && w.Frames > 1 && g.Gaps.Total() != w.Frames-1 {
						rt.Fatalf("%d gaps of %d frames", g.Gaps.Total(), g.Frames)
					}
				}
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		thread.Wait()
	}
}

// A stamp that lies a known time back stands in its bucket.
func TestMeterProgramLatency(t *testing.T) {
	testutil.Privileged(t)
	p, err := loadMeterFor(true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.coll.Close()
	m := &xdpMeter{plain: p, timed: p, armed: p}
	b, err := frame.NewBuilder(spec4(1, 64), 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, age := range []unit.Instant{1e6, 1e8, 5e9} {
		if err := m.Arm(context.Background(), true, 3); err != nil {
			t.Fatal(err)
		}
		f := make([]byte, 60)
		b.Build(1, f)
		b.Stamp(f, unit.Now()-age)
		if got := unit.Instant(binary.BigEndian.Uint64(f[b.Layout.Time:])); unit.Now()-got < age {
			t.Fatal("the stamp is not in the past")
		}
		before := unit.Now()
		if _, err := p.coll.Programs[meterProgMeter].Run(&ebpf.RunOptions{Data: f, Repeat: 1}); err != nil {
			t.Fatal(err)
		}
		took := unit.Now() - before
		rep, err := m.Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		h := rep.Streams[0].Latency
		least, most := float64(age)/1e9, float64(age+took+1e6)/1e9*17/16
		if h.Total() != 1 || h.Upper[0] < least || h.Upper[0] > most {
			t.Errorf("age %v: %+v, want one in [%v, %v]", age, h, least, most)
		}
	}
}
