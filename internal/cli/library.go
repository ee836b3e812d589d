// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/store"
)

// The library of runs: an index of bundles, which every command brings up to date before it
// answers. So a run that has just ended is in it, whoever made it.

// indexVariable names another index than the one beside the runs.
const indexVariable = "BOXDYNO_INDEX"

// A library is an open index, and the runs that it was asked for.
type library struct {
	*store.Index
	runs   string // the folder of runs at the default place
	update store.Update
}

// indexFlag is on every command that reads the index.
func indexFlag(cmd *cobra.Command, where *string) {
	cmd.Flags().StringVar(where, "index", "", "`FILE` or postgres:// URL of the index (default $"+indexVariable+", else index.db beside the runs)")
}

// A place is where runs and their index are, as flags name it.
type place struct{ index, runs string }

// placeFlags are on every command that can read another folder of runs.
func placeFlags(cmd *cobra.Command, p *place) {
	indexFlag(cmd, &p.index)
	cmd.Flags().StringVar(&p.runs, "runs", "", "`folder` of the runs, which has an index of its own beside it (default $XDG_STATE_HOME/boxdyno/runs)")
}

// open opens the index of the place. One beside the runs that cannot be written stands in a
// temporary folder until it is closed.
func (p place) open(ctx context.Context, a *app) (*library, error) {
	l, err := p.begin(ctx, a, false)
	if errors.Is(err, store.ErrUnwritable) && p.index == "" && (p.runs != "" || os.Getenv(indexVariable) == "") {
		a.note("! the index beside the runs cannot be written: all runs are read for this answer; --index FILE keeps an index elsewhere")
		return p.begin(ctx, a, true)
	}
	return l, err
}

func (p place) begin(ctx context.Context, a *app, aside bool) (*library, error) {
	s := store.Scan{Again: true}
	if p.runs == "" {
		return a.library(ctx, p.index, aside, s)
	}
	dir, err := filepath.Abs(p.runs)
	if err != nil {
		return nil, err
	}
	if err := asCaller(); err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, &runner.PlanError{At: "--runs", Err: fmt.Errorf("there is no folder %s", dir)}
	}
	s.Dirs = []string{dir}
	return a.library(ctx, cmp.Or(p.index, filepath.Join(filepath.Dir(dir), filepath.Base(dir)+"-index.db")), aside, s)
}

// library opens the index, and brings it up to date with the runs at the default place and
// all that was indexed before, as s adds to it; aside: a new one in a temporary folder.
func (a *app) library(ctx context.Context, where string, aside bool, s store.Scan) (*library, error) {
	if err := asCaller(); err != nil {
		return nil, err
	}
	runs, err := runsDir()
	if err != nil {
		return nil, err
	}
	if runs, err = filepath.Abs(runs); err != nil {
		return nil, err
	}
	at := "--index"
	if where == "" {
		at, where = "$"+indexVariable, os.Getenv(indexVariable)
	}
	open := func() (*store.Index, error) {
		return store.Open(ctx, cmp.Or(where, filepath.Join(filepath.Dir(runs), "index.db")))
	}
	if aside {
		open = func() (*store.Index, error) { return store.OpenAside(ctx) }
	}
	x, err := open()
	if errors.Is(err, store.ErrPlace) {
		err = &runner.PlanError{At: at, Err: err}
	}
	if err != nil {
		return nil, err
	}
	l := &library{Index: x, runs: runs}
	if _, err := os.Stat(runs); err == nil && len(s.Dirs) == 0 {
		s.Dirs = append(s.Dirs, runs)
	}
	s.Judge = a.judge
	s.Tell = func(n, of int) {
		if of >= 500 && n%500 == 1 {
			a.note("reading runs: %d of %d", n, of)
		}
	}
	if l.update, err = x.Update(ctx, s); err != nil {
		_ = x.Close()
		return nil, err
	}
	return l, nil
}

// judge is how a run ended by its report.
func (a *app) judge(run result.Run, recs []result.Record) (result.Status, string) {
	a.plugins.Declare(&run, recs)
	d := report.Summarize(run, recs)
	return d.Verdict, d.Sentence
}

// left names bundles that are in no list.
func (a *app) left(u store.Update) {
	const most = 5
	for i, p := range u.Broken {
		if i == most {
			a.note("! %d more are left out: boxdyno index names them", len(u.Broken)-most)
			break
		}
		a.note("! left out %s: %s", p.Dir, p.Cause)
	}
	for _, dir := range u.Absent {
		a.note("! %s is not there: what the index has of it is shown", dir)
	}
}

