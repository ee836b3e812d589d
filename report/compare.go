// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/stat"
)

// A Side is what is compared: one run, or several of the same taken together.
type Side struct {
	Name string
	Runs []Kept // in the order of time
}

// A Comparison is what several sides say of each other; the first is the base.
// Plain data, printed by --json.
type Comparison struct {
	Schema  int            `json:"schema"`
	Version string         `json:"version"` // of boxdyno
	Level   float64        `json:"level"`   // chance of any false difference among all comparisons
	Count   int            `json:"comparisons"`
	Sides   []ComparedSide `json:"sides"`
	Same    []result.Pair  `json:"same,omitempty"` // settings that all compared points have
	// Differences are what the sides' machines, environments and plans do not
	// have in common, which may explain what they measured.
	Differences []Differing      `json:"differences,omitempty"`
	Notes       []string         `json:"notes,omitempty"` // of the whole comparison
	Metrics     []ComparedMetric `json:"metrics"`
}

// A ComparedSide names the runs behind a side.
type ComparedSide struct {
	Name    string      `json:"name"`
	Runs    []string    `json:"runs"`
	Start   []time.Time `json:"start"`
	Points  int         `json:"points"`  // that entered
	Invalid int         `json:"invalid"` // points that did not, because the tester or the run failed
}

// A Differing is one thing that the sides do not have in common; Values are in
// the sides' order, "" where a side has none.
type Differing struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// A ComparedMetric is one figure over all configurations. Also are metrics that
// are this one in another unit.
type ComparedMetric struct {
	result.Metric
	Also []string      `json:"also,omitempty"`
	Rows []ComparedRow `json:"rows"`
}

// How a figure of a side compares with that of the base.
const (
	Better    = "better"
	Worse     = "worse"
	Alike     = "~"       // no difference was found
	TooFew    = "too few" // repeats to find any
	BoundOnly = "bound"   // a side knows only a bound, which leaves it open
)

// A ComparedRow is one configuration: a side against the base.
type ComparedRow struct {
	Procedure string        `json:"procedure"`
	Config    []result.Pair `json:"config"`
	Side      string        `json:"side"`
	Samples   string        `json:"samples"` // repeats, or visits of one run
	Base      ComparedValue `json:"base"`
	Other     ComparedValue `json:"other"`
	Verdict   string        `json:"verdict"`
	// Effect is that of the other side on the base: a share of it where Relative,
	// else in the metric's unit. Its interval is that of this comparison alone.
	Relative bool         `json:"relative"`
	Effect   float64      `json:"effect"`
	Bound    result.Bound `json:"effect_bound,omitempty"`
	Lo       *float64     `json:"effect_lo,omitempty"`
	Hi       *float64     `json:"effect_hi,omitempty"`
	P        *float64     `json:"p,omitempty"`
	PHolm    *float64     `json:"p_holm,omitempty"` // corrected for all comparisons
	Spread   *float64     `json:"spread,omitempty"` // relative standard deviation of the repeats
	Warnings []string     `json:"warnings,omitempty"`
}

// A ComparedValue is one side's figure.
type ComparedValue struct {
	Median  float64      `json:"median"`
	Lo      *float64     `json:"lo,omitempty"` // order-statistic interval, where there are enough samples
	Hi      *float64     `json:"hi,omitempty"`
	Bound   result.Bound `json:"bound,omitempty"`
	Samples []float64    `json:"samples"` // in the order of time
}

// Slower names, a sentence each, the rows that are worse than the base beyond chance and,
// where the effect is a share, by more than least (0.02 is 2 %).
func (c Comparison) Slower(least float64) (out []string) {
	for _, m := range c.Metrics {
		for _, r := range m.Rows {
			if r.slower(least) {
				out = append(out, m.slowerSentence(r))
			}
		}
	}
	return out
}

func (r ComparedRow) slower(least float64) bool {
	return r.Verdict == Worse && !(r.Relative && math.Abs(r.Effect) <= least)
}

