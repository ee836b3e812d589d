// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"boxdyno/engine"
	"boxdyno/internal/limit"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// confirming is how long a trial lasts at least that confirms a search: a subject's buffer
// must not be why nothing was lost.
const confirming = 5 * time.Second

// nearEnough is the least load of a longer trial, as a share of one that the search found, that
// tells something of it.
const nearEnough = 0.5

// A captureLonger is how far the longer trials are that confirm a rate, or lower ones.
type captureLonger struct {
	limit.Longer
	doubt            string        // says what speaks against the rate found
	valid            []search.Seen // those that count
	others           []search.Seen // at other points of the run, at a given rate
	searched         []search.Seen // the search's
	last, best, lost result.Record
	load             engine.Load // of best
	given            bool        // the others' highest was offered, if that is needed
}

// longer begins with the rate found, where s, which is what the subject counts without
// end, lets a trial show that memory is not why nothing is lost.
func longer(found unit.FrameRate, s search.Sustained) *captureLonger {
	c := &captureLonger{Longer: limit.Longer{
		Sustained: s, Least: confirming,
		Budget: trial.Confirmations * 3, OfInvalid: 3, // they are repeated as often as there are confirmations
		Narrow: limit.OneStep,
	}}
	if c.Begin(found); c.Doubted > 0 {
		c.doubt = fmt.Sprintf("the search ended at %v, which buffers may have swallowed: %v is counted without end", found, c.Rate)
	}
	return c
}

// figure is the rate that a longer trial carried; l is what the search found.
func (c *captureLonger) figure(m *capturePoint, l search.Limit) result.Value {
	if c.doubt != "" || c.Valid > 1 || c.Bears < l.Lower {
		l.Lower = c.best.Load.Offered
	}
	if l.Upper = c.Below(); l.Upper > 0 {
		l.AtCeiling = false
	}
	v := m.interval("lossless_fps", l)
	v.N = l.Clean + l.Lossy + c.Valid
	return v
}

// keep notes a longer trial of load l, if it counts, and returns what became of it.
func (c *captureLonger) keep(m *capturePoint, rec result.Record, rate unit.FrameRate, l engine.Load) limit.Came {
	came := trial.Came(rec, rec.Status == result.Passed)
	if came != limit.Invalid {
		now := m.saw(rec)
		now.Rate, now.Duration = rate, lasts(l)
		c.valid = append(c.valid, now)
		c.compare()
	}
	return came
}

// shows is l, which a search found of a goal in trials of length d, by the longer trials, too:
// from the highest rate at which they lost no more than the goal allows to the lowest at which
// they lost more, which is also returned if it is at or below what the search found. What the
// subject counts without end speaks against a rate, too, where memory may be why hardly
// anything was lost there, unless a longer trial carried more than that. A trial at another
// point speaks for its rate where memory is not why.
func (c *captureLonger) shows(l search.Limit, d time.Duration) (_ search.Limit, lost unit.FrameRate) {
	may, s, most := l.Goal.Loss, c.Sustained, unit.FrameRate(0)
	near := l.Lower * nearEnough
	if !slices.ContainsFunc(c.valid, func(t search.Seen) bool { return t.Rate >= near }) {
		l.Lower, l.AtCeiling = 0, false
	}
	for _, t := range c.valid {
		switch {
		case t.Loss <= may:
			most = max(most, t.Rate)
		case (l.Lower == 0 || t.Rate <= l.Lower) && (lost == 0 || t.Rate < lost):
			lost = t.Rate
		}
	}
	if lost == 0 && l.Lower > 0 && most <= s.Rate && s.Rate < l.Lower*unit.FrameRate(1-may)*limit.Swallowed && s.Explains(float64(l.Lower)*d.Seconds()*(1-float64(may)), d) {
		lost = l.Lower
	}
	if lost > 0 {
		l.Lower, l.Upper, l.AtCeiling = 0, lost, false
	}
	carried := func(t search.Seen) {
		if t.Loss <= may && t.Rate > l.Lower && (lost == 0 || t.Rate < lost) {
			if l.Lower = t.Rate; l.Upper <= t.Rate {
				l.Upper = 0
			}
		}
	}
	for _, t := range c.valid {
		carried(t)
	}
	for _, t := range c.others {
		if t.Rate <= s.Rate {
			carried(t)
		}
	}
	for _, t := range c.valid {
		if t.Loss > may && t.Rate > l.Lower && (l.Upper == 0 || t.Rate < l.Upper) {
			l.Upper, l.AtCeiling = t.Rate, false
		}
	}
	return l, lost
}

