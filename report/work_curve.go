// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"strconv"

	"boxdyno/result"
	"boxdyno/unit"
)

// A curveOf is which trials draw a curve.
type curveOf struct {
	title, note  string
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
	out := &WorkCurve{Of: c.of, OfUnit: c.ofUnit, Metric: c.metric, What: c.what, Note: c.note}
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

// curveTables are the curves of the rows' trials.
func curveTables(rows []Row) (out []Table) {
	for _, t := range workTables {
		if t.curve == nil {
			continue
		}
		metric := result.Metric{Name: t.curve.metric, Label: t.curve.what, Interval: "range"}
		var points []tableRow
		for r, w := range blocksOf[*Work](rows) {
			if w.Procedure != t.procedure || w.Curve == nil {
				continue
			}
			metric.Unit = w.Curve.Unit
			for _, p := range w.Curve.Points {
				at := unit.SI(p.At) + string(t.curve.ofUnit)
				if t.curve.ofUnit == "B" {
					at = binary(p.At)
				}
				points = append(points, tableRow{id: r.ID, config: []result.Pair{{Key: "what", Value: w.Setting}, {Key: t.curve.of, Value: at}}, figures: map[string]*Figure{t.curve.metric: &p.Figure}})
			}
		}
		if len(points) > 0 {
			out = append(out, makeTable(t.curve.title, []result.Metric{metric}, []result.Axis{{Name: "what"}, {Name: t.curve.of}}, points))
		}
	}
	return out
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
