// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"errors"
	"fmt"
	"time"

	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

// A finale is a pair's last trial, in which all pairs of a round offer at one time what each carries
// by itself. Its figures are made here, of the frames that were counted and of how long the trial was
// to last: a board has no say in them beside.
type finale struct {
	r       *paired
	meet    *meeting
	from    *member
	met     bool // it has come to the meeting
	under   bool // the trial is under way
	arrived bool // and the board is ready

	at     unit.Instant // when all began
	began  procedure.Began
	passed bool         // the trial counts
	why    string       // it does not
	rate   float64
	lost   float64 // share
	ended  unit.Instant
}

// trial carries f out once all pairs have come that may.
func (f *finale) trial(ctx context.Context, carryOut func(context.Context) (procedure.Outcome, error)) (o procedure.Outcome, err error) {
	if f.met {
		return o, errors.New("it asks a second time for the trial of all pairs")
	}
	f.met = true
	if err := f.meet.come(ctx, f.from.conn.Ended()); errors.Is(err, errNotAll) {
		f.why = fmt.Sprintf("%v within %v", err, f.r.waits) // the pair's own figures are complete
		return procedure.Outcome{Status: result.Skipped, Reason: f.why}, nil
	} else if err != nil {
		return o, err
	}
	f.under = true
	begin := unit.Now()
	o, err = carryOut(ctx)
	f.under = false
	if !f.arrived {
		f.r.last.stay()
	}
	if f.began = o.Began; err == nil {
		f.judge(o, begin, unit.Now())
	}
	return o, err
}

// arrive is the board's, that is ready.
func (f *finale) arrive(ctx context.Context) (at unit.Instant, err error) {
	f.arrived = true
	f.at, err = f.r.last.arrive(ctx)
	return f.at, err
}

// end is that nothing follows.
func (f *finale) end() {
	if !f.met {
		f.meet.leave()
	}
}

// judge takes the figures of o, which was carried out from begin to end.
func (f *finale) judge(o procedure.Outcome, begin, end unit.Instant) {
	rec := recordOf(nil, o)
	f.why = incredible(&o, begin, end)
	switch {
	case f.why != "":
	case f.at == 0 || o.Began.At == 0 || len(o.Phases) == 0 || o.Account == nil || o.Account.Accepted <= 0:
		f.why = silent
	case rec.Status != result.Passed && rec.Status != result.Failed:
		f.why = rec.Reason
	case o.Phases[0].Seconds() < shortest*f.r.lasts.Seconds():
		f.why = fmt.Sprintf("it offered its load for %.3g s, and %v were asked for", o.Phases[0].Seconds(), f.r.lasts)
	default:
		f.why = f.r.p.late(result.Board{Name: f.from.name, Late: time.Duration(o.Began.At - f.at), ClockError: o.Began.Error}, o.Phases[0].Seconds())
	}
	if f.why != "" {
		return
	}
	f.passed, f.ended = true, o.Phases[0].End
	f.rate = float64(o.Account.Received-o.Account.Duplicate) / o.Phases[0].Seconds()
	f.lost = max(0, float64(o.Account.Lost())/float64(o.Account.Accepted))
}

// shortest is the share of the time that was asked for which the last trial lasts at least: from its
// first frame to its last one.
const shortest = 0.9

// notAtOnce begins a sentence on a last trial that does not count.
const notAtOnce = "the trial of all pairs at one time does not count: "

// add has o tell of the last trial.
func (f *finale) add(o *procedure.Outcome) {
	switch {
	case f.passed:
		o.Values = append(o.Values, atOnceMetrics.Value("at_once_fps", f.rate), atOnceMetrics.Value("at_once_lost", f.lost))
		o.Phases = append(o.Phases, result.Phase{Name: procedure.AtOnce, Begin: f.at, End: max(f.at, f.ended)})
	case f.why != "":
		o.Warnings = append(o.Warnings, notAtOnce+f.why)
	}
}
