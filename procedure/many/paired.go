// SPDX-License-Identifier: Apache-2.0

package many

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"boxdyno/agent"
	"boxdyno/internal/guard"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/procedure/far"
	"boxdyno/result"
	"boxdyno/subject/mpi"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// runFunc is far.Run.
type runFunc = func(ctx context.Context, c *link.Conn, name string, params []result.Pair, env *procedure.Env, with *far.With) (procedure.Outcome, error)

// A paired is boards that send to each other in pairs.
type paired struct {
	p        *pairs
	members  []*member
	at       []mpi.Net         // where each is
	limit    time.Duration     // of a pair's part of a round
	waits    time.Duration     // how long after its begin pairs wait for the last one's search
	software agent.SubjectArgs // that may be started
	run      runFunc
	barrier  barrier // of each round
	arms     bool    // the other board sends frames back (far.Arms)
	service  lab.Service
	last     barrier       // of the trial in which all offer at one time what each carries
	lasts    time.Duration // that one; 0: there is none
	least    time.Duration // of all trials the shortest

	mu       sync.Mutex
	ceilings map[string]result.Record // what a sender measured once
}

// round carries out one trial of each pair; all begin to send at one instant.
func (r *paired) round(ctx context.Context, round [][2]int) []procedure.Outcome {
	b, begin := &r.barrier, unit.Now()
	b.set(len(round))
	waiting, stop := context.WithTimeout(ctx, r.waits)
	defer stop()
	meet := newMeeting(len(round), waiting.Done(), r.finale)
	params := r.p.params() // Flags binds the procedure, which the pairs share
	clocks := make(chan struct{}, atCompare)
	outs, said, lasts := make([]procedure.Outcome, len(round)), make([]heard, len(round)), make([]procedure.Outcome, len(round))
	ramp, _ := time.ParseDuration(result.Get(params, "ramp")) // capture has none
	atOneInstant(len(round), func(i int) {
		final := &finale{r: r, meet: meet, gentle: ramp > 0, from: r.members[round[i][0]]}
		outs[i] = r.pair(ctx, round[i], params, clocks, final, &said[i])
		lasts[i].Began = final.began
	})
	at, end := b.began(), unit.Now()
	r.last.began() // nobody waits for it any more
	b.heard(lastHeard(outs))
	r.last.heard(lastHeard(lasts))
	for i, pair := range round {
		r.believe(&outs[i], pair, said[i].best, at, begin, end)
		r.judge(&outs[i], pair, at, said[i].first)
	}
	return outs
}

// finale has so many pairs begin their last trial at one instant, at least as far ahead as the first one's.
func (r *paired) finale(pairs int) {
	r.last.set(pairs)
	r.last.lead = max(r.last.lead, r.barrier.ahead())
}

