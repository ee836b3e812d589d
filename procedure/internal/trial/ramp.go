// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/internal/limit"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// RampSteps are the steps of a load that rises or falls gently.
const RampSteps = 5

// An outset is how a trial begins: after a rest, and with a load that grows for ramp
// before the trial's own. Zero is at once, with the full load.
type outset struct{ rest, ramp time.Duration }

// Of a shorter ramp than leastRamp, a step is hardly a frame of a slow load.
const leastRamp, mostRamp = 10 * time.Millisecond, 10 * time.Minute

// gently is trial after a ramp of equal steps, from a sixth of the load to five sixths.
// The frames of the ramp are in the account, and in no figure of the load.
func (r *Rig) gently(ctx context.Context, ramp time.Duration, l engine.Load, timing bool) (procedure.Outcome, error) {
	if ramp == 0 {
		return r.trial(ctx, l, timing)
	}
	o, _, _, err := r.Account(ctx, timing, func(ctx context.Context) (engine.Load, []engine.TxReport, error) {
		for i := 1; i <= RampSteps; i++ {
			step := engine.Load{Rate: l.Rate * unit.FrameRate(i) / (RampSteps + 1), Duration: ramp / RampSteps}
			sent, err := r.TX.Transmit(ctx, step, r.Streams...)
			if err != nil {
				return l, nil, err
			}
			r.lead = append(r.lead, sent...)
		}
		sent, err := r.TX.Transmit(ctx, l, r.Streams...)
		return l, sent, err
	})
	return o, err
}

// afterRamp returns what meters saw of the load that sent tells of, without the ramp
// before it: a run of its own for each meter. Without a ramp it returns seen.
func (r *Rig) afterRamp(sent []engine.TxReport, seen []engine.MeterReport) ([]engine.MeterReport, *result.Ramp) {
	if len(r.lead) == 0 {
		return seen, nil
	}
	begin, _ := span(sent)
	first, _ := span(r.lead)
	ramp := &result.Ramp{Lasts: time.Duration(begin - first)}
	for _, t := range r.lead {
		ramp.Sent += int64(t.Accepted)
	}
	ramp.Lost = ramp.Sent
	late := int64(0) // frames of the ramp
	for step := range slices.Chunk(r.lead, len(sent)) {
		late += int64(slices.MaxFunc(step, func(a, b engine.TxReport) int { return cmp.Compare(a.Late, b.Late) }).Late)
	}
	seen = slices.Clone(seen)
	for i := range seen {
		m := &seen[i]
		m.Streams = slices.Clone(m.Streams)
		var before uint64 // frames of the ramp
		var came unit.Instant
		for j := range m.Streams {
			s := &m.Streams[j]
			all := *s
			tx := sent[slices.IndexFunc(sent, func(t engine.TxReport) bool { return t.Stream == s.Stream })]
			s.Frames, s.Octets, s.Reordered, s.Duplicate, s.Span, s.First, s.Last = 0, 0, 0, 0, 0, 0, 0
			for _, run := range all.Runs {
				if run.Begin >= tx.First && run.Begin <= tx.Last {
					s.Frames, s.Octets, s.Reordered, s.Duplicate = s.Frames+run.Frames, s.Octets+run.Octets, s.Reordered+run.Reordered, s.Duplicate+run.Duplicate
					if s.Span += run.Span; s.First == 0 || run.First < s.First {
						s.First = run.First
					}
					s.Last = max(s.Last, run.Last)
				}
			}
			before += all.Frames - s.Frames
			ramp.Lost -= int64(all.Frames-s.Frames) - int64(all.Duplicate-s.Duplicate)
			if came == 0 || s.First > 0 && s.First < came {
				came = s.First
			}
		}
		marks := []engine.Mark{{At: came}}
		for _, k := range m.Marks {
			if k.At > came && k.Frames > before {
				marks = append(marks, engine.Mark{At: k.At, Frames: k.Frames - before})
			}
		}
		m.Marks = marks
	}
	// Meters do not tell whose late frames came: at least those that were not lost.
	came := uint64(max(0, late-ramp.Lost))
	for i := range seen {
		for j := range seen[i].Streams {
			s := &seen[i].Streams[j]
			n := min(came, s.Late)
			s.Late, came = s.Late-n, came-n
		}
	}
	return seen, ramp
}

// Standing finds what the box carries from a standing start, after a rest, of what it
// carries after a ramp, and tells of the difference. It returns the least load of both,
// each stream's; without a ramp gentle's.
func (m *Point) Standing(ctx context.Context, gentle search.Limit) (unit.FrameRate, error) {
	if m.ramp == 0 || gentle.Lower == 0 {
		return gentle.Lower, nil
	}
	p := m.Searching()
	s, err := search.New(p.Name, gentle.Lower, gentle.Lower)
	if err != nil {
		return 0, err
	}
	h := m.hunt(s, "standing", outset{rest: p.Rest})
	h.Spent = func() bool { return m.Spent("standing") }
	l, err := limit.Find(ctx, h)
	if err != nil {
		return 0, err
	}
	same := l.AtCeiling // as much as after a ramp
	if same {
		l.Upper, l.AtCeiling = gentle.Upper, gentle.AtCeiling
	}
	carried := fmt.Sprintf("after a ramp of %v the box carries %v", m.ramp, gentle.Lower*m.Streams())
	switch {
	case l.Lower > 0:
		m.Add(m.interval("standing_start_fps", l))
		if !same && float64(l.Lower) < float64(gentle.Lower)*(1-p.Goals[0].Width) {
			m.Out.Warnings = append(m.Out.Warnings, fmt.Sprintf("%s, from a standing start %v", carried, l.Lower*m.Streams()))
		}
	case l.Clean == 0 && l.Lossy > 0:
		m.Out.Warnings = append(m.Out.Warnings, carried+", from a standing start no load that was tried")
	default:
		m.Out.Warnings = append(m.Out.Warnings, "what a standing start carries could not be confirmed")
	}
	return l.Lower, nil
}

// StandingEstimate is about what the ramps of a search of so many trials, and the search
// from standing starts, take.
func (p *Traffic) StandingEstimate(trials int) (more int, d time.Duration) {
	if p.ramp == 0 {
		return 0, 0
	}
	s := p.Searching()
	more, d = s.Estimate()
	return more, d + time.Duration(more)*s.Rest + time.Duration(trials)*p.ramp
}
