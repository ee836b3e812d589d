// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"slices"
	"time"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/stat"
	"boxdyno/unit"
)

// Under overload.
const (
	overloads      = 3                // trials that count, at each of a run's visits to the point
	overloadVisits = 7                // at most
	overloadKnown  = 0.02             // so near the ends of the median's interval are to it, or there are more visits
	overloadTries  = 20               // at the first visit, with those that look for the load
	overloadLeast  = 2 * time.Second  // that each lasts
	overloadLong   = 10 * time.Second // that those last of a subject that counts more of it later than meanwhile
	overloadDrain  = 5 * time.Second  // at most, until the count stands still
	overloadFirst  = 250e3            // frame/s, the first load, where the tester can overloadRoom times as much
	overloadRoom   = 4
	overloadStep   = 1.5 // as long as overloadGain times as much is counted
	overloadGain   = 1.1
	keptUp         = 0.95 // of what is offered is counted: more might be
	unevenly       = 0.65 // receiving has more of the CPU, and the subject misses it
)

// withoutPrecedence is in the identity of a trial in which receiving shares the CPU evenly.
var withoutPrecedence = result.Pair{Key: "receiving", Value: "without precedence"}

// An overloading is how far it has come to offer a subject more than it can count.
type overloading struct {
	before         procedure.Outcome // the point's
	visits, trials int
	rate           unit.FrameRate // to offer
	lasts          time.Duration  // that it is offered
	tooMuch        unit.FrameRate // from it on the tester offered less
	climbing       bool           // the load goes up
	most           float64        // that was counted a second meanwhile
	nearlyAll      bool           // of what was offered then
	again          bool           // no more was counted of this load: it is offered a second time
	missed         int            // invalid trials in a row
	peaked         bool           // the subject could count no more
	counted        []float64      // a second, of the load of which most was
	kept           int            // of them, those in which nearly all was
	last           result.Record  // of them, or where there is none of all
	failed         bool
}

// figure is what is counted a second, with the 95 % interval of its median.
func (o *overloading) figure() stat.Summary { return stat.Summarize(o.counted) }

// done says that no visit is to follow.
func (o *overloading) done() bool {
	s := o.figure()
	known := s.Sure && max(s.Hi-s.Center, s.Center-s.Lo) <= overloadKnown*s.Center
	return known || o.failed || o.visits == overloadVisits || len(o.counted) < overloads*o.visits
}

// overloads is overload as often as there is something to learn, with a pause between.
func (m *capturePoint) overloads(ctx context.Context) error {
	for {
		if err := m.overload(ctx); err != nil || m.over.done() {
			return err
		}
		if err := m.pause(ctx, m.out); err != nil {
			return err
		}
	}
}

// overload measures what the subject counts a second of more than it can count, a visit's
// share of it. Receiving has no precedence meanwhile: with it, it leaves the subject hardly
// any time, by chance more or less.
func (m *capturePoint) overload(ctx context.Context) (err error) {
	if err := m.env.Bed.Precede(lab.Even); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.env.Bed.Precede(lab.AtOnce)) }()
	m.emptied = -1
	o := m.over
	if o == nil {
		o = &overloading{before: m.out, rate: firstOverload(m.ceiling), lasts: overloadLeast, tooMuch: m.ceiling, climbing: true}
		m.over = o
	}
	m.out = o.before
	m.out.Values, m.out.Warnings = slices.Clone(m.out.Values), slices.Clone(m.out.Warnings)
	if err := m.climb(ctx, o); err != nil {
		return err
	}
	o.visits++
	switch o.failed = m.failed != ""; {
	case o.failed && m.rate.overload:
		return nil
	case o.failed: // the limit stands
		m.warn("under overload: %s", m.failed)
		m.failed, m.out.Status, m.out.Reason = "", o.before.Status, o.before.Reason
		return nil
	case m.rate.overload:
		m.take(o.last)
	}
	if len(o.counted) == 0 {
		return nil
	}
	if m.rate.overload {
		m.out.Status, m.out.Reason = result.Passed, "" // that frames are lost there is no failure
	}
	s := o.figure()
	v := figures.Value("counting_overload_fps", s.Center)
	v.Lo, v.Hi, v.N = &s.Lo, &s.Hi, s.N
	if !o.peaked && o.kept > len(o.counted)/2 {
		v.Bound = result.AtLeast
	}
	m.out.Values = append(m.out.Values, v)
	if u, starved := o.last.DUT, o.last.Value("drops_kernel"); u != nil && starved != nil && u.Ran > unevenly && starved.Value > (1-keptUp)*float64(o.last.Account.Accepted) {
		m.warn("under overload receiving had %.0f %% of the CPU and %s the rest: the kernel did not divide it evenly, as it may with control groups", 100*u.Ran, m.subject.Value)
	}
	return nil
}

// firstOverload is the same with all testers but slow ones: what a program counts depends
// on how much too much it gets.
func firstOverload(ceiling unit.FrameRate) unit.FrameRate {
	rate := unit.FrameRate(overloadFirst)
	for rate*overloadRoom > ceiling {
		rate /= overloadRoom
	}
	return rate
}

// climb offers more and more as long as more is counted, or the tester can, and then, at
// later visits at once, the load of which most was.
func (m *capturePoint) climb(ctx context.Context, o *overloading) error {
	want, tries := len(o.counted)+overloads, overloadTries+2*overloads*o.visits
	for o.trials < tries && len(o.counted) < want {
		l := m.loadOf(o.rate)
		l.Duration = max(l.Duration, o.lasts)
		rec, err := m.trial(ctx, "overload", o.trials, l, withoutPrecedence)
		if err != nil || m.failed != "" {
			return err
		}
		o.trials++
		v := rec.Value("counting_rate_fps")
		if v == nil || rec.Load == nil || rec.Status == result.Invalid {
			if len(o.counted) == 0 {
				o.last = rec
				o.missed++
			}
			if o.missed > 1 {
				o.tooMuch, o.missed = o.rate, 0
				o.rate /= overloadStep
				o.climbing = o.climbing && o.most == 0 // else that load was carried before
			}
			continue
		}
		o.missed = 0
		if l.Duration < overloadLong && countsLater(rec) {
			o.lasts = overloadLong
			continue
		}
		all := v.Value >= keptUp*float64(rec.Load.Offered)
		if o.climbing {
			more := v.Value >= overloadGain*o.most
			if !more && !o.again {
				o.again = true
				continue
			}
			o.again, o.peaked = false, !more
			o.climbing = more && o.rate*overloadStep < 0.99*o.tooMuch
			if o.climbing {
				o.most, o.nearlyAll = v.Value, all
				o.rate *= overloadStep
				continue
			}
			if !more && !(o.nearlyAll && v.Value >= o.most) { // else the lower load is not too much
				o.rate /= overloadStep
				continue
			}
		}
		o.last, o.counted = rec, append(o.counted, v.Value)
		if all {
			o.kept++
		}
	}
	return nil
}

// countsLater says whether the subject counted more after the traffic than meanwhile, such as
// one that reads what it wrote to a file first: of two seconds it hardly begins with that.
func countsLater(rec result.Record) bool {
	lag, counted := rec.Value("frames_lag"), rec.Value("frames_counted")
	return lag != nil && counted != nil && lag.Value > counted.Value/2
}
