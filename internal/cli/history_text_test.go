// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"boxdyno/result"
	"boxdyno/store"
)

// A bound is in no level, and so not among the runs that have one.
func TestOneLevelIsOfExactFigures(t *testing.T) {
	var s store.Series
	for range 6 {
		s.Points = append(s.Points, store.Point{Value: 1}, store.Point{Value: 1, Bound: result.AtLeast})
	}
	if got, want := answerOf("throughput_fps", s), "throughput_fps has one level in 6 runs."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
