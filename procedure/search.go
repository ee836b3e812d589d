// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"boxdyno/engine"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// asPreset has the search follow the parameter preset.
const asPreset = "preset"

// searching is the search that the parameters ask for.
func (p *traffic) searching() search.Preset {
	name := p.search.value
	if name == asPreset {
		name = p.preset.value
	}
	s, _ := search.Get(name) // the parameters' values are names of searches
	return s
}

// begin sets the search's range by the rate under overload.
func (m *point) begin(overload unit.FrameRate) error {
	// A box may carry somewhat more than it forwards under overload; one that
	// forwards nothing then may carry anything.
	each := overload / m.streams()
	top := m.ceiling / m.streams()
	if each > 0 {
		top = min(top, each*1.25)
	}
	if link := m.linkRate(); link > 0 {
		top = min(top, link)
	}
	ask := m.ask()
	if ask*1.01 <= m.ceiling/m.streams() && (m.linkRate() == 0 || ask <= m.linkRate()) {
		top = max(top, min(ask*1.01, cmp.Or(m.linkRate(), ask*1.01)))
	}
	s, err := search.New(m.searching().Name, top, min(each, top))
	s.Ask = ask
	m.search = &s
	return err
}

// seek takes the search on by at most steps trials; -1: to its end.
func (m *point) seek(ctx context.Context, steps int) error {
	for ; steps != 0; steps-- {
		step, more := m.search.Next(m.seen)
		if !more {
			return nil
		}
		begin := time.Now()
		rec, err := m.trial(ctx, "search", len(m.seen), engine.Load{Rate: step.Rate, Duration: step.Duration}, false)
		if err != nil {
			return err
		}
		now := search.Seen{Step: step, Valid: rec.Status != result.Invalid}
		if !now.Valid && time.Since(begin) >= step.Duration { // not replayed, nor in memory
			if err := m.rests.rest(ctx); err != nil {
				return err
			}
		}
		if rec.Load != nil && rec.Account != nil {
			now.Offered = rec.Load.Offered / m.streams()
			if lost := m.missed(rec.Account) + rec.Load.Broken; lost > 0 {
				now.Loss = unit.LossRatio(float64(lost) / float64(rec.Account.Accepted))
				// Late frames are made up at 9/8 of the rate, so that nine are late for one that was held up.
				late := float64(rec.Load.Late) / 8
				kept := keptOff(rec)
				now.Doubt = unit.LossRatio((late + kept) / float64(rec.Account.Accepted))
				now.Excused = unit.LossRatio((min(late, float64(rec.Load.LateLost)) + kept) / float64(rec.Account.Accepted))
			}
		}
		m.seen = append(m.seen, now)
	}
	return nil
}

const (
	restFirst = 50 * time.Millisecond
	restMost  = 3 * time.Second // of a search
)

// A rests is how long a search has rested.
type rests time.Duration

// rest waits after an invalid trial, longer after each, for what disturbs a machine
// often lasts.
func (r *rests) rest(ctx context.Context) error {
	d := min(max(time.Duration(*r), restFirst), restMost-time.Duration(*r))
	if d <= 0 {
		return nil
	}
	*r += rests(d)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// keptOff is how many of the frames that a full receive ring lost came while
// something else had the CPU that the DUT's threads were ready to run on.
func keptOff(rec result.Record) float64 {
	if rec.DUT == nil || rec.Account == nil {
		return 0
	}
	var ring int64
	for _, t := range rec.Account.Drops {
		if t.Place == result.DUTNIC {
			ring += t.N
		}
	}
	return min(float64(ring), rec.DUT.Waited*float64(rec.Account.Accepted))
}

// limit keeps what the search found: l is the throughput's.
func (m *point) limit(l search.Limit) {
	switch {
	case l.Clean+l.Lossy == 0:
		m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no throughput: all %d trials of the search were invalid or in doubt, for the tester was held up", l.Invalid)
		return
	case l.Clean == 0 && l.Invalid == 0:
		m.out.Status, m.out.Reason = result.Failed, "frames were lost at every load tried"
	case l.Lower == 0:
		m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no throughput: no load without loss could be confirmed in %d trials, of which %d were clean, %d lost frames and %d were invalid or in doubt", l.Clean+l.Lossy+l.Invalid, l.Clean, l.Lossy, l.Invalid)
		m.pdrs()
		return
	}
	t := m.interval("throughput_fps", l)
	scaled := func(metric string, f func(unit.FrameRate) float64) result.Value {
		v := value(metric, f(unit.FrameRate(t.Value)))
		low := v.Value
		v.Lo, v.N, v.Bound = &low, t.N, t.Bound
		if t.Hi != nil {
			high := f(unit.FrameRate(*t.Hi))
			v.Hi = &high
		}
		return v
	}
	streams, mean := m.streams(), m.mix.Mean()
	link := m.env.Bed.Ports[0].Link
	if link == 0 {
		link = referenceLink
	}
	m.add(t,
		scaled("throughput_bps", func(r unit.FrameRate) float64 { return float64(unit.L2(r, mean)) }),
		scaled("throughput_l1_bps", func(r unit.FrameRate) float64 { return float64(unit.L1(r/streams, mean)) }),
		scaled("line_rate_share", func(r unit.FrameRate) float64 { return float64(r / streams / unit.LineRate(link, mean)) }),
	)
	m.pdrs()
	if l.Inversions > 0 {
		m.out.Warnings = append(m.out.Warnings, fmt.Sprintf("no sharp limit: frames were lost in %d trials at or below a load that another trial, as long or longer, carried without loss", l.Inversions))
	} else if !l.Sharp && !l.AtCeiling {
		m.out.Warnings = append(m.out.Warnings, "no sharp limit: the bounds lie wider apart than the search asks")
	}
	if l.Invalid > 0 {
		m.out.Warnings = append(m.out.Warnings, fmt.Sprintf("%d trials of the search were invalid or in doubt and do not count", l.Invalid))
	}
}

// pdrs keeps the highest loads at a stated loss ratio, as far as the search looked
// for them and confirmed them.
func (m *point) pdrs() {
	metrics := map[unit.LossRatio]string{0.001: "pdr_0_1pct_fps", 0.005: "pdr_0_5pct_fps"}
	for _, l := range m.search.Limits(m.seen) {
		if metric := metrics[l.Goal.Loss]; metric != "" && l.Lower > 0 {
			m.add(m.interval(metric, l))
		}
	}
}

// interval is a limit of all streams together, from its lower to its upper bound.
func (m *point) interval(metric string, l search.Limit) result.Value {
	v := value(metric, float64(l.Lower*m.streams()))
	low := v.Value
	v.Lo, v.N, v.Bound = &low, l.Clean+l.Lossy, m.bound(v.Value)
	if l.Upper > 0 {
		high := float64(l.Upper * m.streams())
		v.Hi = &high
	}
	if l.AtCeiling {
		v.Bound = result.AtLeast
	}
	return v
}