// pair carries out the trials of one pair, all of which said hears. The begin of the first one waits
// for those of the other pairs; so does that of the last one, once the searches of all have ended (final).
func (r *paired) pair(ctx context.Context, pair [2]int, params []result.Pair, clocks chan struct{}, final *finale, said *heard) procedure.Outcome {
	from, to := r.members[pair[0]], r.members[pair[1]]
	here, there := r.at[pair[0]], r.at[pair[1]]
	arrived := false
	with := &far.With{
		Clocks: clocks,
		Begin: func(ctx context.Context) (unit.Instant, error) {
			switch {
			case final.under:
				return final.arrive(ctx)
			case arrived && r.arms: // of all its other trials the first one alone waits for other pairs
				return unit.Now(), nil
			}
			arrived = true
			return r.barrier.arrive(ctx)
		},
		Pair: &far.Pair{
			Conn: to.conn, Software: r.software, Routes: r.arms, Service: r.service,
			Cable: lab.BoardCable{Port: here.Interface, Address: here.Address, To: there.Interface, Other: there.Address},
		},
	}
	var trial *procedure.Outcome
	var began procedure.Began
	said.from, said.pair, said.least = from.name, with.Pair, r.least
	var work result.Phase // from the first trial's traffic to that of the last one before the finale
	env := &procedure.Env{
		Unfinished: func([]result.Pair) *result.Record { return nil },
		Pause:      func(procedure.Outcome) bool { return true },
		Trial: func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			key := ""
			if once := result.Get(cfg, far.OnceKey); once != "" {
				key = from.name + " " + once
			}
			if rec, ok := r.known(key); ok {
				return rec, nil
			}
			var o procedure.Outcome
			var err error
			with.Pair.Watch()
			begin := unit.Now()
			last := r.lasts > 0 && result.Get(cfg, "trial") == procedure.AtOnce
			if last {
				o, err = final.trial(ctx, f)
			} else {
				o, err = f(ctx)
			}
			if err == nil {
				said.add(ctx, cfg, &o, begin, unit.Now())
			}
			rec := recordOf(cfg, o)
			if !last && o.Began.At != 0 && len(o.Phases) > 0 {
				if began.At == 0 {
					began, work, said.first = o.Began, result.Phase{Name: "traffic", Begin: o.Phases[0].Begin}, o.Phases[0].Seconds()
				}
				work.End = o.Phases[0].End
			}
			switch {
			case err != nil:
				return rec, err
			case key == "":
				trial = &o
			case rec.Status == result.Passed:
				r.keep(key, rec)
			}
			return rec, nil
		},
	}
	ctx, stop := context.WithTimeout(ctx, r.limit)
	defer stop()
	ended := make(chan struct{})
	defer func() { stop(); <-ended }()
	atEnd(ctx, to.conn, stop, ended)
	o, err := r.run(ctx, from.conn, r.p.spec.Name, params, env, with)
	if !arrived {
		r.barrier.stay()
	}
	final.end()
	gone := cmp.Or(from.conn.Err(), to.conn.Err())
	switch {
	case gone != nil:
		return procedure.Outcome{Status: result.Invalid, Reason: "board " + lostOf(gone, from, to) + ": " + procedure.Sentence(gone)}
	case said.why != "":
		return procedure.Outcome{Status: result.Invalid, Reason: said.why}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return procedure.Outcome{Status: result.Invalid, Reason: fmt.Sprintf("board %s: what it sends to %s did not end within %v", from.name, to.name, r.limit)}
	case err != nil:
		return procedure.Outcome{Status: result.Invalid, Reason: blame(from.name, err)}
	case r.arms && began.At != 0:
		o.Began, o.Phases = began, []result.Phase{work}
		o.Load = nil // of an overload, which counts as a trial whose load was not offered
		final.add(&o)
		return o
	case trial == nil:
		return o // it says why it came to none
	}
	for _, w := range o.Warnings {
		if !slices.Contains(trial.Warnings, w) {
			trial.Warnings = append(trial.Warnings, w)
		}
	}
	return *trial
}

// atEnd calls stop once the connection has ended, and closes ended when it watches no more.
func atEnd(ctx context.Context, c *link.Conn, stop func(), ended chan struct{}) {
	guard.Go(func() {
		defer close(ended)
		select {
		case <-c.Ended():
			stop()
		case <-ctx.Done():
		}
	})
}

// lostOf is the name of the board whose connection ended with err.
func lostOf(err error, from, to *member) string {
	if from.conn.Err() == err {
		return from.name
	}
	return to.name
}

func (r *paired) known(key string) (result.Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, ok := r.ceilings[key]
	return rec, ok
}

func (r *paired) keep(key string, rec result.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ceilings[key] = rec
}

// recordOf is what a board's procedure hears of a trial of its own.
func recordOf(cfg []result.Pair, o procedure.Outcome) result.Record {
	rec := result.Record{
		Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Load: o.Load, Account: o.Account,
		Usage: o.Usage, Copies: o.Copies, Warnings: o.Warnings, Phases: o.Phases, CPUs: o.CPUs, DUT: o.DUT,
	}
	rec.Procedure, _, _ = strings.Cut(result.Get(cfg, far.OnceKey), "/")
	if o.Status == "" {
		rec.Status, rec.Reason = verdict.Validity(rec, o.Ceiling)
	}
	return rec
}

// believe makes invalid what a sender says of a trial from begin to end that cannot be, or be with
// at best so many frames a second in any of its trials, and a trial whose frames count and which did
// not begin at at. Of boards the hub alone speaks.
func (r *paired) believe(o *procedure.Outcome, pair [2]int, best float64, at, begin, end unit.Instant) {
	o.Boards = nil
	why := cmp.Or(incredible(o, begin, end), tooFast(o.Values, r.cable(pair)))
	counts := cmp.Or(o.Status, result.Passed) == result.Passed || o.Status == result.Failed && len(o.Values) > 0
	if why == "" && counts && (at == 0 || o.Began.At == 0 || len(o.Phases) == 0) {
		why = silent
	}
	if why == "" {
		why = exceeds(o.Values, best)
	}
	if why != "" {
		o.Status, o.Reason, o.Values, o.Load, o.Account = result.Invalid, "board "+r.members[pair[0]].name+": "+why, nil, nil, nil
	}
}

