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

// searching is the search that the parameters ask for; without one, that of the
// preset, by which overloads go all the same.
func (p *traffic) searching() search.Preset {
	name := p.search.value
	if name == asPreset || name == NoSearch {
		name = p.preset.value
	}
	s, _ := search.Get(name) // the parameters' values are names of searches
	return s
}

// A tried is a trial of the search as it was.
type tried struct {
	search.Seen
	lasted time.Duration
	lag    time.Duration
}

// begin sets the search's range by the rate under overload.
func (m *point) begin(overload unit.FrameRate) error {
	// A box may carry somewhat more than it forwards under overload; one that
	// forwards nothing then may carry anything.
	each := overload / m.streams()
	top := m.ceiling / m.streams()
	if s := m.sustained(); s.Rate > 0 && s.Memory < 2 {
		// With room for one frame it depends on the gaps of an overload how many pass: half
		// of what passes at the limit, at least.
		top = min(top, each*2.05)
	} else if each > 0 {
		top = min(top, each*1.25)
	}
	if link := m.linkRate(); link > 0 {
		top = min(top, link)
	}
	ask := m.ask()
	if ask*1.01 <= m.ceiling/m.streams() && (m.linkRate() == 0 || ask <= m.linkRate()) {
		top = max(top, min(ask*1.01, cmp.Or(m.linkRate(), ask*1.01)))
	}
	p := m.searching()
	guess := min(m.sustained().First(each, p.Goals[0].Final, p.Goals[0].Width), top)
	s, err := search.New(p.Name, top, guess)
	s.Ask = ask
	m.search = &s
	return err
}

// weigh judges the trials of the search by what is known of the box's memory now.
func (m *point) weigh() {
	s := m.sustained()
	raw := make([]search.Seen, len(m.raw))
	m.seen = make([]search.Seen, len(m.raw))
	for i, t := range m.raw {
		raw[i], m.seen[i] = t.Seen, s.Judge(t.Seen, t.lasted, t.lag)
	}
	m.seen = s.Told(m.seen, raw)
}

// seek takes the search on by at most steps trials; -1: to its end.
func (m *point) seek(ctx context.Context, steps int) error {
	return m.seekFrom(ctx, outset{ramp: m.ramp}, "search", steps)
}

func (m *point) seekFrom(ctx context.Context, from outset, kind string, steps int) error {
	for ; steps != 0; steps-- {
		m.weigh()
		step, more := m.search.Next(m.seen)
		if m.ended = !more; m.ended {
			return nil
		}
		begin := time.Now()
		load := engine.Load{Rate: step.Rate, Duration: m.sustained().Length(step)}
		rec, err := m.trialFrom(ctx, from, kind, len(m.raw), load)
		if err != nil {
			return err
		}
		now := tried{Seen: search.Seen{Step: step, Valid: rec.Status != result.Invalid}, lasted: load.Duration}
		if !now.Valid && time.Since(begin) >= load.Duration { // not replayed, nor in memory
			if err := m.rests.rest(ctx); err != nil {
				return err
			}
		}
		if rec.Load != nil && rec.Account != nil {
			now.Offered = rec.Load.Offered / m.streams()
			if a := rec.Load.Arrivals; a != nil {
				now.lag = a.Lag
			}
			lost, accepted := m.missed(rec.Account), rec.Account.Accepted
			if rec.Load.Ramp != nil {
				lost, accepted = result.LostOf(rec.Load, rec.Account)
			}
			if lost += rec.Load.Broken; lost > 0 {
				now.Loss = unit.LossRatio(float64(lost) / float64(accepted))
				// Late frames are made up at 9/8 of the rate, so that nine are late for one that was held up.
				late := float64(rec.Load.Late) / 8
				kept := keptOff(rec)
				now.Doubt = unit.LossRatio((late + kept) / float64(accepted))
				now.Excused = unit.LossRatio((min(late, float64(rec.Load.LateLost)) + kept) / float64(accepted))
			}
		}
		m.raw = append(m.raw, now)
	}
	m.weigh()
	_, more := m.search.Next(m.seen)
	m.ended = !more
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

// keptOff is how many of the frames that a full receive ring lost came while something
// else had the CPU that the DUT's threads were ready to run on: a program, or the
// hypervisor. What the ring may have lost of a ramp is none of them.
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
	stolen := 0.0
	for _, c := range rec.CPUs {
		if c.Role == "dut" {
			stolen = max(stolen, c.Steal)
		}
	}
	_, accepted := result.LostOf(rec.Load, rec.Account)
	if rec.Load != nil && rec.Load.Ramp != nil {
		ring = max(0, ring-rec.Load.Ramp.Lost)
	}
	return min(float64(ring), (rec.DUT.Waited+stolen)*float64(accepted))
}

// limit puts what the search has found so far into o, and returns the throughput's.
func (m *point) limit(o *Outcome) search.Limit {
	m.weigh()
	l := m.search.Limit(m.seen)
	if !m.ended {
		l = m.search.Interim(m.seen)
	}
	switch {
	case l.Lower == 0 && !m.ended:
		o.Warnings = append(o.Warnings, "no throughput yet: the search has found no load without loss so far")
		return l
	case l.Clean+l.Lossy == 0:
		o.Status, o.Reason = result.Invalid, fmt.Sprintf("no throughput: all %d trials of the search were invalid or in doubt, for the tester was held up", l.Invalid)
		return l
	case l.Clean == 0 && l.Invalid == 0:
		o.Status, o.Reason = result.Failed, "frames were lost at every load tried"
	case l.Lower == 0:
		o.Status, o.Reason = result.Invalid, fmt.Sprintf("no throughput: no load without loss could be confirmed in %d trials, of which %d were clean, %d lost frames and %d were invalid or in doubt", l.Clean+l.Lossy+l.Invalid, l.Clean, l.Lossy, l.Invalid)
		m.pdrs(o)
		return l
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
	o.Values = append(o.Values, t,
		scaled("throughput_bps", func(r unit.FrameRate) float64 { return float64(unit.L2(r, mean)) }),
		scaled("throughput_l1_bps", func(r unit.FrameRate) float64 { return float64(unit.L1(r/streams, mean)) }),
		scaled("line_rate_share", func(r unit.FrameRate) float64 { return float64(r / streams / unit.LineRate(link, mean)) }),
	)
	m.pdrs(o)
	if l.Interim {
		o.Warnings = append(o.Warnings, fmt.Sprintf("the throughput's bounds are interim: the search was not over after %d trials", l.Clean+l.Lossy+l.Invalid))
	} else if l.Inversions > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("no sharp limit: frames were lost in %d trials at or below a load that another trial, as long or longer, carried without loss", l.Inversions))
	} else if !l.Sharp && !l.AtCeiling {
		o.Warnings = append(o.Warnings, "no sharp limit: the bounds lie wider apart than the search asks")
	}
	if l.Invalid > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d trials of the search were invalid or in doubt and do not count", l.Invalid))
	}
	return l
}

// pdrs keeps the highest loads at a stated loss ratio, as far as the search looked
// for them and confirmed them.
func (m *point) pdrs(o *Outcome) {
	metrics := map[unit.LossRatio]string{0.001: "pdr_0_1pct_fps", 0.005: "pdr_0_5pct_fps"}
	for _, l := range m.search.Limits(m.seen) {
		if metric := metrics[l.Goal.Loss]; metric != "" && l.Lower > 0 {
			o.Values = append(o.Values, m.interval(metric, l))
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
