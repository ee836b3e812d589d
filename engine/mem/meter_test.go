// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"context"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
)

func TestMemMeterHash(t *testing.T) {
	r := newRig(t, Config{})
	send := func(streams ...uint16) engine.MeterReport {
		enginetest.Arm(t, r.wan, false, streams...)
		if _, err := r.tx.Transmit(context.Background(), engine.Load{Count: 100}, engine.Stream{ID: 1, Frames: enginetest.Spec()}); err != nil {
			t.Fatal(err)
		}
		return enginetest.Read(t, r.wan)
	}
	if rep := send(1); rep.Hash != "" || rep.Streams[0].Frames != 100 {
		t.Errorf("not asked to hash: %+v", rep)
	}
	r.wan.(engine.Hasher).Hash(true)
	if rep := send(); rep.Hash == "" || rep.Hash == engine.NewDigest().Sum() || rep.Foreign != 100 || rep.First == 0 || rep.Last <= rep.First {
		t.Errorf("asked to hash: %+v", rep)
	}
}