// fastest is the speed of a cable of which no end knows one.
const fastest = unit.BitRate(400e9)

// cable is the speed of the slower link of a pair's two, so that no board alone decides it.
func (r *paired) cable(pair [2]int) unit.BitRate {
	speed := fastest
	for _, k := range pair {
		if s := r.at[k].Speed; s > 0 {
			speed = min(speed, s)
		}
	}
	return speed
}

// addedUp are the figures of pairs that are added up.
var addedUp = []string{"counting_rate_fps", "throughput_fps", "forwarding_rate_fps", "at_once_fps"}

// tooFast says which figure of a pair a cable cannot carry; "": none. The upper bound of a figure is a
// load that was not carried, and may be a quarter higher.
func tooFast(vs []result.Value, cable unit.BitRate) string {
	const slack = 1.05 // frames of a short trial may have waited in a ring
	most := slack * float64(unit.LineRate(cable, 64))
	for _, v := range vs {
		if !slices.Contains(addedUp, v.Metric) {
			continue
		}
		bad := v.Value
		switch {
		case !(v.Value >= 0 && v.Value <= most):
		case v.Lo != nil && !(*v.Lo >= 0 && *v.Lo <= most):
			bad = *v.Lo
		case v.Hi != nil && !(*v.Hi >= 0 && *v.Hi <= 2*most):
			bad = *v.Hi
		default:
			continue
		}
		return fmt.Sprintf("it says that %s is %g, and a cable of %v carries no more than %.3g frames a second", v.Metric, bad, cable, most/slack)
	}
	return ""
}

// judge says which boards a pair's trial was of, how late it began, and what was wrong with
// them. at is when all began, 0 where none did; the trial that began then lasted first seconds.
func (r *paired) judge(o *procedure.Outcome, pair [2]int, at unit.Instant, first float64) {
	for i, k := range pair {
		m := r.members[k]
		celsius, throttled := r.p.heat(m)
		b := result.Board{Name: m.name, Status: cmp.Or(o.Status, result.Passed), Reason: o.Reason, Temperature: celsius}
		if i == 0 && at != 0 && o.Began.At != 0 {
			b.Late, b.ClockError = time.Duration(o.Began.At-at), o.Began.Error
		}
		if throttled {
			o.Status, o.Reason = result.Invalid, fmt.Sprintf("board %s: it was throttled", m.name)
			b.Status, b.Reason = o.Status, o.Reason
		}
		o.Boards = append(o.Boards, b)
	}
	if o.Status == result.Invalid || at == 0 || len(o.Phases) == 0 || o.Began.At == 0 {
		return
	}
	if late := r.p.late(o.Boards[0], min(first, o.Phases[0].Seconds())); late != "" {
		o.Status, o.Reason = result.Invalid, late
	}
}

// A found is what the pairs of a point have found, round by round.
type found struct {
	sums   []float64
	each   []ofPair
	starts []result.Board
	bad    []string
	last   result.Record // that has no figures
	pairs  int
	failed string  // why the pair failed that lost most; "": none did
	most   float64 // which it lost
}

// way is which pair a record is of.
func way(rec result.Record) string {
	return fmt.Sprintf("from %s to %s", result.Get(rec.Config, "from"), result.Get(rec.Config, "to"))
}

// of is what became of a pair.
func of(rec result.Record) string { return way(rec) + ": " + cmp.Or(rec.Reason, string(rec.Status)) }

// An ofPair is what one pair has found.
type ofPair struct {
	from, to   int
	rate, lost float64
	slow       bool // its sender was: rate is none
}

// wayLost is the share of its frames that a pair whose trial is invalid lost between the
// boards, where that is more than its sender was short of; else 0. Such a cable is bad all the
// same.
func wayLost(rec result.Record) float64 {
	a, l := rec.Account, rec.Load
	if rec.Status != result.Invalid || a == nil || a.Accepted <= 0 || l == nil || l.Intended <= 0 {
		return 0
	}
	share := float64(a.DroppedAt(result.Link)) / float64(a.Accepted)
	if share <= lossy || share <= 1-float64(l.Offered/l.Intended) {
		return 0
	}
	return share
}

