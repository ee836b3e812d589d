// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"boxdyno/examples"
	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/internal/yaml"
	"boxdyno/procedure"
	"boxdyno/procedure/far"
	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/store"
)

func (a *app) run() *cobra.Command {
	var f measureFlags
	var resume string
	cmd := &cobra.Command{
		Use:   "run PLAN|PROCEDURE",
		Short: "Run a plan, or one procedure with its defaults",
		Long: `Run measures by a plan: a YAML file, a plan that comes with boxdyno (boxdyno list
plans), or a procedure (boxdyno list procedures). The text
report goes to standard output; the run is kept and can be reported again.`,
		Example: `  sudo boxdyno run forward --set frame_size=64,imix --set direction=both --repeat 3
  sudo boxdyno run forward --set service=filter --set rules=10,1000 --standard
  boxdyno run forward-64B-ndr --dry-run
  boxdyno run forward --lab mem               in memory, without root
  sudo boxdyno run --resume ~/.local/state/boxdyno/runs/20260101-120000-forward`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completing(cobra.ShellCompDirectiveDefault, "procedures", "plans"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if resume != "" {
			for _, other := range []string{"set", "lab", "box", "quick", "standard", "repeat", "seed", "budget", "out", "tune", "telemetry", "collectors", "meter", "reading", "dry-run"} {
				if cmd.Flags().Changed(other) {
					return fmt.Errorf("--resume takes everything from the run in %s: leave out --%s", resume, other)
				}
			}
			if len(args) > 0 {
				return fmt.Errorf("--resume takes the plan from the run in %s: leave out %s", resume, args[0])
			}
		} else if len(args) == 0 {
			return errors.New("run needs a plan or a procedure: see boxdyno list plans and boxdyno list procedures")
		}
		return do(func(ctx context.Context, args []string) error {
			if resume != "" {
				return a.resume(ctx, resume, f)
			}
			return a.onBoxes(ctx, f, func(f measureFlags) error {
				p, what, err := a.plan(args[0])
				if err != nil {
					return err
				}
				if what != args[0] { // it is a file
					f.source = args[0]
				}
				return a.begin(ctx, p, what, f, result.Run{})
			})
		})(cmd, args)
	}
	f.add(a, cmd)
	f.addTune(cmd)
	cmd.Flags().StringVar(&resume, "resume", "", "go on with the run in `folder`; finished trials are not measured again")
	return cmd
}

// unknown is the error for a name of no procedure and no plan.
func (a *app) unknown(name string) error {
	if slices.ContainsFunc(far.Joint, func(s procedure.Spec) bool { return s.Name == name }) {
		return fmt.Errorf("%s needs boards of a fleet: type boxdyno fleet run %s", name, name)
	}
	var procedures, plans []string
	for _, s := range a.plugins.Procedures {
		procedures = append(procedures, s.Name)
	}
	for _, p := range examples.All() {
		plans = append(plans, p.Name)
	}
	return fmt.Errorf("there is no procedure and no plan %q%s: the procedures are %s; the plans are %s; a plan's file has a dot or a slash in its name", name, runner.DidYouMean(name, slices.Concat(procedures, plans)), strings.Join(procedures, ", "), strings.Join(plans, ", "))
}

// plan finds what run's argument names, with a word for the run's folder.
func (a *app) plan(arg string) (runner.Plan, string, error) {
	for _, s := range a.plugins.Procedures {
		if s.Name == arg {
			return runner.Use(arg), arg, nil
		}
	}
	for _, p := range examples.All() {
		if p.Name == arg {
			plan, err := runner.Parse(p.Name, p.Data)
			return plan, p.Name, err
		}
	}
	if !strings.ContainsAny(arg, "./") {
		return runner.Plan{}, "", &runner.PlanError{Err: a.unknown(arg)}
	}
	data, err := files.Read(arg, yaml.MaxSize)
	if err != nil {
		return runner.Plan{}, "", &runner.PlanError{Err: fmt.Errorf("read the plan: %w", err)}
	}
	plan, err := runner.Parse(arg, data)
	return plan, strings.TrimSuffix(filepath.Base(arg), filepath.Ext(arg)), err
}

// begin starts a new run.
func (a *app) begin(ctx context.Context, p runner.Plan, what string, f measureFlags, header result.Run) error {
	if err := f.outputs(); err != nil {
		return err
	}
	if !f.allow {
		if err := ownCommands(p, f.source); err != nil {
			return err
		}
	}
	if err := f.apply(a, &p); err != nil {
		return err
	}
	if f.box != "" {
		var left []string
		p, left = p.WithoutOwnLabs()
		header.NotMeasured = append(header.NotMeasured, left...)
		for _, l := range left {
			a.note("left out: %s", l)
		}
	}
	if !f.allow { // of --set, too
		if err := ownCommands(p, ""); err != nil {
			return err
		}
	}
	p, err := p.Resolve(a.plugins)
	if err != nil {
		return err
	}
	if header.Role != "" {
		var left []string
		if p, left, err = p.Offered(a.plugins); err != nil {
			return err
		}
		header.NotMeasured = append(header.NotMeasured, left...)
		for _, l := range left {
			a.note("left out: %s", l)
		}
	}
	recipe, err := tuning(f.tune)
	if err != nil {
		return err
	}
	if recipe != nil {
		if err := p.TuneRunsOn(a.plugins, *recipe, "--tune"); err != nil {
			return err
		}
	}
	if f.dryRun {
		points, err := p.Points(a.plugins)
		if err != nil {
			return err
		}
		return a.dryRun(p, points, f.json)
	}
	return a.fresh(ctx, p, what, f, runner.Options{Header: header, Tune: recipe})
}

// command is what was typed, without smart plugs' passwords.
func (a *app) command(w runner.Watching) (argv []string) {
	for _, arg := range a.argv {
		for _, plug := range w.Plugs() {
			arg = strings.ReplaceAll(arg, plug, runner.PublicPlug(plug))
		}
		argv = append(argv, arg)
	}
	return argv
}

// fresh carries out a resolved plan in a folder of its own.
func (a *app) fresh(ctx context.Context, p runner.Plan, what string, f measureFlags, o runner.Options) (err error) {
	dir := f.out
	if dir == "" {
		if dir, err = newDir(what, time.Now()); err != nil {
			return err
		}
		if err := writable(dir); err != nil {
			return &runner.PlanError{Err: fmt.Errorf("%w; give --out FOLDER", err)}
		}
	}
	o.Header.Box = f.box
	o.Header.Version, o.Header.ID, o.Header.Command = Version(), filepath.Base(dir), a.command(p.Telemetry)
	return a.measure(ctx, p, &sink{dir: dir, owner: sudoer()}, o, f)
}

// resume goes on with a run that broke off.
// The smart plug's URL is f's where it has a password: that is not kept.
func (a *app) resume(ctx context.Context, dir string, f measureFlags) error {
	dir, err := findRun(dir)
	if err != nil {
		return &runner.PlanError{At: "--resume", Err: err}
	}
	if f.report != "" {
		if _, err := formatOf(f.report); err != nil {
			return err
		}
		if err := outputFile("--report", f.report, dir); err != nil {
			return err
		}
	}
	owner := sudoer()
	b, header, done, err := result.Resume(owner, dir)
	if errors.Is(err, result.ErrInUse) {
		return &host.Missing{What: "a run that has ended in " + dir, Hint: "another boxdyno is measuring it; wait until that has finished, or stop it"}
	}
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	p, err := runner.Parse(filepath.Join(dir, result.RunFile)+" (plan)", header.Plan)
	if err == nil && !f.allow {
		err = ownCommands(p, filepath.Join(dir, result.RunFile))
	}
	if err == nil {
		p.Telemetry.Plug = cmp.Or(f.ask.plug, p.Telemetry.Plug)
		for _, plug := range f.ask.plugs {
			err = errors.Join(err, p.Telemetry.Set("plug", plug))
		}
	}
	if err == nil {
		p, err = p.Resolve(a.plugins)
	}
	if err != nil {
		b.Close()
		return err
	}
	if header.Version != Version() {
		header.Warnings = append(header.Warnings, fmt.Sprintf("begun with boxdyno %s and resumed with %s", header.Version, Version()))
	}
	s := &sink{dir: dir, bundle: b, owner: owner}
	return a.measure(ctx, p, s, runner.Options{Header: header, Done: done, Resume: true}, f)
}

func (a *app) measure(ctx context.Context, p runner.Plan, s *sink, o runner.Options, f measureFlags) (err error) {
	bar := newProgress(a.live, a.quiet)
	o.Catalogue = a.plugins
	o.Notify = func(e runner.Event) {
		bar.event(e)
		s.Log(logged(e, time.Now()))
	}
	o.Log = slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	run, recs, err := runner.Run(ctx, p, s, o)
	bar.stop()
	s.Log(ended(ctx, err, time.Now()))
	if s.unkept != nil {
		a.note("! %v: boxdyno serve does not show all of this run's log", s.unkept)
	}
	err = errors.Join(err, s.Close())
	skipped, rest := apart(err)
	exit := worst(code(ctx, skipped), code(ctx, rest))
	switch {
	case s.bundle == nil && exit == exitInterrupted:
		return &failure{exit, errors.New("interrupted before anything was measured")}
	case s.bundle == nil && err != nil:
		return &failure{exit, err}
	case exit == exitInterrupted || exit == exitOther:
		if exit == exitInterrupted {
			err = errors.New("interrupted")
		}
		return &failure{exit, fmt.Errorf("%w; finished trials are kept, and boxdyno run --resume %s goes on", err, s.dir)}
	}
	if holds(s.dir, result.TelemetryFile) { // of an earlier part, too
		name := filepath.Join(s.dir, store.ParquetFile)
		if _, perr := store.WriteParquet(s.dir, name, s.owner); perr != nil {
			a.note("! %v; the samples are in %s", perr, result.TelemetryFile)
		}
	}
	runner.Plugins().Declare(&run, recs)
	d := report.Summarize(run, recs)
	if err := a.print(d, f.json); err != nil {
		return err
	}
	if run.Role != "" || run.Ablation != nil {
		page := f.report
		if page == "" {
			page = filepath.Join(s.dir, "report.html")
		} else if dir := filepath.Dir(page); within(s.dir, dir) {
			folder, err := files.MakeFolder(dir, s.owner)
			if err != nil {
				return fmt.Errorf("make the report's folder: %w", err)
			}
			folder.Close()
		}
		if err := a.writeReport(page, s.dir, s.owner, run, report.Kept{Document: d, Records: recs}); err != nil {
			return err
		}
		a.note("page: %s", page)
	}
	if err := a.keepBest(s, run, d); err != nil {
		return err
	}
	a.note("run: %s", s.dir)
	exit = worst(exit, ofStatus(d.Verdict))
	for _, r := range recs {
		if run.Ablation != nil || len(run.Criteria) > 0 {
			break // it has repeats to spare; or the criteria say which points matter
		}
		if r.Parent == "" && (r.Status == result.Invalid || r.Status == result.Skipped) {
			exit = worst(exit, ofStatus(r.Status))
		}
	}
	if len(run.Criteria) > 0 && exit == exitMissing && rest == nil && d.Verdict == result.Passed {
		fmt.Fprintf(a.err, "! %v\n", skipped) // an alternative that the verdict does not need
		exit, err = exitOK, nil
	}
	if exit == exitOK && err == nil {
		return nil
	}
	return &failure{exit, err}
}

// apart parts what a run's error joins: that points were skipped, and all else.
func apart(err error) (skipped, rest error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			s, r := apart(e)
			skipped, rest = errors.Join(skipped, s), errors.Join(rest, r)
		}
		return skipped, rest
	}
	if errors.As(err, new(*runner.SkippedError)) {
		return err, nil
	}
	return nil, err
}

func (a *app) print(d report.Document, asJSON bool) error {
	if asJSON {
		return text.JSON(a.out, d)
	}
	return text.Terminal(a.out, d)
}

// note says something on standard error unless it shall be quiet.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintln(a.err, fmt.Sprintf(format, args...))
	}
}

func encode(w interface{ Write([]byte) (int, error) }, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
