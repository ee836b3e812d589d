// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"

	"boxdyno/report/internal/phrase"
	"boxdyno/report/internal/sensed"
	"boxdyno/result"
)

// warmed are points with the highest temperature that telemetry read while their
// trials lasted, for criteria that ask for it. Without a sensor they have none.
func warmed(run result.Run, points []result.Record, trials map[string][]result.Record) []result.Record {
	if !slices.ContainsFunc(run.Criteria, func(c result.Criterion) bool { return c.Metric == result.HottestMetric }) {
		return points
	}
	out := slices.Clone(points)
	for i, p := range out {
		v := result.Value{Metric: result.HottestMetric, Unit: "°C"}
		known := false
		for _, t := range trials[p.ID] {
			for _, d := range t.Digests {
				if d.Series < 0 || d.Series >= len(run.Series) {
					continue
				}
				for _, x := range sensed.Of(run.Series[d.Series]) {
					if x.Kind == "temperature" && (!known || d.Max > v.Value) {
						v.Value, known = d.Max, true
					}
				}
			}
		}
		if known {
			out[i].Values = append(slices.Clip(p.Values), v)
		}
	}
	return out
}

// captureAdvice is which setting of those measured does better than the row that was
// judged, or than the first that lost frames: another buffer, another program. Only
// rows of the same load are compared, and only what was measured is said.
func captureAdvice(d Document) (out []string) {
	rows := slices.DeleteFunc(slices.Clone(d.Rows), func(r Row) bool {
		c := blockOf[*Capture](&r)
		return c == nil || r.at(framesOffered) == nil || r.at(framesLost) == nil || c.Rate == searched || r.Verdict == result.Invalid
	})
	for i := range rows {
		r := &rows[i]
		if r.at(framesLost).Value <= 0 {
			continue
		}
		var best *Row
		for j := range rows {
			o := &rows[j]
			if !sameLoad(r, o) || o.at(framesLost).Value*2 > r.at(framesLost).Value {
				continue
			}
			if best == nil || replaces(r, o, best) {
				best = o
			}
		}
		if best != nil {
			b, c := both[*Capture](best, r)
			out = append(out, fmt.Sprintf("Take %s in place of %s: of the same load %s, where %s.", b.setting(c), c.setting(b), uncountedOf(best), uncountedOf(r)))
		}
	}
	return out
}

// sameLoad says whether rows were offered the same.
func sameLoad(a, b *Row) bool {
	x, y := both[*Capture](a, b)
	return x.Rate == y.Rate && x.Payload == y.Payload && a.FrameSize == b.FrameSize && x.Packets == y.Packets && x.Burst == y.Burst && x.Method == y.Method && a.Beside == b.Beside
}

// replaces says whether a is a better replacement of c than b: fewer frames lost, then the
// same program, then less CPU.
func replaces(c, a, b *Row) bool {
	same := func(r *Row) bool { x, y := both[*Capture](r, c); return x.Subject == y.Subject }
	switch {
	case a.at(framesLost).Value != b.at(framesLost).Value:
		return a.at(framesLost).Value < b.at(framesLost).Value
	case same(a) != same(b):
		return same(a)
	}
	x, y := a.at(cpuPerFrame), b.at(cpuPerFrame)
	return x != nil && y != nil && x.Value < y.Value
}

// setting is the subject, with its buffer where that tells it from o.
func (c *Capture) setting(o *Capture) string {
	switch {
	case c.Buffer > 0:
		return fmt.Sprintf("%s with a buffer of %s", c.Subject, phrase.Quantity(float64(c.Buffer), "B", ""))
	case o.Subject == c.Subject:
		return c.Subject + " with its own buffer"
	}
	return c.Subject
}

// uncountedOf is how many frames a subject did not count.
func uncountedOf(r *Row) string {
	lost, sent := int64(r.at(framesLost).Value), int64(r.at(framesOffered).Value)
	if lost <= 0 {
		return fmt.Sprintf("every one of %s frames was counted", phrase.Thousands(sent))
	}
	return fmt.Sprintf("%s of %s were not", phrase.Thousands(lost), phrase.Thousands(sent))
}
