// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/internal/limit"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/trial"
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
	if p.preset.Value == "standard" {
		g.Width, trials = 0.03, 14
	}
	return search.Preset{Name: "ids", Goals: []search.Goal{g}, Trials: trials}
}

// An idsHunt is what the search of a limit has found.
type idsHunt struct {
	limit.Descent // loads are in bit/s
	rests         limit.Rests
	seen          []search.Seen
	room          float64       // of the last trial (trial.Room)
	lows          limit.Lows    // by the trials so far, in bit/s
	carried       result.Record // the highest load so far of which no more was lost than is allowed
	longer        *idsLonger    // nil: the search is not over
}

// An idsLonger is how far the longer trials are that confirm a load, or lower ones.
type idsLonger struct {
	limit.Longer
	found            search.Limit // by the search
	last, best, lost result.Record
}

// limit is what is known of the limit.
func (c *idsLonger) limit() search.Limit {
	l := c.found
	if c.Lossy > 0 || c.Doubted > 0 {
		l.AtCeiling = false
	}
	l.Upper = c.Below()
	return l
}

// hunt searches the highest load of which no more than the allowed share is lost. A run
// may end it after each trial:
//
//	descend (from first, until no more than that is lost) -> search -> fill -> limit (longer, at the load found or below) -> empty box
func (m *idsPoint) hunt(ctx context.Context) (err error) {
	top := float64(m.IDS.top.Bits)
	if c := float64(unit.L2(m.listen.ceiling, typical.Mean())); c > 0 {
		top = min(top, c)
	}
	first := m.first(top)
	h := &idsHunt{}
	h.Descent = limit.Descent{Rate: first, Guess: first < top, Top: top, Most: 8, Twice: true, Lower: func(rate, carried float64) float64 {
		if carried > rate*(1-tooMuch) { // hardly too much: a stall
			return rate * limit.Share(h.room)
		}
		return min(max(overGuess*carried, rate/8), rate/1.5)
	}}
	m.found = h
	for more := true; more; {
		if more, err = m.descend(ctx); err != nil {
			return err
		}
		if !more || !m.timeFor(1, 2) { // longer trials go on below
			break
		}
		if err := m.pause(ctx, m.interim()); err != nil {
			return err
		}
	}
	switch {
	case m.listen.env.Bed.Placement == "shared":
		m.listen.warn("%s", "tester and DUT share a CPU, so the DUT throttles the tester: no limit is searched")
		return nil
	case h.Peak == 0:
		m.out.Status, m.out.Reason = result.Failed, m.subject.Value+" counted no frame at any load tried, or no trial was valid"
		return nil
	}
	so := m.interim()
	if !m.timeFor(1, 2) {
		so.Next = m.takes(0, 1)
	}
	if err := m.pause(ctx, so); err != nil {
		return err
	}
	before := slices.DeleteFunc(slices.Clone(h.seen), func(t search.Seen) bool { return float64(t.Rate) > h.Top })
	p := m.searching()
	p.Trials += len(before)
	s, err := search.Of(p, unit.FrameRate(h.Top), unit.FrameRate(min(h.Peak, h.Top)))
	if err != nil {
		return err
	}
	found := &limit.Hunt{Search: s, Offer: func(ctx context.Context, n int, step search.Step) (search.Seen, time.Duration, error) {
		now, err := m.offer(ctx, "search", n, step)
		return now, 0, err
	}}
	found.Before(before...)
	for more := m.timeFor(1, 2); more; {
		if _, err := found.Seek(ctx, 1); err != nil {
			return err
		}
		so := m.interim()
		if more = !found.Ended && m.timeFor(1, 2); !more {
			so.Next = m.takes(0, 1)
		}
		if err := m.pause(ctx, so); err != nil {
			return err
		}
	}
	return m.limit(ctx, found.Interim(), h.lowest())
}

// takes is how long so many trials take, and longer ones, which also show what buffers swallow.
func (m *idsPoint) takes(trials, longer int) time.Duration {
	return time.Duration(trials+2*longer)*m.lasts() + time.Duration(trials+longer)*m.listen.around.next(idsAround)
}

// timeFor says whether the run has time for them.
func (m *idsPoint) timeFor(trials, longer int) bool {
	left := m.listen.env.Left
	return left == nil || left() >= m.takes(trials, longer)
}

