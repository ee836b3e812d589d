// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
)

// aloneName is the side without a load beside, and cold.
const aloneName = "alone"

var besideKeys = []string{result.BesideKey, result.BesideCPUsKey, result.HeatKey}

// besideWords are what ran beside a point's trials and how it was heated: "beside cpu:2
// on 2-3, heated 10m"; "" where nothing was done.
func besideWords(cfg []result.Pair) string {
	set := func(i int) string {
		if v := result.Get(cfg, besideKeys[i]); v != result.Alone[i].Value {
			return v
		}
		return ""
	}
	var words []string
	if load, cpus := set(0), set(1); load != "" {
		if cpus != "" {
			load += " on " + cpus
		}
		words = append(words, "beside "+load)
	}
	if heat := set(2); heat != "" {
		words = append(words, "heated "+heat)
	}
	return strings.Join(words, ", ")
}

// besideOf compares points that differ in nothing else; the base is those alone and
// cold, or else those that come first.
func besideOf(d Document, points, recs []result.Record) *Comparison {
	var names []string
	for _, p := range points {
		if n := besideWords(p.Config); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(names) < 2 {
		return nil
	}
	slices.Sort(names) // "" first
	d.Warnings = nil   // they are of all sides
	sides, of := make([]Side, len(names)), make([][]sample, len(names))
	for i, n := range names {
		sides[i] = Side{Name: n, Runs: []Kept{{Document: d, Records: recs}}}
		if n == "" {
			sides[i].Name = aloneName
		}
		for _, p := range points {
			if besideWords(p.Config) == n {
				of[i] = append(of[i], sample{p, stripped(p, besideKeys), recs})
			}
		}
	}
	c, err := comparePoints(d.Version, sides, of)
	if err != nil {
		return nil // no two points, or no two valid ones: their rows say why
	}
	c.Notes = slices.DeleteFunc(c.Notes, func(s string) bool { return strings.HasSuffix(s, " have a run in common") })
	for i := range c.Metrics {
		for j := range c.Metrics[i].Rows {
			r := &c.Metrics[i].Rows[j]
			r.Config = slices.DeleteFunc(slices.Clone(r.Config), func(p result.Pair) bool { return slices.Contains(besideKeys, p.Key) })
		}
	}
	for i, n := range names {
		if had := besideHad(of[i], recs); had != "" {
			c.Notes = append(c.Notes, n+": "+had)
		}
	}
	return &c
}

// besideHad says what the load of points really used.
func besideHad(points []sample, recs []result.Record) string {
	var cpu, took time.Duration
	subject, memory := "", uint64(0)
	for _, r := range recs {
		if !slices.ContainsFunc(points, func(p sample) bool { return p.ID == r.Parent }) {
			continue
		}
		u := slices.IndexFunc(r.Usage, func(u result.Usage) bool { return u.Phase == result.BesideKey })
		ph := slices.IndexFunc(r.Phases, func(p result.Phase) bool { return p.Name == result.BesideKey })
		if u < 0 || ph < 0 {
			continue
		}
		subject, memory = r.Usage[u].Subject, max(memory, r.Usage[u].PeakMemory)
		cpu += r.Usage[u].CPU
		took += time.Duration(r.Phases[ph].End - r.Phases[ph].Begin)
	}
	if took <= 0 {
		return ""
	}
	s := fmt.Sprintf("%s had %.2f CPUs while trials ran", subject, cpu.Seconds()/took.Seconds())
	if memory > 0 {
		s += fmt.Sprintf(", and %sB of memory at most", phrase.SI(new(float64(memory)), ""))
	}
	return s
}
