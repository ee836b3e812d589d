// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"fmt"
	"strings"
	"time"

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

// highest searches the highest load of which no more than the allowed share is lost.
func (m *idsPoint) highest(ctx context.Context) error {
	top, peak, err := m.descend(ctx)
	if err != nil || m.listen.failed != "" {
		return err
	}
	if m.listen.env.Bed.Placement == "shared" {
		m.listen.warn("%s", "tester and DUT share a CPU, so the DUT throttles the tester: no limit is searched")
		return nil
	}
	if peak == 0 {
		m.out.Status, m.out.Reason = result.Failed, m.subject.value+" counted no frame at any load tried, or no trial was valid"
		return nil
	}
	s, err := search.Of(m.searching(), unit.FrameRate(top), unit.FrameRate(peak))
	if err != nil {
		return err
	}
	var seen []search.Seen
	var rests rests
	for {
		step, more := s.Next(seen)
		if !more {
			break
		}
		begin := time.Now()
		rec, err := m.trial(ctx, "search", len(seen), unit.BitRate(step.Rate), step.Duration)
		if err != nil || m.listen.failed != "" {
			return err
		}
		now := m.saw(step, rec)
		if !now.Valid && time.Since(begin) >= step.Duration { // not replayed
			if err := rests.rest(ctx); err != nil {
				return err
			}
		}
		seen = append(seen, now)
	}
	l := s.Limit(seen)
	lowest := unit.FrameRate(top)
	for _, t := range seen {
		lowest = min(lowest, t.Rate)
	}
	return m.limit(ctx, l, lowest)
}

// saw is what the search, whose loads are in bit/s here, is told of a trial: whether it
// keeps up. What it does not see is no frame lost, nor one that it counted late.
func (m *idsPoint) saw(step search.Step, rec result.Record) search.Seen {
	now := m.listen.saw(step, rec)
	if strings.HasSuffix(rec.Reason, keepsUpBlind) && rec.Account.Lost() <= 0 {
		now.Loss = 0
	}
	now.Offered = unit.FrameRate(offeredBits(rec))
	return now
}

// descend offers the highest load, and less of it as long as the twentieth is lost:
// below peak hardly anything is, above top there is nothing to look for.
func (m *idsPoint) descend(ctx context.Context) (top, peak float64, err error) {
	const most = 8
	top = float64(m.IDS.top.bits)
	if c := float64(unit.L2(m.listen.ceiling, typical.Mean())); c > 0 {
		top = min(top, c)
	}
	for n, rate := 0, top; n < most; n++ {
		rec, err := m.trial(ctx, "descend", n, unit.BitRate(rate), m.lasts())
		if err != nil || m.listen.failed != "" {
			return 0, 0, err
		}
		if rec.Status == result.Invalid || rec.Account == nil || rec.Account.Accepted == 0 {
			top, rate = rate, rate/2
			continue
		}
		lost := float64(rec.Account.Lost()) / float64(rec.Account.Accepted)
		peak = max(peak, rate*(1-lost))
		if lost < 0.05 {
			return top, peak, nil
		}
		if n == 0 {
			v := rec.Value("counting_rate_fps")
			if v != nil {
				m.out.Values = append(m.out.Values, value("counting_overload_fps", v.Value))
			}
		}
		top = rate
		rate = min(max(1.2*rate*(1-lost), rate/8), rate/1.5)
	}
	return top, min(peak, top), nil
}

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
	rate, n := float64(l.Lower), l.Clean+l.Lossy
	doubted := false
	if l.Lower == 0 {
		confirmations = 8
		rate, l.AtCeiling, doubted = float64(lowest)*stepDown, false, true
	}
	for i, k, tried := 0, 0, 0; i < confirmations; k++ {
		if err := m.empty(ctx, unit.BitRate(rate), 2*m.lasts()); err != nil {
			return err
		}
		rec, err := m.trial(ctx, "limit", k, unit.BitRate(rate), 2*m.lasts())
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
				m.listen.warn("the search ended at %v, and a longer trial did not bear that out: %s", unit.BitRate(l.Lower), rec.Reason)
			}
			doubted = true
			l.Upper, l.AtCeiling = unit.FrameRate(rate), false
			rate *= stepDown
			i, tried = i+1, 0
			continue
		}
		m.take(rec)
		if rec.Status == result.Invalid || !within {
			return nil
		}
		v := m.listen.interval("ids_rate_bps", l)
		v.N = n
		if doubted || v.Value != rate {
			v.Value = rate
			v.Lo = &rate
		}
		v.Bound = result.Exactly // interval compares with the ceiling in frames
		if ceiling := float64(unit.L2(m.listen.ceiling, typical.Mean())); l.AtCeiling || ceiling > 0 && rate > ceiling/1.2 {
			v.Bound = result.AtLeast
		}
		fps := value("ids_rate_fps", rate/8/m.listen.mean)
		fps.Bound = v.Bound
		m.out.Values = append(m.out.Values, v, fps)
		break
	}
	if l.Invalid > 0 {
		m.listen.warn("%d trials of the search were invalid or in doubt and do not count", l.Invalid)
	}
	return nil
}
