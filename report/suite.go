// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"boxdyno/report/internal/phrase"
)

// suiteOf is nil for rows of other procedures than those of RFC 2544's suite.
func suiteOf(procedure string, at func(metric string) *Figure) *Suite {
	if index(suiteProcedures, procedure) == len(suiteProcedures) || procedure == suiteProcedures[0] {
		return nil
	}
	s := &Suite{}
	fill(s, at)
	for _, q := range []string{"p50", "p90", "p99", "p999", "max"} {
		if f := at("latency_" + q + "_s"); f != nil {
			s.Latency = append(s.Latency, Quantile{strings.Replace(q, "p999", "p99.9", 1), f.Value, f.Lo, f.Hi, f.N})
		}
	}
	return s
}

// summary is what r's one figure is, in clauses.
func (s *Suite) summary(r *Row) (parts []string) {
	if n := len(s.Latency); n > 0 && r.LatencyLoadFPS != nil {
		clause := fmt.Sprintf("at %s one frame in two takes at most %s", phrase.Quantity(*r.LatencyLoadFPS, "frame/s", ""), phrase.Seconds(&s.Latency[0].Value))
		if last := s.Latency[n-1]; n > 1 {
			clause += fmt.Sprintf(", the slowest %s", phrase.Seconds(&last.Value))
		}
		parts = append(parts, clause)
	}
	if s.LossRatio != nil && s.LossHighest != nil {
		parts = append(parts, fmt.Sprintf("%s lost at %s", phrase.Share(&s.LossRatio.Value), phrase.Quantity(s.LossHighest.Value, "frame/s", "")))
	}
	if s.LossFree != nil {
		parts = append(parts, "none from "+phrase.Quantity(s.LossFree.Value, "frame/s", s.LossFree.Bound)+" down")
	}
	if s.BackToBack != nil {
		parts = append(parts, "bursts of "+phrase.Quantity(s.BackToBack.Value, "frame", s.BackToBack.Bound)+" without loss")
	}
	if s.Recovery != nil {
		parts = append(parts, fmt.Sprintf("recovered %s after an overload", phrase.Seconds(&s.Recovery.Value)))
	}
	return parts
}

func (f figure) figure() *Figure {
	if f.value == nil {
		return nil
	}
	return &Figure{*f.value, f.lo, f.hi, f.n, f.bound}
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
