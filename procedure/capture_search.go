// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/internal/limit"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// A captureHunt is how far the search of a subject's highest rate is. A run may stop it
// after any visit:
//
//	descend, and some trials of the search -> more of them, as long as it asks for any -> fill -> limit (longer, at the rate found)
//	                                                                                              one trial a visit
type captureHunt struct {
	*limit.Hunt
	longer *captureLonger // nil: the search goes on
	over   bool
}

// A captureLonger is how far the longer trials are that confirm a rate, or lower ones.
type captureLonger struct {
	sustained search.Sustained // what the subject counts without end
	rate      unit.FrameRate   // of the next one
	lasts     time.Duration    // at least
	trials    int              // numbers of them that are used up
	tried     int              // at this rate
	held      int              // of them, those that were disturbed
	valid     int
	lossy     unit.FrameRate // the lowest rate that lost; 0: none
	doubt     string         // says what was lost first, at the rate found
	last      result.Record
}

// huntTrials is how many trials of its search a visit has at most.
const huntTrials = 6

// highest goes on with the search of the highest rate of which the subject counts every
// frame, and overloads it in the end; with rate overload that alone.
func (m *capturePoint) highest(ctx context.Context) error {
	if m.hunt == nil {
		if err := m.beginHunt(ctx); err != nil || m.hunt == nil {
			return err
		}
	}
	if m.hunt.Ended {
		return m.endHunt(ctx)
	}
	if _, err := m.hunt.Seek(ctx, huntTrials); !errors.Is(err, errSubject) {
		return err
	}
	return nil
}

// errSubject says that the subject failed, as capturePoint.failed tells.
var errSubject = errors.New("the subject failed")

// beginHunt leaves m.hunt nil where nothing is to be searched.
func (m *capturePoint) beginHunt(ctx context.Context) error {
	shared := m.env.Bed.Placement == "shared"
	if m.rate.overload && !shared {
		return m.overload(ctx)
	}
	top, peak, err := m.descend(ctx)
	if err != nil || m.failed != "" {
		return err
	}
	if peak == 0 {
		m.out.Status, m.out.Reason = result.Failed, m.subject.value+" counted no frame at any rate tried"
		return nil
	}
	if shared {
		m.out.Values = append(m.out.Values, value("counting_overload_fps", peak))
		m.warn("%s", "tester and DUT share a CPU, so the DUT throttles the tester: no limit is searched")
		return nil
	}
	s, err := search.New(m.searching().Name, unit.FrameRate(top), unit.FrameRate(min(peak, top)))
	m.hunt = m.hunting(s)
	return err
}

func (m *capturePoint) hunting(s search.Search) *captureHunt {
	h := &limit.Hunt{Search: s}
	h.Offer = func(ctx context.Context, n int, step search.Step) (search.Seen, time.Duration, error) {
		rec, err := m.trial(ctx, "search", n, m.short(step.Rate, step.Duration))
		if err == nil && m.failed != "" {
			err = errSubject
		}
		return m.saw(rec), 0, err
	}
	return &captureHunt{Hunt: h}
}

// endHunt goes on with the longer trials that are to confirm what the search found, and
// keeps it once they do.
func (m *capturePoint) endHunt(ctx context.Context) error {
	h := m.hunt
	l := h.limit()
	more, err := m.conclude(ctx, l)
	if h.over = !more; more || err != nil || m.failed != "" {
		return err
	}
	for _, l := range h.Limits() {
		name := map[unit.LossRatio]string{0.001: "counted_0_1pct_fps", 0.005: "counted_0_5pct_fps"}[l.Goal.Loss]
		if name != "" && l.Lower > 0 {
			m.out.Values = append(m.out.Values, m.interval(name, l))
		}
	}
	if l.Lower == 0 || l.AtCeiling || m.preset.value == "quick" { // rate overload is for that
		return nil
	}
	return m.overload(ctx)
}

func (h *captureHunt) limit() search.Limit {
	l := h.Limit()
	if l.Upper == 0 && l.Lower > 0 {
		l.Upper = lossyFrom(h.Seen())
	}
	return l
}

