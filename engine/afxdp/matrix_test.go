// SPDX-License-Identifier: Apache-2.0

package afxdp

import (
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/host"
	"boxdyno/internal/testutil"
)

func TestMatrix(t *testing.T) {
	testutil.Alone(t)
	t.Run("on the wire", func(t *testing.T) { enginetest.Matrix(t, enginetest.OnWire(New(), nil), nil) })
	t.Run("into its meter", func(t *testing.T) { enginetest.Matrix(t, intoAFXDP, nil) })
}

// intoAFXDP is enginetest.OnWire with afxdp at both ends: what its meter's digest is given.
func intoAFXDP(t testing.TB) *enginetest.Bed {
	from, to := enginetest.Quiet(t)
	tx, ms := enginetest.Open(t, New(), []host.Port{from}, to)
	ms[0].(engine.Hasher).Hash(true)
	enginetest.Arm(t, ms[0], false, 6)
	q, heard := ms[0].(*Meter).queues[0], &enginetest.FrameLog{}
	q.mu.Lock()
	q.tally.Hash = engine.DigestBy(heard)
	q.mu.Unlock()
	return &enginetest.Bed{Tx: tx, Next: func(wait bool) (f []byte) {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if err := q.flush(); err != nil {
				t.Fatal(err)
			}
			q.mu.Lock()
			f = heard.Frame()
			q.mu.Unlock()
			if f != nil || !wait || time.Now().After(deadline) {
				return f
			}
		}
	}}
}
