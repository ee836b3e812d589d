// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/result"
	"boxdyno/unit"
)

// declared are the metrics of boards that work together.
var declared = metrics.List{
	{Name: "board_spread", Label: "spread", Group: "Boards together, and their start", Unit: "1", Share: true, Better: -1, Help: "the fastest board's first figure over the slowest one's, less 1"},
	{Name: "start_skew_p50_s", Label: "start p50", Unit: "s", Better: -1, Help: "half of the boards began their work at most so late, by the hub's clock"},
	{Name: "start_skew_p99_s", Label: "start p99", Unit: "s", Better: -1, Help: "the same of 99 % of the boards"},
	{Name: "start_skew_max_s", Label: "start latest", Unit: "s", Better: -1, Help: "the last board began its work so late"},
	{Name: "clock_error_s", Label: "clock error", Unit: "s", Better: -1, Help: "the largest error of a board's clock offset: half of the shortest round trip"},
}

// absurd is more than any figure of a board.
const absurd = 1e18

// failing is how long the parts of one work may take to fail after the first: a board that
// is gone is missed after link.Silence.
const failing = link.Silence + 2*time.Second

// trial carries out one trial on all boards. g is nil where each does a work of its own.
func (p *together) trial(ctx context.Context, members []*member, b *barrier, g *gathering) (o procedure.Outcome, err error) {
	b.set(len(members))
	outs, errs := make([]procedure.Outcome, len(members)), make([]error, len(members))
	begin := unit.Now()
	var all guard.Group
	of, stop := context.WithCancel(ctx)
	defer stop()
	var first sync.Once
	var late *time.Timer
	for i, m := range members {
		all.Go(func() {
			m.arrived = false
			if outs[i], errs[i] = m.pending.f(of); !m.arrived {
				b.stay()
			}
			if g != nil && (errs[i] != nil || outs[i].Status != result.Passed) {
				g.leave(m.name)
				first.Do(func() { late = guard.After(failing, stop) })
			}
		})
	}
	all.Wait()
	if late != nil {
		late.Stop()
	}
	if err := ctx.Err(); err != nil {
		return o, err
	}
	at, end := b.began(), unit.Now()
	shared := common(members)
	for i, m := range members {
		x := p.board(m, shared, outs[i], errs[i], at, begin, end)
		switch {
		case g == nil:
		case g.refusal(i) != "":
			x.Status, x.Reason = result.Invalid, g.refusal(i)
		case g.refused(i) || errs[i] != nil && of.Err() != nil:
			x.Status, x.Reason = result.Aborted, "another board's part failed"
		}
		o.Boards = append(o.Boards, x)
	}
	b.heard(lastHeard(outs))
	p.judge(&o, at)
	if o.Status == result.Passed {
		o.Values = p.sum(o.Boards)
		if at != 0 {
			o.Values = append(o.Values, skew(o.Boards)...)
		}
	}
	if at != 0 {
		o.Phases = []result.Phase{whole(o.Boards, at, end)}
	}
	return o, nil
}

// lastHeard is how long before the common instant the last board heard of it.
func lastHeard(outs []procedure.Outcome) time.Duration {
	last := time.Duration(math.MaxInt64)
	for _, o := range outs {
		if o.Began.At != 0 {
			last = min(last, o.Began.Heard)
		}
	}
	return last
}

// whole is the time in which all boards worked, of which a meter's power belongs to the sum
// of their rates: from the last one's begin to the first one's end. Where there is none, it
// is that of the trial.
func whole(boards []result.Board, at, end unit.Instant) result.Phase {
	from, to := at, end
	for _, b := range boards {
		load := procedure.LoadPhase(b.Phases)
		if load == nil {
			return result.Phase{Name: "together", Begin: at, End: end}
		}
		from, to = max(from, load.Begin), min(to, load.End)
	}
	if to <= from {
		from, to = at, end
	}
	return result.Phase{Name: "together", Begin: from, End: to}
}

