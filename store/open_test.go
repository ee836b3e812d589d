// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// An index is not opened in the place of something else, nor one of a newer boxdyno.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("text"), []byte(strings.Repeat("no database ", 100)), 0o644), unix.Mkfifo(at("fifo"), 0o600), os.Symlink(at("text"), at("link")), os.Mkdir(at("dir"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"text": "boxdyno index makes it anew", "fifo": "not a regular file", "link": "not a regular file", "dir": "not a regular file", "text/below": "not a directory"} {
		if _, err := Open(context.Background(), at(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	each(t, func(t *testing.T, x *Index, where string) {
		if _, err := x.db.Exec(`UPDATE boxdyno_schema SET version = 99`); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(context.Background(), where); err == nil || !strings.Contains(err.Error(), "schema has version 99") {
			t.Error(err)
		}
	})
	if _, err := Open(context.Background(), "postgres://user:secret@127.0.0.1:1/none?connect_timeout=2"); err == nil || strings.ContainsAny(err.Error(), "\n\t") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	} else {
		for _, part := range []string{"open the index in PostgreSQL: ", "user=user database=none", "connection refused", "name another index with --index"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v: without %q", err, part)
			}
		}
	}
	for _, where := range []string{"mysql://lab:secret@db.example/boxdyno", "mysql:x", "sqlite:" + at("index.db"), "postgres:x", "postgres://user:secret@127.0.0.1:port/none"} {
		if _, err := Open(context.Background(), where); !errors.Is(err, ErrPlace) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", where, err)
		}
	}
	if x, err := Open(context.Background(), at("mysql:x")); err != nil {
		t.Error(err)
	} else if err := x.Close(); err != nil {
		t.Error(err)
	}
	// Lines of any other error stay.
	if err := advised(errors.New("one\ntwo")); err.Error() != "one\ntwo" {
		t.Error(err)
	}
	// A server that takes the connection and never answers.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Open(context.Background(), "postgres://user@"+l.Addr().String()+"/none?connect_timeout=1"); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "timeout") || !strings.Contains(err.Error(), "user=user") {
		t.Error(err)
	}
	if c, err := serverAt("postgres://user@db.example/boxdyno"); err != nil || c.ConnectTimeout != serverPatience {
		t.Errorf("without a timeout of its own: %v, %v", c, err)
	}
	if err := advised(errors.New("unable to open database file (14)")); !errors.Is(err, ErrUnwritable) {
		t.Error(err)
	}
}

// Root writes no index into a folder of another user, who could exchange its files.
func TestOpenForRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make files of other users: run script/test with sudo")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), filepath.Join(dir, "index.db")); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Error(err)
	}
}

// A full disk, and a file of another boxdyno, are errors that say what to do.
func TestAdvises(t *testing.T) {
	runs := t.TempDir()
	for n := range 20 {
		keep(t, filepath.Join(runs, aRun(n, nil).ID), aRun(n, nil), aPoint("64", 1, 1e6))
	}
	for does, want := range map[string]string{
		`PRAGMA max_page_count = 1`:             "free space on its disk",
		`ALTER TABLE runs DROP COLUMN sentence`: "remove it, and boxdyno index makes it anew",
	} {
		x := open(t, filepath.Join(t.TempDir(), "index.db"))
		x.db.SetMaxOpenConns(1) // the first is of one connection
		if _, err := x.db.Exec(does); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Update(context.Background(), Scan{Dirs: []string{runs}, Judge: worst}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", does, err)
		}
	}
}
