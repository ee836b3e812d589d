// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	began := time.Now()
	hz, err := Clock(20*time.Millisecond, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(hz) != 1 || !(hz[0] > 1e7 && hz[0] < 1e10) {
		t.Errorf("the clock is %v Hz", hz)
	}
	if took := time.Since(began); took < 20*time.Millisecond {
		t.Errorf("the loop ran for %v only", took)
	}
	// More rounds take longer, or the compiler has thrown the chain away.
	few, many := time.Hour, time.Hour
	for range 20 {
		begin := time.Now()
		sum := chain(100)
		few = min(few, time.Since(begin))
		begin = time.Now()
		sum &= chain(100_000)
		many = min(many, time.Since(begin))
		if sum == 0 { // both are odd
			t.Fatal("the chain does not add up")
		}
	}
	if many < 100*few {
		t.Errorf("100 rounds take %v, 100000 take %v", few, many)
	}
	if _, err := Clock(0, 1<<14); err == nil {
		t.Error("a CPU that is not there has a clock")
	}
}
