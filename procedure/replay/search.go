// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"boxdyno/engine"
	"boxdyno/internal/limit"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// once sends the passes asked for, in one trial.
func (m *point) once(ctx context.Context) error {
	passes := uint64(m.loops.Value)
	if m.facts.pass(m.rate) == 0 && m.ceiling > 0 { // flat out: nobody knew before the self-test
		if d := float64(m.facts.frames) * float64(passes) / float64(m.ceiling); d > longestReplay.Seconds() {
			m.out.Status = result.Skipped
			m.out.Reason = fmt.Sprintf("%d passes over %s take %.3g h flat out, and %v is the most: give fewer loops, or a part of the file (packets_of_file)", passes, m.name(), d/3600, longestReplay)
			return nil
		}
	}
	rec, err := m.trial(ctx, "replay", 0, m.rate.load(passes), m.facts.intended(m.rate, passes), 0)
	if err != nil {
		return err
	}
	m.out.Load, m.out.Account = rec.Load, rec.Account
	if m.out.Status, m.out.Reason = rec.Status, rec.Reason; rec.Status == result.Failed { // loss is what was to be found
		m.out.Status, m.out.Reason = result.Passed, ""
	}
	m.out.Warnings = append(m.out.Warnings, rec.Warnings...)
	for _, v := range rec.Values {
		if v.Metric == "replay_forwarded_fps" || v.Metric == "replay_forwarded_bps" {
			v.Bound = m.bound(rec.Load.Forwarded)
		}
		m.out.Values = append(m.out.Values, v)
	}
	m.out.Values = append(m.out.Values, figures.Value("ceiling_fps", float64(m.ceiling)))
	return nil
}

// bound is ">=" for a rate so near the tester's ceiling that it may be the tester's own
// (METHOD rule 1), and where both share a CPU (rule 16).
func (m *point) bound(rate unit.FrameRate) result.Bound {
	if rate > m.ceiling/1.2 || m.env.Bed.Placement == "shared" {
		return result.AtLeast
	}
	return result.Exactly
}

// searching is the preset's search for the highest load without loss alone.
func (p *Replay) searching() search.Preset {
	s, _ := search.Get(p.preset.Value) // presets are names of searches
	s.Goals = s.Goals[:1]
	return s
}

// wholePass is how long a pass may take to be sent as a whole, whatever the search asks for.
const wholePass = 5 * time.Second

// lasting is the load at a rate for about d: whole passes, where they are not too long.
func (m *point) lasting(rate unit.FrameRate, d time.Duration) engine.Load {
	pass := time.Duration(float64(m.facts.frames) / float64(cmp.Or(rate, m.ceiling)) * 1e9)
	if pass > max(d, wholePass) || rate == 0 {
		return engine.Load{Rate: rate, Duration: d}
	}
	return engine.Load{Rate: rate, Passes: uint64(math.Ceil(float64(d) / float64(max(pass, 1))))}
}

