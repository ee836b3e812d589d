// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"boxdyno/result"
)

// A Suite is what RFC 2544's procedures beside the throughput found at a row; a
// figure that was not measured is nil. Rates are of all streams together.
type Suite struct {
	Latency []Quantile `json:"latency,omitempty"` // at latency_load_fps, from low to high

	LossHighest *Figure `json:"loss_highest_fps,omitempty"` // the loss curve's highest load
	LossRatio   *Figure `json:"loss_ratio,omitempty"`       // there
	LossFree    *Figure `json:"loss_free_fps,omitempty"`    // the higher of the two clean loads that ended the curve
	LossOnset   *Figure `json:"loss_onset_fps,omitempty"`   // the lowest load that lost

	BackToBack      *Figure `json:"back_to_back_frames,omitempty"`
	BurstRate       *Figure `json:"burst_rate_fps,omitempty"`
	Buffer          *Figure `json:"buffer_time_s,omitempty"`
	BufferCorrected *Figure `json:"buffer_time_corrected_s,omitempty"`

	Recovery         *Figure `json:"recovery_s,omitempty"`
	RecoveryOverload *Figure `json:"recovery_overload_fps,omitempty"`
	RecoveryLoad     *Figure `json:"recovery_load_fps,omitempty"`
}

// A Quantile is one of a delay's.
type Quantile struct {
	Name  string   `json:"name"` // "p99", "max"
	Value float64  `json:"value"`
	Lo    *float64 `json:"lo,omitempty"`
	Hi    *float64 `json:"hi,omitempty"`
	N     int      `json:"n"`
}

// A Figure is a value with its interval, its repeats and its bound.
type Figure struct {
	Value float64      `json:"value"`
	Lo    *float64     `json:"lo,omitempty"`
	Hi    *float64     `json:"hi,omitempty"`
	N     int          `json:"n"`
	Bound result.Bound `json:"bound,omitempty"`
}

// suiteProcedures are RFC 2544's, in its order.
var suiteProcedures = []string{"throughput", "latency", "loss-curve", "back-to-back", "recovery"}

// suiteOf is nil for rows of other procedures than those of RFC 2544's suite.
func suiteOf(procedure string, get func(metric string) figure) *Suite {
	if index(suiteProcedures, procedure) == len(suiteProcedures) || procedure == "throughput" {
		return nil
	}
	at := func(metric string) *Figure { return get(metric).figure() }
	s := &Suite{
		LossHighest: at("loss_highest_fps"), LossRatio: at("loss_ratio"), LossFree: at("loss_free_fps"), LossOnset: at("loss_onset_fps"),
		BackToBack: at("back_to_back_frames"), BurstRate: at("burst_rate_fps"), Buffer: at("buffer_time_s"), BufferCorrected: at("buffer_time_corrected_s"),
		Recovery: at("recovery_s"), RecoveryOverload: at("recovery_overload_fps"), RecoveryLoad: at("recovery_load_fps"),
	}
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
		clause := fmt.Sprintf("at %s one frame in two takes at most %s", quantity(*r.LatencyLoadFPS, "frame/s", ""), seconds(&s.Latency[0].Value))
		if last := s.Latency[n-1]; n > 1 {
			clause += fmt.Sprintf(", the slowest %s", seconds(&last.Value))
		}
		parts = append(parts, clause)
	}
	if s.LossRatio != nil && s.LossHighest != nil {
		parts = append(parts, fmt.Sprintf("%s lost at %s", share(&s.LossRatio.Value), quantity(s.LossHighest.Value, "frame/s", "")))
	}
	if s.LossFree != nil {
		parts = append(parts, "none from "+quantity(s.LossFree.Value, "frame/s", s.LossFree.Bound)+" down")
	}
	if s.BackToBack != nil {
		parts = append(parts, "bursts of "+quantity(s.BackToBack.Value, "frame", s.BackToBack.Bound)+" without loss")
	}
	if s.Recovery != nil {
		parts = append(parts, fmt.Sprintf("recovered %s after an overload", seconds(&s.Recovery.Value)))
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
	text := si(&f.Value, f.Bound)
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
	s := interval(f.Lo, f.Hi)
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
	return share(&f.Value)
}
