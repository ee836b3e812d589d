// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // "sqlite"

	"boxdyno/internal/files"
)

// An Index is what many bundles say, for lists and histories: a file of SQLite, or a
// database of PostgreSQL that several machines share. Bundles stay the truth: an index
// can be removed, and made again with Update. Safe for concurrent use, by several
// processes too.
type Index struct {
	db       *sql.DB
	postgres bool
	host     string // whose bundles this process sees
	aside    string // a folder that is removed at the end; "": there is none
}

// ErrUnwritable is the error of an index in a folder that this user cannot write to.
var ErrUnwritable = errors.New("its folder cannot be written: name a place for another index with --index")

// OpenAside opens an empty index that is removed when it is closed.
func OpenAside(ctx context.Context) (*Index, error) {
	dir, err := os.MkdirTemp("", "boxdyno-index-")
	if err != nil {
		return nil, fmt.Errorf("make an index: %w", err)
	}
	x, err := Open(ctx, filepath.Join(dir, "index.db"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	x.aside = dir
	return x, nil
}

// Open opens the index at where: a postgres:// URL, or the name of a file, which is made
// with its folder if it does not exist. ErrPlace: where is neither. Whoever may write to the
// file owns what is in it: root opens no index in a folder of another user.
func Open(ctx context.Context, where string) (*Index, error) {
	x := &Index{postgres: strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://")}
	hostname, _ := os.Hostname()
	id, _ := files.Read("/etc/machine-id", 4096) // "": the machine has none
	x.host = hostOf(hostname, string(id))
	name, err := "the index in PostgreSQL", error(nil) // the URL may hold a password
	switch scheme, _, isURL := strings.Cut(where, ":"); {
	case x.postgres:
		x.db, err = openServer(where)
	case isURL && !strings.ContainsAny(scheme, "./"):
		return nil, fmt.Errorf("%q: %w", scheme+":", ErrPlace)
	default:
		name = "the index " + where
		x.db, err = openFile(where)
	}
	if err != nil {
		return nil, advised(fmt.Errorf("open %s: %w", name, err))
	}
	x.db.SetMaxOpenConns(4)
	if err := x.migrate(ctx); err != nil {
		_ = x.db.Close()
		return nil, advised(fmt.Errorf("open %s: %w", name, err))
	}
	return x, nil
}

// ErrPlace says that an index cannot be where it was asked for.
var ErrPlace = errors.New("no place for an index: name a file (with a colon: ./FILE), or a postgres:// URL")

// advised is err with what to do, where a server does not let this process in, or a database
// says that its disk is full, or that what it holds is not what this boxdyno makes.
func advised(err error) error {
	if err == nil {
		return nil
	}
	says := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(err.Error(), s) })
	}
	switch {
	case errors.As(err, new(*pgconn.ConnectError)):
		return unreached{err}
	case says("disk is full", "No space left on device", "no space left on device"):
		return fmt.Errorf("%w: free space on its disk, or name a place for another index with --index", err)
	case says("unable to open database file", "readonly database"), errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: %w", err, ErrUnwritable)
	case says("not a database", "malformed", "no such column", "no such table", "no such index", "has no column named"):
		return fmt.Errorf("%w: remove it, and boxdyno index makes it anew", err)
	}
	return err
}

// serverPatience is how long a server of PostgreSQL may take to answer, where the URL has no
// connect_timeout of its own.
const serverPatience = 10 * time.Second

// serverAt is how a URL of PostgreSQL is connected to.
func serverAt(url string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(url)
	if err == nil && c.ConnectTimeout == 0 {
		c.ConnectTimeout = serverPatience
	}
	return c, err
}

func openServer(url string) (*sql.DB, error) {
	c, err := serverAt(url)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlace, err)
	}
	return stdlib.OpenDB(*c), nil
}

// An unreached is a connection to PostgreSQL that failed. Each attempt has a line of its own
// in the error; the text has the first line, which says user and database, and the last.
type unreached struct{ error }

func (u unreached) Unwrap() error { return u.error }

