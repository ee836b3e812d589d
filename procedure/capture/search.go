// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/internal/limit"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// huntTrials is how many trials of its search a visit has at most.
const huntTrials = 6

// highest searches the highest rate of which the subject counts every frame, and
// overloads it in the end; with rate overload that alone. A run may end it at each pause:
//
//	descend -> search           -> fill  -> limit (longer, at the rate found or below) -> overload
//	           pause after six      pause    pause after each that confirms nothing        pause after three
func (m *capturePoint) highest(ctx context.Context) error {
	shared := m.env.Bed.Placement == "shared"
	if m.rate.overload && !shared {
		return m.overloads(ctx)
	}
	top, peak, err := m.descend(ctx)
	if err != nil {
		return err
	}
	if peak == 0 {
		m.out.Status, m.out.Reason = result.Failed, m.subject.Value+" counted no frame at any rate tried"
		return nil
	}
	if shared {
		m.out.Values = append(m.out.Values, figures.Value("counting_overload_fps", peak))
		m.warn("%s", "tester and DUT share a CPU, so the DUT throttles the tester: no limit is searched")
		return nil
	}
	s, err := search.New(m.searching().Name, unit.FrameRate(top), unit.FrameRate(min(peak, top)))
	if err != nil {
		return err
	}
	return m.hunt(ctx, s)
}

// hunt carries out a search and what follows from it.
func (m *capturePoint) hunt(ctx context.Context, s search.Search) error {
	h := &limit.Hunt{Search: s, Offer: func(ctx context.Context, n int, step search.Step) (search.Seen, time.Duration, error) {
		rec, err := m.offer(ctx, "search", n, m.short(step.Rate, step.Duration))
		return m.saw(rec), 0, err
	}}
	for !h.Ended {
		if _, err := h.Seek(ctx, huntTrials); err != nil {
			return err
		}
		if err := m.pause(ctx, m.interim(limitOf(h), nil)); err != nil {
			return err
		}
	}
	l := limitOf(h)
	if err := m.conclude(ctx, l); err != nil {
		return err
	}
	for _, l := range h.Limits() {
		name := map[unit.LossRatio]string{0.001: "counted_0_1pct_fps", 0.005: "counted_0_5pct_fps"}[l.Goal.Loss]
		if name != "" && l.Lower > 0 {
			m.out.Values = append(m.out.Values, m.interval(name, l))
		}
	}
	if l.Lower == 0 || l.AtCeiling || m.preset.Value == "quick" { // rate overload is for that
		return nil
	}
	return m.overloads(ctx)
}

// errSubject says that the subject failed, as capturePoint.failed tells.
var errSubject = errors.New("the subject failed")

// offer is a trial of the search.
func (m *capturePoint) offer(ctx context.Context, kind string, n int, l engine.Load) (result.Record, error) {
	rec, err := m.trial(ctx, kind, n, l)
	if err == nil && m.failed != "" {
		err = errSubject
	}
	return rec, err
}

func limitOf(h *limit.Hunt) search.Limit {
	l := h.Limit()
	if l.Upper == 0 && l.Lower > 0 {
		l.Upper = lossyFrom(h.Seen())
	}
	return l
}

// interim is the point's outcome if the run comes to it no more; c is nil before the
// longer trials.
func (m *capturePoint) interim(l search.Limit, c *captureLonger) procedure.Outcome {
	out := m.out
	if l.Lower == 0 {
		out.Status, out.Reason = result.Invalid, fmt.Sprintf("the search was not finished: no rate without loss is confirmed in %d trials", l.Clean+l.Lossy+l.Invalid)
		return out
	}
	v, told := m.interval("lossless_fps", l), fmt.Sprintf("no longer trial confirmed %v", l.Lower)
	if c != nil && c.doubt != "" {
		v, told = figures.Value("lossless_fps", float64(c.Lossy)), c.doubt
		v.N, v.Bound = l.Clean+l.Lossy+c.Valid, result.AtMost
	}
	out.Warnings = append(slices.Clip(out.Warnings), "the search was not finished: "+told)
	out.Values = append(slices.Clip(out.Values), m.lossless(v)...)
	return out
}

// lossless are the figures of the highest rate v of which every frame was counted.
func (m *capturePoint) lossless(v result.Value) []result.Value {
	mean := m.mix().Mean()
	return []result.Value{v, scaled("lossless_bps", v, float64(unit.L2(1, mean))), scaled("lossless_l1_bps", v, float64(unit.L1(1, mean)))}
}

