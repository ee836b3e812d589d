// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"strconv"

	"boxdyno/result"
	"boxdyno/unit"
)

// A WorkCurve is a figure of a work's trials against what they were told apart by.
type WorkCurve struct {
	Of     string      `json:"of"`      // "working set"
	OfUnit unit.Symbol `json:"of_unit"` // "B"
	Metric string      `json:"metric"`
	What   string      `json:"what"` // the metric in words: "a load"
	Unit   unit.Symbol `json:"unit"`
	Points []WorkPoint `json:"points"` // from the least At to the greatest
}

// A WorkPoint is the figure at a place of a WorkCurve: the median of the rounds with least
// and greatest as its interval.
type WorkPoint struct {
	At     float64 `json:"at"`
	Figure Figure  `json:"figure"`
}

// A curveOf is which trials draw a curve.
type curveOf struct {
	title        string
	key          string // of the trials' configuration
	of           string // the same in words
	ofUnit       unit.Symbol
	metric, what string
}

// draw is nil where there is nothing to draw, as of a nil curveOf.
func (c *curveOf) draw(repeats []result.Record, trials map[string][]result.Record) *WorkCurve {
	if c == nil {
		return nil
	}
	out := &WorkCurve{Of: c.of, OfUnit: c.ofUnit, Metric: c.metric, What: c.what}
	rounds := map[float64][]result.Record{}
	for _, p := range repeats {
		for _, t := range trials[p.ID] {
			at, err := strconv.ParseFloat(result.Get(t.Config, c.key), 64)
			if v := t.Value(c.metric); err == nil && v != nil && t.Status == result.Passed {
				rounds[at], out.Unit = append(rounds[at], t), v.Unit
			}
		}
	}
	for at, recs := range rounds {
		f := merge(c.metric, recs)
		if figure := f.figure(); figure != nil {
			out.Points = append(out.Points, WorkPoint{at, *figure})
		}
	}
	if len(out.Points) == 0 {
		return nil
	}
	slices.SortFunc(out.Points, func(a, b WorkPoint) int { return cmp.Compare(a.At, b.At) })
	return out
}

func (c *curveOf) table() *table {
	return &table{title: c.title, head: []string{"what", c.of, c.what, "range"}, right: []bool{false, true, true, true}}
}

// add puts the curve into its table, a row a point.
func (c *WorkCurve) add(to *table, setting string) {
	for _, p := range c.Points {
		at := unit.SI(p.At) + string(c.OfUnit)
		if c.OfUnit == "B" {
			at = binary(p.At)
		}
		to.add(setting, at, p.Figure.si(string(c.Unit)), p.Figure.interval(""))
		setting = ""
	}
}

// binary is a size as caches have theirs: 48 KiB.
func binary(octets float64) string {
	prefix := ""
	for _, p := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if octets < 1024 {
			break
		}
		octets, prefix = octets/1024, p
	}
	return strconv.FormatFloat(octets, 'g', 4, 64) + " " + prefix + "B"
}
