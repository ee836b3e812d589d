// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"boxdyno/engine"
	"boxdyno/internal/limit"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

const (
	// huntTrials is how many trials of its search a visit has at most.
	huntTrials = 6
	// searchShare is the share of the time left that a search has, and fillShare that of the
	// longest overload that fills buffers: the rest is for longer trials.
	searchShare = 0.35
	fillShare   = 0.08
)

// highest searches the highest rate of which the subject counts every frame, and
// overloads it in the end; with rate overload that alone. A run may end it at each pause, and
// a search that takes long is left for what confirms it (searchShare):
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
	if left := m.env.Left; left != nil {
		least := time.Duration(float64(left()) * (1 - searchShare))
		h.Spent = func() bool { return left() <= least }
	}
	for !h.Ended && (h.Spent == nil || !h.Spent()) {
		if _, err := h.Seek(ctx, huntTrials); err != nil {
			return err
		}
		if err := m.pause(ctx, m.interim(h)); err != nil {
			return err
		}
	}
	l := m.limitOf(h)
	if err := m.conclude(ctx, h); err != nil {
		return err
	}
	m.out.Values = append(m.out.Values, m.pdrs(h)...)
	m.out.Warnings = append(m.out.Warnings, m.unbounded(m.out.Values)...)
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
	if room := trial.Room(rec, m.ring()); room > 0 && rec.Status == result.Failed {
		m.lows.Overflowed(rec.Load.Offered, room)
	}
	if now := m.saw(rec); now.Valid && now.Loss-now.Doubt >= tooMuch {
		m.flooded = append(m.flooded, now.Offered)
	}
	return rec, err
}

// limitOf is what a search has found, with bounds of one trial where it was left before its
// end, and of an overload where it knows no rate that is too much.
func (m *capturePoint) limitOf(h *limit.Hunt) search.Limit {
	l := h.Limit()
	if l.Lower == 0 {
		l = h.Interim()
	}
	if l.Upper > 0 || l.Lower == 0 || l.AtCeiling {
		return l
	}
	if l.Upper = lossyFrom(h.Seen()); l.Upper == 0 {
		l.Upper = m.floodAbove(max(l.Lower, mostClean(h.Seen())))
	}
	return l
}

// floodAbove is the lowest load above rate that lost a twentieth or more; 0: none did.
func (m *capturePoint) floodAbove(rate unit.FrameRate) (lowest unit.FrameRate) {
	for _, f := range m.flooded {
		if f > rate && (lowest == 0 || f < lowest) {
			lowest = f
		}
	}
	return lowest
}

// unbounded says that a rate of vs has no upper bound, where the tester need not be why.
func (m *capturePoint) unbounded(vs []result.Value) (told []string) {
	for _, v := range vs {
		what := map[string]string{"lossless_fps": "lose frames", "counted_0_1pct_fps": "lose more than 0.1 %", "counted_0_5pct_fps": "lose more than 0.5 %"}[v.Metric]
		if what != "" && v.Lo != nil && v.Hi == nil && (m.ceiling == 0 || v.Value <= float64(m.ceiling)/1.2) {
			told = append(told, fmt.Sprintf("no rate above %v is known to %s: the limit may be higher", unit.FrameRate(v.Value), what))
		}
	}
	return told
}

