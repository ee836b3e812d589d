// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// An underLoad is a forwarding rate under overload, all streams together.
type underLoad struct {
	rate   float64
	steady time.Duration // how long the stationary part was that it is from; 0: there was none
}

// A stamina is what overloads from rest tell of a point's box, all streams together:
// how much it takes before its sustained rate shows.
type stamina struct {
	beyond    []float64 // frames that passed beyond the sustained rate, of each overload that counts
	settled   time.Duration
	lossless  bool          // nothing is too much for the box
	longest   time.Duration // the longest overload so far
	unsettled bool          // even then the arrivals were not steady
	rested    bool          // a longer rest would not have let more pass
}

const (
	fills     = 8 // overloads from rest, at most
	fillTries = 3 // that are invalid, at most
	// FillEstimate is about how many of them a box takes.
	FillEstimate = 2
	restShare    = 0.8 // of a rest: a bucket that takes longer may not have been full
	restTimes    = 4   // how much longer the next rest is
	restMore     = 2   // times
)

// Fill offers as much as there is to a box at rest, until what arrives is steady for as
// long as it was not before, and measures what passed beyond that. Where it is more
// than trials of the search can bear, it is measured twice, and the lesser counts: a
// machine that is slower for a while looks like a bucket that is empty.
func (m *Point) Fill(ctx context.Context) error {
	if DropPlaces[m.Service.Value] != "" {
		return nil
	}
	p := m.Searching()
	d, rest, invalid, rests := p.Overload, p.Rest, 0, 0
	again := func(longer time.Duration) bool {
		longer = min(longer, p.Longest)
		more := longer > d
		d = max(d, longer)
		return more
	}
	for n := 0; n < fills && invalid < fillTries && (n == 0 || !m.Spent("fill")); n++ {
		rec, err := m.trialFrom(ctx, outset{rest: rest}, "fill", n, engine.Load{Rate: m.LinkRate(), Duration: d})
		if err != nil {
			return err
		}
		if m.invalid = useless(rec); m.invalid != "" {
			invalid++
			continue
		}
		a, s := rec.Load.Arrivals, &m.stamina
		s.longest = max(s.longest, d)
		if a == nil {
			s.unsettled = true
			if again(2 * d) {
				continue
			}
			break
		}
		rate := float64(rec.Load.Forwarded)
		keeps := m.missed(rec.Account) > 0 || rate < float64(rec.Load.Offered)*0.99
		s.unsettled = a.Steady < min(a.Settled, d/2) || a.Falling
		switch {
		case !keeps && again(p.Longest/2), s.unsettled && again(2*d):
			continue
		case keeps && m.missed(rec.Account) <= 0 && again(2*d): // its queue is not full yet
			continue
		}
		m.Readings = append(m.Readings, underLoad{rate, a.Steady})
		m.Out.Account, m.Out.Load = rec.Account, rec.Load
		m.offered = append(m.offered, float64(rec.Load.Offered))
		s.settled = max(s.settled, a.Settled)
		if s.lossless = !keeps; s.lossless {
			break
		}
		beyond := max(float64(a.Beyond), float64(a.Drained), 0)
		s.rested = beyond < restShare*rest.Seconds()*rate
		if !s.rested && rests < restMore {
			rest, rests, s.beyond = rest*restTimes, rests+1, nil
			continue
		}
		s.beyond = append(s.beyond, beyond)
		if len(s.beyond) == 2 || !m.Sustained().Sizeable(p.Goals[0].Final, p.Goals[0].Width) {
			break
		}
	}
	return nil
}

// Sustained is what the search goes by, of each stream.
func (m *Point) Sustained() search.Sustained {
	s := search.Sustained{Longest: m.Searching().Longest}
	if len(m.stamina.beyond) == 0 || m.stamina.lossless {
		return s
	}
	streams := float64(m.Streams())
	s.Rate = unit.FrameRate(m.forwards() / streams)
	s.Memory = slices.Min(m.stamina.beyond) / streams
	return s
}

// Rates are the rates under overload: those that are sustained, or all where none is.
func (m *Point) Rates() (out []float64) {
	for _, r := range m.Readings {
		if r.steady > 0 {
			out = append(out, r.rate)
		}
	}
	if len(out) == 0 {
		for _, r := range m.Readings {
			out = append(out, r.rate)
		}
	}
	return out
}

