// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/internal/limit"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// searching is the search of an IDS's limit: each trial starts it anew, so there are few
// of them, and the interval is wide.
func (p *IDS) searching() search.Preset {
	d := p.lasts()
	g := search.Goal{Name: "loss", Loss: unit.LossRatio(p.loss.value), Initial: d, Final: d, Sum: d, Lossy: 1, Width: 0.1}
	trials := 6
	if p.preset.value == "standard" {
		g.Width, trials = 0.03, 14
	}
	return search.Preset{Name: "ids", Goals: []search.Goal{g}, Trials: trials}
}

// An idsHunt is how far the search of a limit is. A run may stop it after any visit:
//
//	descend (from the highest load, until hardly a frame is lost) -> search -> limit (longer, at the load found)
//	one trial a visit                                                one trial    one visit
//
// Where other points of the run have shown what it inspects of a load that is too much, it
// begins with the search.
type idsHunt struct {
	tried     int     // trials of the descent
	rate      float64 // bit/s of its next one
	invalid   bool    // its last one was
	recalled  bool    // points before it have shown a load that is too much
	top, peak float64 // bit/s: nothing is to be found above top; hardly anything was lost below peak
	search    *search.Search
	history   []search.Seen // of search
	seen      []search.Seen // of the descent, too
	carried   result.Record // the highest load so far of which no more was lost than is allowed
	rests     limit.Rests
}

// hunt goes on with the search of the highest load of which no more than the allowed
// share is lost; more says that it is not over.
func (m *idsPoint) hunt(ctx context.Context) (more bool, err error) {
	if m.found == nil {
		top := float64(m.IDS.top.bits)
		if c := float64(unit.L2(m.listen.ceiling, typical.Mean())); c > 0 {
			top = min(top, c)
		}
		m.found = &idsHunt{rate: top, top: top}
		m.recall()
	}
	h := m.found
	if h.search == nil && h.recalled {
		if more, err := m.beginSearch(); !more || err != nil {
			return false, err
		}
	}
	if h.search == nil {
		more, err := m.descend(ctx)
		if more || err != nil || m.listen.failed != "" {
			return more, err
		}
		return m.beginSearch()
	}
	step, more := h.search.Next(h.history)
	if !more {
		return false, m.limit(ctx, h.search.Limit(h.history), h.lowest())
	}
	now, _, err := m.offer(ctx, "search", len(h.history), step)
	h.history = append(h.history, now)
	return m.listen.failed == "", err
}

// recall takes what trials of other points of the run have shown.
func (m *idsPoint) recall() {
	env, h := m.listen.env, m.found
	if env.Akin == nil {
		return
	}
	akin := env.Akin("rate", "duration", "idle", "top", "loss", "preset")
	slices.SortStableFunc(akin, func(a, b result.Record) int { return cmp.Compare(offeredBits(b), offeredBits(a)) })
	for _, rec := range akin {
		rate := min(offeredBits(rec), float64(m.IDS.top.bits))
		if rate == 0 || len(rec.Phases) == 0 {
			continue
		}
		d := time.Duration(rec.Phases[0].End - rec.Phases[0].Begin).Round(m.lasts() / 10)
		now := m.saw(search.Step{Rate: unit.FrameRate(rate), Duration: d}, rec)
		if !now.Valid || d < m.lasts() {
			continue
		}
		m.note(now, rec)
		if now.Loss < tooMuch {
			continue
		}
		h.recalled, h.top = true, min(h.top, rate)
		h.peak = max(h.peak, rate*(1-float64(now.Loss)))
	}
}

// tooMuch is the share of the frames that a load must lose for the search to begin below it.
const tooMuch = 0.05

// note keeps what a trial says.
func (m *idsPoint) note(now search.Seen, rec result.Record) {
	h := m.found
	if v := rec.Value("counting_rate_fps"); v != nil && len(h.seen) == 0 && now.Valid && now.Loss >= tooMuch {
		m.out.Values = append(m.out.Values, value("counting_overload_fps", v.Value))
	}
	h.seen = append(h.seen, now)
	if now.Valid && now.Loss <= unit.LossRatio(m.loss.value) && rec.Load != nil && (h.carried.Load == nil || rec.Load.Offered > h.carried.Load.Offered) {
		h.carried = rec
	}
}

// next is about how long the next visit takes; 0: as the one before.
func (m *idsPoint) next() time.Duration {
	h := m.found
	if h == nil || h.search == nil {
		return 0
	}
	if _, more := h.search.Next(h.history); more {
		return 0
	}
	// What buffers swallow, the empty box and a longer trial, each for twice as long.
	return 3*2*m.lasts() + 3*idsAround
}

