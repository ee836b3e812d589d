// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"testing"

	"boxdyno/engine/internal/enginetest"
	"boxdyno/internal/testutil"
)

func TestMatrix(t *testing.T) {
	testutil.Alone(t)
	enginetest.Matrix(t, enginetest.OnWire(New(), nil), nil)
}
