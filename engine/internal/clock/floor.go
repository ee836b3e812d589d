// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"fmt"
	"slices"
	"sync"

	"boxdyno/unit"
)

// Stamps names software that takes times, with the floor of its clock.
func Stamps(what string) string { return fmt.Sprintf("software, %s (floor %d ns)", what, clockFloor()) }

// clockFloor is how far apart two readings of CLOCK_MONOTONIC lie, in ns: no gap
// and no latency is known better. It is the median of many, rounded up to 1, 2 or
// 5 times a power of ten, so that it stays the same on a machine.
var clockFloor = sync.OnceValue(func() int64 {
	steps := make([]int64, 999)
	last := unit.Now()
	for i := range steps {
		now := unit.Now()
		steps[i], last = int64(now-last), now
	}
	slices.Sort(steps)
	return roundUp(steps[len(steps)/2])
})

func roundUp(n int64) int64 {
	for power := int64(1); ; power *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if n <= digit*power {
				return digit * power
			}
		}
	}
}