// short is a trial of a search: a subject's buffer takes more of a burst than of a
// rate, so none is shorter than the preset's least.
func (m *capturePoint) short(rate unit.FrameRate, d time.Duration) engine.Load {
	l := m.loadOf(rate)
	l.Count, l.Duration = 0, max(d, m.effort.least)
	return l
}

// saw is what a search is told of a trial.
func (m *capturePoint) saw(rec result.Record) search.Seen {
	now := search.Seen{Valid: rec.Status != result.Invalid}
	if rec.Load == nil || rec.Account == nil || rec.Account.Accepted == 0 {
		return now
	}
	now.Offered = rec.Load.Offered
	if lost := rec.Account.Lost(); lost > 0 {
		all := float64(rec.Account.Accepted)
		late, kept := trial.LateFor(rec), trial.KeptOff(rec)
		now.Loss, now.Doubt, now.Excused = unit.LossRatio(float64(lost)/all), unit.LossRatio((late+kept)/all), unit.LossRatio(kept/all)
	}
	if v := rec.Value("frames_lag"); v != nil && lags(rec) {
		now.Loss = unit.LossRatio(v.Value / float64(rec.Account.Accepted))
	}
	return now
}

// lossyFrom is a load up to which two trials lost frames beyond doubt, above all that lost
// none, for a search that had too few trials to confirm an upper bound; 0: there is none.
func lossyFrom(seen []search.Seen) unit.FrameRate {
	var clean unit.FrameRate
	var lossy []unit.FrameRate
	for _, t := range seen {
		switch {
		case t.Valid && t.Loss == 0:
			clean = max(clean, t.Offered)
		case t.Valid && t.Loss > t.Doubt:
			lossy = append(lossy, t.Offered)
		}
	}
	lossy = slices.DeleteFunc(lossy, func(r unit.FrameRate) bool { return r <= clean })
	if len(lossy) < 2 {
		return 0
	}
	slices.Sort(lossy)
	return lossy[1]
}

// lags says whether the subject counted every frame, and too late.
func lags(rec result.Record) bool {
	return rec.Status == result.Failed && rec.Account != nil && rec.Account.Lost() <= 0
}

// descend offers the ceiling's rate, and less of it as long as frames are lost by the
// twentieth: a box that is flooded may leave its subjects hardly any time. peak is the
// most that was counted a second, top a rate above which a search need not look.
func (m *capturePoint) descend(ctx context.Context) (top, peak float64, err error) {
	top = float64(m.ceiling)
	d := limit.Descent{Rate: top, Top: top, Most: 10, Lower: func(rate, counted float64) float64 {
		return max(min(4*counted, rate/2), rate/8)
	}}
	for more := true; more; {
		rec, err := m.offer(ctx, "descend", d.Tried, m.short(unit.FrameRate(d.Rate), 0))
		if err != nil {
			return 0, 0, err
		}
		v := rec.Value("counting_rate_fps")
		if v == nil || rec.Load == nil || rec.Account == nil {
			more = d.Next(false, false, 0)
			continue
		}
		valid := rec.Status != result.Invalid
		enough := valid && rec.Account.Lost() < rec.Account.Accepted/20 && !lags(rec)
		carried := v.Value
		if enough {
			carried = max(carried, float64(rec.Load.Offered))
		}
		more = d.Next(valid, enough, carried)
	}
	return d.Top, min(d.Peak, d.Top), nil
}

// conclude fills the subject's buffers, and offers a longer trial at the rate found, or at
// lower ones.
func (m *capturePoint) conclude(ctx context.Context, l search.Limit) (err error) {
	switch {
	case l.Clean+l.Lossy == 0:
		m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no limit: all %d trials of the search were invalid or in doubt", l.Invalid)
		return nil
	case l.Lower == 0:
		m.out.Status, m.out.Reason = result.Failed, "frames were lost at every rate tried"
		return nil
	}
	var s search.Sustained
	if !l.AtCeiling { // more cannot be offered
		if s, err = m.fill(ctx, l.Lower); err != nil {
			return err
		}
	}
	c := longer(l.Lower, s)
	if !l.AtCeiling {
		if err := m.pause(ctx, m.interim(l, c)); err != nil {
			return err
		}
	}
	for {
		more, err := m.confirm(ctx, l.Lower, c)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := m.pause(ctx, m.interim(l, c)); err != nil {
			return err
		}
	}
	m.take(c.last)
	if c.doubt != "" {
		m.warn("%s", c.doubt)
	}
	switch {
	case c.last.Status == result.Failed:
		m.out.Reason = "no rate was confirmed by a longer trial: at the lowest, " + c.last.Reason
	case c.last.Status == result.Passed && c.last.Load != nil:
		v := m.interval("lossless_fps", l)
		v.N += c.Valid
		if c.doubt != "" {
			v.Value, v.Bound = float64(c.last.Load.Offered), result.Exactly
			low := v.Value
			high := float64(c.Lossy)
			v.Lo, v.Hi = &low, &high
		}
		m.out.Values = append(m.out.Values, m.lossless(v)...)
	}
	if l.Inversions > 0 {
		m.warn("no sharp limit: frames were lost in %d trials at or below a rate that another trial carried", l.Inversions)
	}
	if l.Invalid > 0 {
		m.warn("%d trials of the search were invalid or in doubt and do not count", l.Invalid)
	}
	return nil
}