// lowest is the lowest load so far, in bit/s.
func (h *idsHunt) lowest() unit.FrameRate {
	lowest := unit.FrameRate(h.top)
	for _, t := range h.seen {
		lowest = min(lowest, t.Rate)
	}
	return lowest
}

// beginSearch ends the descent.
func (m *idsPoint) beginSearch() (more bool, err error) {
	h := m.found
	if m.listen.env.Bed.Placement == "shared" {
		m.listen.warn("%s", "tester and DUT share a CPU, so the DUT throttles the tester: no limit is searched")
		return false, nil
	}
	if h.peak == 0 {
		m.out.Status, m.out.Reason = result.Failed, m.subject.value+" counted no frame at any load tried, or no trial was valid"
		return false, nil
	}
	s, err := search.Of(m.searching(), unit.FrameRate(h.top), unit.FrameRate(min(h.peak, h.top)))
	h.search = &s
	return true, err
}

// offer carries out one trial of the hunt, and notes what it says.
func (m *idsPoint) offer(ctx context.Context, kind string, n int, step search.Step) (now search.Seen, rec result.Record, err error) {
	h := m.found
	begin := time.Now()
	rec, err = m.trial(ctx, kind, n, unit.BitRate(step.Rate), step.Duration)
	if err != nil || m.listen.failed != "" {
		return now, rec, err
	}
	now = m.saw(step, rec)
	if !now.Valid && time.Since(begin) >= step.Duration { // not replayed
		err = h.rests.Rest(ctx)
	}
	m.note(now, rec)
	return now, rec, err
}

// interim is the point's outcome if the run comes to it no more.
func (m *idsPoint) interim() Outcome {
	h := m.found
	s, err := search.Of(m.searching(), unit.FrameRate(m.IDS.top.bits), 0)
	if err != nil || h == nil {
		return m.outcome()
	}
	l := s.Limit(h.seen)
	if l.Lower == 0 {
		o := m.outcome()
		if l.Lossy == 0 {
			o.Status, o.Reason = result.Invalid, fmt.Sprintf("no limit: all %d trials were invalid or in doubt", l.Invalid)
			return o
		}
		o.Status, o.Reason = result.Failed, fmt.Sprintf("too many frames were lost at every load tried, down to %v; the search was not finished", unit.BitRate(h.lowest()))
		if l.Upper > 0 {
			v := value("ids_rate_bps", float64(l.Upper))
			v.N, v.Bound = l.Lossy, result.AtMost
			o.Values = append(o.Values, v)
		}
		return o
	}
	found, told := m.out, m.listen.out
	defer func() { m.out, m.listen.out = found, told }()
	m.out.Values, m.listen.out.Values = slices.Clone(found.Values), slices.Clone(told.Values)
	m.listen.out.Warnings = slices.Clone(told.Warnings)
	m.take(h.carried)
	m.listen.warn("the search was not finished: no longer trial confirmed %v", unit.BitRate(l.Lower))
	m.addRate(l, float64(l.Lower), l.Clean+l.Lossy)
	return m.outcome()
}

// addRate adds the figure of a limit: rate in bit/s, by n trials.
func (m *idsPoint) addRate(l search.Limit, rate float64, n int) {
	v := m.listen.interval("ids_rate_bps", l)
	v.N = n
	if v.Value != rate {
		v.Value, v.Lo = rate, &rate
	}
	v.Bound = result.Exactly // interval compares with the ceiling in frames
	if ceiling := float64(unit.L2(m.listen.ceiling, typical.Mean())); l.AtCeiling || ceiling > 0 && rate > ceiling/1.2 {
		v.Bound = result.AtLeast
	}
	fps := value("ids_rate_fps", rate/8/m.listen.mean)
	fps.Bound = v.Bound
	m.out.Values = append(m.out.Values, v, fps)
}

// saw is what the search, whose loads are in bit/s here, is told of a trial: whether it
// keeps up. What it does not see is no frame lost, nor one that it counted late.
func (m *idsPoint) saw(step search.Step, rec result.Record) search.Seen {
	now := m.listen.saw(rec)
	now.Step = step
	if strings.HasSuffix(rec.Reason, keepsUpBlind) && rec.Account.Lost() <= 0 {
		now.Loss = 0
	}
	now.Offered = unit.FrameRate(offeredBits(rec))
	return now
}