func (f *found) add(round [][2]int, recs []result.Record) {
	sum, whole := 0.0, true
	for i, rec := range recs {
		f.pairs++
		rate, lost := rec.Value("counting_rate_fps"), rec.Value("uncounted_ratio")
		if rec.Status != result.Passed && rec.Status != result.Failed || rate == nil || lost == nil {
			whole, f.last = false, rec
			f.bad = append(f.bad, of(rec))
			if share := wayLost(rec); share > 0 {
				f.each = append(f.each, ofPair{round[i][0], round[i][1], 0, share, true})
				rec.Reason = fmt.Sprintf("%s of its frames were lost between the boards, and %s", percent(share), rec.Reason)
				f.fail(rec, share)
			}
			continue
		}
		if rec.Status == result.Failed {
			f.fail(rec, lost.Value)
		}
		sum += rate.Value
		f.each = append(f.each, ofPair{round[i][0], round[i][1], rate.Value, lost.Value, false})
		if len(rec.Boards) > 0 {
			f.starts = append(f.starts, rec.Boards[0])
		}
	}
	if whole {
		f.sums = append(f.sums, sum)
	}
}

// fail notes that a pair failed, which lost so much.
func (f *found) fail(rec result.Record, lost float64) {
	if f.failed == "" || lost > f.most {
		f.failed, f.most = of(rec), lost
	}
}

// lossy is the least share of a pair's frames that is worth a word.
const lossy = 0.001

// outcome is the point's: figures of all pairs, and which of them is bad.
func (f *found) outcome(o *procedure.Outcome, names []string) {
	if len(f.each) == 0 {
		o.Status, o.Reason = f.last.Status, several(f.bad)
		return
	}
	switch o.Status, o.Reason = result.Passed, f.failed; {
	case f.failed != "":
		o.Status = result.Failed
	case len(f.bad) > 0:
		o.Status, o.Reason = result.Invalid, several(f.bad)
	}
	var rates, lost []float64
	worst := f.each[0]
	for _, e := range f.each {
		lost = append(lost, e.lost)
		if !e.slow {
			rates = append(rates, e.rate)
		}
		if e.lost > worst.lost {
			worst = e
		}
	}
	if len(f.sums) > 0 {
		o.Values = append(o.Values, pairMetrics.Spread("pairs_sum_fps", f.sums))
	}
	if len(rates) > 0 {
		least := slices.Min(rates)
		o.Values = append(o.Values, pairMetrics.Value("pairs_worst_fps", least), pairMetrics.Value("pairs_median_fps", middle(rates)))
		if least > 0 {
			o.Values = append(o.Values, pairMetrics.Value("pairs_rate_spread", slices.Max(rates)/least-1))
		}
	}
	median := middle(lost)
	o.Values = append(o.Values, pairMetrics.Value("pairs_lost_worst", worst.lost), pairMetrics.Value("pairs_lost_median", median))
	if len(f.starts) > 0 {
		o.Values = append(o.Values, skew(f.starts)...)
	}
	if worst.lost > lossy {
		said := []string{fmt.Sprintf("the worst pair is %s to %s: %s of its frames were lost, and %s of half of the pairs at most", names[worst.from], names[worst.to], percent(worst.lost), percent(median))}
		o.Warnings = append(o.Warnings, strings.Join(append(said, f.boards(names, median)...), "; "))
	}
	if n := len(f.bad); n > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d of %d pairs are in no rate: %s", n, f.pairs, several(f.bad)))
	}
}

// boards are sentences on those of which every pair one way loses more than the median.
func (f *found) boards(names []string, median float64) (said []string) {
	for i, name := range names {
		for _, way := range []struct {
			what string
			mine func(ofPair) bool
		}{{"from", func(e ofPair) bool { return e.from == i }}, {"to", func(e ofPair) bool { return e.to == i }}} {
			n, least := 0, 1.0
			for _, e := range f.each {
				if way.mine(e) {
					n, least = n+1, min(least, e.lost)
				}
			}
			if n > 1 && least > max(lossy, 2*median) {
				said = append(said, fmt.Sprintf("all pairs %s %s lose frames: %s at least", way.what, name, percent(least)))
			}
		}
	}
	return said
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }
