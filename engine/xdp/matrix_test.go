// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"testing"

	"boxdyno/engine/internal/enginetest"
	"boxdyno/internal/testutil"
)

func TestMatrix(t *testing.T) {
	testutil.Alone(t)
	enginetest.Matrix(t, enginetest.OnWire(New(), New()), map[int]enginetest.LongFrames{1600: enginetest.Counted})
}