// board is what became of a board's part. Instants and figures that cannot be are its own
// fault.
func (p *together) board(m *member, shared []result.Pair, o procedure.Outcome, err error, at, begin, end unit.Instant) result.Board {
	celsius, throttled := p.heat(m)
	absurdity := incredible(&o, begin, end)
	b := result.Board{
		Name: m.name, Status: o.Status, Reason: o.Reason, Config: slices.DeleteFunc(slices.Clone(m.pending.cfg), func(q result.Pair) bool { return result.Get(shared, q.Key) == q.Value }), Values: o.Values, Phases: o.Phases,
		Usage: o.Usage, Copies: o.Copies, Warnings: o.Warnings, Temperature: celsius,
	}
	invalid := func(format string, args ...any) {
		b.Status, b.Reason = result.Invalid, fmt.Sprintf(format, args...)
	}
	if absurdity != "" {
		invalid("%s", absurdity)
	}
	switch {
	case err != nil:
		invalid("%s", strings.TrimPrefix(procedure.Sentence(err), m.name+": "))
	case b.Status == result.Invalid:
	case o.Began.At != 0 && len(b.Phases) > 0:
		b.Late, b.ClockError = time.Duration(o.Began.At-at), o.Began.Error
	case at != 0 && b.Status == result.Passed:
		invalid(silent)
	}
	if b.Status == result.Passed && throttled {
		invalid("it was throttled")
	}
	return b
}

// silent is what is wrong with a board whose work counts from a common instant.
const silent = "it did not say when it began"

// incredible says what of a board's outcome cannot be: instants outside of its trial, from begin
// to end, or figures; "": all can. They are taken out.
func incredible(o *procedure.Outcome, begin, end unit.Instant) (why string) {
	slack := unit.Instant(o.Began.Error) + unit.Instant(time.Millisecond)
	outside := o.Began.At != 0 && (o.Began.At < begin-slack || o.Began.At > end+slack)
	for _, ph := range o.Phases {
		outside = outside || ph.Begin < begin-slack || ph.End > end+slack || ph.End < ph.Begin
	}
	if outside {
		why, o.Phases = "it says that it worked at an instant outside of the trial", nil
	}
	for _, v := range o.Values {
		if math.IsNaN(v.Value) || math.Abs(v.Value) > absurd {
			why, o.Values = fmt.Sprintf("it says that %s is %g", v.Metric, v.Value), nil
			break
		}
	}
	return why
}

// judge decides a trial by its boards, and by how late they began.
func (p *together) judge(o *procedure.Outcome, at unit.Instant) {
	o.Status = result.Passed
	for _, status := range []result.Status{result.Skipped, result.Failed, result.Invalid} {
		var whys []string
		for _, b := range o.Boards {
			if b.Status == status {
				whys = append(whys, fmt.Sprintf("board %s: %s", b.Name, b.Reason))
			}
		}
		if len(whys) > 0 {
			o.Status, o.Reason = status, several(whys)
		}
	}
	if o.Status != result.Passed || at == 0 {
		return
	}
	shortest := math.Inf(1)
	for _, b := range o.Boards {
		shortest = min(shortest, b.Phases[0].Seconds())
	}
	var whys []string
	for _, b := range o.Boards {
		whys = append(whys, p.late(b, shortest))
	}
	if why := several(whys); why != "" {
		o.Status, o.Reason = result.Invalid, why
	}
}

// sum is the figures of all boards as one: rates, octets, watts and counts are added up, of
// times the longest counts, and of all else the mean.
func (p *together) sum(boards []result.Board) (out []result.Value) {
	for _, m := range p.sums {
		var vs []float64
		for _, b := range boards {
			if i := slices.IndexFunc(b.Values, func(v result.Value) bool { return v.Metric == m.Name && v.Unit == m.Unit }); i >= 0 {
				vs = append(vs, b.Values[i].Value)
			}
		}
		if p.spec.Joint && len(vs) == 1 { // of all, and the first board has it
			out = append(out, result.Value{Metric: m.Name, Unit: m.Unit, Value: vs[0]})
			continue
		}
		if len(vs) != len(boards) {
			continue
		}
		out = append(out, result.Value{Metric: m.Name, Unit: m.Unit, Value: joined(m, vs)})
		if !p.spec.Joint && rate(m) && !slices.ContainsFunc(out, func(v result.Value) bool { return v.Metric == "board_spread" }) && slices.Min(vs) > 0 {
			out = append(out, declared.Value("board_spread", slices.Max(vs)/slices.Min(vs)-1))
		}
	}
	return out
}

// rate says whether a metric is more of something a time.
func rate(m result.Metric) bool {
	return m.Better > 0 && !m.Share && (strings.HasSuffix(string(m.Unit), "/s") || m.Unit == "FLOPS")
}

