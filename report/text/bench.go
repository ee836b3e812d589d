// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"

	"boxdyno/report"
	"boxdyno/report/internal/grid"
	"boxdyno/result"
)

// Bench writes the points of runs in the Go benchmark format
// (https://go.dev/design/14313-benchmark-format): one line a repeat, with machine and
// plan as configuration. Invalid points are left out, and bounds have a unit of their
// own. What only one run has (name, date, seed) is a comment: benchstat makes a table
// for each configuration.
func Bench(w io.Writer, runs ...report.Kept) error {
	return BenchSides(w, []report.Side{{Runs: runs}})
}

// BenchSides is Bench of several sides, each named by the configuration "side":
// benchstat -col side compares them.
func BenchSides(w io.Writer, sides []report.Side) error {
	b := &bencher{w: w, out: benchfmt.NewWriter(w), declared: map[string]bool{}}
	for _, s := range sides {
		for _, run := range s.Runs {
			if err := b.run(s.Name, run); err != nil {
				return err
			}
		}
	}
	return nil
}

type bencher struct {
	w        io.Writer
	out      *benchfmt.Writer
	begun    bool
	declared map[string]bool // units whose better end is said
}

func (b *bencher) run(side string, run report.Kept) error {
	blank := map[bool]string{true: "\n"}[b.begun]
	b.begun = true
	if _, err := fmt.Fprintf(b.w, "%s# run %s, %s, seed %d\n", blank, grid.Clean(run.Document.ID), run.Document.Start.UTC().Format("2006-01-02 15:04:05 UTC"), run.Document.Seed); err != nil {
		return err
	}
	var config []benchfmt.Config
	add := func(key, value string) {
		if value != "" && !slices.ContainsFunc(config, func(c benchfmt.Config) bool { return c.Key == key }) {
			config = append(config, benchfmt.Config{Key: key, Value: []byte(grid.Clean(value)), File: true})
		}
	}
	add("side", side)
	for _, p := range report.Circumstances(run.Document) {
		if !strings.HasPrefix(p.Key, "boot") {
			add(benchKey(p.Key), p.Value)
		}
	}
	for _, r := range run.Records {
		if r.Parent != "" || r.Procedure == report.SelfTestProcedure || !report.Fit(r) {
			continue
		}
		line := benchfmt.Result{Config: config, Name: benchName(r), Iters: 1}
		for _, v := range r.Values {
			if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
				continue
			}
			u := benchUnit(v)
			line.Iters = max(line.Iters, v.N)
			line.Values = append(line.Values, benchfmt.Value{Value: v.Value, Unit: u})
			if better := better(run.Document.Metrics, v.Metric); better != "" && !b.declared[u] {
				b.declared[u] = true
				m := benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: u, Key: "better"}, OrigUnit: u, Value: better}
				if err := b.out.Write(&m); err != nil {
					return err
				}
			}
		}
		if len(line.Values) == 0 {
			continue
		}
		if err := b.out.Write(&line); err != nil {
			return err
		}
	}
	return nil
}

func better(metrics []result.Metric, name string) string {
	for _, m := range metrics {
		if m.Name == name {
			return map[int]string{1: "higher", -1: "lower"}[m.Better]
		}
	}
	return ""
}

// benchName is Forward/service=route/frame_size=64: the procedure and the
// settings of the point.
func benchName(r result.Record) benchfmt.Name {
	word := func(s string) string {
		return strings.Map(func(c rune) rune {
			if unicode.IsSpace(c) || c == '/' || unicode.IsControl(c) {
				return '_'
			}
			return c
		}, s)
	}
	name := []rune(word(r.Procedure))
	if len(name) > 0 {
		name[0] = unicode.ToUpper(name[0])
	}
	s := string(name)
	for _, p := range r.Config {
		s += "/" + word(p.Key) + "=" + word(p.Value)
	}
	// A number behind a last dash would be taken for GOMAXPROCS.
	if i := strings.LastIndexByte(s, '-'); i >= 0 && strings.Trim(s[i+1:], "0123456789") == "" {
		s = s[:i] + "_" + s[i+1:]
	}
	return benchfmt.Name(s)
}

// benchUnit names a figure and its unit, for several of one unit stand in a
// line: forwarding-rate-frame/s, latency-p50-sec.
func benchUnit(v result.Value) string {
	name := v.Metric
	for _, suffix := range []string{"_fps", "_bps", "_s"} {
		name = strings.TrimSuffix(name, suffix)
	}
	name = strings.ReplaceAll(name, "_", "-")
	switch v.Bound {
	case result.AtLeast:
		name += "-at-least"
	case result.AtMost:
		name += "-at-most"
	}
	switch v.Unit {
	case "", "1":
		return name
	case "s":
		return name + "-sec"
	}
	return name + "-" + string(v.Unit)
}

// benchKey is key as the format allows it: lower case, without blanks.
func benchKey(key string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) || c == ':' || unicode.IsControl(c) {
			return '-'
		}
		return unicode.ToLower(c)
	}, key)
}
