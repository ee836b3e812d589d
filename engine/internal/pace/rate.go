// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"time"

	"boxdyno/engine"
	"boxdyno/unit"
)

// endedByCount says whether a count of frames or passes ended the load of r.
func endedByCount(l engine.Load, r engine.TxReport) bool {
	switch {
	case l.Duration == 0, l.Passes > 0 && r.Passes >= l.Passes:
		return true
	case l.Count == 0:
		return false
	case l.Rate > 0:
		return float64(l.Count) < float64(l.Rate)*l.Duration.Seconds()
	}
	return r.Accepted+r.Refused >= l.Count
}

// Offered is the rate at which a load's frames were accepted: over the whole
// duration, so that a sender that stood still at its end is seen, or over the
// time from the first to the last frame of a counted load. Frames that are paced
// by their octets are unequal intervals, of which the last counts, too: few of
// them would read high without it.
func Offered(l engine.Load, r engine.TxReport) unit.FrameRate {
	ended := endedByCount(l, r)
	if !l.Paced() || ended && r.Tail == 0 {
		return unit.RateOver(r.Accepted, r.First, r.Last)
	}
	took := time.Duration(r.Last-r.First) + r.Tail
	if !ended {
		took = max(took, l.Duration)
	}
	return unit.FrameRate(float64(r.Accepted) / took.Seconds())
}

// Peak is the highest rate on the way: delayed frames are made up at 9/8 of the
// schedule's.
func Peak(l engine.Load, r engine.TxReport) unit.FrameRate {
	if r.Late == 0 || l.Late != engine.MakeUp || !l.Paced() {
		return r.Offered
	}
	if l.Rate > 0 {
		return max(r.Offered, l.Rate*9/8)
	}
	return r.Offered * 9 / 8
}
