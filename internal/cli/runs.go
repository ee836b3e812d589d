// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/store"
)

// listedRuns is what runs --json prints.
type listedRuns struct {
	Schema int             `json:"schema"`
	Runs   []store.Run     `json:"runs"` // the oldest first
	Broken []store.Problem `json:"broken,omitempty"`
}

func (a *app) runs() *cobra.Command {
	var f store.Filter
	var at place
	var box, since, until string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List the runs that were kept; tag, remove and restore them",
		Long: `Runs lists what was measured, the oldest first. It finds runs at the default place,
and where boxdyno index was sent. Several filters must all hold.
A time is a day, a time of a day in UTC, or an age such as 30d or 12h.`,
		Example: `  boxdyno runs
  boxdyno runs --role firewall --since 30d
  boxdyno runs --box pi5 --procedure forward --json
  boxdyno runs --box group=rack1
  boxdyno runs tag last before-the-update
  boxdyno runs rm last
  boxdyno runs undo`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("runs has no command %s: there are tag, rm, undo, restore and trash", args[0])
			}
			return nil
		},
		RunE: do(func(ctx context.Context, _ []string) (err error) {
			now := time.Now()
			if f.Since, err = moment("--since", since, now); err != nil {
				return err
			}
			if f.Until, err = moment("--until", until, now); err != nil {
				return err
			}
			if f.Newest < 0 {
				return &runner.PlanError{At: "--newest", Err: errors.New("it is a number from 1 on")}
			}
			if f.Boxes, err = selected(box); err != nil {
				return err
			}
			l, err := at.open(ctx, a)
			if err != nil {
				return err
			}
			defer l.Close()
			runs, err := l.Runs(ctx, f)
			if err != nil {
				return err
			}
			a.left(l.update)
			if asJSON {
				return encode(a.out, listedRuns{result.Schema, append([]store.Run{}, runs...), l.update.Broken})
			}
			if where := cmp.Or(at.runs, l.runs); len(runs) == 0 {
				if all, err := l.Runs(ctx, store.Filter{Newest: 1}); err != nil {
					return err
				} else if len(all) > 0 {
					a.note("no run in %s has all of that: boxdyno runs, without filters, lists all", where)
				} else {
					a.note("no run is kept in %s yet: boxdyno run forward --lab mem makes one without root", where)
				}
				return nil
			}
			return runTable(a.out, terminalWidth(a.out), l.runs, runs)
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&box, "box", "", "only runs of the box, or of the machine, of that `NAME`, or of the boxes in group=NAME")
	fs.StringVar(&f.Role, "role", "", "only runs of qualify `ROLE`")
	fs.StringVar(&f.Procedure, "procedure", "", "only runs with that `procedure`")
	fs.StringVar(&f.Tag, "tag", "", "only runs with that `tag`")
	fs.StringVar(&since, "since", "", "only runs that began at that `time` or later")
	fs.StringVar(&until, "until", "", "only runs that began before that `time`")
	fs.IntVar(&f.Newest, "newest", 0, "only the newest `N`")
	fs.BoolVar(&asJSON, "json", false, "print one JSON document instead of text")
	placeFlags(cmd, &at)
	_ = cmd.RegisterFlagCompletionFunc("procedure", a.completing(cobra.ShellCompDirectiveNoFileComp, "procedures"))
	_ = cmd.RegisterFlagCompletionFunc("role", a.completing(cobra.ShellCompDirectiveNoFileComp, "roles"))
	_ = cmd.RegisterFlagCompletionFunc("box", boxNames)
	cmd.AddCommand(a.runsTag(), a.runsRemove(), a.runsUndo(), a.runsRestore(), a.runsTrash())
	return cmd
}

// runTable prints a line for each run, on a terminal of that width; 0: the width does not matter.
func runTable(out io.Writer, width int, folder string, runs []store.Run) error {
	rows := [][]string{{"run", "measured", "box", "kind", "points", "verdict", "tags"}}
	for _, r := range runs {
		what := cmp.Or(r.Role, strings.Join(r.Procedures, " "), "-")
		verdict := string(r.Verdict)
		if r.Role == "" {
			verdict = done(r.Verdict)
		}
		cells := []string{r.Name(folder), what, cmp.Or(r.Box, "-"), r.Kind, fmt.Sprint(r.Points), verdict, strings.Join(r.Tags, " ")}
		for i := range cells {
			cells[i] = cell(cells[i])
		}
		rows = append(rows, cells)
	}
	if width > 0 && wide(rows) > width {
		for i, r := range runs {
			if n := len(r.Procedures); r.Role == "" && n > 1 {
				rows[i+1][1] = cell(fmt.Sprintf("%s and %d more", r.Procedures[0], n-1))
			}
		}
	}
	gone := fit(rows, width, "points", "kind")
	if err := tabled(out, rows); err != nil {
		return err
	}
	tooNarrow(out, width, gone, "--json has all")
	return nil
}