// pdrs are the highest rates at a stated loss ratio, as far as the search has found them, or
// longer trials or another point of the run show them, and neither longer trials nor what
// the subject counts without end refute them. Without a longer trial, what the search found is
// no lower bound: its trials are short.
func (m *capturePoint) pdrs(h *limit.Hunt) (vs []result.Value) {
	for _, l := range h.Limits() {
		name := map[unit.LossRatio]string{0.001: "counted_0_1pct_fps", 0.005: "counted_0_5pct_fps"}[l.Goal.Loss]
		if name == "" {
			continue
		}
		lost, found := unit.FrameRate(0), l.Lower
		if m.longer == nil || len(m.longer.valid) == 0 {
			l.Lower, l.AtCeiling = 0, false
		}
		if m.longer != nil {
			l, lost = m.longer.shows(l, m.short(found, l.Goal.Final).Duration)
		}
		if l.Upper == 0 && !l.AtCeiling {
			l.Upper = m.floodAbove(max(found, l.Lower))
		}
		v := m.interval(name, l)
		if l.Lower == 0 {
			if lost = cmp.Or(lost, l.Upper, lowestLossy(h.Seen(), l.Goal.Loss)); lost == 0 {
				continue
			}
			v = atMost(name, lost, l.Clean+l.Lossy)
		}
		vs = append(vs, v)
		if l.Goal.Loss == 0.005 {
			vs = append(vs, m.onLink("counted_0_5pct_l1_bps", v))
		}
	}
	return vs
}

// interim is the point's outcome if the run comes to it no more.
func (m *capturePoint) interim(h *limit.Hunt) procedure.Outcome {
	out, l, c := m.out, m.limitOf(h), m.longer
	trials := l.Clean + l.Lossy + l.Invalid
	var v result.Value
	told := ""
	if c != nil {
		out.Next = max(c.Lasts, m.effort.trial) + m.around.next(captureAround)
	}
	switch {
	case c != nil && c.Bears > 0:
		v, told = c.figure(m, l), fmt.Sprintf("%v was carried, and no rate above it was confirmed", c.Bears)
		if below := c.Below(); below > 0 {
			told = fmt.Sprintf("a rate between %v and %v may be carried", c.Bears, below)
		}
	case c != nil && c.AtMost() > 0:
		v, told = atMost("lossless_fps", c.AtMost(), l.Clean+l.Lossy+c.Valid), cmp.Or(c.doubt, fmt.Sprintf("no longer trial confirmed %v", l.Lower))
		if c.Hint > 0 && c.Hint < c.AtMost() {
			told += fmt.Sprintf("; %v was carried at another point of the run, and no longer trial confirmed it", c.Hint)
		}
	case l.Lower > 0:
		told = fmt.Sprintf("no longer trial confirmed %v", l.Lower)
		if l.Upper > 0 {
			v = atMost("lossless_fps", l.Upper, l.Clean+l.Lossy)
		}
	case lowestLossy(h.Seen(), 0) > 0:
		v, told = atMost("lossless_fps", lowestLossy(h.Seen(), 0), l.Lossy), fmt.Sprintf("no rate without loss is confirmed in %d trials", trials)
	default:
		told = fmt.Sprintf("no rate without loss is confirmed in %d trials", trials)
	}
	told = "the search was not finished: " + told
	out.Values = slices.Concat(out.Values, m.pdrs(h))
	switch {
	case v.Metric != "":
		out.Values = append(out.Values, m.lossless(v)...)
	case len(out.Values) == len(m.out.Values):
		out.Status, out.Reason = result.Invalid, told
		return out
	}
	out.Warnings = slices.Concat(out.Warnings, []string{told}, m.unbounded(out.Values))
	return out
}

// atMost is the figure where a load is not carried, and none below is known to be.
func atMost(metric string, load unit.FrameRate, n int) result.Value {
	v := figures.Value(metric, float64(load))
	v.N, v.Bound = n, result.AtMost
	return v
}

// lowestLossy is the lowest load of a search that lost more than it may beyond doubt; 0: none.
func lowestLossy(seen []search.Seen, may unit.LossRatio) (lowest unit.FrameRate) {
	for _, t := range seen {
		if t.Valid && t.Loss-t.Doubt > may && (lowest == 0 || t.Offered < lowest) {
			lowest = t.Offered
		}
	}
	return lowest
}

// onLink is a frame rate as metric name, in layer-1 bits.
func (m *capturePoint) onLink(name string, v result.Value) result.Value {
	return scaled(name, v, float64(unit.L1(1, m.mix().Mean())))
}

