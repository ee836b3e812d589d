// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"time"

	"boxdyno/search"
)

const (
	// FillAbove is by how much an overload that fills a box is more than what it was seen
	// to do: a box that is flooded may do hardly anything.
	FillAbove = 1.25
	FillLoses = 0.01 // of it, at least
)

// Filling finds what a box does without end where nobody sees the course of it: overloads
// from rest, of length d and twice as long as the one before, up to longest, until two of
// them have lost something. offer carries one out; passed is 0 if it does not count. After
// is the length of the only one that lost, where there was no second.
func Filling(d time.Duration, longest *time.Duration, offer func(n int, d time.Duration) (passed, lost float64, err error)) (s search.Sustained, after time.Duration, err error) {
	before := 0.0
	for n, invalid := 0, 0; d > 0 && d <= *longest && invalid < fillTries; n++ {
		passed, lost, err := offer(n, d)
		if err != nil {
			return s, 0, err
		}
		if passed <= 0 {
			invalid++
			continue
		}
		if lost > FillLoses*(passed+lost) {
			if after > 0 {
				return search.Between(before, after, passed, d, *longest), 0, nil
			}
			before, after = passed, d
		}
		d *= 2
	}
	return s, after, nil
}
