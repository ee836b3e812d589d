// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"

	"boxdyno/unit"

	"golang.org/x/sys/unix"
)

func TestRoundUp(t *testing.T) {
	for n, want := range map[int64]int64{0: 1, 1: 1, 3: 5, 20: 20, 21: 50, 51: 100, 1001: 2000} {
		if got := roundUp(n); got != want {
			t.Errorf("roundUp(%d) = %d, want %d", n, got, want)
		}
	}
	if f := clockFloor(); f < 1 || f > 1e9 || f != clockFloor() {
		t.Errorf("clock floor %d ns", f)
	}
}

func TestClock(t *testing.T) {
	c := New()
	for range 100 {
		before, at, after := unit.Now(), c.Now(), unit.Now()
		if at < before-5000 || at > after+5000 {
			t.Fatalf("%d is not between %d and %d", at, before, after)
		}
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts); err != nil {
		t.Fatal(err)
	}
	if off := ts.Nano() - int64(unit.Now()) - c.Offset(); off < -1e6 || off > 1e6 {
		t.Errorf("offset is off by %d ns", off)
	}
}