// row is a line of a table, whatever others have written into its cells.
func row(w io.Writer, cells ...string) {
	for i := range cells {
		cells[i] = cell(cells[i])
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

func (a *app) runsTag() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "tag RUN TAG...",
		Short: "Give a run tags, or take them away",
		Long: `Tag gives a run words to find it by, which are kept in its folder. RUN is a run's
folder, its name at the default place, or last. A tag is up to 64 letters, digits
and _.:@/+-.`,
		Example: `  boxdyno runs tag last before-the-update
  boxdyno runs tag last before-the-update --remove`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("tag needs RUN TAG...: a run, and the words that it gets")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return runNames(cmd, args, begun)
		},
		RunE: do(func(_ context.Context, args []string) error {
			if err := asCaller(); err != nil {
				return err
			}
			for _, t := range args[1:] {
				if err := result.CheckTag(t); err != nil {
					return &runner.PlanError{Err: err}
				}
			}
			dir, err := findRun(args[0])
			if err != nil {
				return &runner.PlanError{Err: err}
			}
			return result.ChangeTags(nil, dir, func(tags []string) []string {
				if remove {
					return slices.DeleteFunc(tags, func(t string) bool { return slices.Contains(args[1:], t) })
				}
				return append(tags, args[1:]...)
			})
		}),
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "take these tags away")
	return cmd
}

func (a *app) runsRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "rm RUN...",
		Short: "Move runs to the trash",
		Long: `Rm moves runs to a trash in the folder of runs, from which boxdyno runs undo brings them
back. It takes runs at the default place only, and none that still goes on.`,
		Example: `  boxdyno runs rm last
  boxdyno runs rm 20260101-120000-forward 20260102-120000-forward`,
		Args: needs("RUN...", "give the name of a run, or last"), ValidArgsFunction: runNames,
		RunE: do(func(_ context.Context, args []string) error {
			runs, err := a.atHome()
			if err != nil {
				return err
			}
			var names []string
			for _, arg := range args {
				name, err := nameAt(runs, arg)
				if err != nil {
					return err
				}
				names = append(names, name)
			}
			if err := store.Remove(runs, names, time.Now()); err != nil {
				return err
			}
			a.note("in the trash: %s; boxdyno runs undo brings back what was removed last", strings.Join(names, ", "))
			return nil
		}),
	}
}

// atHome is the folder of runs, as the user who called sudo.
func (a *app) atHome() (string, error) {
	if err := asCaller(); err != nil {
		return "", err
	}
	runs, err := runsDir()
	if err != nil {
		return "", err
	}
	return filepath.Abs(runs)
}

// nameAt is the name of a run in the folder runs. One that lies elsewhere is refused.
func nameAt(runs, arg string) (string, error) {
	dir, err := findRun(arg)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", &runner.PlanError{Err: err}
	}
	parent, err1 := os.Stat(filepath.Dir(dir))
	home, err2 := os.Stat(runs)
	if err1 != nil || err2 != nil || !os.SameFile(parent, home) {
		return "", &runner.PlanError{Err: fmt.Errorf("%s does not lie in %s: remove it by hand", arg, runs)}
	}
	return filepath.Base(dir), nil
}

func (a *app) restored(names []string) error {
	runs, err := a.atHome()
	if err != nil {
		return err
	}
	back, err := store.Restore(runs, names)
	if len(back) > 0 {
		a.note("back: %s", strings.Join(back, ", "))
	}
	if errors.Is(err, store.ErrNotThere) || errors.Is(err, store.ErrEmptyTrash) {
		return &runner.PlanError{Err: err}
	}
	return err
}

func (a *app) runsUndo() *cobra.Command {
	return &cobra.Command{
		Use: "undo", Short: "Bring back what the last rm removed", Args: cobra.NoArgs,
		Example: "  boxdyno runs undo",
		RunE:    do(func(context.Context, []string) error { return a.restored(nil) }),
	}
}

func (a *app) runsRestore() *cobra.Command {
	return &cobra.Command{
		Use: "restore RUN...", Short: "Bring runs back from the trash",
		Example: "  boxdyno runs restore 20260101-120000-forward",
		Args:    needs("RUN...", "see boxdyno runs trash"),
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			if runs, err := runsDir(); err == nil {
				all, _ := store.Trash(runs) // of one that cannot be read: nothing
				for _, t := range all {
					names = append(names, t.Name)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: do(func(_ context.Context, args []string) error { return a.restored(args) }),
	}
}

func (a *app) runsTrash() *cobra.Command {
	var empty bool
	cmd := &cobra.Command{
		Use: "trash", Short: "List the runs in the trash, or delete them for ever", Args: cobra.NoArgs,
		Example: "  boxdyno runs trash\n  boxdyno runs trash --empty",
		RunE: do(func(context.Context, []string) error {
			runs, err := a.atHome()
			if err != nil {
				return err
			}
			all, err := store.Trash(runs)
			if err != nil {
				return err
			}
			if empty {
				if err := store.Empty(runs); err != nil {
					return err
				}
				a.note("deleted for ever: %d runs", len(all))
				return nil
			}
			if len(all) == 0 {
				a.note("the trash is empty")
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			for _, t := range all {
				row(w, t.Name, "removed "+t.At.Format("2006-01-02 15:04:05 UTC"))
			}
			return w.Flush()
		}),
	}
	cmd.Flags().BoolVar(&empty, "empty", false, "delete what is in the trash; nothing brings it back")
	return cmd
}
