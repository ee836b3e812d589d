// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"testing"
	"time"

	"boxdyno/unit"
)

// Two overloads tell the rate and the memory of a box; a limit above the rate is carried
// only if a trial that memory cannot explain says so.
func TestBetween(t *testing.T) {
	const rate, memory = 10e3, 2000.0
	passes := func(d time.Duration) float64 { return memory + rate*d.Seconds() }
	s := Between(passes(time.Second), time.Second, passes(2*time.Second), 2*time.Second, 10*time.Second)
	if s.Rate != rate || math.Abs(s.Memory-memory) > 1e-6 {
		t.Fatalf("%+v", s)
	}
	for _, c := range []struct{ found, load, seconds float64 }{
		{9e3, 9e3, 1}, {rate, rate, 1}, {rate * 1.0005, rate * 1.0005, 1},
		{11e3, 11e3, 4.2168}, // (2 x 2000 + 16) / 1000, and 5 % more
		{10.1e3, rate, 1},    // 42 s would have to tell
		{50e3, 50e3, 1},      // that memory is not why
	} {
		load, d := s.Carries(unit.FrameRate(c.found), time.Second)
		if math.Abs(float64(load)-c.load) > 1 || math.Abs(d.Seconds()-c.seconds) > 1e-3 {
			t.Errorf("found %v: %v for %v", c.found, load, d)
		}
	}
	if load, d := (Sustained{}).Carries(5e3, time.Second); load != 5e3 || d != time.Second {
		t.Error("nothing is known, and a limit is changed")
	}
	if s := Between(100, time.Second, 90, 2*time.Second, 0); s.Rate != 0 {
		t.Errorf("a box that does less in the longer overload: %+v", s)
	}
}
