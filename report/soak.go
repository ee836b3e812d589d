// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// A Soak is what procedure soak found at a row: of several repeats, in the last one.
type Soak struct {
	Class     string     `json:"class"`
	Version   string     `json:"stress_ng,omitempty"` // of stress-ng
	Passed    int        `json:"passed"`
	Failed    int        `json:"failed"`
	Skipped   int        `json:"skipped"`
	Known     int        `json:"known"`               // failed for a known cause, which is no fault of the box
	Broken    string     `json:"broken_at,omitempty"` // stressor that ran when the run broke off
	Meter     string     `json:"meter,omitempty"`     // of the watts: the one that covers most
	Stressors []Stressor `json:"stressors,omitempty"` // in the order in which they ran
}

// A Stressor is how the box did under one of stress-ng's; what was not measured is
// absent.
type Stressor struct {
	Name    string        `json:"name"`
	Verdict result.Status `json:"verdict"`
	Known   bool          `json:"known,omitempty"` // skipped because it fails for a known cause, which Reason says
	Reason  string        `json:"reason,omitempty"`

	Ops         *float64 `json:"bogo_ops,omitempty"`
	Rate        *float64 `json:"bogo_ops_rate,omitempty"`     // a second
	CPURate     *float64 `json:"bogo_ops_cpu_rate,omitempty"` // a second of CPU time
	Clock       *float64 `json:"clock_share,omitempty"`       // just after it, of the fastest measured in the run: slowest CPU
	CPU         *float64 `json:"cpu_s,omitempty"`             // time of its whole process tree
	Memory      *float64 `json:"peak_memory_bytes,omitempty"` // of the same
	Temperature *float64 `json:"temperature_max,omitempty"`   // hottest sensor, °C
	Watts       *float64 `json:"power_mean_w,omitempty"`
	Throttled   *float64 `json:"throttle_events,omitempty"` // or times that a flag was seen set
	Standstill  *float64 `json:"standstill_s,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`
}

const soakProcedure = "soak"

// soakOf is nil for rows of other procedures.
func soakOf(run result.Run, p result.Record, trials []result.Record) *Soak {
	if p.Procedure != soakProcedure {
		return nil
	}
	s := &Soak{Class: result.Get(p.Config, "class")}
	if n := result.Get(p.Config, "stressors"); n != "" && n != "class" {
		s.Class = "some"
	}
	fastest := 0.0
	for _, t := range trials {
		for _, m := range []string{"loop_before_rps", "loop_after_rps"} {
			if v := t.Value(m); v != nil {
				fastest = max(fastest, v.Value)
			}
		}
	}
	for _, t := range trials {
		x := Stressor{Name: result.Get(t.Config, "stressor"), Verdict: t.Status, Warnings: t.Warnings}
		s.Version = cmp.Or(result.Get(t.Config, "stress_ng"), s.Version)
		x.Reason, x.Known = strings.CutPrefix(t.Reason, result.KnownCause)
		switch {
		case t.Status == result.Passed:
			s.Passed++
		case t.Status == result.Failed:
			s.Failed++
		case x.Known:
			s.Known++
		case t.Status == result.Running || t.Status == result.Aborted:
			s.Broken = x.Name
		default:
			s.Skipped++
		}
		get := func(metric string) *float64 {
			if v := t.Value(metric); v != nil {
				return ptr(v.Value)
			}
			return nil
		}
		x.Ops, x.Rate, x.CPURate, x.Standstill = get("bogo_ops"), get("bogo_ops_rate"), get("bogo_ops_cpu_rate"), get("standstill_s")
		if v := get("loop_after_rps"); v != nil && fastest > 0 {
			x.Clock = ptr(*v / fastest)
		}
		for _, u := range t.Usage {
			x.CPU = ptr(u.CPU.Seconds())
			if u.PeakMemory > 0 {
				x.Memory = ptr(float64(u.PeakMemory))
			}
		}
		x.sense(run.Series, t.Digests)
		if e := widest(t.Energy); e != nil {
			x.Watts, s.Meter = ptr(e.Watts()), e.Meter
		}
		s.Stressors = append(s.Stressors, x)
	}
	return s
}

// sense takes what telemetry saw while the stressor ran.
func (x *Stressor) sense(series []result.Series, digests []result.Digest) {
	most := func(p **float64, v float64) {
		if *p == nil || v > **p {
			*p = ptr(v)
		}
	}
	for _, d := range digests {
		if d.Series < 0 || d.Series >= len(series) || d.N == 0 {
			continue
		}
		switch name := series[d.Series].Name; {
		case name == "node_thermal_zone_temp", name == "node_hwmon_temp_celsius":
			most(&x.Temperature, d.Max)
		case strings.HasPrefix(name, "node_cpu_") && strings.HasSuffix(name, "_throttles_total"):
			most(&x.Throttled, d.Growth)
		case name == "boxdyno_rpi_throttled" && !strings.HasSuffix(result.Get(series[d.Series].Labels, "flag"), "occurred"):
			most(&x.Throttled, d.Max)
		}
	}
}