func (m ComparedMetric) slowerSentence(r ComparedRow) string {
	change := fmt.Sprintf("%+.3g %s", r.Effect, m.Unit)
	if r.Relative {
		change = fmt.Sprintf("%+.1f %%", 100*r.Effect)
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%s of %s %s: %s in %s", m.Name, r.Procedure, strings.Join(configWords(r), " "), change, r.Side)), " ")
}

func configWords(r ComparedRow) (out []string) {
	for _, p := range r.Config {
		out = append(out, p.Key+"="+p.Value)
	}
	return out
}

// ErrNothingValid says that sides have configurations in common, and no valid
// figure of any.
var ErrNothingValid = errors.New("nothing can be compared: no configuration has a valid figure on both sides")

// notable is the difference that a row without one is asked how many repeats
// would find.
const notable = 0.05

// Compare compares each side with the first, configuration by configuration:
// points of the same procedure and the same settings, but for those in ignore, which
// are among the differences.
// The error is in words, and ErrNothingValid where it is not the user's.
func Compare(version string, sides []Side, ignore []string) (Comparison, error) {
	points := make([][]sample, len(sides))
	ignored := make([]Differing, len(ignore))
	for i, s := range sides {
		values := make([][]string, len(ignore))
		for _, k := range s.Runs {
			for _, r := range k.Records {
				if r.Parent != "" || r.Procedure == SelfTestProcedure {
					continue
				}
				for n, key := range ignore {
					if v := result.Get(r.Config, key); v != "" && !slices.Contains(values[n], v) {
						values[n] = append(values[n], v)
					}
				}
				key := stripped(r, ignore)
				r.Config = slices.DeleteFunc(slices.Clone(r.Config), func(p result.Pair) bool { return slices.Contains(ignore, p.Key) })
				points[i] = append(points[i], sample{r, key, k.Records})
			}
		}
		for n, key := range ignore {
			ignored[n].Key, ignored[n].Values = "setting "+key, append(ignored[n].Values, strings.Join(values[n], " / "))
		}
	}
	c, err := comparePoints(version, sides, points)
	for _, d := range ignored {
		if slices.ContainsFunc(d.Values, func(s string) bool { return s != d.Values[0] }) {
			c.Differences = append(c.Differences, d)
		}
	}
	return c, err
}

// comparePoints is Compare of the points of each side.
func comparePoints(version string, sides []Side, points [][]sample) (Comparison, error) {
	c := Comparison{Schema: result.Schema, Version: version, Level: math.Round(stat.Level*100) / 100, Metrics: []ComparedMetric{}}
	for i, s := range sides {
		c.Sides = append(c.Sides, side(s, points[i]))
	}
	keys := common(points)
	if len(keys) == 0 {
		return c, noneInCommon(sides, points)
	}
	c.Same = same(points, keys)
	c.Differences = differences(sides)
	for _, metric := range metrics(sides) {
		m := ComparedMetric{Metric: metric}
		for _, key := range keys {
			for i := 1; i < len(sides); i++ {
				if row, ok := compareRow(metric.Name, at(points[0], key), at(points[i], key)); ok {
					row.Side = sides[i].Name
					m.Rows = append(m.Rows, row)
				}
			}
		}
		if len(m.Rows) == 0 {
			continue
		}
		if of := slices.IndexFunc(c.Metrics, func(o ComparedMetric) bool { return inAnotherUnit(o.Metric, metric, points, keys) }); of >= 0 {
			c.Metrics[of].Also = append(c.Metrics[of].Also, metric.Name)
			continue
		}
		c.Metrics = append(c.Metrics, m)
	}
	if len(c.Metrics) == 0 {
		return c, ErrNothingValid
	}
	c.judge()
	c.Notes = notesOf(sides, c, points, keys)
	return c, nil
}

// A sample is a point, with the records of its run.
type sample struct {
	result.Record
	key  string
	recs []result.Record
}

// stripped is what identifies r, without the settings to ignore.
func stripped(r result.Record, ignore []string) string {
	return fmt.Sprintf("%q %q", r.Procedure, slices.DeleteFunc(slices.Clone(r.Config), func(p result.Pair) bool { return slices.Contains(result.Unsaid, p) || slices.Contains(ignore, p.Key) }))
}

func at(points []sample, key string) (out []sample) {
	for _, p := range points {
		if p.key == key {
			out = append(out, p)
		}
	}
	return out
}

func side(s Side, points []sample) ComparedSide {
	out := ComparedSide{Name: s.Name}
	for _, k := range s.Runs {
		out.Runs, out.Start = append(out.Runs, k.Document.ID), append(out.Start, k.Document.Start)
	}
	for _, p := range points {
		if Fit(p.Record) {
			out.Points++
		} else {
			out.Invalid++
		}
	}
	return out
}

// common are the configurations that the base has and another side too, in the
// order of appearance.
func common(points [][]sample) (keys []string) {
	for _, p := range points[0] {
		if slices.Contains(keys, p.key) {
			continue
		}
		for _, other := range points[1:] {
			if len(at(other, p.key)) > 0 {
				keys = append(keys, p.key)
				break
			}
		}
	}
	return keys
}

func noneInCommon(sides []Side, points [][]sample) error {
	for i, s := range sides {
		if len(points[i]) == 0 {
			return fmt.Errorf("%s has no point to compare: no procedure finished in it", s.Name)
		}
	}
	var keys, words []string
	for _, p := range points[0][0].Config {
		var values []string
		for _, side := range points {
			values = append(values, strings.Join(valuesOf(side, p.Key), "/"))
		}
		if len(slices.Compact(slices.Clone(values))) > 1 {
			keys, words = append(keys, p.Key), append(words, p.Key+" "+strings.Join(values, " against "))
		}
	}
	err := "no configuration is on both sides"
	if len(keys) > 0 {
		err += fmt.Sprintf(": %s; --ignore %s compares all the same", strings.Join(words, ", "), strings.Join(keys, ","))
	}
	return errors.New(err)
}

func valuesOf(points []sample, key string) (values []string) {
	for _, p := range points {
		if v := result.Get(p.Config, key); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}

// same are the settings that all compared points have.
func same(points [][]sample, keys []string) (out []result.Pair) {
	var all []sample
	for _, side := range points {
		for _, p := range side {
			if slices.Contains(keys, p.key) {
				all = append(all, p)
			}
		}
	}
	for _, p := range all[0].Config {
		if len(valuesOf(all, p.Key)) == 1 {
			out = append(out, p)
		}
	}
	return out
}

// metrics are those of all sides that tell of the box and have a better end.
func metrics(sides []Side) (out []result.Metric) {
	for _, s := range sides {
		for _, k := range s.Runs {
			for _, m := range k.Document.Metrics {
				if m.Better != 0 && !slices.Contains(ofTester, m.Name) && !slices.ContainsFunc(out, func(o result.Metric) bool { return o.Name == m.Name }) {
					out = append(out, m)
				}
			}
		}
	}
	return out
}

// inAnotherUnit says whether metric b is metric a times a constant of each
// configuration, so that to compare both would count one thing twice.
func inAnotherUnit(a, b result.Metric, points [][]sample, keys []string) bool {
	stem := func(m result.Metric) string { s, _, _ := strings.Cut(m.Name, "_"); return s }
	if a.Unit == b.Unit || stem(a) != stem(b) && b.Unit != "1" {
		return false // what is proportional is so by chance, or because nothing scatters
	}
	pairs := 0
	for _, key := range keys {
		factor := 0.0
		for _, side := range points {
			for _, p := range at(side, key) {
				x, y := p.Value(a.Name), p.Value(b.Name)
				switch {
				case (x == nil) != (y == nil):
					return false
				case x == nil || x.Value == 0 && y.Value == 0:
					continue
				case x.Value == 0:
					return false
				case factor == 0:
					factor = y.Value / x.Value
					continue
				}
				if math.Abs(y.Value/x.Value/factor-1) > 1e-6 {
					return false
				}
				pairs++
			}
		}
	}
	return pairs > 0
}

// readings are a side's samples of a metric, in the order of time: one for each
// repeat that is valid, and one for each visit of all its points.
func readings(metric string, points []sample) (repeats, visits []float64, bound result.Bound) {
	for _, p := range points {
		v := p.Value(metric)
		if v != nil && v.Bound != result.Exactly {
			bound = v.Bound
		}
		if v != nil && Fit(p.Record) {
			repeats = append(repeats, v.Value)
		}
		visits = append(visits, visitRates(metric, p.ID, p.recs)...)
	}
	return repeats, visits, bound
}

// compareRow compares one configuration of two sides, as if it were the only one.
func compareRow(metric string, base, other []sample) (ComparedRow, bool) {
	if len(base) == 0 || len(other) == 0 {
		return ComparedRow{}, false
	}
	row := ComparedRow{Procedure: base[0].Procedure, Config: base[0].Config, Samples: "repeats"}
	xs, xv, xb := readings(metric, base)
	ys, yv, yb := readings(metric, other)
	if min(len(xs), len(ys)) < 2 && min(len(xv), len(yv)) >= 2 {
		row.Samples, xs, ys = "visits", xv, yv
	}
	d, ok := stat.Compare(xs, ys)
	if !ok {
		return row, false
	}
	row.Base, row.Other = compared(d.Base, xs, xb), compared(d.Other, ys, yb)
	row.Relative, row.Effect, row.P = d.Relative, d.Effect, &d.P
	if d.Sure {
		row.Lo, row.Hi = &d.Lo, &d.Hi
	}
	if s, ok := stat.Spread(xs, ys); ok {
		row.Spread = &s
	}
	switch {
	case xb != result.Exactly && xb == yb:
		row.Verdict = BoundOnly
		row.Warnings = append(row.Warnings, fmt.Sprintf("both are bounds (%s): which of the boxes carries more is open", xb))
	case stat.TooFew(len(xs), len(ys), 1) != "":
		row.Verdict = TooFew
		row.Warnings = append(row.Warnings, stat.TooFew(len(xs), len(ys), 1))
	default:
		row.Verdict = Alike
	}
	if row.Verdict != Alike {
		row.P = nil
	}
	if row.Samples == "visits" {
		row.Warnings = append(row.Warnings, "a side has one repeat: samples are the visits of one run to the point, and what shifts a whole run is not in them")
	}
	row.Warnings = append(row.Warnings, CourseOf(row)...)
	return row, true
}

func compared(s stat.Summary, samples []float64, bound result.Bound) ComparedValue {
	v := ComparedValue{Median: s.Center, Bound: bound, Samples: samples}
	if s.Sure {
		v.Lo, v.Hi = &s.Lo, &s.Hi
	}
	return v
}

// judge decides all rows together.
func (c *Comparison) judge() {
	var rows []*ComparedRow
	var better []int
	var ps []float64
	for i := range c.Metrics {
		for j := range c.Metrics[i].Rows {
			if r := &c.Metrics[i].Rows[j]; r.P != nil {
				rows, better, ps = append(rows, r), append(better, c.Metrics[i].Better), append(ps, *r.P)
			}
		}
	}
	c.Count = len(ps)
	for i, p := range stat.Holm(ps) {
		r := rows[i]
		r.PHolm = &p
		less := r.Effect < 0
		// A base that is a lower bound can only turn out higher still, so that the
		// other is below it by at least as much; and so on.
		open := less && (r.Base.Bound == result.AtMost || r.Other.Bound == result.AtLeast) ||
			!less && (r.Base.Bound == result.AtLeast || r.Other.Bound == result.AtMost)
		bounded := r.Base.Bound != result.Exactly || r.Other.Bound != result.Exactly
		found := p <= stat.Level && r.Effect != 0
		switch {
		case bounded && (open || !found):
			r.Verdict = BoundOnly
			r.Warnings = append(r.Warnings, "one side is a bound: it leaves open whether they differ")
		case found:
			r.Verdict = Better
			if less == (better[i] > 0) {
				r.Verdict = Worse
			}
			if bounded && less {
				r.Bound = result.AtMost
			} else if bounded {
				r.Bound = result.AtLeast
			}
		default:
			r.Warnings = append(r.Warnings, missed(*r, c.Count)...)
		}
	}
}

// missed says what a row without a difference could not have found.
func missed(r ComparedRow, comparisons int) []string {
	m, n := len(r.Base.Samples), len(r.Other.Samples)
	if s := stat.TooFew(m, n, comparisons); s != "" {
		return []string{s}
	}
	if r.Spread == nil || *r.Spread == 0 || !r.Relative {
		return nil
	}
	if need := stat.RepeatsFor(notable, *r.Spread, comparisons); need > min(m, n) {
		return []string{fmt.Sprintf("%s scatter by %.1f %%: to find a difference of %g %% in %g %% of all attempts takes %d of each side", r.Samples, *r.Spread*100, notable*100, stat.Power*100, need)}
	}
	return nil
}
