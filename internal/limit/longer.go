// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"time"

	"boxdyno/search"
	"boxdyno/unit"
)

// StepDown is a load that is tried next, as a share of one that a longer trial lost at.
const StepDown = 0.8

// What became of a longer trial.
type Came int

const (
	Carried   Came = iota
	Lost           // more than may be
	Disturbed      // lost, but no more than came while something else had the DUT's CPU
	Invalid        // the tester could not do its part
)

// A Longer confirms the load that a search found by a longer trial there, or at a lower
// one: a buffer must not be why nothing was lost.
type Longer struct {
	Sustained search.Sustained // what goes on without end
	Least     time.Duration    // of a trial
	Attempts  int              // trials at one load that disturbances may spoil; 0: none
	Budget    int              // a trial that lost takes 1 of it
	OfInvalid int              // that an invalid trial takes
	OfSpoilt  int              // that a disturbed one takes

	Rate   unit.FrameRate // of the next trial; after one that carried it, of that
	Lasts  time.Duration  // the next one
	Spent  int            // of Budget
	Trials int
	Valid  int            // of them
	Spoilt int            // at Rate
	Lossy  unit.FrameRate // the lowest load that lost; 0: none
}

// Begin sets the first load: found, or what Sustained lets a trial of length Least show.
func (c *Longer) Begin(found unit.FrameRate) { c.Rate, c.Lasts = c.Sustained.Carries(found, c.Least) }

// Next notes what became of a trial; more says that another one is to follow, at a lower
// load after one that lost.
func (c *Longer) Next(came Came) (more bool) {
	c.Trials++
	switch {
	case came == Carried:
		c.Valid++
		return false
	case came == Invalid:
		c.Spent += c.OfInvalid
	case came == Disturbed && c.Spoilt+1 < c.Attempts:
		c.Spoilt++
		c.Spent += c.OfSpoilt
	default:
		c.Valid++
		c.Spent++
		c.Spoilt, c.Lossy = 0, c.Rate
		rate := c.Rate * StepDown
		if s := c.Sustained.Rate; rate < s && s < c.Lossy {
			rate = s
		}
		c.Begin(rate)
	}
	return c.Spent < c.Budget
}
