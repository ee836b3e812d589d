// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"math"
	"slices"
	"strings"

	"boxdyno/result"
)

// A choice is the value of a key that meets the criteria with that key best.
type choice struct {
	key, value string   // "": there are no alternatives
	others     []string // further values, in the order of the points
}

// preference orders alternatives: one that passed is enough; one that is not decided
// may pass yet; one that was not measured says nothing.
var preference = []result.Status{result.Passed, result.Invalid, result.Running, result.Aborted, result.Failed, result.Skipped}

// choose is the value of key that meets the criteria whose Any it is best: by its
// status, then by how many of them were measured of it, then by the margins, criterion
// by criterion.
func choose(key string, cs []result.Criterion, recs []result.Record) choice {
	type tried struct {
		value    string
		rank     int
		measured int
		margins  []float64
	}
	best := tried{rank: len(preference)}
	var values []string
	for _, r := range recs {
		if v := result.Get(r.Config, key); r.Parent == "" && v != "" && !slices.Contains(values, v) &&
			slices.ContainsFunc(cs, func(c result.Criterion) bool { return c.Any == key && touches(c.Where, r.Config) }) {
			values = append(values, v)
		}
	}
	for _, v := range values {
		t := tried{value: v}
		var statuses []result.Status
		for _, c := range cs {
			if c.Any != key {
				continue
			}
			f, margin := choice{key: key, value: v}.judge(c, recs)
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
	return choice{key, best.value, slices.DeleteFunc(values, func(v string) bool { return v == best.value })}
}

// judge is judge of the criterion at the chosen value, with what came of the others.
func (ch choice) judge(c result.Criterion, recs []result.Record) (Finding, float64) {
	if ch.key == "" || ch.value == "" {
		return judge(c, recs)
	}
	at := func(value string) (Finding, float64) {
		one := c
		one.Where = append(slices.Clip(c.Where), result.Pair{Key: ch.key, Value: value})
		return judge(one, recs)
	}
	f, margin := at(ch.value)
	f.Text = ch.value + ": " + f.Text
	for _, v := range ch.others {
		if o, _ := at(v); o.Status == result.Passed {
			f.Text += "; " + v + " passes too: " + o.Text
		} else if o.Status != result.Skipped || !strings.HasSuffix(o.Text, "no such point") {
			f.Text += "; " + v + " does not: " + o.Text
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
