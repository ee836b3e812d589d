// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"math"
	"slices"
	"strings"

	"boxdyno/result"
)

// A combination is a value of each key that a criterion leaves to choose.
type combination []result.Pair

// words name it: "tcpdump, buffer 67108864". 0 is what a key has by default.
func (c combination) words() string {
	var words []string
	for _, p := range c {
		switch {
		case p.Key == "subject":
			words = append(words, p.Value)
		case p.Value != "0":
			words = append(words, p.Key+" "+p.Value)
		}
	}
	return strings.Join(words, ", ")
}

// A choice is the combination that meets the criteria that leave it best.
type choice struct {
	best   combination   // nil: nothing is left to choose, or nothing was measured
	others []combination // in the order of the points
}

// preference orders alternatives: one that passed is enough; one that is not decided
// may pass yet; one that was not measured says nothing.
var preference = []result.Status{result.Passed, result.Invalid, result.Running, result.Aborted, result.Failed, result.Skipped}

// otherwise stands before what came of each other combination.
const otherwise = "; "

// Chosen is a finding's text without what came of the alternatives that were not taken.
func (f Finding) Chosen() string {
	if len(f.Criterion.Any) == 0 {
		return f.Text
	}
	text, _, _ := strings.Cut(f.Text, otherwise)
	return text
}

// choose is the combination of values of keys that meets the criteria whose Any they
// are best: by its status, then by how many of them were measured of it, then by the
// margins, criterion by criterion.
func choose(keys []string, cs []result.Criterion, recs []result.Record) choice {
	type tried struct {
		combination
		rank     int
		measured int
		margins  []float64
	}
	best := tried{rank: len(preference)}
	var all []combination
	for _, r := range recs {
		var c combination
		for _, k := range keys {
			c = append(c, result.Pair{Key: k, Value: result.Get(r.Config, k)})
		}
		same := func(o combination) bool { return slices.Equal(o, c) }
		if r.Parent == "" && !slices.ContainsFunc(all, same) &&
			slices.ContainsFunc(cs, func(c result.Criterion) bool { return slices.Equal(c.Any, keys) && Touches(c, r.Config) }) {
			all = append(all, c)
		}
	}
	for _, v := range all {
		t := tried{combination: v}
		var statuses []result.Status
		for _, c := range cs {
			if !slices.Equal(c.Any, keys) {
				continue
			}
			f, margin := choice{best: v}.judge(c, recs)
			if f.Status != result.Skipped {
				t.measured++
			} else if c.Optional {
				continue
			}
			statuses, t.margins = append(statuses, f.Status), append(t.margins, margin)
		}
		t.rank = slices.Index(preference, Worst(statuses...))
		switch {
		case t.rank > best.rank:
		case t.rank < best.rank, t.measured > best.measured, t.measured == best.measured && slices.Compare(t.margins, best.margins) > 0:
			best = t
		}
	}
	return choice{best.combination, slices.DeleteFunc(all, func(c combination) bool { return slices.Equal(c, best.combination) })}
}

// judge is judge of the criterion at the chosen values, with what came of the others.
func (ch choice) judge(c result.Criterion, recs []result.Record) (Finding, float64) {
	if ch.best == nil {
		return judge(c, recs)
	}
	at := func(v combination) (Finding, float64) {
		one := c
		one.Where = append(slices.Clip(c.Where), v...)
		return judge(one, recs)
	}
	f, margin := at(ch.best)
	name := func(c combination, text string) string {
		if w := c.words(); w != "" {
			return w + ": " + text
		}
		return text
	}
	f.Text = name(ch.best, f.Text)
	for _, v := range ch.others {
		what := v.words()
		if what == "" {
			what = "as it is by default"
		}
		switch o, _ := at(v); {
		case o.Status == result.Passed:
			f.Text += otherwise + what + " passes too: " + o.Text
		case o.Status == result.Failed:
			f.Text += otherwise + what + " does not: " + o.Text
		case !strings.HasSuffix(o.Text, "no such point"):
			f.Text += otherwise + what + ": " + o.Text
		}
	}
	return f, margin
}

// marginOf is by which share of what is asked r's figure is better, below 0 worse; of
// what is asked to be 0, the figure itself. NaN: there is no figure.
func marginOf(c result.Criterion, r result.Record) float64 {
	v := r.Value(c.Metric)
	if v == nil {
		return math.NaN()
	}
	b := boundsOf(*v)
	margin := math.Inf(1)
	share := func(better, asked float64) float64 {
		if asked != 0 {
			better /= math.Abs(asked)
		}
		return better
	}
	if c.Min != nil {
		margin = share(b.lo-*c.Min, *c.Min)
	}
	if c.Max != nil {
		margin = min(margin, share(*c.Max-b.hi, *c.Max))
	}
	return margin
}
