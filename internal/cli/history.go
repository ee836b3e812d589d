// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/store"
)

// histories are the kinds of file that history writes, by extension.
var histories = map[string]func(io.Writer, store.History) error{
	".txt":   func(w io.Writer, h store.History) error { return historyText(w, 0, h, shownRows) },
	".json":  func(w io.Writer, h store.History) error { return encode(w, h) },
	".bench": historyBench,
	".csv":   historyCSV,
	pageExt:  historyPage,
}

const regression = "regression"

func (a *app) history() *cobra.Command {
	var q store.Query
	var at place
	var box, out, since, until, failOn, junit string
	var settings []string
	var asJSON, split bool
	var rows int
	cmd := &cobra.Command{
		Use:   "history METRIC",
		Short: "Show a figure over time: levels, changes, and what changed with them",
		Long: `History shows a metric of all runs that were kept, the oldest first: the median of each
run's repeats, levels by version, and the runs from which on the level is another one.
Beside them stands what changed in the environment, such as the kernel.

Points of different settings, boxes or kinds are never mixed. Where several are left, the
settings that tell them apart are named: choose with --where, or show each with --split.

The exit code is 0 whatever the history is. With --fail-on regression it is 1 where the
last change of a level is for the worse, and 4 where there are too few runs to tell;
regression=2% wants the change to be more than 2 %.
--since leaves out what was before: so a level is accepted.`,
		Example: `  boxdyno history throughput_fps --box pi5 --where frame_size=64
  boxdyno history latency_p99_s --procedure latency --split --since 90d
  boxdyno history throughput_fps --where frame_size=64 --fail-on regression --junit history.xml
  boxdyno history throughput_fps --where frame_size=64 -o throughput.html
  boxdyno history throughput_fps --where frame_size=64 -o throughput.bench`,
		Args: needs("METRIC", "type boxdyno history throughput_fps; boxdyno report last --json names the metrics of the newest run"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			for _, s := range a.plugins.Procedures {
				for _, m := range s.Metrics {
					if len(args) == 0 && !slices.Contains(names, m.Name) {
						names = append(names, m.Name)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: do(func(ctx context.Context, args []string) (err error) {
			q.Metric = args[0]
			now := time.Now()
			if q.Since, err = moment("--since", since, now); err != nil {
				return err
			}
			if q.Until, err = moment("--until", until, now); err != nil {
				return err
			}
			for _, s := range settings {
				key, value, ok := strings.Cut(s, "=")
				if !ok || key == "" {
					return &runner.PlanError{At: "--where", Err: fmt.Errorf("%q is no setting: give key=value, such as frame_size=64", s)}
				}
				q.Where = append(q.Where, result.Pair{Key: key, Value: value})
			}
			least, err := shareIn(failOn, regression)
			if err != nil {
				return err
			}
			if rows < 0 {
				return &runner.PlanError{At: "--rows", Err: errors.New("it is a number from 0 on; 0 is all")}
			}
			ext, err := outputKind("history", out, junit, asJSON, pageExt, ".json", ".csv", ".bench", ".txt")
			if err != nil {
				return err
			}
			if q.Boxes, err = selected(box); err != nil {
				return err
			}
			l, err := at.open(ctx, a)
			if err != nil {
				return err
			}
			defer l.Close()
			h, err := l.History(ctx, q)
			if errors.Is(err, store.ErrNoSeries) {
				return &runner.PlanError{Err: err}
			}
			if err != nil {
				return err
			}
			a.left(l.update)
			mixed := h.Varies
			if len(q.Boxes) > 1 { // each box's own was asked for
				mixed = slices.DeleteFunc(slices.Clone(mixed), func(v store.Varying) bool { return v.Key == "box" })
			}
			if len(mixed) > 0 && !split {
				return &runner.PlanError{Err: fmt.Errorf("%s has %d series, which are not mixed: %s; choose with --where, or show each with --split", q.Metric, len(h.Series), varying(mixed))}
			}
			var b bytes.Buffer
			if ext == ".txt" {
				width := 0
				if out == "" {
					width = terminalWidth(a.out)
				}
				err = historyText(&b, width, h, rows)
			} else {
				err = histories[ext](&b, h)
			}
			if err != nil {
				return fmt.Errorf("history: %w", err)
			}
			if err := a.deliver(out, b.Bytes()); err != nil {
				return err
			}
			return a.alarm(h, failOn != "", least, junit)
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&box, "box", "", "the box, or the machine, of that `NAME`, or each box of group=NAME")
	fs.StringVar(&q.Procedure, "procedure", "", "points of that `procedure`")
	fs.StringArrayVar(&settings, "where", nil, "a setting `key=value` that the points have: one of theirs, or procedure, box, kind, topology, preset or tune; may be repeated")
	fs.StringVar(&since, "since", "", "only runs that began at that `time` or later: a day, a time, or an age such as 30d")
	fs.StringVar(&until, "until", "", "only runs that began before that `time`")
	fs.BoolVar(&split, "split", false, "show each series, if there are several")
	fs.IntVar(&rows, "rows", shownRows, "list the newest `N` runs; 0: all")
	fs.StringVarP(&out, "output", "o", "", "`FILE`.html, .json, .csv, .bench or .txt; - is standard output")
	fs.BoolVar(&asJSON, "json", false, "JSON on standard output")
	fs.StringVar(&failOn, "fail-on", "", "regression or regression=`SHARE`: exit code 1 if the last change of a level is for the worse, by more than the share, such as 2%")
	fs.StringVar(&junit, "junit", "", "write what --fail-on regression finds to `FILE`.xml, for continuous integration")
	placeFlags(cmd, &at)
	exclusive(cmd, "output", "json")
	_ = cmd.RegisterFlagCompletionFunc("procedure", a.completing(cobra.ShellCompDirectiveNoFileComp, "procedures"))
	_ = cmd.RegisterFlagCompletionFunc("box", boxNames)
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions([]string{regression}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// alarm says which series got worse.
func (a *app) alarm(h store.History, fail bool, least float64, junit string) error {
	var cases []report.Case
	var worse, open []string
	for _, s := range h.Series {
		c := report.Case{Class: result.Get(s.Settings, "procedure"), Name: strings.Join(append([]string{h.Metric}, words(s.Settings)...), " ")}
		of := h.Metric
		if len(h.Series) > 1 {
			of = strings.Join(append([]string{h.Metric}, words(told(s, h.Varies))...), " ")
		}
		switch why := s.Regression(of, least); {
		case s.Better == 0:
			c.Skipped = "neither more nor less of it is better"
		case why != "":
			c.Failure = why
			worse = append(worse, why)
		case !s.Judged():
			c.Skipped = "too few runs to tell"
			open = append(open, fmt.Sprintf("%s: %s", of, strings.Join(s.Notes, "; ")))
		}
		cases = append(cases, c)
	}
	if junit != "" {
		var b bytes.Buffer
		if err := text.JUnit(&b, "boxdyno history "+h.Metric, cases); err != nil {
			return fmt.Errorf("history: %w", err)
		}
		if err := writeFile(junit, sudoer(), b.Bytes()); err != nil {
			return err
		}
	}
	switch {
	case !fail:
		return nil
	case !slices.ContainsFunc(h.Series, func(s store.Series) bool { return s.Better != 0 }):
		return &runner.PlanError{Err: fmt.Errorf("--fail-on regression: neither more nor less of %s is better", h.Metric)}
	case len(worse) > 0:
		return &failure{exitFailed, fmt.Errorf("regression: %s", strings.Join(worse, "; "))}
	case len(open) > 0:
		return &failure{exitInvalid, fmt.Errorf("not decided: %s", strings.Join(open, "; "))}
	}
	return nil
}

func words(pairs []result.Pair) (out []string) {
	for _, p := range pairs {
		out = append(out, p.Key+"="+p.Value)
	}
	return out
}

// told are the settings of a series that others do not have.
func told(s store.Series, varies []store.Varying) (out []result.Pair) {
	for _, p := range s.Settings {
		if slices.ContainsFunc(varies, func(v store.Varying) bool { return v.Key == p.Key }) {
			out = append(out, p)
		}
	}
	return out
}

// varying names the settings that tell series apart: "frame_size is 64 or 1518".
func varying(all []store.Varying) string {
	const most = 8
	var out []string
	for _, v := range all {
		values := slices.Clone(v.Values)
		for i := range values {
			if values[i] == "" {
				values[i] = "absent"
			}
		}
		if len(values) > most {
			values = append(values[:most], fmt.Sprintf("one of %d more", len(values)-most))
		}
		out = append(out, v.Key+" is "+strings.Join(values, " or "))
	}
	return strings.Join(out, "; ")
}

// historyBench writes the runs of a history in the Go benchmark format: of each the points
// that belong to a series, with that metric alone.
func historyBench(w io.Writer, h store.History) error {
	var runs []report.Kept
	seen := map[string]bool{}
	for _, s := range h.Series {
		for _, p := range s.Points {
			if seen[p.Dir] {
				continue
			}
			seen[p.Dir] = true
			run, recs, err := result.Open(p.Dir)
			if err != nil {
				return fmt.Errorf("%w (the index has it on %s)", err, p.Host)
			}
			var points []result.Record
			for _, r := range recs {
				own := store.SettingsOf(run, r)
				if r.Parent != "" || !slices.ContainsFunc(h.Series, func(s store.Series) bool { return slices.Equal(s.Settings, own) }) {
					continue
				}
				r.Values = slices.DeleteFunc(slices.Clone(r.Values), func(v result.Value) bool { return v.Metric != h.Metric })
				points = append(points, r)
			}
			runs = append(runs, report.Kept{Document: report.Summarize(run, points), Records: points})
		}
	}
	slices.SortStableFunc(runs, func(a, b report.Kept) int { return a.Document.Start.Compare(b.Document.Start) })
	return text.Bench(w, runs...)
}