// search finds what the box forwards under overload, and the highest rate without loss.
func (m *point) search(ctx context.Context) error {
	p, longest := m.searching(), m.searching().Longest
	var last result.Record
	sustained, after, err := trial.Filling(p.Overload, &longest, func(n int, d time.Duration) (passed, lost float64, err error) {
		rec, err := m.trial(ctx, "fill", n, m.lasting(0, d), 0, p.Rest)
		received, missing := rec.Value("replay_received_frames"), rec.Value("replay_missing_frames")
		if err != nil || rec.Status == result.Invalid || received == nil || missing == nil {
			return 0, 0, err
		}
		last = rec
		return received.Value, missing.Value, nil
	})
	if err != nil {
		return err
	}
	if last.Load == nil {
		m.out.Status, m.out.Reason = result.Invalid, "every trial under overload is invalid"
		return nil
	}
	rate := cmp.Or(sustained.Rate, last.Load.Forwarded)
	m.out.Load, m.out.Account = last.Load, last.Account
	forwards := figures.Value("forwarding_rate_fps", float64(rate))
	forwards.Bound = m.bound(rate)
	m.out.Values = append(m.out.Values, figures.Value("offered_fps", float64(last.Load.Offered)), forwards, figures.Value("ceiling_fps", float64(m.ceiling)))
	if m.env.Bed.Placement == "shared" {
		m.warn("%s", trial.SharedPlacement)
		return nil
	}
	if sustained.Rate == 0 && after > 0 {
		m.warn("too short to know: frames were lost only in an overload of %v, so the box may carry less without end", after)
	}
	top := m.ceiling
	if rate > 0 {
		top = min(top, rate*1.25)
	}
	s, err := search.Of(p, top, min(top, sustained.First(rate, p.Goals[0].Final, p.Goals[0].Width)))
	if err != nil {
		return err
	}
	l, err := limit.Find(ctx, &limit.Hunt{Search: s, Sustained: func() search.Sustained { return sustained }, Offer: func(ctx context.Context, n int, step search.Step) (search.Seen, time.Duration, error) {
		rec, err := m.trial(ctx, "search", n, m.lasting(step.Rate, step.Duration), step.Rate, 0)
		return saw(rec), 0, err
	}})
	if err != nil {
		return err
	}
	m.found(l)
	return nil
}

// saw is what a search is told of a trial: an altered frame did not come through.
func saw(rec result.Record) search.Seen {
	now := search.Seen{Valid: rec.Status != result.Invalid}
	sent, missing, altered := rec.Value("replay_sent_frames"), rec.Value("replay_missing_frames"), rec.Value("replay_altered_frames")
	if rec.Load == nil || sent == nil || missing == nil || altered == nil {
		return now
	}
	now.Offered = rec.Load.Offered
	if lost := missing.Value + altered.Value; lost > 0 {
		now.Loss = unit.LossRatio(lost / sent.Value)
		now.Doubt = unit.LossRatio((trial.LateFor(rec) + trial.KeptOff(rec)) / sent.Value)
	}
	return now
}

// found puts what the search found into the outcome.
func (m *point) found(l search.Limit) {
	switch {
	case l.Clean+l.Lossy == 0:
		m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no throughput: all %d trials of the search were invalid or in doubt", l.Invalid)
		return
	case l.Lower == 0 && l.Clean == 0:
		m.out.Status, m.out.Reason = result.Failed, "frames were lost or altered at every load tried"
		return
	case l.Lower == 0:
		m.out.Status, m.out.Reason = result.Invalid, "no throughput: no load without loss could be confirmed"
		return
	}
	v := figures.Interval("throughput_fps", l, 1)
	if m.bound(l.Lower) == result.AtLeast {
		v.Limit()
	}
	bits := v
	of := func(rate float64) float64 { return float64(unit.L2(unit.FrameRate(rate), m.facts.mean())) }
	bits.Metric, bits.Unit, bits.Value = "throughput_bps", "bit/s", of(v.Value)
	for _, end := range []**float64{&bits.Lo, &bits.Hi} {
		if *end != nil {
			scaled := of(**end)
			*end = &scaled
		}
	}
	m.out.Values = append(m.out.Values, v, bits)
	if l.Inversions > 0 {
		m.warn("no sharp limit: frames were lost in %d trials at or below a load that another trial carried", l.Inversions)
	}
	if l.Invalid > 0 {
		m.warn("%d trials of the search were invalid or in doubt and do not count", l.Invalid)
	}
	if m.lasting(l.Lower, m.searching().Goals[0].Final).Passes == 0 {
		m.warn("a pass over %s is longer than a trial, so that trials had the capture's beginning alone: give a part of it, or preset=standard", m.name())
	}
}

func (m *point) warn(format string, args ...any) {
	m.out.Warnings = append(m.out.Warnings, fmt.Sprintf(format, args...))
}