// confirm offers c's rate for longer; more says that another trial is to follow, at less
// if frames were lost.
func (m *capturePoint) confirm(ctx context.Context, found unit.FrameRate, c *captureLonger) (more bool, err error) {
	l := m.loadOf(c.Rate)
	l.Duration = max(l.Duration, c.Lasts)
	m.emptied = -1
	if c.last, err = m.offer(ctx, "limit", c.Trials, l); err != nil {
		return false, err
	}
	bears, came := c.Bears, c.keep(m, c.last, c.Rate, l)
	room := trial.Room(c.last, m.ring())
	if c.Rate <= c.Sustained.Rate { // stalls are why, however much was lost
		room = trial.RoomOfAnyLoss(c.last, m.ring())
	}
	more = c.Next(came, room)
	if came == limit.Invalid {
		return more, nil
	}
	if c.Bears > bears {
		c.best, c.load = c.last, l
	} else if c.lost = c.last; c.doubt == "" {
		c.doubt = fmt.Sprintf("the search ended at %v, and a longer trial did not confirm it: %s", found, c.last.Reason)
	}
	return more, nil
}

// ring is how many frames the DUT's receive ring holds; 0: not known.
func (m *capturePoint) ring() float64 {
	n, _ := strconv.ParseFloat(result.Get(m.env.Bed.Settings, "ring"), 64)
	return n
}

// conclude fills the subject's buffers, and offers a longer trial at the rate found, or at
// lower ones. Where the search found none, they begin below all that lost.
func (m *capturePoint) conclude(ctx context.Context, h *limit.Hunt) (err error) {
	l := m.limitOf(h)
	var c *captureLonger
	begin := l.Lower
	switch lossy := lowestLossy(m.tried(h), 0); {
	case l.Lower > 0 && l.AtCeiling: // more cannot be offered
		c = longer(l.Lower, search.Sustained{})
	case l.Lower > 0:
		s, err := m.fill(ctx, h, l.Lower)
		if err != nil {
			return err
		}
		if l = m.limitOf(h); s.Rate > 0 && m.hurried() {
			begin = min(begin, s.Rate*sure)
		}
		c = longer(begin, s)
		c.Above = l.Upper
	case lossy > 0:
		if begin = lossy; len(h.Seen()) == 0 {
			begin = min(begin, m.peak)
		}
		s, err := m.fill(ctx, h, begin)
		if err != nil {
			return err
		}
		if begin = lossy * limit.StepDown; len(h.Seen()) == 0 {
			begin = min(begin, cmp.Or(s.Rate, m.peak)*sure)
		}
		c = longer(begin, s)
		c.Lossy, c.doubt = lossy, fmt.Sprintf("the search found no rate without loss, down to %v", lossy)
	default:
		told := fmt.Sprintf("no rate without loss is confirmed in %d trials, of which %d were invalid or in doubt", l.Clean+l.Lossy+l.Invalid, l.Invalid)
		if len(m.pdrs(h)) > 0 {
			m.warn("%s", told)
		} else {
			m.out.Status, m.out.Reason = result.Invalid, told
		}
		return nil
	}
	m.elsewhere(h, c)
	c.Begin(begin)
	if l.Lower == 0 {
		c.Doubted = 0 // nothing was carried there
	}
	m.longer = c
	for more := true; more; {
		if !l.AtCeiling || c.Trials > 0 {
			if err := m.pause(ctx, m.interim(h)); err != nil {
				return err
			}
		}
		if more, err = m.confirm(ctx, l.Lower, c); err != nil {
			return err
		}
		if c.Bears > 0 && !c.given {
			if more, err = m.offerGiven(ctx, h, c, more); err != nil {
				return err
			}
		}
	}
	if c.doubt != "" {
		m.warn("%s", c.doubt)
	}
	switch {
	case c.Bears > 0:
		if err := m.above(ctx, h, c); err != nil {
			return err
		}
	case c.AtMost() > 0:
		switch {
		case c.Valid > 0:
			m.take(c.lost)
			m.out.Status, m.out.Reason = result.Failed, "no rate was confirmed by a longer trial: at the lowest, "+c.lost.Reason
		case c.Lossy > 0:
			m.out.Status, m.out.Reason = result.Failed, c.doubt+", and no longer trial was valid: "+c.last.Reason
		default: // nothing was lost there
			m.warn("no longer trial was valid: %s", c.last.Reason)
		}
		m.out.Values = append(m.out.Values, m.lossless(atMost("lossless_fps", c.AtMost(), l.Clean+l.Lossy+c.Valid))...)
	default: // all were invalid
		told := fmt.Sprintf("no longer trial confirmed %v: %s", l.Lower, c.last.Reason)
		switch {
		case l.Upper > 0:
			m.out.Values = append(m.out.Values, m.lossless(atMost("lossless_fps", l.Upper, l.Clean+l.Lossy))...)
			fallthrough
		case len(m.pdrs(h)) > 0:
			m.warn("%s", told)
		default:
			m.out.Status, m.out.Reason = result.Invalid, told
		}
	}
	if lost := c.contradicted(c.others); lost > 0 {
		m.warn("no sharp limit: another point of the run lost frames at %v", lost)
	}
	if lost := c.contradicted(c.valid); lost > 0 {
		m.warn("no sharp limit: a longer trial lost frames at %v", lost)
	}
	if l.Inversions > 0 {
		m.warn("no sharp limit: frames were lost in %d trials at or below a rate that another trial carried", l.Inversions)
	}
	if l.Invalid > 0 {
		m.warn("%d trials of the search were invalid or in doubt and do not count", l.Invalid)
	}
	return nil
}

