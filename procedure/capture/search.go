// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"cmp"
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

const (
	// huntTrials is how many trials of its search a visit has at most.
	huntTrials = 6
	// searchShare is the share of the time left that a search has, and fillShare that of the
	// longest overload that fills buffers: the rest is for longer trials.
	searchShare = 0.35
	fillShare   = 0.08
	// keptLonger is how many longer trials a search leaves time for, whatever its share is.
	keptLonger = 3
	// sure is a load that is likely to be carried, as a share of what is counted without end.
	sure = 0.97
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
		h.Spent = func() bool {
			begins := len(h.Seen()) > 0 || lowestLossy(m.before, 0) > 0 // else nothing is known to begin with
			return begins && left() <= max(least, m.kept())
		}
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

// kept is the time that a search leaves for what confirms it: an overload that fills buffers,
// and longer trials.
func (m *capturePoint) kept() time.Duration {
	around := m.around.next(captureAround)
	return 2*m.effort.least + around + keptLonger*(confirming+around)
}

// hurried says whether there is time for few longer trials.
func (m *capturePoint) hurried() bool {
	left := m.env.Left
	return left != nil && left() < (keptLonger+1)*(confirming+m.around.next(captureAround))
}

// tried are the trials of the descent and of the search.
func (m *capturePoint) tried(h *limit.Hunt) []search.Seen { return slices.Concat(m.before, h.Seen()) }

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
	if (kind == "descend" || kind == "fill") && rec.Status != result.Invalid && rec.Account != nil {
		if m.made == nil {
			m.made = map[engine.Load]overloaded{}
		}
		lost := float64(max(0, rec.Account.Lost()))
		m.made[l] = overloaded{float64(rec.Account.Accepted) - lost, lost}
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
		if what != "" && v.Open {
			told = append(told, fmt.Sprintf("no rate above %v is confirmed to %s: the limit may be higher", unit.FrameRate(v.Value), what))
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
			if lost = cmp.Or(lost, l.Upper, lowestLossy(m.tried(h), l.Goal.Loss)); lost == 0 {
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
	case lowestLossy(m.tried(h), 0) > 0:
		v, told = atMost("lossless_fps", lowestLossy(m.tried(h), 0), l.Lossy), fmt.Sprintf("no rate without loss is confirmed in %d trials", trials)
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
		l := m.short(unit.FrameRate(d.Rate), 0)
		rec, err := m.offer(ctx, "descend", d.Tried, l)
		if err != nil {
			return 0, 0, err
		}
		now := m.saw(rec)
		now.Step = search.Step{Rate: l.Rate, Duration: l.Duration}
		m.before = append(m.before, now)
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
	m.peak = unit.FrameRate(min(d.Peak, d.Top))
	return d.Top, float64(m.peak), nil
}

// interval is a figure from a limit's lower to its upper bound.
func (m *capturePoint) interval(name string, l search.Limit) result.Value {
	v := figures.Interval(name, l, 1)
	if m.ceiling > 0 && v.Value > float64(m.ceiling)/1.2 {
		v.Limit()
	}
	return v
}

// scaled is v in another unit, as metric name.
func scaled(name string, v result.Value, factor float64) result.Value {
	out := figures.Value(name, v.Value*factor)
	out.N, out.Bound, out.Open = v.N, v.Bound, v.Open
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

// An overloaded is how many frames of an overload from rest were counted, and lost.
type overloaded struct{ passed, lost float64 }

// fill finds what the subject counts without end, and what buffers swallow beside, by
// overloads a quarter above what a search found, or at the lowest rate above that of which
// the search lost enough: a subject that lost to a disturbance may count much more. An
// overload that the descent has made is not repeated. Where nothing tried lost a frame, up to
// the ceiling, there is no overload: only longer trials tell of buffers then.
func (m *capturePoint) fill(ctx context.Context, h *limit.Hunt, found unit.FrameRate) (search.Sustained, error) {
	const enough = 2 * trial.FillLoses
	load, lossy := found*trial.FillAbove, unit.FrameRate(0)
	for _, t := range m.tried(h) {
		if t.Valid && t.Loss > enough && t.Rate > load && (lossy == 0 || t.Rate < lossy) {
			lossy = t.Rate
		}
	}
	if len(m.before) > 0 && lowestLossy(m.tried(h), 0) == 0 {
		return search.Sustained{}, nil
	}
	if load = max(load, cmp.Or(lossy, h.Max)); m.ceiling > 0 {
		load = min(load, m.ceiling)
	}
	longest := 2 * confirming
	if left := m.env.Left; left != nil {
		longest = min(longest, max(2*m.effort.least, time.Duration(float64(left())*fillShare)))
	}
	s, _, err := trial.Filling(m.short(load, 0).Duration, &longest, func(n int, d time.Duration) (passed, lost float64, err error) {
		l := m.short(load, d)
		if _, made := m.made[l]; !made || n > 0 {
			delete(m.made, l)
			if _, err := m.offer(ctx, "fill", n, l); err != nil {
				return 0, 0, err
			}
		}
		return m.made[l].passed, m.made[l].lost, nil
	})
	return s, err
}
