// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/stat"
	"boxdyno/unit"
)

// MedianText prints a side's median; "-" without samples.
func MedianText(v ComparedValue) string {
	if len(v.Samples) == 0 {
		return "-"
	}
	return phrase.SI(&v.Median, v.Bound)
}

// CourseOf returns a row's warnings about the course of its samples.
func CourseOf(r ComparedRow) (out []string) {
	for _, s := range []struct {
		name    string
		samples []float64
	}{{"base: ", r.Base.Samples}, {"other: ", r.Other.Samples}} {
		if stat.Summarize(s.samples).Center > 0 {
			for _, w := range stat.Along(s.samples).Words(s.samples, r.Samples) {
				out = append(out, s.name+w)
			}
		}
	}
	return out
}

// ProcedureColumn is the heading of a row's procedure, where a metric is of several.
const ProcedureColumn = "procedure"

// EffectText prints an effect as "-4.9 %"; "~" where none was found, "?" where that is open.
func EffectText(r ComparedRow, m ComparedMetric) string {
	switch r.Verdict {
	case Alike:
		return Alike
	case TooFew, BoundOnly:
		return "?"
	}
	s := amount(r.Effect, r, m)
	if r.Bound != result.Exactly {
		s = string(r.Bound) + " " + s
	}
	return s
}

func amount(v float64, r ComparedRow, m ComparedMetric) string {
	if !r.Relative {
		if v > 0 {
			return "+" + unit.SI(v) + string(m.Unit)
		}
		return unit.SI(v) + string(m.Unit)
	}
	digits := 1
	if math.Abs(v) >= 1 {
		digits = 0
	}
	return fmt.Sprintf("%+.*f %%", digits, v*100)
}

// IntervalText prints the interval of an effect; "-" where there is none.
func IntervalText(r ComparedRow, m ComparedMetric) string {
	if r.Lo == nil || r.Verdict == BoundOnly || r.Bound != result.Exactly {
		return "-"
	}
	return strings.TrimSuffix(amount(*r.Lo, r, m), " %") + " to " + amount(*r.Hi, r, m)
}

// PText prints a chance; "-" for nil.
func PText(p *float64) string {
	switch {
	case p == nil:
		return "-"
	case *p < 0.0001:
		return "<0.0001"
	}
	return strconv.FormatFloat(*p, 'f', 4, 64)
}