// forwards is the median of the sustained rates, each of which counts for as long as it
// was steady. One of few frames, of which each is a thousandth and more, does not count
// beside one that is twice as long.
func (m *Point) forwards() float64 {
	const frames = 1000
	longest := time.Duration(0)
	for _, r := range m.Readings {
		longest = max(longest, r.steady)
	}
	rs := slices.DeleteFunc(slices.Clone(m.Readings), func(r underLoad) bool {
		return r.steady*2 <= longest && r.rate*r.steady.Seconds() < frames
	})
	slices.SortFunc(rs, func(a, b underLoad) int { return cmp.Compare(a.rate, b.rate) })
	var all, sum time.Duration
	for _, r := range rs {
		all += r.steady
	}
	for _, r := range rs {
		if sum += r.steady; sum*2 >= all && r.steady > 0 {
			return r.rate
		}
	}
	return 0
}

// overloadFor is how long an overload of a visit is: long enough for the box to be
// filled, and for its frames to make a rate.
func (m *Point) overloadFor() (d time.Duration, times int) {
	const frames = 200
	d, times = m.Effort.Overload, m.Effort.Overloads
	if rate := m.forwards(); rate > 0 {
		d = max(d, time.Duration(frames/rate*1e9))
	}
	p := m.Searching()
	if large := len(m.stamina.beyond) > 1 && m.Sustained().Sizeable(p.Goals[0].Final, p.Goals[0].Width); large || m.stamina.settled > m.Effort.Overload/4 {
		// A stall of the tester leaves part of a bucket for later: so many of its frames
		// must be few beside those of the rate.
		d = max(d, m.stamina.settled*2+p.Overload)
	}
	if longest := m.Searching().Longest; longest > 0 {
		d = min(d, max(longest, m.Effort.Overload))
	}
	if d >= 4*m.Effort.Overload {
		times = 1
	}
	return d.Round(time.Millisecond), times
}

// burst returns the figures of the box's memory, where it is more than the search has to
// bear; told says what they mean, "" where there are none. Where no load is confirmed
// (carried is 0), it speaks of the rate under overload, forwarded.
func (m *Point) burst(carried float64, bound result.Bound, forwarded result.Value) (vs []result.Value, told string) {
	s, p := m.stamina, m.Searching()
	if len(s.beyond) < 2 || !m.Sustained().Sizeable(p.Goals[0].Final, p.Goals[0].Width) {
		return nil, ""
	}
	v := figures.Spread("burst_frames", s.beyond)
	v.Value = slices.Min(s.beyond)
	rate := m.forwards()
	t := figures.Value("burst_time_s", v.Value/rate)
	if !s.rested {
		v.Bound, t.Bound = result.AtLeast, result.AtLeast
	}
	what := "carries"
	if carried == 0 {
		what, carried, bound = "under overload it forwards", forwarded.Value, forwarded.Bound
	}
	return []result.Value{v, t}, fmt.Sprintf("%s %s%s without end, and bursts of %s%s frames above that", what, boundText(bound), unit.SI(carried)+"frame/s", boundText(v.Bound), unit.Grouped(v.Value, 0))
}

func boundText(b result.Bound) string {
	return map[result.Bound]string{result.AtLeast: "at least ", result.AtMost: "at most "}[b]
}

// short says what the overloads were too short to know; "" where it is nothing.
func (m *Point) short() string {
	s := m.stamina
	switch {
	case s.unsettled && s.longest > 0 && !s.lossless:
		return fmt.Sprintf("too short to know: after %v of overload the arrivals were not steady, so the box may carry less without end", s.longest)
	case s.lossless:
		return fmt.Sprintf("the highest load was carried for %v: a buffer that lasts longer would not show", s.longest)
	case !s.rested && len(s.beyond) > 0:
		return "the box's memory may be larger: a longer rest let more frames pass"
	}
	return ""
}

// Resting leaves the box alone, so that its buckets are full and its queues empty.
func Resting(ctx context.Context, bed *lab.Testbed, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if own, ok := bed.Means.(lab.Rester); ok {
		own.Rest(d)
		return nil
	}
	return host.Pause(ctx, d)
}
