// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"boxdyno/report"
	"boxdyno/report/compare"
	"boxdyno/report/text"
	"boxdyno/runner"
)

// comparisons are the kinds of file that compare writes, by extension.
var comparisons = map[string]func(io.Writer, report.Comparison) error{
	".txt":  compare.Terminal,
	".md":   compare.Markdown,
	".csv":  compare.CSV,
	".json": compare.JSON,
}

func (a *app) compare() *cobra.Command {
	var out string
	var asJSON bool
	var ignore []string
	var failOn, junit string
	cmd := &cobra.Command{
		Use:   "compare RUN[,RUN...] RUN[,RUN...]...",
		Short: "Compare runs: effects with intervals, and ~ where there is none",
		Long: `Compare matches the points of runs by procedure and settings. It prints how each
figure differs from that of the first RUN, with an interval, and whether that is more
than chance. It also lists what else differs. Names joined by commas are one side:
several runs of the same, best measured in turn with those of the other side. RUN is a
run's folder, its name at the default place, or last. It needs no root and works on any
machine.

The exit code is 0 whatever the difference is, 2 where no configuration is on
both sides, and 4 where none has a valid figure on both. With --fail-on slower it is 1 where a figure is worse
than that of the first RUN, beyond chance; slower=2% wants it to be worse by more than 2 %. --junit writes the same as JUnit XML.`,
		Example: `  boxdyno compare before after
  boxdyno compare a1,a2,a3,a4 b1,b2,b3,b4 -o compare.md
  boxdyno compare before after --fail-on slower=2% --junit compare.xml
  boxdyno compare routed natted --ignore service --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("compare needs two or more runs: the base first, then what is compared with it")
			}
			return nil
		},
		ValidArgsFunction: runNames,
		RunE: do(func(_ context.Context, args []string) error {
			least, err := shareIn(failOn, "slower")
			if err != nil {
				return err
			}
			ext, err := outputKind("comparison", out, junit, asJSON, ".md", ".csv", ".json", ".bench", ".txt")
			if err != nil {
				return err
			}
			sides, err := sidesOf(args)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			var slower []string
			if ext == ".bench" {
				err = text.BenchSides(&b, sides)
			}
			if err == nil && (ext != ".bench" || failOn != "" || junit != "") {
				var c report.Comparison
				c, err = report.Compare(Version(), sides, ignore)
				switch {
				case errors.Is(err, report.ErrNothingValid):
					return &failure{exitInvalid, err}
				case err != nil:
					return &runner.PlanError{Err: fmt.Errorf("compare: %w", err)}
				}
				if ext != ".bench" {
					err = comparisons[ext](&b, c)
				}
				if failOn != "" {
					slower = c.Slower(least)
				}
				if err == nil && junit != "" {
					var x bytes.Buffer
					if err = text.JUnit(&x, "boxdyno compare", c.Cases(least)); err == nil {
						err = writeFile(junit, sudoer(), x.Bytes())
					}
				}
			}
			if err != nil {
				return fmt.Errorf("compare: %w", err)
			}
			if err := a.deliver(out, b.Bytes()); err != nil || len(slower) == 0 {
				return err
			}
			return &failure{exitFailed, fmt.Errorf("slower: %s", strings.Join(slower, "; "))}
		}),
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "`FILE`.md, .csv, .json, .bench or .txt; - is standard output")
	cmd.Flags().BoolVar(&asJSON, "json", false, "JSON on standard output")
	cmd.Flags().StringSliceVar(&ignore, "ignore", nil, "`settings` in which matched points may differ, such as service")
	cmd.Flags().StringVar(&failOn, "fail-on", "", "slower or slower=`SHARE`: exit code 1 if a figure is worse than the first run's by more than the share, such as 2%")
	cmd.Flags().StringVar(&junit, "junit", "", "write each comparison as a test to `FILE`.xml, for continuous integration")
	exclusive(cmd, "output", "json")
	return cmd
}

// shareIn returns the share in --fail-on slower=2%, where word is slower; 0 without one.
func shareIn(failOn, word string) (float64, error) {
	what, share, given := strings.Cut(failOn, "=")
	if failOn == "" || what == word && !given {
		return 0, nil
	}
	percent, isPercent := strings.CutSuffix(share, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(percent), 64)
	if isPercent {
		v /= 100
	}
	if what != word || err != nil || !(v >= 0 && v < 1) {
		return 0, &runner.PlanError{Err: fmt.Errorf("--fail-on %s: want %s, or %s with a share from 0 to 100 %%, such as %s=2%%", failOn, word, word, word)}
	}
	return v, nil
}

// sidesOf reads the runs that args name. A side is called by its first run's
// folder; as it was written where that is not enough.
func sidesOf(args []string) (sides []report.Side, err error) {
	short := func(arg string) string {
		names := strings.Split(arg, ",")
		name := filepath.Base(names[0])
		if len(names) > 1 {
			name += fmt.Sprintf(" and %d more", len(names)-1)
		}
		return name
	}
	for _, arg := range args {
		s := report.Side{Name: arg}
		if !slices.ContainsFunc(args, func(o string) bool { return o != arg && short(o) == short(arg) }) {
			s.Name = short(arg)
		}
		for _, name := range strings.Split(arg, ",") {
			kept, _, _, err := openRun(name)
			if err != nil {
				return nil, err
			}
			s.Runs = append(s.Runs, kept)
		}
		slices.SortStableFunc(s.Runs, func(a, b report.Kept) int { return a.Document.Start.Compare(b.Document.Start) })
		sides = append(sides, s)
	}
	return sides, nil
}

// runNames completes runs at the default place, besides folders.
func runNames(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	before, last := "", begun
	if i := strings.LastIndexByte(begun, ','); i >= 0 {
		before, last = begun[:i+1], begun[i+1:]
	}
	var names []string
	for _, n := range append(kept(), "last") {
		if strings.HasPrefix(n, last) {
			names = append(names, before+n)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}
