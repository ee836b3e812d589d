// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"slices"
	"time"

	"boxdyno/result"
)

// A schedule decides which point of a run is visited next, by its visits alone. Without
// a budget every point has its turn, again and again. With a budget points of an open
// criterion come first, then points without a visit, then those with the widest interval
// for their visits. A point whose last visit was disturbed waits for as many visits of
// others as it had. A point whose next visit would not end in time is left out.
type schedule struct {
	budget time.Duration // 0: none
	slots  []slot        // of the run's points, in the plan's order
	took   time.Duration // by all visits so far
	meant  time.Duration // by their estimates
	begun  bool          // something was visited
}

// A slot is what the schedule knows of a point.
type slot struct {
	estimate time.Duration // of one visit, before any was made
	visits   int
	longest  time.Duration // of its visits
	next     time.Duration // of the one to come, as its procedure says; 0: it does not
	said     time.Duration // of all whose length its procedure said before
	lasted   time.Duration // of the same, in fact
	deciding time.Duration // that its visits took while it had a criterion to decide
	width    float64       // of its interval, as a share of the upper end; 1: nothing is known
	decides  bool          // a criterion that is open
	blank    bool          // its last visit says nothing of the box: what disturbs the tester often lasts, so others come first
	since    int           // visits of other points after its last one
	stored   bool          // an earlier part of the run has records of it that were not replayed: that takes no time
	over     bool
}

const (
	// pace is how much longer than its estimate a visit takes until one was made.
	pace = 1.5
	// decidingShare is the share of the budget that open criteria have before all points
	// were visited once.
	decidingShare = 0.5
)

// next returns the index of the point to visit when so much of the budget is spent;
// false: all are over, or none can be visited in time. A run's first visit is always
// made, and the first one to a point that may decide a criterion while there is time.
func (s *schedule) next(spent time.Duration) (int, bool) {
	var open []int
	for i, p := range s.slots {
		switch {
		case p.over:
		case s.budget == 0, !s.begun, p.stored, spent+s.expect(i) <= s.budget, p.decides && p.visits == 0 && spent < s.budget:
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return 0, false
	}
	return slices.MinFunc(open, s.before), true
}

// before orders two points: below 0, a is visited before b.
func (s *schedule) before(a, b int) int {
	x, y := s.slots[a], s.slots[b]
	visits := cmp.Or(cmp.Compare(x.visits, y.visits), cmp.Compare(a, b))
	if s.budget == 0 {
		return visits
	}
	if r := cmp.Compare(s.rank(x), s.rank(y)); r != 0 {
		return r
	}
	return cmp.Or(cmp.Compare(y.width/float64(y.visits+1), x.width/float64(x.visits+1)), visits)
}

// rank is the class of a point's next visit, the most valuable first.
func (s *schedule) rank(p slot) int {
	switch {
	case p.stored:
		return 0
	case p.blank && p.since < p.visits:
		return 4
	case p.decides && !(s.unvisited() && s.deciding() > time.Duration(decidingShare*float64(s.budget))):
		return 1
	case p.visits == 0:
		return 2
	}
	return 3
}

func (s *schedule) unvisited() bool {
	return slices.ContainsFunc(s.slots, func(p slot) bool { return p.visits == 0 && !p.over })
}

func (s *schedule) deciding() (sum time.Duration) {
	for _, p := range s.slots {
		sum += p.deciding
	}
	return sum
}

// expect is about how long the point's next visit takes: as its procedure says, and longer if
// earlier ones were longer than it said; or else as its longest so far; before its first as
// estimated, and at the pace of the visits so far.
func (s *schedule) expect(i int) time.Duration {
	p := s.slots[i]
	if p.visits > 0 && p.next > 0 {
		if p.lasted > p.said {
			return time.Duration(float64(p.next) * float64(p.lasted) / float64(p.said))
		}
		return p.next
	}
	if p.visits > 0 && p.longest > 0 {
		return p.longest
	}
	if s.meant <= 0 {
		return time.Duration(pace * float64(p.estimate))
	}
	return time.Duration(float64(p.estimate) * max(1, float64(s.took)/float64(s.meant)))
}

// visited notes a visit of point i that took so long.
func (s *schedule) visited(i int, took time.Duration) {
	for j := range s.slots {
		s.slots[j].since++
	}
	p := &s.slots[i]
	p.since = 0
	if p.visits > 0 && p.next > 0 && !p.stored {
		p.said += p.next
		p.lasted += took
	}
	p.visits++
	p.longest = max(p.longest, took)
	if p.decides {
		p.deciding += took
	}
	s.begun = true
	if took > 0 && !p.stored { // what is replayed tells of no pace
		s.took += took
		s.meant += p.estimate
	}
}

// boundedBelow says whether values have a figure with a lower end that ms say is better higher
// or lower, and of none only an upper bound.
func boundedBelow(values []result.Value, ms []result.Metric) (known bool) {
	for _, v := range values {
		i := slices.IndexFunc(ms, func(m result.Metric) bool { return m.Name == v.Metric })
		switch {
		case i < 0 || ms[i].Better == 0:
		case v.Bound == result.AtMost:
			return false
		case v.Lo != nil:
			known = true
		}
	}
	return known
}

// widthOf is the widest interval of a point's figures that ms say are better higher or
// lower, as a share of its upper end: 1 where nothing is known, 0 where the tester can do no
// more.
func widthOf(values []result.Value, ms []result.Metric) float64 {
	width, known := 0.0, false
	for _, v := range values {
		i := slices.IndexFunc(ms, func(m result.Metric) bool { return m.Name == v.Metric })
		if i < 0 || ms[i].Better == 0 {
			continue
		}
		known = true
		switch {
		case v.Bound == result.AtMost, v.Open: // nothing is known below, or above
			width = 1
		case v.Bound == result.AtLeast || v.Lo == nil:
		case v.Hi == nil || *v.Hi <= 0:
			width = 1
		default:
			width = max(width, (*v.Hi-*v.Lo) / *v.Hi)
		}
	}
	if !known {
		return 1
	}
	return min(max(width, 0), 1)
}
