// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"cmp"
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
	// unsure is a load that is likely to be carried, as a share of one that a longer trial lost
	// at, where the receive ring does not say.
	unsure = 0.5
	// JustAbove is how far above Hint a load is, so that one that is offered a little less
	// decides on it.
	JustAbove = 1.002
)

// What became of a longer trial.
type Came int

const (
	Carried Came = iota
	Lost         // more than may be
	Invalid      // the tester could not do its part
)

// A Longer confirms the load that a search found by a longer trial there, or at a lower
// one: a buffer must not be why nothing was lost.
type Longer struct {
	Lows
	Sustained search.Sustained        // what goes on without end
	Least     time.Duration           // of a trial
	Budget    int                     // a trial that lost, or that narrows, takes 1 of it
	OfInvalid int                     // that an invalid trial takes
	Hint      unit.FrameRate          // a load to try below the first that lost; 0: none
	Above     unit.FrameRate          // a load that shorter trials lost at; 0: none is known
	Other     unit.FrameRate          // the lowest load at which another point of the run lost; 0: none is known
	Left      func(time.Duration) int // how many trials of a length there is time for; nil: any number
	Narrow    float64                 // as many times the load that is carried may the one that lost be, or one between is tried; 0: any

	Rate   unit.FrameRate // of the next trial; after the last one, of that
	Lasts  time.Duration  // the next one
	Spent  int            // of Budget
	Trials int
	Valid  int            // of them
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
	c.reserve()
}

// Lows are loads that are likely to be carried, by what the receive ring had room for where it
// overflowed; 0: not known.
type Lows struct {
	Low  unit.FrameRate // not below stepMost of a load that lost
	Deep unit.FrameRate // the ring outlasts every stall at it
}

// Overflowed notes that load lost, where the ring had room for that share of it; 0: that is not
// known, or not why.
func (l *Lows) Overflowed(load unit.FrameRate, room float64) {
	if room > 0 {
		l.Low = least(l.Low, load*unit.FrameRate(Share(room)))
		l.Deep = least(l.Deep, load*unit.FrameRate(min(room, StepDown)))
	}
}

// reserve keeps the last trials that there is time for to a load that is likely to be carried,
// while none is known to be: an answer with a wide interval is better than none.
func (c *Longer) reserve() {
	if c.Left == nil || c.Bears > 0 {
		return
	}
	low, n := cmp.Or(c.Deep, c.Below()*unsure), c.Left(max(c.Lasts, c.Least))
	if low > 0 && low < c.Rate && (n <= 1 || n == 2 && c.Deep > 0) {
		c.offer(low)
	}
}

func (c *Longer) offer(load unit.FrameRate) { c.Rate, c.Lasts = c.Sustained.Carries(load, c.Least) }

// Below returns the lowest load above the one that is carried that is known not to be, by any
// trial or because it is Doubted; 0: none is.
func (c *Longer) Below() (lowest unit.FrameRate) {
	for _, l := range []unit.FrameRate{c.Lossy, c.Doubted, c.Above, c.Other} {
		if l > c.Bears {
			lowest = least(lowest, l)
		}
	}
	return lowest
}

// AtMost returns the load below which the limit lies where no load is known to be carried;
// 0: one is, or what the search found stands and is not confirmed. An invalid trial decides
// nothing.
func (c *Longer) AtMost() unit.FrameRate {
	if c.Bears > 0 {
		return 0
	}
	return least(c.Lossy, c.Doubted, c.Other)
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
		c.Bears = max(c.Bears, c.Rate)
		return c.between()
	case came == Invalid:
		c.Spent += c.OfInvalid
		c.reserve()
		return c.Spent < c.Budget
	default:
		c.Valid++
		c.Spent++
		if c.Lossy = c.Rate; c.Hint*JustAbove >= c.Lossy {
			c.Hint = 0
		}
		c.Overflowed(c.Rate, room)
	}
	if c.Bears > 0 {
		return c.between()
	}
	most := min(c.Rate, c.Below()) // that lost
	rate := min(c.Rate*unit.FrameRate(Share(room)), most*StepDown)
	if s := c.Sustained.Rate; rate < s && s < most {
		rate = s
	}
	if c.Low > 0 {
		rate = min(rate, c.Low)
	}
	if at := c.Hint * JustAbove; rate < at && at < most {
		rate = at
	}
	c.offer(rate)
	c.reserve()
	return c.Spent < c.Budget
}

// Note notes what became of a trial at another load than the next one, where one is carried;
// more says that another one is to follow, as Next said before.
func (c *Longer) Note(load unit.FrameRate, came Came, more bool) bool {
	c.Trials++
	if came == Invalid {
		return more
	}
	c.Valid++
	switch {
	case load <= c.Bears:
		return more
	case came == Carried:
		c.Bears = load
	case c.Lossy <= c.Bears || load < c.Lossy:
		c.Lossy = load
	}
	return c.between()
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
	next := unit.FrameRate(math.Sqrt(float64(c.Bears * lossy)))
	if at := c.Hint * JustAbove; at > c.Bears && at < lossy {
		next = at
	}
	rate, lasts := c.Sustained.Carries(next, c.Least)
	if rate <= c.Bears {
		return false
	}
	c.Rate, c.Lasts = rate, lasts
	c.Spent++
	return true
}