// first is the load in bit/s that the descent begins with: top, or somewhat above the
// most that other points of the run have inspected of a load that was too much.
func (m *idsPoint) first(top float64) float64 {
	if m.listen.env.Akin == nil {
		return top
	}
	guess := 0.0
	for _, rec := range m.listen.env.Akin("rate", "duration", "idle", "top", "loss", "preset") {
		offered, now := offeredBits(rec), m.saw(search.Step{}, rec)
		if len(rec.Phases) == 0 || !now.Valid || offered > top*aboveTop || now.Loss < max(tooMuch, unit.LossRatio(m.loss.value)) {
			continue
		}
		if d := time.Duration(rec.Phases[0].End - rec.Phases[0].Begin).Round(m.lasts() / 10); d >= m.lasts() {
			guess = max(guess, offered*(1-float64(now.Loss)))
		}
	}
	if guess == 0 {
		return top
	}
	return min(top, overGuess*guess)
}

const (
	// overGuess is the next load of a descent, as a multiple of what was inspected.
	overGuess = 1.2
	// aboveTop is how far a load asked for at the top may have been offered above it.
	aboveTop = 1.01
)

// tooMuch is the share of the frames that a load must lose for the search to begin below it.
const tooMuch = 0.05

// note keeps what a trial says.
func (m *idsPoint) note(now search.Seen, rec result.Record) {
	h := m.found
	if v := rec.Value("counting_rate_fps"); v != nil && len(h.seen) == 0 && float64(now.Rate) == h.Top && now.Valid && now.Loss >= tooMuch {
		m.out.Values = append(m.out.Values, figures.Value("counting_overload_fps", v.Value))
	}
	h.seen = append(h.seen, now)
	if now.Valid && now.Loss <= unit.LossRatio(m.loss.value) && rec.Load != nil && (h.carried.Load == nil || rec.Load.Offered > h.carried.Load.Offered) {
		h.carried = rec
	}
}

// lowestLossy is the lowest load so far, in bit/s, that lost more than it may beyond doubt; 0:
// none.
func (m *idsPoint) lowestLossy() unit.FrameRate {
	return lowestLossy(m.found.seen, unit.LossRatio(m.loss.value))
}

// lowest is the lowest load so far, in bit/s, whatever became of it.
func (h *idsHunt) lowest() unit.FrameRate {
	lowest := unit.FrameRate(h.Top)
	for _, t := range h.seen {
		lowest = min(lowest, t.Rate)
	}
	return lowest
}

// offer carries out one trial of the hunt, and notes what it says.
func (m *idsPoint) offer(ctx context.Context, kind string, n int, step search.Step) (search.Seen, error) {
	rec, err := m.trial(ctx, kind, n, unit.BitRate(step.Rate), step.Duration)
	if err != nil {
		return search.Seen{}, err
	}
	now := m.saw(step, rec)
	if m.found.room = trial.Room(rec, m.listen.ring()); now.Valid {
		m.found.lows.Overflowed(step.Rate, m.found.room)
	}
	m.note(now, rec)
	return now, nil
}

// interim is the point's outcome if the run comes to it no more.
func (m *idsPoint) interim() procedure.Outcome {
	h := m.found
	s, err := search.Of(m.searching(), unit.FrameRate(m.IDS.top.Bits), 0)
	if err != nil || h == nil {
		return m.outcome()
	}
	l, c := s.Limit(h.seen), h.longer
	if c != nil {
		l = c.limit()
	}
	found, told := m.out, m.listen.out
	defer func() { m.out, m.listen.out = found, told }()
	m.out.Values, m.listen.out.Values = slices.Clone(found.Values), slices.Clone(told.Values)
	m.listen.out.Warnings = slices.Clone(told.Warnings)
	switch {
	case c != nil && c.Bears > 0:
		m.take(c.best)
		told := ""
		if l.Upper > 0 {
			told = fmt.Sprintf(": a load between %v and %v may be carried", unit.BitRate(c.Bears), unit.BitRate(l.Upper))
		}
		m.listen.warn("the search was not finished%s", told)
		m.addRate(l, float64(c.Bears), l.Clean+l.Lossy+c.Valid)
	case c != nil && c.AtMost() > 0:
		m.listen.warn("the search was not finished")
		m.lessThan(c)
	case l.Lower > 0:
		m.take(h.carried)
		m.listen.warn("the search was not finished: no longer trial confirmed %v", unit.BitRate(l.Lower))
		m.addRate(l, float64(l.Lower), l.Clean+l.Lossy)
	default:
		lossy := cmp.Or(m.lowestLossy(), l.Upper)
		if lossy == 0 {
			m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no limit: of %d trials none was without too much loss, and none lost too much beyond doubt", len(h.seen))
			break
		}
		m.out.Status, m.out.Reason = result.Failed, fmt.Sprintf("too many frames were lost at every load tried, down to %v; the search was not finished", unit.BitRate(lossy))
		m.out.Values = append(m.out.Values, atMost("ids_rate_bps", lossy, l.Lossy))
	}
	return m.outcome()
}

