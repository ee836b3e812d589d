// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"boxdyno/internal/files"
	"boxdyno/internal/schema"
	"boxdyno/report"
	"boxdyno/report/page"
	"boxdyno/report/text"
	"boxdyno/report/timeline"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/store"
)

// formats are the kinds of file that report writes, by the end of the name, or by the
// whole name where that does not begin with a dot.
var formats = map[string]func(w io.Writer, runs []report.Kept) error{
	".txt":   each(text.Terminal),
	".md":    each(text.Markdown),
	".csv":   func(w io.Writer, runs []report.Kept) error { return text.CSV(w, runs...) },
	".bench": func(w io.Writer, runs []report.Kept) error { return text.Bench(w, runs...) },
	".prom":  func(w io.Writer, runs []report.Kept) error { return text.Prom(w, runs...) },
	// Files of other programs, which tell them by these names.
	"composite.xml": others(text.Phoronix),
	".pts.xml":      others(text.Phoronix),
	".sbc-bench.md": others(text.SBCBench),
	".iperf3.json":  others(text.Iperf3),
	".json": func(w io.Writer, runs []report.Kept) error {
		if len(runs) == 1 {
			return text.JSON(w, runs[0].Document)
		}
		e := json.NewEncoder(w)
		for _, r := range runs {
			if err := e.Encode(r.Document); err != nil {
				return err
			}
		}
		return nil
	},
	pageExt: func(w io.Writer, runs []report.Kept) error {
		if len(runs) > 1 {
			return &runner.PlanError{Err: errors.New("a page shows one run: make one for each")}
		}
		return page.Write(w, runs[0].Document, runs[0].Records)
	},
}

// others has no file where the runs have no figure for it.
func others(f func(io.Writer, ...report.Kept) error) func(io.Writer, []report.Kept) error {
	return func(w io.Writer, runs []report.Kept) error {
		err := f(w, runs...)
		if errors.Is(err, text.ErrNothing) {
			err = &runner.PlanError{Err: err}
		}
		return err
	}
}

func each(f func(io.Writer, report.Document) error) func(io.Writer, []report.Kept) error {
	return func(w io.Writer, runs []report.Kept) error {
		for i, r := range runs {
			if i > 0 {
				if _, err := io.WriteString(w, "\n"); err != nil {
					return err
				}
			}
			if err := f(w, r.Document); err != nil {
				return err
			}
		}
		return nil
	}
}

// formatOf is the format of a file of that name, the one with the longest end. A report's
// file is refused before anything is measured for it.
func formatOf(name string) (format string, err error) {
	base := strings.ToLower(filepath.Base(name))
	for end := range formats {
		if (base == end || end[0] == '.' && strings.HasSuffix(base, end)) && len(end) > len(format) {
			format = end
		}
	}
	if format == "" {
		return "", &runner.PlanError{Err: fmt.Errorf("report %s: a report's name ends in .html, .md, .csv, .json, .bench, .prom, .pts.xml, .sbc-bench.md, .iperf3.json or .txt, or is composite.xml", name)}
	}
	return format, nil
}

func (a *app) report() *cobra.Command {
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Render runs as text, HTML, Markdown, CSV, JSON, Parquet, or for other programs",
		Long: `Report renders finished or broken-off runs. RUN is a run's folder, its name at the
default place, or last. It needs no root and works on any machine. Of several runs,
JSON is one object a line; a page shows one run. FILE.parquet is the telemetry of one
run, which a finished run holds already. For other programs there are:

  FILE.bench         the Go benchmark format, which benchstat reads
  FILE.prom          for the textfile collector of node_exporter
  composite.xml      or FILE.pts.xml: results of the Phoronix Test Suite
  FILE.sbc-bench.md  a row of sbc-bench's table, of what the same programs measured
  FILE.iperf3.json   trials of iperf3 in the shape of its own JSON, one a line`,
		Example: `  boxdyno report last
  boxdyno report last -o page.html
  boxdyno report runs/a runs/b -o -
  boxdyno report runs/killed -o telemetry.parquet
  boxdyno report last -o composite.xml`,
		Args: needs("RUN...", "give a run's folder or its name, or last"),
		RunE: do(func(_ context.Context, args []string) error {
			if out != "" && out != "-" {
				if err := outputFile("--output", out, ""); err != nil {
					return err
				}
			}
			if strings.EqualFold(filepath.Ext(out), parquetExt) {
				return a.samples(args, out)
			}
			ext := ".txt"
			if asJSON {
				ext = ".json"
			}
			if out != "" && out != "-" {
				var err error
				if ext, err = formatOf(out); err != nil {
					return err
				}
			}
			var runs []report.Kept
			for _, name := range args {
				kept, run, dir, err := openRun(name)
				if err != nil {
					return err
				}
				if ext == pageExt {
					a.timeline(dir, run, &kept)
				}
				runs = append(runs, kept)
			}
			var b bytes.Buffer
			if err := formats[ext](&b, runs); err != nil {
				return fmt.Errorf("report: %w", err)
			}
			return a.deliver(out, b.Bytes())
		}),
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "`FILE`.html, .md, .csv, .json, .txt, .parquet, or another that is named above; - is standard output")
	cmd.Flags().BoolVar(&asJSON, "json", false, "JSON on standard output")
	exclusive(cmd, "output", "json")
	return cmd
}

