// SPDX-License-Identifier: Apache-2.0

package stat_test

import (
	"fmt"

	"boxdyno/stat"
)

// Six repeats are the fewest that have an interval.
func ExampleSummarize() {
	s := stat.Summarize([]float64{101, 99, 100, 103, 98, 100})
	fmt.Printf("%g in [%g, %g], sure: %v\n", s.Center, s.Lo, s.Hi, s.Sure)
	// Output: 100 in [98, 103], sure: true
}

// Effects are shares of the base: 0.1 is 10 % more.
func ExampleCompare() {
	base := []float64{100, 101, 99, 100, 102, 98}
	other := []float64{110, 111, 109, 110, 112, 108}
	d, _ := stat.Compare(base, other)
	fmt.Printf("%.2f, p below 0.01: %v\n", d.Effect, d.P < 0.01)
	// Output: 0.10, p below 0.01: true
}
