// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/result"
	"boxdyno/stat"
)

// A Query asks for the history of one metric. Each condition must hold; the zero value of
// one is no condition.
type Query struct {
	Metric       string
	Boxes        []string      // of one of these; none: any
	Procedure    string        // as Where has it, by the key procedure
	Where        []result.Pair // settings of the series: what a point's configuration has, and procedure, box, kind, topology, preset and tune
	Since, Until time.Time     // of the runs' begin, Until excluded
}

// A History is a metric over time, plain data. Each of its Series has points of one
// configuration on one box: figures of different ones are never mixed.
type History struct {
	Schema int      `json:"schema"`
	Metric string   `json:"metric"`
	Series []Series `json:"series"` // in the order of their settings
	// Varies are the settings that tell the series apart, each with its values; empty
	// where there is one series.
	Varies []Varying `json:"varies,omitempty"`
}

// A Varying is a setting that several series do not have in common.
type Varying struct {
	Key    string   `json:"key"`
	Values []string `json:"values"` // "" stands for a series without it
}

// A Series is one configuration over time.
type Series struct {
	Unit     string        `json:"unit"`
	Better   int           `json:"better"` // +1 more, -1 less, 0 neither
	Settings []result.Pair `json:"settings"`
	Points   []Point       `json:"points"` // a run each, the oldest first
	Levels   []Level       `json:"levels"` // a version of boxdyno each, in the order in which they came
	Changes  []Change      `json:"changes,omitempty"`
	Notes    []string      `json:"notes,omitempty"` // what limits trust in it, in sentences
}

// A Point is one run's figure: the median of its repeats.
type Point struct {
	Run         string       `json:"run"`
	Dir         string       `json:"dir"`
	Host        string       `json:"host"`
	Start       time.Time    `json:"start"`
	Version     string       `json:"version"` // of boxdyno
	Value       float64      `json:"value"`
	Lo          *float64     `json:"lo,omitempty"` // order-statistic interval of several repeats; of one repeat the figure's own
	Hi          *float64     `json:"hi,omitempty"`
	N           int          `json:"n"` // repeats
	Bound       result.Bound `json:"bound,omitempty"`
	Environment []Difference `json:"environment,omitempty"` // what is not as it was in the run before

	order         int   // of the run, among all of them
	environment   int64 // key of the circumstances
	circumstances []result.Pair
}

