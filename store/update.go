// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"boxdyno/internal/guard"
	"boxdyno/result"
)

// A Scan says which bundles Update reads.
type Scan struct {
	// Dirs are bundles, or folders with bundles in them, up to four folders deep. Hidden
	// folders and links in them are left out.
	Dirs []string
	// Again reads also all folders that were read on this machine before.
	Again bool
	// Rebuild reads all of them anew, and those that Again names: what the index has of them
	// is forgotten first, and for good what it has of folders that are not there. So is what
	// a file of SQLite has of other machines: of this one by another hostname, mostly.
	Rebuild bool
	// Judge says how a run ended; nil: nobody does.
	Judge Judge
	// Tell is called after each bundle that was entered, with how many of how many that is;
	// nil: nobody is told.
	Tell func(n, of int)
}

// deepest is how many folders below one of Scan.Dirs a bundle may lie.
const deepest = 4

// An Update says what became of a scan.
type Update struct {
	Bundles int       `json:"bundles"`          // that are there
	Read    int       `json:"read"`             // of them, those that were new or had changed
	Removed int       `json:"removed"`          // that were in the index and are not there any more
	Broken  []Problem `json:"broken,omitempty"` // that could not be read, in the order of their names
	Absent  []string  `json:"absent,omitempty"` // folders that are not there: what the index has of them is kept until Scan.Rebuild
}

// A Problem is a bundle that is in no list, and why.
type Problem struct {
	Dir   string `json:"dir"`
	Cause string `json:"cause"`
}

// Update brings the index up to date with bundles on the disk, a few in each transaction:
// what SIGKILL leaves is whole, and the next Update goes on from there. A bundle
// is read if its files' sizes or times are not those that the index knows. The error is of
// the index; bundles that cannot be read are among Update.Broken.
func (x *Index) Update(ctx context.Context, s Scan) (u Update, err error) {
	defer func() { err = advised(err) }()
	known, err := x.known(ctx)
	if err != nil {
		return u, fmt.Errorf("read the index: %w", err)
	}
	roots, err := x.roots(ctx, s)
	if err != nil {
		return u, err
	}
	dirs := map[string]bool{}
	var there, gone []string
	for _, root := range roots {
		found, err := find(ctx, root)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			u.Absent = append(u.Absent, root)
			if !s.Rebuild {
				continue
			}
		case err != nil:
			return u, fmt.Errorf("look for runs: %w", err)
		}
		if err := x.write(ctx, func(tx *sql.Tx) error {
			q := `INSERT INTO folders (host, dir) VALUES (?, ?) ON CONFLICT DO NOTHING`
			if err != nil { // absent
				q = `DELETE FROM folders WHERE host = ? AND dir = ?`
			}
			_, err := tx.ExecContext(ctx, x.sql(q), x.host, root)
			return err
		}); err != nil {
			return u, fmt.Errorf("write the index: %w", err)
		}
		for _, d := range found {
			dirs[d] = true
		}
		there = append(there, root)
	}
	for d := range known {
		if (s.Rebuild || !dirs[d]) && slices.ContainsFunc(there, func(root string) bool { return below(root, d) }) {
			gone = append(gone, d)
			if !dirs[d] {
				u.Removed++
			}
		}
	}
	if err := x.forget(ctx, gone); err != nil {
		return u, fmt.Errorf("write the index: %w", err)
	}
	if known, err = x.known(ctx); err != nil {
		return u, fmt.Errorf("read the index: %w", err)
	}
	if s.Rebuild && !x.postgres {
		if err := x.write(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `DELETE FROM bundles WHERE host <> ?`, x.host); err != nil {
				return err
			}
			return x.sweep(ctx, tx)
		}); err != nil {
			return u, fmt.Errorf("write the index: %w", err)
		}
	}
	u.Bundles = len(dirs)
	var due []bundle
	for d := range dirs {
		b := bundle{dir: d}
		if b.stamp, b.err = stampOf(d); text(d) != d {
			u.Broken = append(u.Broken, Problem{text(d), "its name is not UTF-8, or too long"})
			continue
		}
		if k, ok := known[d]; ok && k.stamp == b.stamp {
			if k.problem != "" {
				u.Broken = append(u.Broken, Problem{d, k.problem})
			}
			continue
		}
		due = append(due, b)
	}
	slices.SortFunc(due, func(a, b bundle) int { return strings.Compare(a.dir, b.dir) })
	if err := errors.Join(x.take(ctx, due, s, &u), x.write(ctx, func(tx *sql.Tx) error { return x.sweep(ctx, tx) })); err != nil {
		return u, fmt.Errorf("write the index: %w", err)
	}
	slices.SortFunc(u.Broken, func(a, b Problem) int { return strings.Compare(a.Dir, b.Dir) })
	return u, ctx.Err()
}

// A bundle is one to read.
type bundle struct {
	dir, stamp string
	err        error // why it cannot be read
	entry      *entry
}

