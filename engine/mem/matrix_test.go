// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"context"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/internal/testutil"
)

func TestMatrix(t *testing.T) {
	testutil.Alone(t)
	enginetest.Matrix(t, inMemory, map[int]enginetest.LongFrames{1600: enginetest.Carried, 5000: enginetest.Carried})
}

// inMemory hears by the meter's digest, which is given every frame.
func inMemory(t testing.TB) *enginetest.Bed {
	r := newRig(t, Config{})
	r.wan.(engine.Hasher).Hash(true)
	if err := r.wan.Arm(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	heard := &enginetest.FrameLog{}
	r.wan.(*Meter).tally.Hash = engine.DigestBy(heard)
	return &enginetest.Bed{Tx: r.tx, Next: func(bool) []byte { return heard.Frame() }}
}
