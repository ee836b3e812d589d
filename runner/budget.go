// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/verdict"
)

// MaxBudget is the longest that a plan's key budget takes.
const MaxBudget = 30 * 24 * time.Hour

// parseBudget reads a plan's budget: a time such as 90s, or 0 for none.
func parseBudget(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if text == "0" || text == "none" {
		d, err = 0, nil
	}
	if err != nil || d < 0 || d > MaxBudget {
		return 0, fmt.Errorf("budget %q: want a time such as 90s or 10m, up to %v, or 0 for none", text, MaxBudget)
	}
	return d, nil
}

// ending is the least time that taking down and writing need after the last visit; what
// setting up took is added.
const ending = 1500 * time.Millisecond

// A clock tells how much of a run's budget is spent.
type clock struct {
	start   time.Time     // of the run, without the wait for the lock
	set     time.Duration // that setting up took
	earlier time.Duration // that the trials of an earlier part took
}

func (c clock) spent() time.Duration { return time.Since(c.start) + c.earlier }

// earlierPart is how long the finished trials of recs took.
func earlierPart(recs []result.Record) (sum time.Duration) {
	for _, r := range recs {
		if r.Parent != "" && kept(r) {
			sum += time.Duration(r.End - r.Begin)
		}
	}
	return sum
}

// visiting is the time that the run's visits have from its start: taking the lab down takes
// about as long as setting it up did.
func (x *execution) visiting() time.Duration {
	return max(x.plan.Budget-ending-x.clock.set, 1)
}

// schedule makes the schedule of the run's points.
func (x *execution) schedule() (*schedule, error) {
	s := &schedule{}
	if x.plan.Budget > 0 {
		s.budget = x.visiting()
	}
	x.stored = map[string][]stored{}
	for _, r := range x.o.Done {
		if r.Parent != "" && kept(r) {
			x.stored[r.Parent] = append(x.stored[r.Parent], stored{result.Get(r.Config, "trial"), r.Left})
			s.begun = true
		}
	}
	for _, v := range x.every {
		p, err := v.procedure(x.o.Catalogue)
		if err != nil {
			return nil, err
		}
		if v.due = 1; !v.once() {
			if p, ok := p.(procedure.Paused); ok {
				v.due = max(p.Visits(), 1)
			}
		}
		s.slots = append(s.slots, slot{estimate: v.time / time.Duration(v.due), width: 1})
	}
	for i := range s.slots {
		x.look(s, i)
	}
	return s, nil
}

// look brings what the schedule knows of point i up to date.
func (x *execution) look(s *schedule, i int) {
	v, p := x.every[i], &s.slots[i]
	p.over = v.over
	if s.budget == 0 {
		return
	}
	j, known := x.at[v.ID]
	p.stored = !v.over && (v.trials < len(x.stored[v.ID]) || !v.begun && known && kept(x.recs[j]))
	p.width = 1
	if v.begun {
		if spec, err := x.o.Catalogue.procedure(v.Procedure, v.at); err == nil {
			p.width = widthOf(v.found.Values, spec.Metrics)
		}
	}
	p.next = v.found.Next
	p.blank = v.found.Status == result.Invalid
	defer func() { p.over = p.over || v.found.Extra && !p.decides }()
	p.decides = slices.ContainsFunc(x.criteria(v), func(c result.Criterion) bool { return !x.decided(c) })
}

// left is how much of the time that is left v may count on: all of it, or an equal share where
// others, too, are to be visited again until a load is known that they carry.
func (x *execution) left(v *visited) time.Duration {
	sharers := 1
	for _, o := range x.every {
		if o != v && !o.over && (o.begun || o.due > 1) && !x.bounded(o) {
			sharers++
		}
	}
	return max(0, x.visiting()-x.clock.spent()) / time.Duration(sharers)
}

// bounded says whether a load is known that v carries.
func (x *execution) bounded(v *visited) bool {
	spec, err := x.o.Catalogue.procedure(v.Procedure, v.at)
	return err == nil && boundedBelow(v.found.Values, spec.Metrics)
}

// criteria are those of the run that judge v by figures of its own.
func (x *execution) criteria(v *visited) (cs []result.Criterion) {
	for _, c := range x.o.Header.Criteria {
		if !c.Optional && c.Metric != result.HottestMetric && verdict.Touches(c, v.config()) {
			cs = append(cs, c)
		}
	}
	return cs
}

// decided says whether c is met, or missed at all the points that it judges, by what
// was found so far.
func (x *execution) decided(c result.Criterion) bool {
	var found []result.Record
	all := true
	for _, v := range x.every {
		if !verdict.Touches(c, v.config()) {
			continue
		}
		if !v.begun && !v.over {
			all = false
			continue
		}
		r := v.rec
		if !v.over {
			r = x.interim(v)
		}
		found = append(found, r)
	}
	status, _ := verdict.Judge([]result.Criterion{c}, found)
	if len(c.Any) > 0 && status == result.Passed {
		return true
	}
	return all && (status == result.Passed || status == result.Failed)
}

// interim is v's record if it ended now.
func (x *execution) interim(v *visited) result.Record {
	r := v.rec
	r.Status, r.Reason, r.Values, r.Warnings = cmp.Or(v.found.Status, result.Passed), v.found.Reason, v.found.Values, v.found.Warnings
	return r
}

// stop ends the points that the budget has no time for, and names them in the header.
func (x *execution) stop(ctx context.Context) error {
	b := &result.Budget{Seconds: x.plan.Budget.Seconds(), Spent: x.clock.spent().Seconds()}
	for _, v := range x.every {
		switch {
		case v.over:
		case !v.begun:
			b.NotMeasured = append(b.NotMeasured, v.ID)
			text := strings.TrimSuffix(v.ID, "#1") + ": no time was left in the budget of " + short(x.plan.Budget)
			if !slices.Contains(x.run.NotMeasured, text) {
				x.run.NotMeasured = append(slices.Clip(x.run.NotMeasured), text)
			}
		default:
			o := v.found
			if !o.Extra {
				b.Ended = append(b.Ended, v.ID)
				o.Warnings = append(slices.Clip(o.Warnings), fmt.Sprintf("ended by the time budget after %s", visits(v.visits)))
			}
			v.over = true
			var err error
			if v.rec, err = x.end(ctx, v.rec, o, nil, false); err != nil {
				return err
			}
			x.notify(v, Event{Kind: PointDone, Record: &v.rec})
		}
	}
	x.run.Budget = b
	return nil
}

func visits(n int) string {
	if n == 1 {
		return "1 visit"
	}
	return fmt.Sprintf("%d visits", n)
}

// short is d without zero minutes or seconds: "90s", "10m".
func short(d time.Duration) string {
	if d < 10*time.Minute {
		return fmt.Sprintf("%g s", d.Seconds())
	}
	return fmt.Sprintf("%g min", d.Minutes())
}