// take reads the bundles that are due side by side, and writes one after the other.
func (x *Index) take(ctx context.Context, due []bundle, s Scan, u *Update) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	todo, done := make(chan bundle), make(chan bundle, atOnce)
	var group guard.Group
	for range min(runtime.GOMAXPROCS(0), 4, len(due)) {
		group.Go(func() {
			for b := range todo {
				if b.err == nil {
					b.entry, b.err = read(b.dir, s.Judge)
				}
				select {
				case done <- b:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	group.Go(func() {
		defer close(todo)
		for _, b := range due {
			select {
			case todo <- b:
			case <-ctx.Done():
				return
			}
		}
	})
	defer group.Wait()
	defer cancel()
	for n := 0; n < len(due); {
		var some []bundle
		select {
		case b := <-done:
			some = append(some, b)
		case <-ctx.Done():
			return ctx.Err()
		}
		for len(some) < atOnce && len(done) > 0 {
			some = append(some, <-done)
		}
		for _, b := range some {
			if b.err != nil {
				u.Broken = append(u.Broken, Problem{b.dir, b.problem()})
			}
		}
		if err := x.write(ctx, func(tx *sql.Tx) error {
			for _, b := range some {
				if err := x.put(ctx, tx, b); err != nil {
					return fmt.Errorf("%s: %w", b.dir, err)
				}
			}
			return nil
		}); err != nil {
			return err
		}
		for range some {
			if n++; s.Tell != nil {
				s.Tell(n, len(due))
			}
		}
		u.Read += len(some)
	}
	return nil
}

// atOnce is how many bundles a transaction takes at most, of those that were read
// meanwhile.
const atOnce = 16

// copied is the stamp of a bundle with a run of which another bundle was forgotten, maybe
// the one that the index has. It is read again.
const copied = "copied"

// problem is why the bundle cannot be read; its folder is named beside it.
func (b bundle) problem() string {
	return text(strings.ReplaceAll(b.err.Error(), b.dir+string(filepath.Separator), ""))
}

// put replaces what the index has of a bundle. Of a run with two bundles the index has
// the one with more records, of those that are not forgotten.
func (x *Index) put(ctx context.Context, tx *sql.Tx, b bundle) error {
	var key int64
	var tags, problem string
	if b.err != nil {
		if problem = b.problem(); errors.Is(b.err, fs.ErrPermission) {
			b.stamp = "" // which files do not tell
		}
	} else {
		key, tags = b.entry.key, words(b.entry.run.Tags)
	}
	var was string
	err := tx.QueryRowContext(ctx, x.sql(`SELECT stamp FROM bundles WHERE host = ? AND dir = ?`), x.host, text(b.dir)).Scan(&was)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	_, err = tx.ExecContext(ctx, x.sql(`INSERT INTO bundles (host, dir, stamp, run, tags, problem) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (host, dir) DO UPDATE SET stamp = excluded.stamp, run = excluded.run, tags = excluded.tags, problem = excluded.problem`),
		x.host, text(b.dir), b.stamp, key, tags, problem)
	if err != nil || b.err != nil {
		return err
	}
	var others, records int
	err = tx.QueryRowContext(ctx, x.sql(`SELECT (SELECT COUNT(*) FROM bundles WHERE run = ? AND NOT (host = ? AND dir = ?)), COALESCE((SELECT points + trials FROM runs WHERE key = ?), -1)`),
		key, x.host, text(b.dir), key).Scan(&others, &records)
	if err != nil || was != copied && others > 0 && records >= b.entry.run.Points+b.entry.run.Trials {
		return err
	}
	// The first of the copies that is read counts until one with more records is.
	if _, err := tx.ExecContext(ctx, x.sql(`UPDATE bundles SET stamp = '' WHERE run = ? AND stamp = ?`), key, copied); err != nil {
		return err
	}
	return x.putRun(ctx, tx, b.entry)
}

func (x *Index) putRun(ctx context.Context, tx *sql.Tx, e *entry) error {
	r := e.run
	columns := []string{"key", "id", "start_ns", "version", "role", "preset", "topology", "box", "kind", "machine", "board", "procedures", "points", "invalid", "trials", "seconds", "unfinished", "verdict", "sentence", "environment"}
	var updates []string
	for _, c := range columns[1:] {
		updates = append(updates, c+" = excluded."+c)
	}
	unfinished := 0
	if r.Unfinished {
		unfinished = 1
	}
	if err := x.insert(ctx, tx, `INSERT INTO runs (`+strings.Join(columns, ", ")+`)`, ` ON CONFLICT (key) DO UPDATE SET `+strings.Join(updates, ", "),
		[][]any{{e.key, r.ID, r.Start.UnixNano(), r.Version, r.Role, r.Preset, r.Topology, r.Box, r.Kind, r.Machine, r.Board, words(r.Procedures), r.Points, r.Invalid, r.Trials, r.Seconds, unfinished, string(r.Verdict), r.Sentence, e.envKey}}); err != nil {
		return err
	}
	if err := x.insert(ctx, tx, `INSERT INTO environments (key, pairs)`, ` ON CONFLICT DO NOTHING`, [][]any{{e.envKey, string(e.env)}}); err != nil {
		return err
	}
	var rows [][]any
	for _, s := range e.series {
		rows = append(rows, []any{s.key, s.metric, s.unit, s.better, string(s.settings)})
	}
	if err := x.insert(ctx, tx, `INSERT INTO series (key, metric, unit, better, settings)`, ` ON CONFLICT (key) DO UPDATE SET better = excluded.better`, rows); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, x.sql(`DELETE FROM figures WHERE run = ?`), e.key); err != nil {
		return err
	}
	rows = rows[:0]
	for _, f := range e.figures {
		rows = append(rows, []any{f.series, e.key, f.ordinal, f.value.Value, f.value.Lo, f.value.Hi, text(string(f.value.Bound))})
	}
	return x.insert(ctx, tx, `INSERT INTO figures (series, run, ordinal, value, lo, hi, bound)`, ``, rows)
}

// sweep removes runs that no bundle holds any more. Until then no list has them.
func (x *Index) sweep(ctx context.Context, tx *sql.Tx) error {
	for _, q := range []string{
		`DELETE FROM figures WHERE run IN (SELECT key FROM runs WHERE NOT EXISTS (SELECT 1 FROM bundles WHERE bundles.run = runs.key))`,
		`DELETE FROM runs WHERE NOT EXISTS (SELECT 1 FROM bundles WHERE bundles.run = runs.key)`,
	} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// forget forgets bundles of this machine, and the runs that they alone hold. Other bundles
// of their runs are read again.
func (x *Index) forget(ctx context.Context, dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	return x.write(ctx, func(tx *sql.Tx) error {
		for _, dir := range dirs {
			if _, err := tx.ExecContext(ctx, x.sql(`UPDATE bundles SET stamp = ? WHERE problem = '' AND run = (SELECT run FROM bundles WHERE host = ? AND dir = ?)`), copied, x.host, dir); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, x.sql(`DELETE FROM bundles WHERE host = ? AND dir = ?`), x.host, dir); err != nil {
				return err
			}
		}
		return x.sweep(ctx, tx)
	})
}

// known are this machine's bundles in the index, by folder.
func (x *Index) known(ctx context.Context) (map[string]struct{ stamp, problem string }, error) {
	rows, err := x.db.QueryContext(ctx, x.sql(`SELECT dir, stamp, problem FROM bundles WHERE host = ?`), x.host)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]struct{ stamp, problem string }{}
	for rows.Next() {
		var dir string
		var k struct{ stamp, problem string }
		if err := rows.Scan(&dir, &k.stamp, &k.problem); err != nil {
			return nil, err
		}
		all[dir] = k
	}
	return all, rows.Err()
}

// roots are the folders to look into.
func (x *Index) roots(ctx context.Context, s Scan) (roots []string, err error) {
	for _, d := range s.Dirs {
		abs, err := filepath.Abs(d)
		if err != nil {
			return nil, err
		}
		roots = append(roots, abs)
	}
	if !s.Again && !s.Rebuild {
		return roots, nil
	}
	rows, err := x.db.QueryContext(ctx, x.sql(`SELECT dir FROM folders WHERE host = ? ORDER BY dir`), x.host)
	if err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var d string
		if err := rows.Scan(&d); err != nil {
			return nil, fmt.Errorf("read the index: %w", err)
		}
		if !slices.Contains(roots, d) {
			roots = append(roots, d)
		}
	}
	return roots, rows.Err()
}

// find are the bundles in root: itself, or folders below it.
func find(ctx context.Context, root string) (dirs []string, err error) {
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := os.Lstat(filepath.Join(dir, result.RunFile)); err == nil {
			dirs = append(dirs, dir)
			return nil
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			if depth > 0 { // a folder of somebody else, or one that has gone
				return nil
			}
			return err
		}
		for _, e := range entries {
			if e.IsDir() && depth < deepest && !strings.HasPrefix(e.Name(), ".") {
				if err := walk(filepath.Join(dir, e.Name()), depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err = walk(root, 0)
	return dirs, err
}

// below says whether dir is root or lies in it.
func below(root, dir string) bool {
	return dir == root || strings.HasPrefix(dir, strings.TrimSuffix(root, "/")+"/")
}

// words is a list as one column keeps it. What it holds has no line feed.
func words(list []string) string {
	if len(list) == 0 {
		return ""
	}
	clean := make([]string, len(list))
	for i, w := range list {
		clean[i] = strings.ReplaceAll(w, "\n", " ")
	}
	return strings.Join(clean, "\n")
}

func unwords(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// oldestFirst orders runs by their begin, then by name.
func oldestFirst(a, b Run) int {
	return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Dir, b.Dir))
}
