// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"context"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"

	"pgregory.net/rapid"
)

// The memory link loses, doubles and holds back every so-many-th frame; the list
// that the test makes by the same rule says what its meter must count.
func TestMeterOnTheFaultyMemoryLink(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		every := func(label string) uint64 {
			return rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(2, 40)).Draw(rt, label)
		}
		cfg := Config{LoseEvery: every("lose"), DuplicateEvery: every("double"), ReorderEvery: every("hold"), ReorderDepth: rapid.IntRange(1, 50).Draw(rt, "depth")}
		n := rapid.Uint64Range(1, 500).Draw(rt, "frames")
		r := newRig(t, cfg)
		if _, err := r.tx.Transmit(context.Background(), engine.Load{Count: 1}, engine.Stream{ID: 2, Frames: enginetest.Spec(), Lane: 1}); err != nil {
			rt.Fatal(err) // the other direction has books of its own
		}
		tx, rx := r.run(t, engine.Load{Count: n}, false)

		type waiting struct{ seq, pass uint64 }
		var model enginetest.PlainTracker
		var queue []waiting
		var received, duplicates, behind uint64
		arrives := func(seq uint64) { model.Order(1<<32 + seq); received++ }
		for seq := range n {
			if cfg.LoseEvery != 0 && (seq+1)%cfg.LoseEvery == 0 {
				continue
			}
			behind++
			if cfg.ReorderEvery != 0 && behind%cfg.ReorderEvery == 0 {
				queue = append(queue, waiting{seq, uint64(cfg.ReorderDepth)})
				continue
			}
			arrives(seq)
			if cfg.DuplicateEvery != 0 && behind%cfg.DuplicateEvery == 0 {
				arrives(seq)
				duplicates++
			}
			for i := range queue {
				queue[i].pass--
			}
			for len(queue) > 0 && queue[0].pass == 0 {
				arrives(queue[0].seq)
				queue = queue[1:]
			}
		}
		for _, w := range queue {
			arrives(w.seq)
		}
		if s := rx[0]; tx[0].Accepted != n || s.Frames != received || s.Duplicate != model.Duplicate || s.Duplicate != duplicates || s.Reordered != model.Reordered {
			rt.Fatalf("%+v; want %d frames, %d twice, %d out of order", s, received, duplicates, model.Reordered)
		}
	})
}