// lossless are the figures of the highest rate v of which every frame was counted.
func (m *capturePoint) lossless(v result.Value) []result.Value {
	return []result.Value{v, scaled("lossless_bps", v, float64(unit.L2(1, m.mix().Mean()))), m.onLink("lossless_l1_bps", v)}
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
		// The subject works on the DUT's CPU: what waits for that waits for the subject, too.
		now.Loss, now.Doubt = unit.LossRatio(float64(lost)/all), unit.LossRatio((trial.LateFor(rec)+trial.Stolen(rec))/all)
	}
	if v := rec.Value("frames_lag"); v != nil && lags(rec) {
		now.Loss = unit.LossRatio(v.Value / float64(rec.Account.Accepted))
	}
	return now
}

// lossyFrom is a load up to which two trials lost frames beyond doubt, above all that lost
// none, for a search that had too few trials to confirm an upper bound; 0: there is none.
func lossyFrom(seen []search.Seen) unit.FrameRate {
	var lossy []unit.FrameRate
	clean := mostClean(seen)
	for _, t := range seen {
		if t.Valid && t.Loss > t.Doubt && t.Offered > clean {
			lossy = append(lossy, t.Offered)
		}
	}
	if len(lossy) < 2 {
		return 0
	}
	slices.Sort(lossy)
	return lossy[1]
}

// mostClean is the highest load of a search that lost nothing; 0: none.
func mostClean(seen []search.Seen) (most unit.FrameRate) {
	for _, t := range seen {
		if t.Valid && t.Loss == 0 {
			most = max(most, t.Offered)
		}
	}
	return most
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
	for more := true; more && (d.Tried == 0 || m.env.Spent == nil || !m.env.Spent("descend")); {
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
// lower ones. Where the search found none, they begin below all that lost.
func (m *capturePoint) conclude(ctx context.Context, h *limit.Hunt) (err error) {
	l := m.limitOf(h)
	var c *captureLonger
	switch lossy := lowestLossy(h.Seen(), 0); {
	case l.Lower > 0 && l.AtCeiling: // more cannot be offered
		c = longer(l.Lower, search.Sustained{})
	case l.Lower > 0:
		s, err := m.fill(ctx, h, l.Lower)
		if err != nil {
			return err
		}
		c = longer(l.Lower, s)
		l = m.limitOf(h)
		c.Above = l.Upper
	case lossy > 0:
		s, err := m.fill(ctx, h, lossy)
		if err != nil {
			return err
		}
		c = longer(lossy*limit.StepDown, s)
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
	c.Begin(cmp.Or(l.Lower, lowestLossy(h.Seen(), 0)*limit.StepDown))
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

// interval is a figure from a limit's lower to its upper bound; without that one it is a lower
// bound.
func (m *capturePoint) interval(name string, l search.Limit) result.Value {
	v := figures.Interval(name, l, 1)
	if v.Hi == nil || m.ceiling > 0 && v.Value > float64(m.ceiling)/1.2 {
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
// overloads a quarter above what a search found, or at the lowest rate above that of which
// the search lost enough: a subject that lost to a disturbance may count much more.
func (m *capturePoint) fill(ctx context.Context, h *limit.Hunt, found unit.FrameRate) (search.Sustained, error) {
	load := found * trial.FillAbove
	enough := unit.FrameRate(math.Inf(1))
	for _, t := range h.Seen() {
		if t.Valid && t.Rate > load && t.Loss > 2*trial.FillLoses {
			enough = min(enough, t.Rate)
		}
	}
	if load = max(load, min(enough, h.Max)); m.ceiling > 0 {
		load = min(load, m.ceiling)
	}
	longest := 2 * confirming
	if left := m.env.Left; left != nil {
		longest = min(longest, max(2*m.effort.least, time.Duration(float64(left())*fillShare)))
	}
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
	more = c.Next(came, trial.Room(c.last, m.ring()))
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
