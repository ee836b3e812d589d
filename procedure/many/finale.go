// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

// A finale is a pair's last trial, in which all pairs of a round offer at one time what each carries
// by itself. Its figures are made here, of the frames that were counted and of how long the trial
// lasted. What a board says of the course of arrivals can only lower them.
type finale struct {
	r       *paired
	meet    *meeting
	gentle  bool // loads of the search grow gently, that of the last trial does not
	from    *member
	met     bool // it has come to the meeting
	under   bool // the trial is under way
	arrived bool // and the board is ready

	at      unit.Instant // when all began
	began   procedure.Began
	passed  bool   // the trial counts
	why     string // it does not
	sent    int64
	offered float64
	rate    float64
	lost    float64 // share
	short   string  // why rate is no more than an upper bound, and lost a lower one
	ended   unit.Instant
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
	d := f.r.lasts.Seconds()
	if o.Account != nil && o.Account.Accepted > 1 && len(o.Phases) > 0 { // from the first of n frames to the last one are n-1 intervals
		d = o.Phases[0].Seconds() * float64(o.Account.Accepted) / float64(o.Account.Accepted-1)
	}
	switch {
	case f.why != "":
	case f.at == 0 || o.Began.At == 0 || len(o.Phases) == 0 || o.Account == nil || o.Account.Accepted <= 0:
		f.why = silent
	case rec.Status != result.Passed && rec.Status != result.Failed:
		f.why = rec.Reason
	case d < leastTime*f.r.lasts.Seconds():
		f.why = fmt.Sprintf("it offered its load for %.3g s, and %v were asked for", d, f.r.lasts)
	default:
		f.why = f.r.p.late(result.Board{Name: f.from.name, Late: time.Duration(o.Began.At - f.at), ClockError: o.Began.Error}, d)
	}
	if f.why != "" {
		return
	}
	f.passed, f.ended = true, o.Phases[0].End
	f.sent, f.offered = o.Account.Accepted, float64(o.Account.Accepted)/d
	f.rate = float64(o.Account.Received-o.Account.Duplicate) / d
	f.lost = max(0, float64(o.Account.Lost())/float64(o.Account.Accepted))
	f.steady(o.Load, d)
}

// steady takes from the rate of a trial of d seconds what a queue on the way took meanwhile, as far as
// the course of the arrivals shows it: nobody has filled the memory of a switch that all pairs share.
// Frames that a policer's bucket lets pass for that long do not show.
func (f *finale) steady(l *result.Load, d float64) {
	if l == nil || l.Arrivals == nil || l.Arrivals.Falling {
		f.short = "what came was not steady"
		return
	}
	// From the middle of the second quarter to that of the last one is half of the trial.
	if grown := l.Arrivals.Lag.Seconds() / (d / 2); grown > leastGrowth {
		f.rate = min(f.rate, f.offered/(1+grown))
		f.short = fmt.Sprintf("a queue grew by %v in half of it", l.Arrivals.Lag.Round(100*time.Microsecond))
	} else if f.lost == 0 {
		return
	}
	if steady := float64(l.Forwarded); steady > 0 {
		f.rate = min(f.rate, steady)
	}
}

const (
	// leastTime is the share of the time that was asked for which the last trial lasts at least.
	leastTime = 0.9
	// leastLoad is the same of a pair's load, and mostLoad the most.
	leastLoad, mostLoad = 0.97, 1.03
	// leastGrowth is the share of a load from which on a queue that takes it shows.
	leastGrowth = 0.01
)

// Sentences on a last trial begin so: it does not count, or not its rate alone.
const (
	notAtOnce = "the trial of all pairs at one time does not count: "
	tooShort  = "the trial of all pairs at one time is too short to know more than an upper bound: "
)

// carried is what a pair carries by itself, from a standing start.
func (f *finale) carried(o *procedure.Outcome) float64 {
	rec := result.Record{Values: o.Values}
	v := rec.Value("throughput_fps")
	if s := rec.Value("standing_start_fps"); s != nil && f.gentle {
		v = s
	}
	if v == nil {
		return 0
	}
	return v.Value
}

// add has o, which is the pair's, tell of the last trial. That counts if it offered what the pair
// carries by itself, but for the frame by which a short trial's number is rounded.
func (f *finale) add(o *procedure.Outcome) {
	o.Values = slices.DeleteFunc(o.Values, func(v result.Value) bool { // no board has a say in these
		return slices.ContainsFunc(atOnceMetrics, func(m result.Metric) bool { return m.Name == v.Metric })
	})
	if carried := f.carried(o); f.passed {
		want := carried * f.r.lasts.Seconds()
		if n := float64(f.sent); n+1 < leastLoad*want || n-1 > mostLoad*want {
			f.passed, f.why = false, fmt.Sprintf("it offered %.3g frame/s, and carries %.3g by itself", n/f.r.lasts.Seconds(), carried)
		}
	}
	switch {
	case f.passed:
		rate, lost := atOnceMetrics.Value("at_once_fps", f.rate), atOnceMetrics.Value("at_once_lost", f.lost)
		if f.short != "" {
			rate.Bound, lost.Bound = result.AtMost, result.AtLeast
			o.Warnings = append(o.Warnings, tooShort+f.short)
		}
		o.Values = append(o.Values, rate, lost, atOnceMetrics.Value("at_once_offered_fps", f.offered))
		o.Phases = append(o.Phases, result.Phase{Name: procedure.AtOnce, Begin: f.at, End: max(f.at, f.ended)})
	case f.why != "":
		o.Warnings = append(o.Warnings, notAtOnce+f.why)
	}
}
