// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"context"
	"fmt"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/internal/pace"
	"boxdyno/frame"
	"boxdyno/internal/testutil"

	"github.com/cilium/ebpf"
)

// mostVerified is far below the million instructions that the kernel's verifier
// looks at before it gives up, because kernels differ.
const mostVerified = 200_000

func checkVerified(t *testing.T, what string, prog *ebpf.Program) uint32 {
	t.Helper()
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	n, ok := info.VerifiedInstructions()
	if !ok {
		t.Skip("this kernel does not say how many instructions it verified")
	}
	if n > mostVerified {
		t.Errorf("%s: the verifier looked at %d instructions, want at most %d", what, n, mostVerified)
	}
	return n
}

// paceKinds are all schedules that NewSchedule specializes programs for.
func paceKinds() []Pace {
	kinds := []Pace{{burst: 1}, {burst: 1, gaps: true}}
	for _, pattern := range []uint32{paceConstant, pacePoisson, paceBursts, paceOctets, paceCaptured} {
		for i := range 4 {
			k := Pace{paced: true, pattern: pattern, burst: 1, shift: i&1 > 0, gaps: i&2 > 0}
			kinds = append(kinds, k)
			switch {
			case pattern == paceConstant || pattern == paceBursts:
				k.burst = pace.MostBurst
				kinds = append(kinds, k)
			case !k.shift:
				k.slip = uint64(slip) << 16
				kinds = append(kinds, k)
			}
		}
	}
	return append(kinds, Pace{paced: true, burst: 1, gaps: true, slip: uint64(slip) << 16})
}

// combinations are those of four switches that a test tries: all with BOXDYNO_FULL=1,
// else six, which hold each pair of switches in each of its four ways.
func combinations() (out []int) {
	if !testutil.Full() {
		return []int{0b0000, 0b0111, 0b1011, 0b1101, 0b1110, 0b1111}
	}
	for i := range 16 {
		out = append(out, i)
	}
	return out
}

// The verifier takes every specialization of the senders, and with little work.
func TestVerifierTakesEverySender(t *testing.T) {
	testutil.Privileged(t)
	for _, pace := range paceKinds() {
		t.Run(fmt.Sprintf("%+v", pace), func(t *testing.T) {
			t.Parallel()
			most := uint32(0)
			for _, i := range append(combinations(), 0b1_0000, 0b1_0110, 0b1_1111) {
				k := senderKind{pace, i&1 > 0, i&2 > 0, i&8 > 0, i&16 > 0, uint32(1 + i>>2&1)}
				p, err := k.load()
				if err != nil {
					t.Fatalf("%+v: %v", k, err)
				}
				most = max(most, checkVerified(t, fmt.Sprintf("%+v", k), p.prog))
				p.Coll.Close()
			}
			t.Logf("at most %d instructions", most)
		})
	}
}

func TestVerifierTakesEveryReplay(t *testing.T) {
	testutil.Privileged(t)
	heaviest := Pace{paced: true, pattern: paceCaptured, burst: 1, gaps: true, slip: uint64(slip) << 16}
	for shapes, kinds := range [][]Pace{{{burst: 1}}, {heaviest}, paceKinds(), {heaviest}} {
		t.Run(fmt.Sprint(shapes), func(t *testing.T) {
			t.Parallel()
			most := uint32(0)
			s := enginetest.PlainSource(4, 1, 64, 1518)
			classes := max(shapes*8, 1) // up to more than there are draws
			for i := range min(classes, frame.MaxClasses) {
				s.Declared.Classes = append(s.Declared.Classes, fmt.Sprint(i))
			}
			if shapes > 0 {
				for i := range frame.MaxDraws {
					s.Declared.Draws = append(s.Declared.Draws, frame.Draw{
						Class: uint8(i % min(classes, frame.MaxDraws) * (shapes - 1)), Kind: frame.DrawKind(i % 3), Count: uint32(i), List: []uint32{1, 2},
					})
				}
				for i := range frame.MaxFields {
					s.Declared.Fields = append(s.Declared.Fields, frame.Field{
						Class: s.Declared.Draws[i%frame.MaxDraws].Class, Draw: uint8(i % frame.MaxDraws), Base: frame.FieldBase(i % 3),
						Width: []uint8{1, 2, 4}[i%3], Div: uint32(i % 4), Mod: uint32(i % 5), Sums: frame.FieldSums(i % 4),
					})
				}
			}
			r, err := newReel(context.Background(), s, 0, reelRoom{whole: 1 << 20, value: 1 << 16, ring: 1 << 16})
			if err != nil {
				t.Fatal(err)
			}
			for _, pace := range kinds {
				for _, i := range combinations() {
					k := r.kindOf(engine.Load{Unique: i&1 > 0}, engine.Stream{ID: 7}, pace, 1)
					k.signed, k.mixed, k.looping = i&2 > 0, i&4 > 0, i&8 > 0
					p, err := r.sender(k)
					if err != nil {
						t.Fatalf("%d draws, %+v: %v", len(s.Declared.Draws), k, err)
					}
					most = max(most, checkVerified(t, fmt.Sprintf("%d draws, %+v", len(s.Declared.Draws), k), p.prog))
				}
			}
			if err := r.close(); err != nil {
				t.Fatal(err)
			}
			t.Logf("at most %d instructions", most)
		})
	}
}
