// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/runner"
)

// A FIFO that nobody writes to is refused wherever a file is named; nothing waits for it.
func TestFIFOsAreRefused(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	t.Setenv("XDG_STATE_HOME", state)
	fifo, bundle, journals := filepath.Join(dir, "fifo.yaml"), filepath.Join(dir, "bundle"), filepath.Join(state, "boxdyno", "tune")
	journal := filepath.Join(journals, "00000000000000000001-1.journal")
	err := errors.Join(os.Mkdir(bundle, 0o755), os.MkdirAll(journals, 0o755))
	for _, name := range []string{fifo, filepath.Join(bundle, result.RunFile), journal} {
		err = errors.Join(err, unix.Mkfifo(name, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"run " + fifo + " --dry-run",
		"qualify " + fifo + " --dry-run",
		"run forward --lab mem --dry-run --tune " + fifo,
		"run ids --dry-run --set rules_file=" + fifo,
		"tune status",
		"tune show " + fifo,
		"replay -i lo " + fifo,
		"send -i lo --templates " + fifo,
		"report " + bundle,
		"compare " + bundle + " " + bundle,
		"run --resume " + bundle,
	} {
		said := make(chan string, 1)
		go func() {
			code, _, errw := call(context.Background(), runner.Plugins(), strings.Fields(args)...)
			if code == exitOK && args != "tune status" {
				errw = "exit code 0"
			}
			said <- errw
		}()
		select {
		case s := <-said:
			if !strings.Contains(s, "it is not a regular file") {
				t.Errorf("%s: %q", args, s)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: it hangs", args)
		}
	}
}

// A report that cannot be written to its end leaves the file as it was, and nothing
// beside it.
func TestReportIsReplacedWhole(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	b, err := result.Create(run, result.Run{Schema: result.Schema, ID: "x"})
	if err == nil {
		err = b.Close()
	}
	page := filepath.Join(dir, "page.html")
	if err := errors.Join(err, os.WriteFile(page, []byte("the old one"), 0o600)); err != nil {
		t.Fatal(err)
	}
	smallFiles(t, 1000)
	code, _, errw := call(context.Background(), runner.Plugins(), "report", run, "-o", page)
	if code != exitOther || !strings.Contains(errw, "file too large") {
		t.Errorf("exit code %d, %q", code, errw)
	}
	data, err := os.ReadFile(page)
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || string(data) != "the old one" || len(names) != 2 {
		t.Errorf("the page is now %d octets, %v; the folder holds %q", len(data), err, names)
	}
}

// Under sudo a link that a user put in place of a run's file, or of a report, leads root
// to no other file, and nothing but the run is handed over.
func TestLinksOfUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: run script/test with sudo")
	}
	const user = 12345
	t.Setenv("SUDO_UID", strconv.Itoa(user))
	t.Setenv("SUDO_GID", strconv.Itoa(user))
	secret := filepath.Join(t.TempDir(), "secret") // of root
	keep := func(t *testing.T) {
		t.Helper()
		data, err := os.ReadFile(secret)
		info, serr := os.Lstat(secret)
		if err != nil || serr != nil || string(data) != "root's" || info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("root's file is now %q of %+v (%v, %v)", data, info.Sys(), err, serr)
		}
	}
	if err := os.WriteFile(secret, []byte("root's"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := scripted(func(context.Context, *procedure.Env) (procedure.Outcome, error) {
		return procedure.Outcome{Status: result.Passed}, nil
	})
	for _, name := range []string{result.RunFile, result.RunFile + ".tmp", result.TrialsFile, result.TelemetryFile} {
		for how, link := range map[string]func(string, string) error{"symbolic": os.Symlink, "hard": os.Link} {
			t.Run(how+" "+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "run")
				if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, user, user), link(secret, filepath.Join(dir, name))); err != nil {
					t.Fatal(err)
				}
				_, _, errw := call(context.Background(), c, "run", "probe", "--out", dir)
				keep(t)
				if s := (&sink{dir: dir, owner: sudoer()}); s.WriteRun(result.Run{Schema: result.Schema}) == nil {
					_ = s.Sample([]byte("{}\n"))
					s.Close()
				}
				keep(t)
				t.Log(strings.TrimSpace(errw))
			})
		}
	}
	dir := filepath.Join(t.TempDir(), "run")
	if code, _, errw := call(context.Background(), c, "run", "probe", "--out", dir); code != exitOK {
		t.Fatal(code, errw)
	}
	for _, name := range []string{"page.html", "x.csv"} {
		page := filepath.Join(dir, name)
		if err := os.Symlink(secret, page); err != nil {
			t.Fatal(err)
		}
		code, _, errw := call(context.Background(), runner.Plugins(), "report", dir, "-o", page)
		keep(t)
		if info, err := os.Lstat(page); code != exitOK || err != nil || !info.Mode().IsRegular() || info.Sys().(*syscall.Stat_t).Uid != user {
			t.Errorf("%s: exit code %d, %q, %v, %v", name, code, errw, info, err)
		}
	}
	// A folder of root's that a user's link leads to.
	place := filepath.Join(t.TempDir(), "place")
	away := filepath.Join(t.TempDir(), "away")
	if err := errors.Join(os.Mkdir(place, 0o755), os.Symlink(place, away), os.Lchown(away, user, user)); err != nil {
		t.Fatal(err)
	}
	code, _, errw := call(context.Background(), c, "run", "probe", "--out", filepath.Join(away, "run"))
	if names, _ := os.ReadDir(place); len(names) > 0 || code == exitOK {
		t.Errorf("exit code %d, %q; root's folder holds %v", code, errw, names)
	}
	if err := os.Lchown(place, user, user); err != nil { // it is the user's own: they may
		t.Fatal(err)
	}
	if code, _, errw := call(context.Background(), c, "run", "probe", "--out", filepath.Join(away, "run")); code != exitOK {
		t.Errorf("through a link to a folder of the same user: exit code %d, %q", code, errw)
	}
}

// A run that still goes on is not resumed, and not touched.
func TestLiveRunIsNotResumed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	trials := filepath.Join(dir, result.TrialsFile)
	var c runner.Catalogue
	tried := false
	c = scripted(func(context.Context, *procedure.Env) (procedure.Outcome, error) {
		if tried {
			return procedure.Outcome{Status: result.Passed}, nil
		}
		tried = true
		f, err := os.OpenFile(trials, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil { // as if it were writing this very line
			_, err = f.WriteString(`{"schema":`)
			err = errors.Join(err, f.Close())
		}
		before, rerr := os.ReadFile(trials)
		if err := errors.Join(err, rerr); err != nil {
			t.Error(err)
		}
		code, _, errw := call(context.Background(), c, "run", "--resume", dir)
		if code != exitMissing || !strings.Contains(errw, dir) || !strings.Contains(errw, "another boxdyno") || strings.Count(errw, "\n") != 1 {
			t.Errorf("exit code %d, %q", code, errw)
		}
		after, err := os.ReadFile(trials)
		if err != nil || string(after) != string(before) {
			t.Errorf("the trials were %q and are %q, %v", before, after, err)
		}
		return procedure.Outcome{Status: result.Passed}, os.Truncate(trials, int64(strings.LastIndexByte(string(before), '\n')+1))
	})
	if code, _, errw := call(context.Background(), c, "run", "probe", "--out", dir); code != exitOK || !tried {
		t.Errorf("exit code %d, %q", code, errw)
	}
	if code, _, errw := call(context.Background(), c, "run", "--resume", dir); code != exitOK {
		t.Errorf("then: exit code %d, %q", code, errw)
	}
}