func (u unreached) Error() string {
	lines := strings.Split(strings.TrimSpace(u.error.Error()), "\n")
	said := lines[0]
	if last := len(lines) - 1; last > 0 {
		said += " " + strings.TrimSpace(lines[last])
	}
	return said + ": check that PostgreSQL runs there and admits this user, or name another index with --index"
}

// Here says whether the run's bundle is on this machine.
func (x *Index) Here(r Run) bool { return r.Host == x.host }

// hostOf tells machines apart that share an index: many boards have the hostname that came
// with their system. An id is for no other program's eyes, so part of a hash stands for it.
func hostOf(hostname, id string) string {
	hostname = text(cmp.Or(hostname, "unknown"))
	if id = strings.TrimSpace(id); id == "" || id == "uninitialized" {
		return hostname
	}
	return fmt.Sprintf("%s-%08x", hostname, uint32(key64("boxdyno index", id)))
}

// openFile makes the folder of an index, and looks at what stands in its place.
func openFile(name string) (*sql.DB, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	folder, err := files.MakeFolder(filepath.Dir(name), nil)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	if os.Geteuid() == 0 {
		info, err := os.Stat(filepath.Dir(name))
		if err != nil {
			return nil, err
		}
		if uid, ok := owner(info); ok && uid != 0 {
			return nil, fmt.Errorf("its folder belongs to user %d, whose files root does not open here: run it as that user", uid)
		}
	}
	switch info, err := os.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, files.ErrNotRegular
	}
	// A transaction that is to write says so at its begin, so that two writers wait for each
	// other. What a power cut takes of the end is indexed again.
	of := url.URL{Scheme: "file", Opaque: (&url.URL{Path: name}).EscapedPath(), RawQuery: url.Values{
		"_pragma": {"busy_timeout(30000)", "journal_mode(WAL)", "synchronous(NORMAL)", "cache_size(-65536)"},
		"_txlock": {"immediate"},
	}.Encode()}
	return sql.Open("sqlite", of.String())
}

// Close closes the index.
func (x *Index) Close() error {
	err := x.db.Close()
	if x.aside != "" {
		err = errors.Join(err, os.RemoveAll(x.aside))
	}
	return err
}

// sql is a statement with its parameters as the database writes them.
func (x *Index) sql(query string) string {
	if !x.postgres {
		return query
	}
	var b strings.Builder
	n := 0
	for _, r := range query {
		if r == '?' {
			n++
			b.WriteString("$" + strconv.Itoa(n))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// write runs f in a transaction. Of all that write, one does at a time.
func (x *Index) write(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if x.postgres { // SQLite does so by itself
		_, err = tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(7023811)`)
	}
	if err == nil {
		err = f(tx)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// insert adds rows of equal length by a statement up to and with VALUES. SQLite takes them
// one by one, which is the fastest there; a server is asked once for many.
func (x *Index) insert(ctx context.Context, tx *sql.Tx, into, after string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	width := len(rows[0])
	group := "(?" + strings.Repeat(", ?", width-1) + ")"
	at := 1
	if x.postgres {
		at = max(1, min(60000/width, 500))
	}
	var stmt *sql.Stmt
	for of := 0; len(rows) > 0; {
		n := min(at, len(rows))
		if n != of {
			if stmt != nil {
				_ = stmt.Close()
			}
			var err error
			if stmt, err = tx.PrepareContext(ctx, x.sql(into+" VALUES "+group+strings.Repeat(", "+group, n-1)+after)); err != nil {
				return err
			}
			of = n
		}
		var args []any
		for _, r := range rows[:n] {
			args = append(args, r...)
		}
		if _, err := stmt.ExecContext(ctx, args...); err != nil {
			return errors.Join(err, stmt.Close())
		}
		rows = rows[n:]
	}
	return stmt.Close()
}

// longestText is the octets that the index keeps of a word or sentence of a bundle.
const longestText = 4096

// text is s as both databases keep it.
func text(s string) string {
	if len(s) > longestText {
		s = s[:longestText]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