// asCaller gives up root for the user who called sudo. What is to come reads and writes
// that user's files alone, and needs no privilege.
func asCaller() error {
	o := sudoer()
	if o == nil {
		return nil
	}
	u, err := user.LookupId(strconv.Itoa(o.UID))
	if err != nil {
		return fmt.Errorf("become user %d, who called sudo: %w", o.UID, err)
	}
	if u.HomeDir != "" {
		if err := os.Setenv("HOME", u.HomeDir); err != nil {
			return err
		}
	}
	var groups []int
	if ids, err := u.GroupIds(); err == nil {
		for _, id := range ids {
			if n, err := strconv.Atoi(id); err == nil {
				groups = append(groups, n)
			}
		}
	}
	for _, step := range []func() error{
		func() error { return syscall.Setgroups(groups) },
		func() error { return syscall.Setresgid(o.GID, o.GID, o.GID) },
		func() error { return syscall.Setresuid(o.UID, o.UID, o.UID) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("become user %d, who called sudo: %w", o.UID, err)
		}
	}
	return nil
}

// moment reads a time: a day, a time of a day (UTC where it names no zone), or an age such
// as 30d or 12h. The error is a *runner.PlanError at flag.
func moment(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil
		}
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 36500 {
			return now.Add(-time.Duration(n * 24 * float64(time.Hour))), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, &runner.PlanError{At: flag, Err: fmt.Errorf("%q is no time: give a day such as 2026-01-31, a time such as 2026-01-31T12:00, or an age such as 30d or 12h", s)}
}

func (a *app) index() *cobra.Command {
	var where string
	var rebuild, asJSON bool
	cmd := &cobra.Command{
		Use:   "index [DIR...]",
		Short: "Enter runs into the index, which runs and history read",
		Long: `Index reads the runs at the default place, and those in each DIR: a run's folder, or
a folder with runs up to four folders deep, of this or another machine. It reads what is
new or has changed; --rebuild reads all anew. Runs and history do the same before they
answer, but for a new DIR. The index holds nothing that is not in the runs: remove
it whenever you like. A run that cannot be read is named and left out, and the exit code is 5.

The index is a file of SQLite beside the runs. Several machines can share one in PostgreSQL:
give its URL with --index or in $` + indexVariable + `. PGPASSWORD and ~/.pgpass keep the password
out of it.`,
		Example: `  boxdyno index
  boxdyno index /srv/runs-of-the-lab
  boxdyno index --rebuild
  boxdyno index --index postgres://lab@db.example/boxdyno`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: do(func(ctx context.Context, args []string) error {
			for _, dir := range args {
				if info, err := os.Stat(dir); err != nil || !info.IsDir() {
					return &runner.PlanError{Err: fmt.Errorf("there is no folder %s", dir)}
				}
			}
			defer debug.SetGCPercent(debug.SetGCPercent(300)) // bundles are read once and let go
			l, err := a.library(ctx, where, false, store.Scan{Dirs: args, Again: len(args) == 0, Rebuild: rebuild})
			if err != nil {
				return err
			}
			defer l.Close()
			u := l.update
			if asJSON {
				err = encode(a.out, indexed{result.Schema, u})
			} else {
				_, err = fmt.Fprintf(a.out, "%d runs: %d read, %d unchanged, %d gone, %d not readable\n", u.Bundles, u.Read, u.Bundles-u.Read, u.Removed, len(u.Broken))
			}
			if err != nil {
				return err
			}
			for _, p := range u.Broken {
				a.note("! left out %s: %s", p.Dir, p.Cause)
			}
			became := "kept"
			if rebuild {
				became = "forgotten"
			}
			for _, dir := range u.Absent {
				a.note("! %s is not there: what the index has of it is %s", dir, became)
			}
			if n := len(u.Broken); n > 0 {
				return &failure{exitOther, fmt.Errorf("%d of %d runs cannot be read and are in no list; the first is %s: repair or remove it", n, u.Bundles, u.Broken[0].Dir)}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "forget what the index has of this machine's runs, and read all anew")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document instead of text")
	indexFlag(cmd, &where)
	return cmd
}

// indexed is what index --json prints.
type indexed struct {
	Schema int `json:"schema"`
	store.Update
}
