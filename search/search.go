// SPDX-License-Identifier: Apache-2.0

// Package search says which load to try next, given what was seen. Pure: a
// search depends on its history only, so that a resumed run replays it.
package search

import (
	"time"

	"boxdyno/unit"
)

// A Step is one trial to come.
type Step struct {
	Rate     unit.FrameRate // each stream's
	Duration time.Duration
}

// A Seen is one trial that was.
type Seen struct {
	Step
	Offered unit.FrameRate // measured; each stream's
	Loss    unit.LossRatio // lost/offered, in [0, 1]
	Valid   bool           // false: the tester could not do its part
}

// A Limit is what a history says of the highest load without loss.
type Limit struct {
	// Lower is the highest offered load that was clean as often as the preset
	// confirms, with no loss seen at it or below; 0: none was.
	Lower unit.FrameRate
	// Upper is the lowest offered load from which on every valid trial lost
	// frames; 0: none did.
	Upper unit.FrameRate
	// AtCeiling: the search ended at the highest load the tester can offer, without loss.
	AtCeiling bool
	// Sharp: both bounds are confirmed, no loss below a clean load was seen, and
	// they are not further apart than the preset's width.
	Sharp bool
	// Inversions counts lossy trials below the highest clean load.
	Inversions   int
	Clean, Lossy int // trials
}
