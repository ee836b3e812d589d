// SPDX-License-Identifier: Apache-2.0

package many

import (
	"fmt"
	"slices"
	"strings"

	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/result"
	"boxdyno/unit"
)

// forwardMetrics are those of pairs in which one board sends and the other one sends back.
var forwardMetrics = metrics.List{
	{Name: "pairs_at_once_fps", Label: "at once", Group: "Pairs of boards, of which one forwards (throughput)", Heads: true, Unit: "frame/s", Better: 1, Help: "frames a second that all pairs of a round carried while each was offered its highest load without loss, from one instant on, without what a queue took meanwhile; <= where the trial is too short to know more: median of the rounds"},
	{Name: "pairs_at_once_lost", Label: "lost then", Heads: true, Unit: "1", Share: true, Better: -1, Help: "share of these frames that was lost, of all pairs: the worst round"},
	{Name: "pairs_throughput_fps", Label: "added up", Interval: "interval", Unit: "frame/s", Better: 1, Help: "highest loads without loss of all pairs of a round, added up and not offered at one time, a ceiling of what they carry at once: median of the rounds; the interval has the bounds of all pairs"},
	{Name: "pairs_throughput_worst_fps", Label: "slowest pair", Heads: true, Unit: "frame/s", Better: 1, Help: "highest load without loss of the slowest pair"},
	{Name: "pairs_throughput_median_fps", Label: "median", Unit: "frame/s", Better: 1, Help: "the same of half of the pairs at least"},
	{Name: "pairs_throughput_spread", Label: "spread", Unit: "1", Share: true, Better: -1, Help: "the fastest pair over the slowest one, less 1"},
	{Name: "pairs_forwarding_fps", Label: "under overload", Unit: "frame/s", Better: 1, Help: "forwarding rates under overload of all pairs of a round, added up and not measured at one time: median of the rounds"},
}

// atOnceMetrics are a pair's in the last trial, of all pairs at one time.
var atOnceMetrics = metrics.List{
	{Name: "at_once_fps", Label: "carried at once", Unit: "frame/s", Better: 1, Help: "frames a second that came back while all pairs of the round were offered their highest loads without loss at one time"},
	{Name: "at_once_lost", Label: "lost at once", Unit: "1", Share: true, Better: -1, Help: "share of these frames that was lost"},
	{Name: "at_once_offered_fps", Label: "offered at once", Unit: "frame/s", Better: 1, Help: "frames a second that the pair was offered then: its highest load without loss from a standing start"},
}

// A forwarded is what the pairs of a point have found that forward, round by round.
type forwarded struct {
	rounds   []result.Value // throughputs of all pairs of a round, added up
	overload []float64
	each     map[[2]int]float64 // throughputs
	passed   map[[2]int]float64 // forwarding rates under overload
	lower    bool               // a throughput is a lower bound: it says less of its pair than of the sender
	starts   []result.Board
	lacks    [2][]string // pairs that passed without a throughput, without a forwarding rate
	failed   []string
	bad      []string
	last     result.Record // that has no figures
	pairs    int

	carried []float64 // at once, of all pairs of a round
	least   bool      // of one of them a load was a lower bound, and none was lost
	most    bool      // one of them is an upper bound
	shorts  []string  // of pairs: why
	less    bool      // pairs were offered less than they carry by themselves: from standing starts
	lost    []float64 // shares of the frames of a round
	losses  []string  // pairs that lost frames then
	alone   int       // rounds whose pairs were not all offered their loads at one time
	whys    []string  // of pairs
}

func (f *forwarded) add(round [][2]int, recs []result.Record) {
	sum, lo, hi := forwardMetrics.Value("pairs_throughput_fps", 0), 0.0, 0.0
	over, whole, closed := 0.0, true, true // closed: every interval has an end
	var lacks [2]bool
	for i, rec := range recs {
		f.pairs++
		t, o := rec.Value("throughput_fps"), rec.Value("forwarding_rate_fps")
		if rec.Status != result.Passed || t == nil && o == nil {
			whole = false
			if rec.Status == result.Failed {
				f.failed = append(f.failed, of(rec))
			} else {
				f.bad, f.last = append(f.bad, of(rec)), rec
			}
			continue
		}
		if len(rec.Boards) > 0 {
			f.starts = append(f.starts, rec.Boards[0])
		}
		if f.each == nil {
			f.each, f.passed = map[[2]int]float64{}, map[[2]int]float64{}
		}
		for k, v := range []*result.Value{t, o} {
			if v == nil {
				lacks[k], f.lacks[k] = true, append(f.lacks[k], way(rec))
			}
		}
		if o != nil {
			over += o.Value
			f.passed[round[i]] = o.Value
		}
		if t == nil {
			continue
		}
		f.each[round[i]] = t.Value
		sum.Value += t.Value
		if t.Bound != result.Exactly {
			sum.Bound, f.lower = result.AtLeast, true
		}
		if t.Lo != nil {
			lo += *t.Lo
		}
		if t.Hi != nil {
			hi += *t.Hi
		} else {
			closed = false
		}
	}
	if !whole {
		return
	}
	if !lacks[1] {
		f.overload = append(f.overload, over)
	}
	if lacks[0] {
		return
	}
	if sum.Lo = &lo; closed {
		sum.Hi = &hi
	}
	f.rounds = append(f.rounds, sum)
	f.addAtOnce(recs, sum.Bound)
}