// A Difference is one circumstance that changed between two runs; "" where one has none.
type Difference struct {
	Key    string `json:"key"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// A Level is the figures of one version of boxdyno.
type Level struct {
	Version string   `json:"version"`
	Median  float64  `json:"median"`
	Lo      *float64 `json:"lo,omitempty"` // order-statistic interval, where there are enough runs
	Hi      *float64 `json:"hi,omitempty"`
	N       int      `json:"n"` // runs
}

// A Change is where the level of a series became another one (stat.Levels).
type Change struct {
	At          int          `json:"at"` // index of the first point of the new level
	Run         string       `json:"run"`
	Start       time.Time    `json:"start"`
	Before      float64      `json:"before"` // mean of the level before it
	After       float64      `json:"after"`
	Share       *float64     `json:"share,omitempty"` // by which the level changed; absent where it was 0
	P           float64      `json:"p"`
	Worse       bool         `json:"worse,omitempty"`
	Better      bool         `json:"better,omitempty"`
	Environment []Difference `json:"environment,omitempty"` // that changed with it
}

// ErrNoSeries is the error for a query that no series meets.
var ErrNoSeries = errors.New("there is no such figure")

// leastPoints is how many runs a level can be told from.
const leastPoints = 6

// History returns the series that a query asks for. The error
// is ErrNoSeries, in words, where the index has none.
func (x *Index) History(ctx context.Context, q Query) (History, error) {
	h := History{Schema: result.Schema, Metric: q.Metric}
	found, err := x.series(ctx, q)
	if err != nil {
		return h, err
	}
	// Runs are read beside figures, on a connection of their own.
	var heads map[int64]*Point
	var lost error
	var aside guard.Group
	defer aside.Wait()
	aside.Go(func() { heads, lost = x.heads(ctx, q) })
	figures := make([][]figureOf, len(found))
	for i, f := range found {
		if figures[i], err = x.figures(ctx, f.key); err != nil {
			return h, fmt.Errorf("read the history: %w", err)
		}
	}
	if aside.Wait(); lost != nil {
		return h, fmt.Errorf("read the history: %w", lost)
	}
	environments := map[int64][]result.Pair{}
	for i, f := range found {
		s := Series{Unit: f.unit, Better: f.better, Settings: f.pairs}
		if s.Points, err = x.points(ctx, figures[i], heads, environments); err != nil {
			return h, fmt.Errorf("read the history: %w", err)
		}
		if len(s.Points) == 0 {
			continue
		}
		s.analyse()
		h.Series = append(h.Series, s)
	}
	if len(h.Series) == 0 {
		return h, fmt.Errorf("%w of %s in that time", ErrNoSeries, q.Metric)
	}
	slices.SortStableFunc(h.Series, func(a, b Series) int {
		return slices.CompareFunc(a.Settings, b.Settings, func(a, b result.Pair) int { return cmp.Or(strings.Compare(a.Key, b.Key), natural(a.Value, b.Value)) })
	})
	h.Varies = varies(h.Series)
	return h, nil
}

// natural orders numbers by what they are worth, and other words by the alphabet.
func natural(a, b string) int {
	var x, y float64
	if _, err := fmt.Sscan(a, &x); err == nil {
		if _, err := fmt.Sscan(b, &y); err == nil && x != y {
			return cmp.Compare(x, y)
		}
	}
	return strings.Compare(a, b)
}

// varies are the settings that tell series apart.
func varies(all []Series) (out []Varying) {
	var keys []string
	for _, s := range all {
		for _, p := range s.Settings {
			if !slices.Contains(keys, p.Key) {
				keys = append(keys, p.Key)
			}
		}
	}
	for _, key := range keys {
		v := Varying{Key: key}
		for _, s := range all {
			if value := cmp.Or(result.Get(s.Settings, key), result.Get(result.Unsaid, key)); !slices.Contains(v.Values, value) {
				v.Values = append(v.Values, value)
			}
		}
		if len(v.Values) > 1 {
			slices.SortFunc(v.Values, natural)
			out = append(out, v)
		}
	}
	units := Varying{Key: "unit"}
	for _, s := range all {
		if !slices.Contains(units.Values, s.Unit) {
			units.Values = append(units.Values, s.Unit)
		}
	}
	if len(units.Values) > 1 {
		out = append(out, units)
	}
	return out
}

// analyse says of a series' points what they are together.
func (s *Series) analyse() {
	s.environments()
	var values []float64
	var index []int // of them, among the points
	bounds := 0
	for i, p := range s.Points {
		if p.Bound != result.Exactly {
			bounds++
			continue
		}
		values, index = append(values, p.Value), append(index, i)
	}
	if bounds > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d of %d figures are bounds of what the box carries, and in no level", bounds, len(s.Points)))
	}
	s.versions(values, index)
	if len(values) < leastPoints {
		runs := fmt.Sprintf("%d runs are", len(values))
		if len(values) == 1 {
			runs = "1 run is"
		}
		s.Notes = append(s.Notes, fmt.Sprintf("%s too few to tell a change from noise: it takes %d or more", runs, leastPoints))
		return
	}
	for _, c := range stat.Levels(values) {
		i := index[c.At]
		p := s.Points[i]
		change := Change{At: i, Run: p.Run, Start: p.Start, Before: c.Before, After: c.After, P: c.P}
		for _, d := range s.Points[index[c.At-1]+1 : i+1] { // bounds between them, too
			change.Environment = append(change.Environment, d.Environment...)
		}
		if share := c.After/c.Before - 1; c.Before != 0 && !math.IsInf(share, 0) {
			change.Share = &share
		}
		better := (c.After - c.Before) * float64(s.Better)
		change.Better, change.Worse = better > 0, better < 0
		s.Changes = append(s.Changes, change)
	}
}

// versions are the levels of versions.
func (s *Series) versions(values []float64, index []int) {
	of := map[string][]float64{}
	var order []string
	for i, v := range values {
		version := s.Points[index[i]].Version
		if of[version] == nil {
			order = append(order, version)
		}
		of[version] = append(of[version], v)
	}
	for _, version := range order {
		sum := stat.Summarize(of[version])
		l := Level{Version: version, Median: sum.Center, N: sum.N}
		if sum.Sure {
			l.Lo, l.Hi = &sum.Lo, &sum.Hi
		}
		s.Levels = append(s.Levels, l)
	}
}

// environments says what changed from each run to the next. What changes with most runs
// explains none of them, and is named once.
func (s *Series) environments() {
	changes := map[string]int{}
	for i := 1; i < len(s.Points); i++ {
		p := &s.Points[i]
		if p.environment == s.Points[i-1].environment {
			continue
		}
		p.Environment = differences(s.Points[i-1].circumstances, p.circumstances)
		for _, d := range p.Environment {
			changes[d.Key]++
		}
	}
	var restless []string
	for key, n := range changes {
		if n >= 3 && 2*n > len(s.Points)-1 {
			restless = append(restless, key)
		}
	}
	if len(restless) == 0 {
		return
	}
	slices.Sort(restless)
	for i := range s.Points {
		s.Points[i].Environment = slices.DeleteFunc(s.Points[i].Environment, func(d Difference) bool { return slices.Contains(restless, d.Key) })
	}
	s.Notes = append(s.Notes, "differs in most runs: "+strings.Join(restless, ", "))
}

// differences are the circumstances that a has in another way than b.
func differences(a, b []result.Pair) (out []Difference) {
	if len(a) > 0 && len(b) > 0 && &a[0] == &b[0] {
		return nil // of one environment
	}
	was := map[string]string{}
	for _, p := range a {
		was[p.Key] = p.Value
	}
	for _, p := range b {
		if v := was[p.Key]; v != p.Value {
			out = append(out, Difference{p.Key, v, p.Value})
		}
		delete(was, p.Key)
	}
	for _, p := range a {
		if v, ok := was[p.Key]; ok && v != "" {
			out = append(out, Difference{p.Key, v, ""})
		}
	}
	return out
}

// Regression is why the level in force is a regression, in a sentence; "" where it is
// none. The last change decides: it must be for the worse, and by more than least, a
// share, where the level before it was not 0.
func (s Series) Regression(metric string, least float64) string {
	if len(s.Changes) == 0 {
		return ""
	}
	c := s.Changes[len(s.Changes)-1]
	if !c.Worse || c.Share != nil && math.Abs(*c.Share) <= least {
		return ""
	}
	n := len(s.Points) - c.At
	by := fmt.Sprintf("from %.4g to %.4g %s", c.Before, c.After, s.Unit)
	if c.Share != nil {
		by = fmt.Sprintf("%+.1f %%, %s", 100**c.Share, by)
	}
	runs := "runs"
	if n == 1 {
		runs = "run"
	}
	out := fmt.Sprintf("%s is worse since %s: %s, in the last %d %s (p = %.2g)", metric, c.Run, by, n, runs, c.P)
	if words := differenceWords(c.Environment); words != "" {
		out += "; with it changed " + words
	}
	return out
}

// Exact returns how many runs have a figure that is no bound: levels are of these.
func (s Series) Exact() (n int) {
	for _, p := range s.Points {
		if p.Bound == result.Exactly {
			n++
		}
	}
	return n
}

// Judged says whether the series has enough exact figures to tell levels apart.
func (s Series) Judged() bool { return s.Exact() >= leastPoints }

// differenceWords are the first few of them, in words.
func differenceWords(all []Difference) string {
	var words []string
	for i, d := range all {
		if i == 3 {
			words = append(words, fmt.Sprintf("%d more", len(all)-i))
			break
		}
		words = append(words, d.String())
	}
	return strings.Join(words, ", ")
}

// String is "kernel 6.1 -> 6.12".
func (d Difference) String() string {
	return fmt.Sprintf("%s %s -> %s", d.Key, cmp.Or(d.Before, "(none)"), cmp.Or(d.After, "(none)"))
}

// SettingsOf are those of the series that a point of a run belongs to.
func SettingsOf(run result.Run, r result.Record) []result.Pair {
	return settingsOf(headOf(run), run, r)
}