// elsewhere tells c of the rates that the run offered this subject at other points, in trials
// as long as one of those at a given rate. One in which receiving had no precedence is not
// alike.
func (m *capturePoint) elsewhere(h *limit.Hunt, c *captureLonger) {
	if m.env.Left != nil {
		c.Left = func(d time.Duration) int { return int(m.env.Left() / (d + m.around.next(captureAround))) }
	}
	c.Lows = m.lows
	for _, t := range h.Seen() {
		t.Duration = m.short(t.Rate, t.Duration).Duration
		c.searched = append(c.searched, t)
	}
	if m.env.Akin == nil {
		return
	}
	for _, rec := range m.env.Akin("rate", "duration") {
		if rec.Status != result.Passed && rec.Status != result.Failed || slices.Contains(rec.Config, withoutPrecedence) || rec.Load == nil || len(rec.Phases) == 0 || rec.Phases[0].Seconds() < 0.99*m.effort.trial.Seconds() {
			continue
		}
		now := m.saw(rec)
		now.Rate, now.Duration = now.Offered, time.Duration(rec.Phases[0].End-rec.Phases[0].Begin)
		c.Overflowed(now.Rate, trial.Room(rec, m.ring()))
		c.others = append(c.others, now)
		if now.Loss == 0 && (c.Sustained.Rate == 0 || now.Offered <= c.Sustained.Rate) {
			c.Hint = max(c.Hint, now.Offered)
		}
	}
	c.compare()
}

// compare sets Other: the lowest load at which another point lost frames beyond doubt, and that
// no trial as long carried.
func (c *captureLonger) compare() {
	c.Other = 0
	for _, t := range c.others {
		if t.Loss > t.Doubt && !c.disproved(t) && (c.Other == 0 || t.Offered < c.Other) {
			c.Other = t.Offered
		}
	}
}

// disproved says whether a trial about as long as t, or longer, carried as much.
func (c *captureLonger) disproved(t search.Seen) bool {
	for _, o := range slices.Concat(c.others, c.valid, c.searched) {
		if o.Valid && o.Loss == 0 && o.Offered >= t.Offered && o.Duration.Seconds() >= 0.99*t.Duration.Seconds() {
			return true
		}
	}
	return false
}

// contradicted is the lowest load that one of trials lost frames of beyond doubt, and another
// trial carried; 0: none.
func (c *captureLonger) contradicted(trials []search.Seen) (lowest unit.FrameRate) {
	for _, t := range trials {
		if t.Loss > t.Doubt && (t.Offered <= c.Bears || c.disproved(t)) && (lowest == 0 || t.Offered < lowest) {
			lowest = t.Offered
		}
	}
	return lowest
}

// offerGiven offers for longer the highest rate that another point was given, and hardly lost of,
// where it is not known whether the loosest goal is met there: a criterion may ask for that.
// more is whether another longer trial is to follow.
func (m *capturePoint) offerGiven(ctx context.Context, h *limit.Hunt, c *captureLonger, more bool) (bool, error) {
	c.given = true
	limits := h.Limits()
	l := limits[len(limits)-1]
	l, _ = c.shows(l, m.short(l.Lower, l.Goal.Final).Duration)
	rate := unit.FrameRate(0)
	for _, t := range c.others {
		if t.Loss <= l.Goal.Loss {
			rate = max(rate, t.Rate*limit.JustAbove)
		}
	}
	rate, length := c.Sustained.Carries(rate, confirming)
	if rate == 0 || l.Goal.Loss == 0 || rate <= l.Lower || l.Upper > 0 && l.Upper <= rate {
		return more, nil
	}
	so := m.interim(h)
	so.Next = max(so.Next, length+m.around.next(captureAround))
	if err := m.pause(ctx, so); err != nil {
		return false, err
	}
	o := m.loadOf(rate)
	o.Duration = max(o.Duration, length)
	rec, err := m.offer(ctx, "limit", c.Trials, o)
	if err != nil {
		return false, err
	}
	came := c.keep(m, rec, rate, o)
	if came == limit.Carried && rate > c.Bears {
		c.best, c.load = rec, o
	}
	return c.Note(rate, came, more), nil
}

// above makes the best longer trial the point's, with what the subject costs above the
// empty box under that load.
func (m *capturePoint) above(ctx context.Context, h *limit.Hunt, c *captureLonger) error {
	m.take(c.best)
	m.out.Values = append(m.out.Values, m.lossless(c.figure(m, m.limitOf(h)))...)
	if len(m.env.Bed.Threads) == 0 {
		return nil
	}
	so := m.out
	so.Values, so.Next = slices.Concat(m.out.Values, m.pdrs(h)), lasts(c.load)+m.around.next(captureAround)
	so.Warnings = slices.Concat(m.out.Warnings, m.unbounded(so.Values))
	if err := m.pause(ctx, so); err != nil {
		return err
	}
	err := m.empty(ctx, c.load)
	if v := c.best.Value("host_cpu_per_frame_s"); v != nil && m.emptied >= 0 {
		m.out.Values = append(m.out.Values, figures.Value("host_cpu_above_per_frame_s", v.Value-m.emptied))
	}
	return err
}