// interim is the point's outcome if the run comes to it no more.
func (m *capturePoint) interim() Outcome {
	out := m.out
	l := m.hunt.limit()
	if l.Lower == 0 {
		out.Status, out.Reason = result.Invalid, fmt.Sprintf("the search was not finished: no rate without loss is confirmed in %d trials", len(m.hunt.Seen()))
		return out
	}
	v, told := m.interval("lossless_fps", l), fmt.Sprintf("no longer trial confirmed %v", l.Lower)
	if c := m.hunt.longer; c != nil && c.doubt != "" {
		v, told = value("lossless_fps", float64(c.lossy)), c.doubt
		v.N, v.Bound = l.Clean+l.Lossy+c.valid, result.AtMost
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
		late, kept := lateFor(rec), keptOff(rec)
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
	const most = 10
	top = float64(m.ceiling)
	rate := top
	for n := range most {
		rec, err := m.trial(ctx, "descend", n, m.short(unit.FrameRate(rate), 0))
		if err != nil || m.failed != "" {
			return 0, 0, err
		}
		counted := 0.0
		if v := rec.Value("counting_rate_fps"); v != nil && rec.Load != nil && rec.Account != nil {
			counted = v.Value
			peak = max(peak, counted)
			if rec.Status != result.Invalid && rec.Account.Lost() < rec.Account.Accepted/20 && !lags(rec) {
				peak = max(peak, float64(rec.Load.Offered))
				break
			}
			if rec.Status != result.Invalid {
				top = rate
			}
		}
		rate = max(min(4*counted, rate/2), rate/8)
	}
	return top, min(peak, top), nil
}

// conclude fills the subject's buffers, offers a longer trial at the rate found or below, or
// keeps what such trials confirmed; more says that there is more of that to do.
func (m *capturePoint) conclude(ctx context.Context, l search.Limit) (more bool, err error) {
	switch {
	case l.Clean+l.Lossy == 0:
		m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no limit: all %d trials of the search were invalid or in doubt", l.Invalid)
		return false, nil
	case l.Lower == 0:
		m.out.Status, m.out.Reason = result.Failed, "frames were lost at every rate tried"
		return false, nil
	}
	h := m.hunt
	if h.longer == nil {
		var s search.Sustained
		if !l.AtCeiling { // more cannot be offered
			if s, err = m.fill(ctx, l.Lower); err != nil || m.failed != "" {
				return false, err
			}
		}
		h.longer = m.longer(l.Lower, s)
		if !l.AtCeiling {
			return true, nil
		}
	}
	c := h.longer
	if more, err := m.confirm(ctx, l.Lower, c); more || err != nil || m.failed != "" {
		return more, err
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
		v.N += c.valid
		if c.doubt != "" {
			v.Value, v.Bound = float64(c.last.Load.Offered), result.Exactly
			low := v.Value
			high := float64(c.lossy)
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
	return false, nil
}

// interval is a limit from its lower to its upper bound.
func (m *capturePoint) interval(name string, l search.Limit) result.Value {
	v := value(name, float64(l.Lower))
	low := v.Value
	v.Lo, v.N = &low, l.Clean+l.Lossy
	if l.Upper > 0 {
		high := float64(l.Upper)
		v.Hi = &high
	}
	if l.AtCeiling || m.ceiling > 0 && v.Value > float64(m.ceiling)/1.2 {
		v.Bound = result.AtLeast
	}
	return v
}

// scaled is v in another unit, as metric name.
func scaled(name string, v result.Value, factor float64) result.Value {
	out := value(name, v.Value*factor)
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
	load := found * fillAbove
	if m.ceiling > 0 {
		load = min(load, m.ceiling)
	}
	longest := 2 * confirming
	s, _, err := filling(m.short(load, 0).Duration, &longest, func(n int, d time.Duration) (passed, lost float64, err error) {
		rec, err := m.trial(ctx, "fill", n, m.short(load, d))
		if m.failed != "" {
			longest = 0
		}
		if err != nil || m.failed != "" || rec.Status == result.Invalid || rec.Account == nil {
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

// disturbed says whether a trial lost no more frames than came while something else had
// the DUT's CPU.
func disturbed(rec result.Record) bool {
	return rec.Account != nil && rec.Account.Lost() > 0 && keptOff(rec) >= float64(rec.Account.Lost())
}

// longer begins with the rate found, where s, which is what the subject counts without
// end, lets a trial show that memory is not why nothing is lost.
func (m *capturePoint) longer(found unit.FrameRate, s search.Sustained) *captureLonger {
	c := &captureLonger{sustained: s}
	c.rate, c.lasts = s.Carries(found, confirming)
	if c.rate < found*swallowed {
		c.lossy, c.doubt = found, fmt.Sprintf("the search ended at %v, which buffers may have swallowed: %v is counted without end", found, c.rate)
	}
	return c
}

// confirm offers c's rate for longer; more says that another trial is to follow, at less
// if frames were lost.
func (m *capturePoint) confirm(ctx context.Context, found unit.FrameRate, c *captureLonger) (more bool, err error) {
	l := m.loadOf(c.rate)
	if l.Count == 0 && m.length == 0 {
		l.Duration = max(l.Duration, c.lasts)
	}
	if err := m.empty(ctx, l); err != nil {
		return false, err
	}
	rec, err := m.trial(ctx, "limit", c.trials, l)
	if err != nil || m.failed != "" {
		return false, err
	}
	c.last = rec
	c.trials++
	switch {
	case rec.Status == result.Passed:
		if c.held > 0 {
			m.warn("%d longer trials at %v lost no more frames than came while something else had the DUT's CPU, and do not count", c.held, c.rate)
		}
		c.valid++
		return false, nil
	case rec.Status != result.Failed:
		c.trials += attempts - 1 // invalid ones are repeated as often as there are rates
	default:
		c.tried++
		if disturbed(rec) && c.tried < attempts {
			c.held++
			break
		}
		c.valid++
		if c.doubt == "" {
			c.doubt = fmt.Sprintf("the search ended at %v, and a longer trial did not confirm it: %s", found, rec.Reason)
		}
		c.lossy, c.tried, c.held = c.rate, 0, 0
		if c.rate *= stepDown; c.rate < c.sustained.Rate && c.sustained.Rate < c.lossy {
			c.rate = c.sustained.Rate
		}
		c.rate, c.lasts = c.sustained.Carries(c.rate, confirming)
	}
	return c.trials < confirmations*attempts, nil
}
