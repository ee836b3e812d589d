// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/stat"
)

// differences are what the sides' programs, machines, environments and plans do
// not have in common.
func differences(sides []Side) (out []Differing) {
	var keys []string
	values := make([]map[string][]string, len(sides))
	for i, s := range sides {
		values[i] = map[string][]string{}
		for _, k := range s.Runs {
			for _, p := range append(Circumstances(k.Document), programs(k.Records)...) {
				if !slices.Contains(keys, p.Key) {
					keys = append(keys, p.Key)
				}
				if !slices.Contains(values[i][p.Key], p.Value) {
					values[i][p.Key] = append(values[i][p.Key], p.Value)
				}
			}
		}
	}
	for _, key := range keys {
		d := Differing{Key: key}
		for i := range sides {
			d.Values = append(d.Values, strings.Join(values[i][key], " / "))
		}
		if !slices.ContainsFunc(d.Values, func(s string) bool { return s != d.Values[0] }) {
			continue
		}
		// What the plan asks for may stand in the environment already.
		if !slices.ContainsFunc(out, func(o Differing) bool {
			return strings.HasSuffix(key, "."+o.Key) && slices.Equal(o.Values, d.Values)
		}) {
			out = append(out, d)
		}
	}
	return out
}

// programs are those of another userland than the machine's own, as trials name them.
func programs(recs []result.Record) (out []result.Pair) {
	for _, r := range recs {
		if v := result.Get(r.Config, "programs"); r.Parent != "" && v != "" {
			out = append(out, result.Pair{Key: "programs", Value: strings.ReplaceAll(v, "_", " ")})
		}
	}
	return out
}

// Circumstances are what the document says of how its run was measured.
func Circumstances(d Document) []result.Pair {
	var env []result.Pair
	for _, s := range d.Environment {
		v := s.Before
		if s.After != "" {
			v += ", afterwards " + s.After
		}
		env = append(env, result.Pair{Key: s.Key, Value: v})
	}
	return result.Run{Version: d.Version, Preset: d.Preset, Role: d.Role, Topology: d.Topology, Kind: d.Kind,
		Machines: d.Machines, Backend: d.Backend, Plan: d.Plan}.Circumstances(env)
}

// notesOf are what touches the whole comparison.
func notesOf(sides []Side, c Comparison, points [][]sample, keys []string) (out []string) {
	for i, s := range c.Sides {
		if s.Invalid > 0 {
			out = append(out, fmt.Sprintf("%d of %s of %s %s invalid or unfinished, and %s of no figure here", s.Invalid, phrase.Count(s.Points+s.Invalid, "point"), s.Name, phrase.Is(s.Invalid), phrase.Is(s.Invalid)))
		}
		left := 0
		for _, p := range points[i] {
			if !slices.Contains(keys, p.key) {
				left++
			}
		}
		if left > 0 {
			out = append(out, fmt.Sprintf("%s of %s %s no counterpart and %s left out", phrase.Count(left, "point"), s.Name, map[bool]string{true: "has", false: "have"}[left == 1], phrase.Is(left)))
		}
		for _, k := range sides[i].Runs {
			for _, w := range k.Document.Warnings {
				if w = s.Name + ": " + w; !slices.Contains(out, w) {
					out = append(out, w)
				}
			}
		}
	}
	for _, other := range c.Sides[1:] {
		if apart(c.Sides[0], other) {
			out = append(out, fmt.Sprintf("%s and %s were measured one after the other: a change in between, such as heat, looks like a difference of the boxes; measure several runs of each in turn", c.Sides[0].Name, other.Name))
		}
	}
	for _, other := range c.Sides[1:] {
		if base := c.Sides[0]; slices.ContainsFunc(other.Start, func(t time.Time) bool { return slices.ContainsFunc(base.Start, t.Equal) }) {
			out = append(out, fmt.Sprintf("%s and %s have a run in common", base.Name, other.Name))
		}
	}
	out = append(out, atOtherLoads(sides, points, keys)...)
	return out
}

// apart says whether all runs of one side began before all of the other.
func apart(a, b ComparedSide) bool {
	before := func(a, b ComparedSide) bool {
		for _, s := range a.Start {
			for _, t := range b.Start {
				if !s.Before(t) {
					return false
				}
			}
		}
		return true
	}
	return before(a, b) || before(b, a)
}

// atOtherLoads are figures of the tester that speak for themselves: its ceiling,
// and the load at which latency was measured.
func atOtherLoads(sides []Side, points [][]sample, keys []string) (out []string) {
	for _, c := range []struct{ metric, words string }{
		{ceilingFPS, "the tester's own ceiling"},
		{latencyLoad, "the load at which latency was measured"},
	} {
		most, worst := 0.0, ""
		for _, key := range keys {
			base, _, _ := readings(c.metric, at(points[0], key))
			for i, side := range points[1:] {
				other, _, _ := readings(c.metric, at(side, key))
				a, b := stat.Summarize(base), stat.Summarize(other)
				if a.Center <= 0 || b.N == 0 {
					continue
				}
				if by := b.Center/a.Center - 1; math.Abs(by) > math.Max(notable, math.Abs(most)) {
					most, worst = by, fmt.Sprintf("%s in %s is up to %+.0f %% off that in %s", c.words, sides[i+1].Name, by*100, sides[0].Name)
				}
			}
		}
		if worst != "" {
			out = append(out, worst)
		}
	}
	return out
}
