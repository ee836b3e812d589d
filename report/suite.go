// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"boxdyno/report/internal/phrase"
)

func suiteOf(m *measured) Block {
	s := &Suite{}
	for _, q := range []string{"p50", "p90", "p99", "p999", "max"} {
		if f := m.row.at("latency_" + q + "_s"); f != nil {
			s.Latency = append(s.Latency, Quantile{strings.Replace(q, "p999", "p99.9", 1), f.Value, f.Lo, f.Hi, f.N})
		}
	}
	return s
}

// clauses are what r's one figure is.
func (s *Suite) clauses(r *Row) (parts []string) {
	if n := len(s.Latency); n > 0 && r.LatencyLoadFPS != nil {
		clause := fmt.Sprintf("at %s one frame in two takes at most %s", phrase.Quantity(*r.LatencyLoadFPS, "frame/s", ""), phrase.Seconds(&s.Latency[0].Value))
		if last := s.Latency[n-1]; n > 1 {
			clause += fmt.Sprintf(", the slowest %s", phrase.Seconds(&last.Value))
		}
		parts = append(parts, clause)
	}
	if ratio, highest := r.at(lossRatio), r.at(lossHighest); ratio != nil && highest != nil {
		parts = append(parts, fmt.Sprintf("%s lost at %s", phrase.Share(&ratio.Value), phrase.Quantity(highest.Value, "frame/s", "")))
	}
	if f := r.at(lossFree); f != nil {
		parts = append(parts, "none from "+phrase.Quantity(f.Value, "frame/s", f.Bound)+" down")
	}
	if f := r.at(backToBack); f != nil {
		parts = append(parts, "bursts of "+phrase.Quantity(f.Value, "frame", f.Bound)+" without loss")
	}
	if f := r.at(recoveryTime); f != nil {
		parts = append(parts, fmt.Sprintf("recovered %s after an overload", phrase.Seconds(&f.Value)))
	}
	return parts
}

func (f figure) figure() *Figure {
	if f.value == nil {
		return nil
	}
	return &Figure{*f.value, f.lo, f.hi, f.n, f.bound, f.open}
}

func (f *Figure) si(unit string) string {
	if f == nil {
		return "-"
	}
	text := phrase.SI(&f.Value, f.Bound)
	if unit != "" && unit[0] != '/' && text[len(text)-1] <= '9' {
		text += " "
	}
	return text + unit
}

// interval leaves off the unit where there is no interval.
func (f *Figure) interval(unit string) string {
	if f == nil {
		return "-"
	}
	s := phrase.Interval(f.Lo, f.Hi)
	if s == "-" {
		return s
	}
	if unit != "" && unit[0] != '/' && s[len(s)-1] <= '9' {
		s += " "
	}
	return s + unit
}

func (f *Figure) share() string {
	if f == nil {
		return "-"
	}
	return phrase.Share(&f.Value)
}