// addAtOnce adds up what the pairs of a round carried at one time, if all did so in one trial: those of
// an interrupted run may be of two.
func (f *forwarded) addAtOnce(recs []result.Record, bound result.Bound) {
	sum, lost, offered := 0.0, 0.0, 0.0
	most, less := false, false
	var at unit.Instant
	for _, rec := range recs {
		for _, w := range rec.Warnings {
			if why, is := strings.CutPrefix(w, notAtOnce); is {
				f.whys = append(f.whys, way(rec)+": "+why)
			}
			if why, is := strings.CutPrefix(w, tooShort); is {
				f.shorts = append(f.shorts, way(rec)+": "+why)
			}
		}
	}
	for _, rec := range recs {
		v, l, load, t := rec.Value("at_once_fps"), rec.Value("at_once_lost"), rec.Value("at_once_offered_fps"), rec.Value("throughput_fps")
		i := slices.IndexFunc(rec.Phases, func(p result.Phase) bool { return p.Name == procedure.AtOnce })
		if v == nil || l == nil || load == nil || i < 0 || at != 0 && rec.Phases[i].Begin != at {
			f.alone++
			return
		}
		at = rec.Phases[i].Begin
		sum, lost, offered = sum+v.Value, lost+load.Value*l.Value, offered+load.Value
		s := rec.Value("standing_start_fps")
		most, less = most || v.Bound == result.AtMost, less || s != nil && s.Value < leastLoad*t.Value
		if l.Value > 0 {
			f.losses = append(f.losses, fmt.Sprintf("%s (%s)", way(rec), percent(l.Value)))
		}
	}
	f.carried, f.lost = append(f.carried, sum), append(f.lost, lost/offered)
	f.least = f.least || bound != result.Exactly && lost == 0
	f.most, f.less = f.most || most, f.less || less
}

// atOnce is what all pairs carried at one time, and a sentence on what they lost then.
func (f *forwarded) atOnce(o *procedure.Outcome) {
	if len(f.carried) > 0 {
		v, lost := forwardMetrics.Spread("pairs_at_once_fps", f.carried), forwardMetrics.Value("pairs_at_once_lost", slices.Max(f.lost))
		switch {
		case f.most:
			v.Bound, lost.Bound = result.AtMost, result.AtLeast
		case f.least:
			v.Bound = result.AtLeast
		}
		o.Values = append(o.Values, v, lost)
	}
	if len(f.shorts) > 0 {
		o.Warnings = append(o.Warnings, tooShort+several(f.shorts))
	}
	if f.less {
		o.Warnings = append(o.Warnings, "all pairs were offered at one time what each carries from a standing start, which is less than after a ramp")
	}
	if len(f.losses) > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("all pairs at once lose frames at loads that each carries by itself: %s", several(f.losses)))
	}
	if f.alone > 0 && len(f.rounds) > 0 {
		said := fmt.Sprintf("the pairs of %d of %d rounds were not all offered their loads at one time", f.alone, len(f.rounds))
		if len(f.whys) > 0 {
			said += ": " + several(f.whys)
		}
		o.Warnings = append(o.Warnings, said)
	}
}

// together is the sum of the throughputs of a round's pairs, of several rounds.
func (f *forwarded) together() result.Value {
	var sums []float64
	v := f.rounds[0]
	for _, r := range f.rounds {
		sums = append(sums, r.Value)
		if *r.Lo < *v.Lo {
			v.Lo = r.Lo
		}
		if v.Hi != nil && (r.Hi == nil || *r.Hi > *v.Hi) {
			v.Hi = r.Hi
		}
		if r.Bound != result.Exactly {
			v.Bound = r.Bound
		}
	}
	v.Value, v.N = middle(sums), len(sums)
	return v
}

// outcome is the point's: figures of all pairs, and which of them is slow.
func (f *forwarded) outcome(o *procedure.Outcome, names []string) {
	o.Status = result.Passed
	switch {
	case len(f.failed) > 0:
		o.Status, o.Reason = result.Failed, several(f.failed)
	case len(f.bad) > 0:
		if o.Status, o.Reason = result.Invalid, several(f.bad); len(f.bad) == f.pairs {
			o.Status = f.last.Status
		}
	}
	if len(f.rounds) > 0 {
		o.Values = append(o.Values, f.together())
	}
	if len(f.each) > 0 {
		var rates []float64
		for _, v := range f.each {
			rates = append(rates, v)
		}
		least := slices.Min(rates)
		o.Values = append(o.Values, forwardMetrics.Value("pairs_throughput_worst_fps", least), forwardMetrics.Value("pairs_throughput_median_fps", middle(rates)))
		if least > 0 {
			o.Values = append(o.Values, forwardMetrics.Value("pairs_throughput_spread", slices.Max(rates)/least-1))
		}
	}
	switch {
	case len(f.each) > 1 && !f.lower:
		o.Warnings = append(o.Warnings, slow(names, f.each, "frame/s", "pairs"))
	case len(f.passed) > 1:
		o.Warnings = append(o.Warnings, "by what pairs forward under overload, "+slow(names, f.passed, "frame/s", "pairs"))
	}
	if len(f.overload) > 0 {
		o.Values = append(o.Values, forwardMetrics.Spread("pairs_forwarding_fps", f.overload))
	}
	if len(f.starts) > 0 {
		o.Values = append(o.Values, skew(f.starts)...)
	}
	f.atOnce(o)
	for k, has := range []int{len(f.each), len(f.passed)} {
		if n := len(f.lacks[k]); n > 0 && has > 0 {
			o.Warnings = append(o.Warnings, fmt.Sprintf("%d of %d pairs have no %s, and their rounds no sum of it: %s", n, f.pairs, []string{"highest load without loss", "rate under overload"}[k], several(f.lacks[k])))
		}
	}
	if n := len(f.bad) + len(f.failed); n > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d of %d pairs are in no rate: %s", n, f.pairs, several(slices.Concat(f.failed, f.bad))))
	}
}
