// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"boxdyno/result"
)

// TestMain is a run, too, as the tests of starting begin it: test binary WHAT --out DIR.
// It is boxdyno history and boxdyno size as well, which say what they were asked, and a server
// that is to be killed.
func TestMain(m *testing.M) {
	if i := slices.Index(os.Args, "--out"); i > 0 {
		os.Exit(measured(os.Args[i-1], os.Args[i+1]))
	}
	if len(os.Args) > 1 && (os.Args[1] == "history" || os.Args[1] == "size") {
		os.Exit(asked(os.Args[1:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "runs" {
		os.Exit(indexed(os.Args[2:]))
	}
	if len(os.Args) > 3 && os.Args[1] == "serving" {
		os.Exit(serving(os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

// measured holds a bundle until SIGINT, or fails as a run without root does.
func measured(what, dir string) int {
	if what == "bad" {
		fmt.Fprintln(os.Stderr, "warning: one\nboxdyno: it needs root")
		return 3
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b, err := result.Create(dir, result.Run{Schema: result.Schema, ID: filepath.Base(dir), Start: begun, Plan: []byte("{}")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 5
	}
	defer b.Close()
	select {
	case <-ctx.Done():
		_ = b.Log(result.LogLine{Kind: result.LogEnd, Text: "interrupted"})
		return 130
	case <-time.After(time.Minute):
		return 5
	}
}

func starting(runs string) Options {
	o := opts(runs)
	o.Offers = []Offer{{Kind: "procedure", Name: "forward"}, {Kind: "procedure", Name: "bad"}}
	o.Argv = func(s Start) ([]string, error) { return []string{s.Name}, nil }
	return o
}

// A run that the page starts goes on without the server, and another server cancels it
// with SIGINT to whoever holds its lock.
func TestStartAndCancel(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	h := listening(t, starting(runs), "")
	code, text := ask(t, "POST", h.url("/api/runs"), `{"kind":"procedure","name":"forward"}`)
	var id struct{ ID string }
	if err := json.Unmarshal([]byte(text), &id); err != nil || code != 201 || !strings.HasSuffix(id.ID, "-forward") {
		t.Fatalf("%d %s", code, text)
	}
	await(t, "the run", func() bool { return len(h.runs.active(locks())) == 1 })
	pid := holder(locks(), filepath.Join(runs, id.ID))
	if sid, _, errno := syscall.RawSyscall(syscall.SYS_GETSID, uintptr(pid), 0, 0); errno != 0 || int(sid) != pid {
		t.Errorf("process %d is in session %d, want its own", pid, sid)
	}
	if at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); at != "/" {
		t.Errorf("the run is in folder %q (%v), where names of a file may be what the page asked for", at, err)
	}
	h.stop()
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the run did not survive the server: %v", err)
	}
	other := listening(t, starting(runs), "")
	code, text = ask(t, "POST", other.url("/api/runs/"+id.ID+"/cancel"), `{}`)
	if code != 200 || text != fmt.Sprintf(`{"pid":%d}`, pid) {
		t.Fatalf("%d %s", code, text)
	}
	await(t, "the end of the run", func() bool { return len(other.runs.active(locks())) == 0 })
	log, err := os.ReadFile(filepath.Join(runs, id.ID, result.LogFile))
	if err != nil || !strings.Contains(string(log), "interrupted") {
		t.Errorf("%s %v", log, err)
	}
	if code, text = ask(t, "POST", other.url("/api/runs/"+id.ID+"/cancel"), `{}`); code != 409 {
		t.Errorf("once more: %d %s", code, text)
	}
}

// What did not begin says why.
func TestStartFails(t *testing.T) {
	h := listening(t, starting(t.TempDir()), "")
	if code, text := ask(t, "POST", h.url("/api/runs"), `{"kind":"procedure","name":"bad"}`); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	await(t, "the reason", func() bool {
		return slices.ContainsFunc(h.started.list(h.runs), func(s Started) bool { return s.Error == "it needs root" && s.PID == 0 })
	})
	for _, body := range []string{`{"kind":"procedure","name":"../../bin/sh"}`, `{"kind":"role","name":"forward"}`, `{"kind":"procedure","name":"forward","argv":["x"]}`, `{}`, `[]`, `{"kind":"procedure","name":"forward"}{}`} {
		if code, text := ask(t, "POST", h.url("/api/runs"), body); code != 400 {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
}

// Who holds a lock that is not a run's file any more is not signalled.
func TestInterruptIsOfTheLock(t *testing.T) {
	runs := t.TempDir()
	b := bundle(t, runs, "one")
	if pid := holder(locks(), b.Dir); pid != os.Getpid() {
		t.Fatalf("process %d holds it, want this one, %d", pid, os.Getpid())
	}
	// A copy of the file is another file.
	name := filepath.Join(b.Dir, result.TrialsFile)
	if err := os.Rename(name, name+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if pid := holder(locks(), b.Dir); pid != 0 {
		t.Errorf("process %d holds a file that is locked by nobody", pid)
	}
	if _, err := interrupt(b.Dir); err == nil {
		t.Error("somebody was interrupted")
	}
	// A link is no file.
	os.Remove(name)
	if err := os.Symlink(name+".old", name); err != nil {
		t.Fatal(err)
	}
	if pid := holder(locks(), b.Dir); pid != 0 {
		t.Errorf("process %d, by a link", pid)
	}
}
