// SPDX-License-Identifier: Apache-2.0

package search

import "boxdyno/unit"

const (
	// beside is how far from Ask trials decide on it, as a share: the offered load is not
	// exactly the one asked for.
	beside = 0.002
	// asks is how many trials may decide on Ask; they come on top of the preset's.
	asks = 20
)

// ask is the trial that brings a strict goal nearer to a decision on Ask; false: it is
// decided, cannot be offered, or had its trials. A load just above Ask that is a lower
// bound says that the box carries Ask; one just below that is an upper bound, that it
// does not. Nothing else is judged otherwise: no loss is allowed that the goal does not
// allow.
func (s Search) ask(history []Seen) (Step, bool) {
	g := s.Goals[0]
	if !s.Open(history) || s.asked(history) >= asks+s.More {
		return Step{}, false
	}
	above, below := s.asking()
	ladder := g.ladder()
	v := g.see(history, ladder[len(ladder)-1])
	clean, lossy := 0, 0            // that speak for Ask, and against it
	carriedBelow, lostAbove := 0, 0 // where one was carried below, one may be above, after all
	for _, t := range v.clean {
		if t.Rate >= s.Ask {
			clean++
		} else if t.Rate >= below {
			carriedBelow++
		}
	}
	for _, t := range v.lossy {
		if t.Rate <= above {
			lossy++
		}
		if t.Rate == above {
			lostAbove++
		}
	}
	load := above
	switch {
	case clean == 0 && lossy > 0 && (lostAbove > carriedBelow || carriedBelow == 0), len(history) == 0 && s.Guess < below:
		load = below
	case lossy > 2*outvoted+clean/outvotes && s.asked(history)%2 == 1: // no threshold: both sides
		load = below
	}
	return Step{load, g.Final}, true
}

// Open says whether history leaves undecided whether Ask, a load that can be offered, is
// carried, and further trials can decide it. Only those of a strict goal are asked for.
func (s Search) Open(history []Seen) bool {
	if s.Ask <= 0 || s.Ask > s.Max || s.Goals[0].Lossy == 0 {
		return false
	}
	l := s.Limit(history)
	return l.Lower < s.Ask && (l.Upper == 0 || l.Upper >= s.Ask) && !s.contradicted(history)
}

// contradicted says that a trial carried Ask, so that no load below Ask becomes an upper
// bound, and that more lost than can be outvoted, so that no load from Ask on becomes a
// lower one.
func (s Search) contradicted(history []Seen) bool {
	g := s.Goals[0]
	ladder := g.ladder()
	v := g.see(history, ladder[len(ladder)-1])
	lowest, carried := s.at(s.Ask*(1+beside)), false // of the loads that may become one
	for _, t := range v.clean {
		if t.Rate >= s.Ask {
			lowest, carried = min(lowest, t.Rate), true
		}
	}
	return carried && v.lossyTo(lowest) > outvoted
}

// asking are the loads that decide on Ask.
func (s Search) asking() (above, below unit.FrameRate) {
	return s.at(s.Ask * (1 + beside)), s.at(s.Ask * (1 - beside))
}

// asked is how many trials of history were offered to decide on Ask, at most as many as may
// decide on it.
func (s Search) asked(history []Seen) (n int) {
	if s.Ask <= 0 {
		return 0
	}
	above, below := s.asking()
	for _, t := range history {
		if t.Rate == above || t.Rate == below {
			n++
		}
	}
	return min(n, asks+s.More)
}