// parquetExt is not among formats: it is of the samples, not of the results.
const parquetExt = ".parquet"

// samples writes the telemetry of a run.
func (a *app) samples(names []string, out string) error {
	if len(names) > 1 {
		return &runner.PlanError{Err: errors.New("a Parquet file has one run: make one for each")}
	}
	dir, err := findRun(names[0])
	if err != nil {
		return &runner.PlanError{Err: err}
	}
	cut, err := store.WriteParquet(dir, out, sudoer())
	switch {
	case errors.Is(err, fs.ErrNotExist) && !holds(dir, result.TelemetryFile):
		return fmt.Errorf("%s has no telemetry: the run was made without, or ended before the first sample", dir)
	case err != nil:
		return err
	case cut:
		a.note("! the telemetry lacks its end: the run was killed, or still goes on")
	}
	a.wrote(out)
	return nil
}

// openRun reads a run by its folder, its name, or last.
func openRun(name string) (k report.Kept, run result.Run, dir string, err error) {
	if dir, err = findRun(name); err != nil {
		return k, run, dir, &runner.PlanError{Err: err}
	}
	run, recs, err := result.Open(dir)
	if err != nil {
		return k, run, dir, err
	}
	runner.Plugins().Declare(&run, recs)
	return report.Kept{Document: report.Summarize(run, recs), Records: recs}, run, dir, nil
}

const pageExt = ".html"

// timeline gives a page what the run's telemetry saw over time. A page without it, or
// with a part, says why.
func (a *app) timeline(dir string, run result.Run, k *report.Kept) {
	in, err := result.OpenTelemetry(dir)
	if err == nil {
		k.Document.Timeline, err = timeline.Read(in, run, k.Records)
		in.Close()
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) && len(run.Series) == 0 {
		return
	}
	a.note("! drawings over time: %v", err)
	k.Document.Warnings = append(slices.Clip(k.Document.Warnings), fmt.Sprintf("not all that was sampled is drawn: %v", err))
}

// writeReport writes the report of the run in dir in the format of the file's name.
func (a *app) writeReport(name, dir string, o *files.Owner, run result.Run, k report.Kept) error {
	ext, err := formatOf(name)
	if err != nil {
		return err
	}
	if ext == pageExt {
		a.timeline(dir, run, &k)
	}
	var b bytes.Buffer
	if err := formats[ext](&b, []report.Kept{k}); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return writeFile(name, o, b.Bytes())
}

// deliver writes to the file that --output names, and says so; "", "-": to standard output.
func (a *app) deliver(out string, data []byte) error {
	if out == "" || out == "-" {
		_, err := a.out.Write(data)
		return err
	}
	if err := writeFile(out, sudoer(), data); err != nil {
		return err
	}
	a.wrote(out)
	return nil
}

// wrote says which file was written.
func (a *app) wrote(name string) { a.note("wrote %s", name) }

func writeFile(name string, o *files.Owner, data []byte) error {
	if err := files.Replace(name, o, func(f *os.File) error { _, err := f.Write(data); return err }); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (a *app) schema() *cobra.Command {
	kinds := []struct {
		name string
		of   func() schema.Object
	}{
		{"plan", func() schema.Object { return runner.PlanSchema(a.plugins) }},
		{"record", func() schema.Object { return schema.Of(reflect.TypeFor[result.Record]()) }},
		{"run", func() schema.Object { return schema.Of(reflect.TypeFor[result.Run]()) }},
		{"page", func() schema.Object {
			declared := map[string][]result.Metric{}
			for _, p := range a.plugins.Procedures {
				declared[p.Name] = p.Metrics
			}
			return page.Schema(declared)
		}},
		{"runs", func() schema.Object { return schema.Of(reflect.TypeFor[listedRuns]()) }},
		{"history", func() schema.Object { return schema.Of(reflect.TypeFor[store.History]()) }},
	}
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return &cobra.Command{
		Use: "schema " + strings.Join(names, "|"), Short: "Print the JSON schema of a plan, a record, a run, a page's data or lists",
		Long: "Schema prints a JSON schema (2020-12): of plans, made from the plug-ins of this\n" +
			"program; of a line of trials.jsonl (record); of run.json (run); of the data in an\n" +
			"HTML page (page), whose document is what --json prints; of what runs --json\n" +
			"prints (runs), and history --json (history).",
		Example: "  boxdyno schema plan > plan.schema.json",
		Args:    needs("a name", "there are "+strings.Join(names, ", ")), ValidArgs: names,
		RunE: do(func(_ context.Context, args []string) error {
			i := slices.Index(names, args[0])
			if i < 0 {
				return usage(fmt.Errorf("unknown schema %q: there are %s", args[0], strings.Join(names, ", ")))
			}
			_, err := a.out.Write(schema.Text(kinds[i].of(), "boxdyno "+names[i]))
			return err
		}),
	}
}