// summary is the row in a sentence.
func (s *Soak) summary() string {
	if len(s.Stressors) == 0 {
		return "no stressor was run"
	}
	parts := []string{fmt.Sprintf("%d of %s passed", s.Passed, count(len(s.Stressors), "stressor"))}
	for _, c := range []struct {
		n    int
		what string
	}{{s.Failed, "failed"}, {s.Known, "failed for a known cause"}, {s.Skipped, "skipped"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	text := strings.Join(parts, ", ")
	var failed []string
	for _, x := range s.Stressors {
		if x.Verdict == result.Failed {
			failed = append(failed, x.Name)
		}
	}
	if len(failed) > 0 {
		text += ": " + strings.Join(failed[:min(len(failed), 8)], ", ")
		if n := len(failed) - 8; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
	}
	if s.Broken != "" {
		text += "; the run broke off in " + s.Broken
	}
	return text
}

// soaked is the sentence of a document that is of soak alone; "" of others.
func soaked(d Document) string {
	var parts []string
	for _, r := range d.Rows {
		if r.Soak == nil {
			return ""
		}
		text := r.Soak.summary()
		if len(d.Rows) > 1 {
			text = r.Name + ": " + text
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	text := strings.Join(parts, "; ")
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// name is the row's, in words.
func (s *Soak) name() string {
	switch s.Class {
	case "all":
		return "all stressors"
	case "some":
		return "stressors by name"
	}
	return "stressors of class " + s.Class
}

// metered names the meter of the watts.
func (s *Soak) metered() string {
	if s.Meter == "" {
		return ""
	}
	return "; W by " + s.Meter
}

// tables are a row's: how the box did, and what was not run and why. A column that
// nothing was measured for is left out.
func (s *Soak) tables(name string) (out []table) {
	ran := table{title: "Under stress, " + name + "; bogo operations are of stress-ng " + cmp.Or(s.Version, "of an unknown version") + " alone" + s.metered()}
	columns := []struct {
		head string
		get  func(x Stressor) *float64
		text func(v float64) string
	}{
		{"bogo-ops", func(x Stressor) *float64 { return x.Ops }, func(v float64) string { return thousands(int64(v)) }},
		{"a second", func(x Stressor) *float64 { return x.Rate }, func(v float64) string { return strings.TrimSpace(unit.SI(v)) }},
		{"a CPU second", func(x Stressor) *float64 { return x.CPURate }, func(v float64) string { return strings.TrimSpace(unit.SI(v)) }},
		{"CPU", func(x Stressor) *float64 { return x.CPU }, func(v float64) string { return unit.SI(v) + "s" }},
		{"memory", func(x Stressor) *float64 { return x.Memory }, func(v float64) string { return unit.SI(v) + "B" }},
		{"clock", func(x Stressor) *float64 { return x.Clock }, percent},
		{"°C", func(x Stressor) *float64 { return x.Temperature }, func(v float64) string { return fmt.Sprintf("%.0f", v) }},
		{"W", func(x Stressor) *float64 { return x.Watts }, func(v float64) string { return fmt.Sprintf("%.1f", v) }},
		{"throttled", func(x Stressor) *float64 { return x.Throttled }, func(v float64) string { return thousands(int64(v)) }},
	}
	ran.head, ran.right = []string{"stressor", ""}, []bool{false, false}
	columns = slices.DeleteFunc(columns, func(c struct {
		head string
		get  func(x Stressor) *float64
		text func(v float64) string
	}) bool {
		return !slices.ContainsFunc(s.Stressors, func(x Stressor) bool { return c.get(x) != nil })
	})
	for _, c := range columns {
		ran.head, ran.right = append(ran.head, c.head), append(ran.right, true)
	}
	not := table{title: "Not judged, " + name, head: []string{"stressor", "", "why"}, right: make([]bool, 3)}
	for _, x := range byFailure(s.Stressors) {
		if x.Verdict == result.Skipped {
			word := "skipped"
			if x.Known {
				word = "known"
			}
			not.notes = append(not.notes, note{x.Name + " " + word, x.Reason})
			continue
		}
		row := []string{x.Name, loud(x.Verdict)}
		for _, c := range columns {
			if v := c.get(x); v != nil {
				row = append(row, c.text(*v))
			} else {
				row = append(row, "-")
			}
		}
		ran.add(row...)
		if x.Verdict != result.Passed {
			ran.notes = append(ran.notes, note{x.Name, cmp.Or(x.Reason, "no end was recorded: boxdyno or the machine died in it")})
		}
		for _, w := range x.Warnings {
			ran.notes = append(ran.notes, note{x.Name, w})
		}
	}
	if len(ran.rows) > 0 {
		out = append(out, ran)
	}
	if len(not.notes) > 0 {
		not.head, not.right = nil, nil
		out = append(out, not)
	}
	return out
}

// byFailure puts what did not pass first, and else leaves the order.
func byFailure(xs []Stressor) []Stressor {
	rank := func(s result.Status) int {
		switch s {
		case result.Failed:
			return 0
		case result.Passed, result.Skipped:
			return 2
		}
		return 1
	}
	xs = slices.Clone(xs)
	slices.SortStableFunc(xs, func(a, b Stressor) int { return cmp.Compare(rank(a.Verdict), rank(b.Verdict)) })
	return xs
}
