// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A server is one of PostgreSQL in a folder of its own, which listens on a socket there
// alone. All tests of the process share it, each with a database of its own.
var server struct {
	once sync.Once
	dir  string
	cmd  *exec.Cmd
	skip string
	err  error
	n    int
}

const (
	nobody  = 65534
	account = "boxdyno"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("BOXDYNO_TEST_INDEX"); dir != "" {
		indexUntilKilled(dir)
		return
	}
	code := m.Run()
	if server.cmd != nil && server.cmd.Process != nil {
		_ = server.cmd.Process.Signal(os.Interrupt) // "fast shutdown"
		_ = server.cmd.Wait()
	}
	if server.dir != "" {
		_ = os.RemoveAll(server.dir)
	}
	os.Exit(code)
}

// postgres is the URL of an empty database.
func postgres(t testing.TB) string {
	t.Helper()
	server.once.Do(func() { server.skip, server.err = startServer() })
	if server.skip != "" {
		t.Skip(server.skip)
	}
	if server.err != nil {
		t.Fatal(server.err)
	}
	server.n++
	name := fmt.Sprintf("test%d", server.n)
	db, err := sql.Open("pgx", address("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return address(name)
}

func address(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(account), Path: "/" + database, RawQuery: url.Values{"host": {server.dir}}.Encode()}
	return u.String()
}

func program(name string) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) > 0 {
		return found[len(found)-1]
	}
	found1, _ := exec.LookPath(name)
	return found1
}

// startServer starts it; skip says why there is none. PostgreSQL refuses to run as root.
func startServer() (skip string, err error) {
	if program("initdb") == "" || program("postgres") == "" {
		return "PostgreSQL is not installed: apt-get install postgresql", nil
	}
	if server.dir, err = os.MkdirTemp("", "bdpg"); err != nil {
		return "", err
	}
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(server.dir, nobody, nobody); err != nil {
			return "", err
		}
	}
	data := filepath.Join(server.dir, "data")
	initdb := exec.Command(program("initdb"), "-D", data, "-U", account, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	initdb.Dir, initdb.SysProcAttr = server.dir, attr
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	log, err := os.Create(filepath.Join(server.dir, "log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	server.cmd = exec.Command(program("postgres"), "-D", data, "-k", server.dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=30")
	server.cmd.Dir, server.cmd.SysProcAttr, server.cmd.Stdout, server.cmd.Stderr = server.dir, attr, log, log
	if err := server.cmd.Start(); err != nil {
		return "", err
	}
	db, err := sql.Open("pgx", address("postgres"))
	if err != nil {
		return "", err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		if err = db.PingContext(ctx); err == nil {
			return "", nil
		}
		select {
		case <-ctx.Done():
			text, _ := os.ReadFile(log.Name())
			return "", fmt.Errorf("PostgreSQL does not answer: %w: %s", err, text)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A kind is one of the databases. All tests with each hold the same of both.
type kind struct {
	name string
	new  func(testing.TB) string // where an empty index is
}

var kinds = []kind{
	{"sqlite", func(t testing.TB) string { return filepath.Join(t.TempDir(), "in a folder", "index%20#?.db") }},
	{"postgres", postgres},
}

// each runs a test on an empty index of each kind. where opens the same index once more.
func each(t *testing.T, f func(t *testing.T, x *Index, where string)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			where := k.new(t)
			f(t, open(t, where), where)
		})
	}
}

func open(t testing.TB, where string) *Index {
	t.Helper()
	x, err := Open(context.Background(), where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// Machines of one hostname are several, and each is the same again.
func TestHostOf(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range [][2]string{{"raspberrypi", "0123"}, {"raspberrypi", "4567"}, {"other", "0123"}, {"raspberrypi", ""}} {
		host := hostOf(h[0], h[1])
		if seen[host] || host != hostOf(h[0], h[1]+"\n") || !strings.HasPrefix(host, h[0]) {
			t.Errorf("%q: %s", h, host)
		}
		seen[host] = true
	}
}