// lessThan is what is known where no load is known to be carried, and one is not.
func (m *idsPoint) lessThan(c *idsLonger) {
	n := c.found.Clean + c.found.Lossy + c.Valid
	switch {
	case c.Valid > 0:
		m.take(c.lost)
	case c.Lossy > 0:
		m.out.Status, m.out.Reason = result.Failed, fmt.Sprintf("too many frames were lost at every load tried, down to %v, and no longer trial was valid: %s", unit.BitRate(c.Lossy), c.last.Reason)
	default: // nothing was lost there
		m.take(m.found.carried)
		m.listen.warn("no longer trial was valid: %s", c.last.Reason)
	}
	m.out.Values = append(m.out.Values, atMost("ids_rate_bps", c.AtMost(), n))
}

// addRate adds the figure of a limit: rate in bit/s, by n trials.
func (m *idsPoint) addRate(l search.Limit, rate float64, n int) {
	v := m.listen.interval("ids_rate_bps", l)
	v.N = n
	if v.Value != rate {
		v.Value, v.Lo = rate, &rate
	}
	v.Bound, v.Open = result.Exactly, false // interval compares with the ceiling in frames
	ceiling := float64(unit.L2(m.listen.ceiling, typical.Mean()))
	switch {
	case l.AtCeiling, ceiling > 0 && rate > ceiling/1.2:
		v.Limit()
	case v.Hi == nil:
		v.Bound, v.Open = result.AtLeast, true
		m.listen.warn("no load above %v is confirmed to be too much: the limit may be higher", unit.BitRate(rate))
	}
	fps := figures.Value("ids_rate_fps", rate/8/m.listen.mean)
	fps.Bound, fps.Open = v.Bound, v.Open
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

// descend offers the next load of the descent: less as long as more is lost than may be, and
// the highest where the first, which was a guess, was not too much.
func (m *idsPoint) descend(ctx context.Context) (more bool, err error) {
	h := m.found
	begin := time.Now()
	now, err := m.offer(ctx, "descend", h.Tried, search.Step{Rate: unit.FrameRate(h.Rate), Duration: m.lasts()})
	if err != nil {
		return false, err
	}
	if !now.Valid && time.Since(begin) >= m.lasts() { // not replayed
		if err := h.rests.Rest(ctx); err != nil {
			return false, err
		}
	}
	may := unit.LossRatio(m.loss.value)
	if !now.Valid || now.Offered == 0 || now.Loss > may && now.Loss-now.Doubt <= may {
		return h.Next(false, false, 0), nil
	}
	return h.Next(true, now.Loss <= may, h.Rate*(1-float64(now.Loss))), nil
}

// fill finds what the IDS inspects without end, and what buffers swallow beside, by the
// lowest load that was too much, offered once more for twice as long.
func (m *idsPoint) fill(ctx context.Context) (s search.Sustained, err error) {
	h := m.found
	if h == nil {
		return s, nil
	}
	i := -1
	for n, t := range h.seen {
		if t.Valid && t.Loss >= tooMuch && (i < 0 || t.Rate < h.seen[i].Rate) {
			i = n
		}
	}
	if i < 0 {
		return s, nil
	}
	passed := func(t search.Seen) float64 {
		return float64(t.Offered) * (1 - float64(t.Loss)) * t.Duration.Seconds()
	}
	short := h.seen[i]
	long, err := m.offer(ctx, "fill", 0, search.Step{Rate: short.Rate, Duration: 2 * short.Duration})
	if err != nil || !long.Valid || long.Loss < trial.FillLoses {
		return s, err
	}
	return search.Between(passed(short), short.Duration, passed(long), long.Duration, longestIDS*m.lasts()), nil
}

// longestIDS is how many times as long a trial of ids is at most for what buffers swallow.
const longestIDS = 6

// limit keeps what the search found, and measures there for longer. Below lowest nothing
// was tried: a box that loses a little at each load down to there is offered less.
func (m *idsPoint) limit(ctx context.Context, l search.Limit, lowest unit.FrameRate) error {
	if l.Clean+l.Lossy == 0 {
		m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no limit: all %d trials of the search were invalid or in doubt", l.Invalid)
		return nil
	}
	var s search.Sustained
	if m.timeFor(0, 3) {
		var err error
		if s, err = m.fill(ctx); err != nil {
			return err
		}
	}
	return m.confirm(ctx, l, lowest, s)
}

// confirm is limit of an IDS that inspects s without end.
func (m *idsPoint) confirm(ctx context.Context, l search.Limit, lowest unit.FrameRate, s search.Sustained) (err error) {
	c := &idsLonger{found: l, Longer: limit.Longer{Sustained: s, Least: 2 * m.lasts(), Budget: 8, OfInvalid: 1, Above: l.Upper, Narrow: limit.OneStep}}
	if m.found == nil {
		m.found = &idsHunt{}
	}
	if left := m.listen.env.Left; left != nil {
		c.Left = func(d time.Duration) int { return int(left() / (d + m.listen.around.next(idsAround))) }
	}
	m.found.longer, c.Lows = c, m.found.lows
	c.Begin(l.Lower)
	defer func() { err = errors.Join(err, m.forget()) }()
	doubted := true
	switch {
	case l.Lower == 0:
		lossy := m.lowestLossy()
		c.Lossy, c.found.AtCeiling = cmp.Or(lossy, l.Upper), false
		c.Begin(cmp.Or(lossy, lowest) * limit.StepDown)
		c.Doubted = 0 // nothing was carried there
	case c.Doubted > 0:
		m.listen.warn("the search ended at %v, which buffers may have swallowed: %v is inspected without end", unit.BitRate(l.Lower), unit.BitRate(c.Rate))
	default:
		doubted = false
	}
	for more := true; more; {
		if c.Trials > 0 || c.Left != nil {
			so := m.interim()
			if so.Next, err = m.length(ctx, unit.BitRate(c.Rate), c.Lasts); err != nil {
				return err
			}
			so.Next += m.listen.around.next(idsAround)
			if err := m.pause(ctx, so); err != nil {
				return err
			}
		}
		valid, bears := c.Valid, c.Bears
		if c.last, err = m.trial(ctx, "limit", c.Trials, unit.BitRate(c.Rate), c.Lasts); err != nil {
			return err
		}
		became := trial.Came(c.last, c.last.Account != nil && float64(c.last.Account.Lost()) <= m.loss.value*float64(c.last.Account.Accepted))
		more = c.Next(became, trial.Room(c.last, m.listen.ring()))
		if c.Valid > valid {
			m.missed(c.last)
		}
		switch {
		case c.Bears > bears:
			c.best = c.last
		case c.Valid == valid:
			c.found.Invalid++
		case became != limit.Carried:
			if c.lost = c.last; !doubted {
				m.listen.warn("the search ended at %v, and a longer trial did not confirm it: %s", unit.BitRate(l.Lower), c.last.Reason)
			}
			doubted = true
		}
	}
	return m.concluded(ctx, c)
}

// concluded is the point's outcome after its longer trials.
func (m *idsPoint) concluded(ctx context.Context, c *idsLonger) error {
	l, n := c.limit(), c.found.Clean+c.found.Lossy+c.Valid
	if l.Invalid > 0 {
		m.listen.warn("%d trials of the search were invalid or in doubt and do not count", l.Invalid)
	}
	switch {
	case c.Bears > 0:
		m.take(c.best)
		m.addRate(l, float64(c.Bears), n)
	case c.AtMost() > 0:
		m.lessThan(c)
		return nil
	case l.Lower == 0:
		m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no limit: no load was carried, none lost too much beyond doubt, and no longer trial was valid: %s", c.last.Reason)
		return nil
	default: // all were invalid
		m.take(m.found.carried)
		m.listen.warn("no longer trial confirmed %v: %s", unit.BitRate(l.Lower), c.last.Reason)
		m.addRate(l, float64(l.Lower), n)
		return nil
	}
	if len(m.listen.env.Bed.Threads) == 0 {
		return nil
	}
	so := m.outcome()
	so.Next = c.Lasts + m.listen.around.next(idsAround)
	if err := m.pause(ctx, so); err != nil {
		return err
	}
	err := m.empty(ctx, unit.BitRate(c.Bears), c.Lasts)
	if v := c.best.Value("host_cpu_per_frame_s"); v != nil && m.listen.emptied >= 0 {
		m.listen.out.Values = append(m.listen.out.Values, figures.Value("host_cpu_above_per_frame_s", v.Value-m.listen.emptied))
	}
	return err
}