func joined(m result.Metric, vs []float64) (v float64) {
	switch {
	case m.Unit == "s":
		return slices.Max(vs)
	case rate(m), m.Unit == "B", m.Unit == "W", m.Unit == "J", m.Exact && !m.Share:
		for _, x := range vs {
			v += x
		}
		return v
	}
	for _, x := range vs {
		v += x / float64(len(vs))
	}
	return v
}

// skew is how late boards began, and how well their clocks are known.
func skew(boards []result.Board) []result.Value {
	sorted := slices.SortedFunc(slices.Values(boards), byLate)
	at := func(q float64) float64 {
		return sorted[min(len(sorted)-1, int(math.Ceil(q*float64(len(sorted))))-1)].Late.Seconds()
	}
	worst := time.Duration(0)
	for _, b := range boards {
		worst = max(worst, b.ClockError)
	}
	return []result.Value{
		declared.Value("start_skew_p50_s", at(0.5)), declared.Value("start_skew_p99_s", at(0.99)),
		declared.Value("start_skew_max_s", at(1)), declared.Value("clock_error_s", worst.Seconds()),
	}
}

// rounds is what a point's trials have found.
type rounds struct {
	p       *together
	order   []string
	all     map[string][]float64
	units   map[string]result.Value
	trials  int
	invalid int
	bad     result.Record // the last one that did not pass
	gone    string        // why it did not go on
}

func (r *rounds) add(rec result.Record) {
	if r.all == nil {
		r.all, r.units = map[string][]float64{}, map[string]result.Value{}
	}
	if rec.Status != result.Passed {
		r.bad = rec
		if rec.Status == result.Invalid {
			r.invalid++
			r.trials++
		}
		return
	}
	if len(rec.Values) == 0 {
		return // a known answer
	}
	r.trials++
	for _, v := range rec.Values {
		if r.all[v.Metric] == nil {
			r.order = append(r.order, v.Metric)
		}
		r.all[v.Metric] = append(r.all[v.Metric], v.Value)
		r.units[v.Metric] = v
	}
}

// ofPoints are the figures that boards have of the point alone, such as a median of theirs.
func (r *rounds) ofPoints(members []*member) (out []result.Value) {
	var boards []result.Board
	for _, m := range members {
		boards = append(boards, result.Board{Values: slices.DeleteFunc(slices.Clone(m.out.Values), func(v result.Value) bool {
			return r.all[v.Metric] != nil || math.IsNaN(v.Value) || math.Abs(v.Value) > absurd
		})})
	}
	for _, v := range r.p.sum(boards) {
		if r.all[v.Metric] == nil {
			out = append(out, v)
		}
	}
	return out
}

// outcome is the point's: of each figure the median of the trials, from the least to the
// greatest; each board's own figures beside.
func (r *rounds) outcome(members []*member) (o procedure.Outcome) {
	for _, name := range r.order {
		vs := slices.Sorted(slices.Values(r.all[name]))
		v := r.units[name]
		v.Value, v.Lo, v.Hi, v.N = (vs[(len(vs)-1)/2]+vs[len(vs)/2])/2, &vs[0], &vs[len(vs)-1], len(vs)
		o.Values = append(o.Values, v)
	}
	if r.gone == "" && r.bad.Status == "" {
		o.Values = append(o.Values, r.ofPoints(members)...)
	}
	for _, m := range members {
		b := result.Board{Name: m.name, Status: result.Aborted, Reason: "its procedure did not end"}
		select {
		case <-m.done:
			b.Status, b.Reason, b.Values, b.Warnings = m.out.Status, m.out.Reason, m.out.Values, m.out.Warnings
			if m.err != nil {
				b.Status, b.Reason = result.Invalid, procedure.Sentence(m.err)
			}
		default:
		}
		o.Boards = append(o.Boards, b)
	}
	o.Status = result.Passed
	switch {
	case r.bad.Status == result.Failed || r.bad.Status == result.Skipped:
		o.Status, o.Reason, o.Values = r.bad.Status, r.bad.Reason, nil
	case r.gone != "":
		o.Status, o.Reason, o.Values = result.Invalid, r.gone, nil
		if r.bad.Status == result.Invalid {
			o.Reason = r.bad.Reason
		}
	case r.trials > 0 && r.invalid == r.trials:
		o.Status, o.Reason = result.Invalid, r.bad.Reason
	case r.invalid > 0:
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d of %d trials were invalid, and are in no figure: %s", r.invalid, r.trials, r.bad.Reason))
	case len(o.Values) == 0:
		o.Status, o.Reason = result.Invalid, "no trial has a figure of all boards"
	}
	return o
}
