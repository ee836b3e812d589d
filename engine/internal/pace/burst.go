// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"time"

	"boxdyno/engine"
)

// Each flush of the port's queue may wake another CPU, which costs the sender 2 us,
// and on a virtual machine 16 where that CPU runs a program. So frames at a constant
// rate leave in bursts of what falls due within 40 us, as a NIC would moderate its
// interrupts, and at most 32: far less than any ring holds.
const (
	Moderation = 40 * time.Microsecond
	MostBurst  = 32 // of each lane
)

// Burst is how many frames of all lanes leave as one where the sender may group them.
func Burst(l engine.Load, lanes int) int {
	if l.Alone {
		return 1
	}
	return lanes * min(max(int(float64(l.Rate)*Moderation.Seconds()), 1), MostBurst)
}