func (m *capturePoint) interval(name string, l search.Limit) result.Value {
	v := figures.Interval(name, l, 1)
	if m.ceiling > 0 && v.Value > float64(m.ceiling)/1.2 {
		v.Bound = result.AtLeast
	}
	return v
}

// scaled is v in another unit, as metric name.
func scaled(name string, v result.Value, factor float64) result.Value {
	out := figures.Value(name, v.Value*factor)
	out.N, out.Bound = v.N, v.Bound
	if v.Lo != nil {
		low := *v.Lo * factor
		out.Lo = &low
	}
	if v.Hi != nil {
		high := *v.Hi * factor
		out.Hi = &high
	}
	return out
}

// fill finds what the subject counts without end, and what buffers swallow beside, by
// overloads a quarter above what a search found.
func (m *capturePoint) fill(ctx context.Context, found unit.FrameRate) (search.Sustained, error) {
	load := found * trial.FillAbove
	if m.ceiling > 0 {
		load = min(load, m.ceiling)
	}
	longest := 2 * confirming
	s, _, err := trial.Filling(m.short(load, 0).Duration, &longest, func(n int, d time.Duration) (passed, lost float64, err error) {
		rec, err := m.offer(ctx, "fill", n, m.short(load, d))
		if err != nil || rec.Status == result.Invalid || rec.Account == nil {
			return 0, 0, err
		}
		lost = float64(max(0, rec.Account.Lost()))
		return float64(rec.Account.Accepted) - lost, lost, nil
	})
	return s, err
}

// confirming is how long a trial lasts at least that confirms a search: a subject's buffer
// must not be why nothing was lost.
const confirming = 5 * time.Second

// attempts are the longer trials that each rate has which disturbances may have spoiled.
const attempts = 8

// A captureLonger is how far the longer trials are that confirm a rate, or lower ones.
type captureLonger struct {
	limit.Longer
	doubt string // says what was lost first, at the rate found
	last  result.Record
}

// longer begins with the rate found, where s, which is what the subject counts without
// end, lets a trial show that memory is not why nothing is lost.
func longer(found unit.FrameRate, s search.Sustained) *captureLonger {
	c := &captureLonger{Longer: limit.Longer{
		Sustained: s, Least: confirming,
		Attempts: attempts, Budget: trial.Confirmations * attempts, OfSpoilt: 1,
		OfInvalid: attempts, // they are repeated as often as there are rates
	}}
	if c.Begin(found); c.Rate < found*trial.Swallowed {
		c.Lossy, c.doubt = found, fmt.Sprintf("the search ended at %v, which buffers may have swallowed: %v is counted without end", found, c.Rate)
	}
	return c
}

// confirm offers c's rate for longer; more says that another trial is to follow, at less
// if frames were lost.
func (m *capturePoint) confirm(ctx context.Context, found unit.FrameRate, c *captureLonger) (more bool, err error) {
	l := m.loadOf(c.Rate)
	if l.Count == 0 && m.length == 0 {
		l.Duration = max(l.Duration, c.Lasts)
	}
	if err := m.empty(ctx, l); err != nil {
		return false, err
	}
	if c.last, err = m.offer(ctx, "limit", c.Spent, l); err != nil {
		return false, err
	}
	lossy, spoilt := c.Lossy, c.Spoilt
	more = c.Next(trial.Came(c.last, c.last.Status == result.Passed))
	switch {
	case c.last.Status == result.Passed && spoilt > 0:
		m.warn("%d longer trials at %v lost no more frames than came while something else had the DUT's CPU, and do not count", spoilt, c.Rate)
	case c.Lossy != lossy && c.doubt == "":
		c.doubt = fmt.Sprintf("the search ended at %v, and a longer trial did not confirm it: %s", found, c.last.Reason)
	}
	return more, nil
}
