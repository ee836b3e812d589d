// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"strings"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
)

// soakOf is of the last repeat, and so is the row.
func soakOf(m *measured) Block {
	p := m.repeats[len(m.repeats)-1]
	m.row.ID = p.ID
	trials := m.trials[p.ID]
	s := &Soak{Class: result.Get(p.Config, "class")}
	if n := result.Get(p.Config, "stressors"); n != "" && n != "class" {
		s.Class = "some"
	}
	fastest := fastestLoop(trials)
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
		figures := trialFigures(m.run, t, fastest)
		fill(&x, func(metric string) *Figure { return figures[metric] })
		if e := widest(t.Energy); e != nil {
			s.Meter = e.Meter
		}
		s.Stressors = append(s.Stressors, x)
	}
	return s
}

func (s *Soak) sentence() string {
	if len(s.Stressors) == 0 {
		return "no stressor was run"
	}
	parts := []string{fmt.Sprintf("%d of %s passed", s.Passed, phrase.Count(len(s.Stressors), "stressor"))}
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

func (s *Soak) name(*Row, []string) []string {
	switch s.Class {
	case "all":
		return []string{"all stressors"}
	case "some":
		return []string{"stressors by name"}
	}
	return []string{"stressors of class " + s.Class}
}

// remarks are what its figures are of.
func (s *Soak) remarks(*Row) (out []string) {
	if s.Version != "" {
		out = append(out, "stress-ng "+s.Version)
	}
	if s.Meter != "" {
		out = append(out, "W by "+s.Meter)
	}
	return out
}
