// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSpeed(t *testing.T) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for c := range 1024 {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	speeds, err := Speed(cpus...)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range speeds {
		// A round is 16 operations: no CPU is outside of 10 MHz to 100 GHz of them.
		if s*16 < 1e7 || s*16 > 1e11 {
			t.Errorf("CPU %d makes %v rounds a second", i, s)
		}
	}
	if _, err := Speed(1 << 14); err == nil {
		t.Error("a CPU that is not there has a speed")
	}
}

// A thread that waits is not slow: only CPU time counts.
func TestSpeedIsOfCPUTime(t *testing.T) {
	const waits = 20 * time.Millisecond
	speeds, err := timed(0, 100, func(rounds int) uint {
		time.Sleep(waits)
		return count(rounds)
	}, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	if least := 100 / (waits / 2).Seconds(); speeds[0] < least {
		t.Errorf("%.0f rounds a second: the wait of %v counts", speeds[0], waits)
	}
}
