// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"fmt"

	"boxdyno/search"
	"boxdyno/unit"
)

// A box that drops what is above 700,000 frames a second: each step is a trial.
func ExampleSearch() {
	const capacity = 700_000
	s, err := search.New("quick", 1e6, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	var history []search.Seen
	for {
		step, ok := s.Next(history)
		if !ok {
			break
		}
		seen := search.Seen{Step: step, Offered: step.Rate, Valid: true}
		if step.Rate > capacity {
			seen.Loss = unit.LossRatio(1 - capacity/step.Rate)
		}
		history = append(history, seen)
	}
	l := s.Limit(history)
	fmt.Println(l.Sharp, l.Lower <= capacity, capacity <= l.Upper)
	// Output: true true true
}
