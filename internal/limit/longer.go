// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"math"
	"time"

	"boxdyno/search"
	"boxdyno/unit"
)

const (
	// StepDown is a load that is tried next, as a share of one that a longer trial lost at.
	StepDown = 0.8
	// stepMost is the least such share, however much was lost.
	stepMost = 1.0 / 8
	// Swallowed is the share of a load found below which memory is said to be why nothing was
	// lost.
	Swallowed = 0.99
	// OneStep is how many times the load that was carried the one that lost is after one
	// StepDown.
	OneStep = 1.26
)

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
	Budget    int              // a trial that lost, or that narrows, takes 1 of it
	OfInvalid int              // that an invalid trial takes
	OfSpoilt  int              // that a disturbed one takes
	Hint      unit.FrameRate   // a load to try below the first that lost; 0: none
	Above     unit.FrameRate   // a load that shorter trials lost at; 0: none is known
	Narrow    float64          // as many times the load that is carried may the one that lost be, or one between is tried; 0: any

	Rate   unit.FrameRate // of the next trial; after the last one, of that
	Lasts  time.Duration  // the next one
	Spent  int            // of Budget
	Trials int
	Valid  int            // of them
	Spoilt int            // at Rate
	Lossy  unit.FrameRate // the lowest load that lost, a shorter trial's too where the search found none without loss; 0: none
	Bears  unit.FrameRate // the highest load that was carried; 0: none

	// Doubted is the load found, where memory may be why shorter trials lost nothing and no
	// longer one can show another reason; 0: it is not.
	Doubted unit.FrameRate
}

// Begin sets the first load: found, or what Sustained lets a trial of length Least show.
func (c *Longer) Begin(found unit.FrameRate) {
	if c.offer(found); c.Rate < found*Swallowed {
		c.Doubted = found
	}
}

func (c *Longer) offer(load unit.FrameRate) { c.Rate, c.Lasts = c.Sustained.Carries(load, c.Least) }

// Below returns the lowest load that is known not to be carried, by any trial or because it
// is Doubted; 0: none is.
func (c *Longer) Below() unit.FrameRate { return least(c.Lossy, c.Doubted, c.Above) }

// AtMost returns the load below which the limit lies where no load is known to be carried;
// 0: one is, or what the search found stands and is not confirmed. An invalid trial decides
// nothing.
func (c *Longer) AtMost() unit.FrameRate {
	if c.Bears > 0 {
		return 0
	}
	return least(c.Lossy, c.Doubted)
}

// least returns the lowest of loads that are not 0; 0: all are.
func least(loads ...unit.FrameRate) (lowest unit.FrameRate) {
	for _, l := range loads {
		if l > 0 && (lowest == 0 || l < lowest) {
			lowest = l
		}
	}
	return lowest
}

// Next notes what became of a trial; more says that another one is to follow. After one
// that lost it is at a lower load: at that share of this one which room says that the box
// would have carried; 0: that is not known.
func (c *Longer) Next(came Came, room float64) (more bool) {
	c.Trials++
	switch {
	case came == Carried:
		c.Valid++
		c.Spoilt, c.Bears = 0, max(c.Bears, c.Rate)
		return c.between()
	case came == Invalid:
		c.Spent += c.OfInvalid
		return c.Spent < c.Budget
	case came == Disturbed && c.Spoilt+1 < c.Attempts:
		c.Spoilt++
		c.Spent += c.OfSpoilt
		return c.Spent < c.Budget
	default:
		c.Valid++
		c.Spent++
		if c.Spoilt, c.Lossy = 0, c.Rate; c.Hint >= c.Lossy {
			c.Hint = 0
		}
	}
	if c.Bears > 0 {
		return c.between()
	}
	rate := c.Rate * unit.FrameRate(Share(room))
	if s := c.Sustained.Rate; rate < s && s < c.Lossy {
		rate = s
	}
	if rate < c.Hint && c.Hint < c.Lossy {
		rate = c.Hint
	}
	c.offer(rate)
	return c.Spent < c.Budget
}

// Share is the load that is tried after one that hardly lost too much, as a share of it, by
// what Next is told as room.
func Share(room float64) float64 {
	if room <= 0 {
		return StepDown
	}
	return max(min(room, StepDown), stepMost)
}

// between is the load between what was carried and what was not, if they are far apart.
func (c *Longer) between() (more bool) {
	lossy := c.Below()
	if c.Narrow == 0 || float64(lossy) <= float64(c.Bears)*c.Narrow || c.Spent >= c.Budget {
		return false
	}
	rate, lasts := c.Sustained.Carries(unit.FrameRate(math.Sqrt(float64(c.Bears*lossy))), c.Least)
	if rate <= c.Bears {
		return false
	}
	c.Rate, c.Lasts = rate, lasts
	c.Spent++
	return true
}
