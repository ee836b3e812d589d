// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"math"
	"testing"
)

func TestCounter(t *testing.T) {
	var c counter
	for i, step := range []struct {
		v    uint64
		want float64
	}{
		{math.MaxUint32 - 10, math.MaxUint32 - 10},
		{5, math.MaxUint32 + 6},       // wrapped at 32 bit
		{5, math.MaxUint32 + 6},       // stood still
		{1000, math.MaxUint32 + 1001}, // counted
		{3, math.MaxUint32 + 1004},    // set back
	} {
		if got := c.next(step.v); got != step.want {
			t.Errorf("step %d: %d makes %.0f, want %.0f", i, step.v, got, step.want)
		}
	}

	wide := counter{}
	wide.next(1 << 33)
	if got := wide.next(10); got != 1<<33+10 {
		t.Errorf("a counter of 64 bit that was set back makes %.0f", got)
	}

	narrow := counter{narrow: true}
	narrow.next(65530)
	if got := narrow.next(4); got != 65540 {
		t.Errorf("a counter of 16 bit that wrapped makes %.0f", got)
	}

	other := counter{}
	other.next(100)
	other.anew()
	if got := other.next(150); got != 250 {
		t.Errorf("another interface's 150 after 100 make %.0f", got)
	}
}

func TestClock(t *testing.T) {
	var c clock
	for i, step := range []struct {
		v    uint64
		want float64
	}{{1000, 1000}, {998, 1000}, {1001, 1001}, {20, 1001}, {30, 1011}, {29, 1011}, {31, 1012}} {
		if got := c.next(step.v); got != step.want {
			t.Errorf("step %d: %d makes %.0f, want %.0f", i, step.v, got, step.want)
		}
	}
}