// descend offers the next load of the descent: the highest, and less of it as long as the
// twentieth is lost.
func (m *idsPoint) descend(ctx context.Context) (more bool, err error) {
	const most = 8
	h := m.found
	rate := h.rate
	now, _, err := m.offer(ctx, "descend", h.tried, search.Step{Rate: unit.FrameRate(rate), Duration: m.lasts()})
	if err != nil || m.listen.failed != "" {
		return false, err
	}
	h.tried++
	if !now.Valid || now.Offered == 0 {
		if h.invalid = !h.invalid; !h.invalid { // twice: it is beyond the tester
			h.top, h.rate = rate, rate/2
		}
		return h.tried < most, nil
	}
	h.invalid = false
	lost := float64(now.Loss)
	h.peak = max(h.peak, rate*(1-lost))
	if lost < tooMuch {
		return false, nil
	}
	h.top, h.rate = rate, min(max(1.2*rate*(1-lost), rate/8), rate/1.5)
	return h.tried < most, nil
}

// fill finds what the IDS inspects without end, and what buffers swallow beside, by the
// last load of the descent that was too much, offered once more for twice as long.
func (m *idsPoint) fill(ctx context.Context) (s search.Sustained, err error) {
	h := m.found
	if h == nil {
		return s, nil
	}
	i := slices.IndexFunc(h.seen, func(t search.Seen) bool {
		return t.Valid && t.Loss >= fillLoses && float64(t.Rate) == h.top
	})
	if i < 0 {
		return s, nil
	}
	passed := func(t search.Seen) float64 {
		return float64(t.Offered) * (1 - float64(t.Loss)) * t.Duration.Seconds()
	}
	short := h.seen[i]
	long, _, err := m.offer(ctx, "fill", 0, search.Step{Rate: short.Rate, Duration: 2 * short.Duration})
	if err != nil || m.listen.failed != "" || !long.Valid || long.Loss < fillLoses {
		return s, err
	}
	return search.Between(passed(short), short.Duration, passed(long), long.Duration, longestIDS*m.lasts()), nil
}

// longestIDS is how many times as long a trial of ids is at most for what buffers swallow.
const longestIDS = 6

// idsAttempts are attempts of ids, whose trials last.
const idsAttempts = 3

// limit keeps what the search found, and measures there for longer. Below lowest nothing
// was tried: a box that loses a little at each load down to there is offered less.
func (m *idsPoint) limit(ctx context.Context, l search.Limit, lowest unit.FrameRate) error {
	if l.Clean+l.Lossy == 0 {
		m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no limit: all %d trials of the search were invalid or in doubt", l.Invalid)
		return nil
	}
	confirmations := 3
	s, err := m.fill(ctx)
	if err != nil || m.listen.failed != "" {
		return err
	}
	carries, lasts := s.Carries(l.Lower, 2*m.lasts())
	rate, n := float64(carries), l.Clean+l.Lossy
	doubted := false
	if carries < l.Lower*swallowed {
		m.listen.warn("the search ended at %v, which buffers may have swallowed: %v is inspected without end", unit.BitRate(l.Lower), unit.BitRate(carries))
		doubted, l.Upper, l.AtCeiling = true, l.Lower, false
	}
	if l.Lower == 0 {
		confirmations = 8
		rate, l.AtCeiling, doubted = float64(lowest)*stepDown, false, true
	}
	for i, k, tried := 0, 0, 0; i < confirmations; k++ {
		if err := m.empty(ctx, unit.BitRate(rate), lasts); err != nil {
			return err
		}
		rec, err := m.trial(ctx, "limit", k, unit.BitRate(rate), lasts)
		if err != nil || m.listen.failed != "" {
			return err
		}
		if rec.Status == result.Invalid && i < confirmations-1 {
			i, l.Invalid = i+1, l.Invalid+1
			continue
		}
		within := rec.Account != nil && float64(rec.Account.Lost()) <= m.loss.value*float64(rec.Account.Accepted)
		if tried++; !within && disturbed(rec) && tried < idsAttempts {
			l.Invalid++
			continue
		}
		n++
		m.missed(rec)
		if !within && rec.Status != result.Invalid && i < confirmations-1 {
			if !doubted {
				m.listen.warn("the search ended at %v, and a longer trial did not confirm it: %s", unit.BitRate(l.Lower), rec.Reason)
			}
			doubted = true
			l.Upper, l.AtCeiling = unit.FrameRate(rate), false
			if rate *= stepDown; rate < float64(s.Rate) && s.Rate < l.Upper {
				rate = float64(s.Rate)
			}
			carries, lasts = s.Carries(unit.FrameRate(rate), 2*m.lasts())
			rate = float64(carries)
			i, tried = i+1, 0
			continue
		}
		m.take(rec)
		if rec.Status == result.Invalid || !within {
			return nil
		}
		m.addRate(l, rate, n)
		break
	}
	if l.Invalid > 0 {
		m.listen.warn("%d trials of the search were invalid or in doubt and do not count", l.Invalid)
	}
	return nil
}
