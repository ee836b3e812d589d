// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Under sudo the library is read and written as the user who called it: the index is
// theirs, and a link of theirs leads nowhere that they may not go.
func TestLibraryUnderSudo(t *testing.T) {
	if os.Getenv("BOXDYNO_TEST_CALLER") != "" {
		var out, errs bytes.Buffer
		if code := Main(context.Background(), []string{"runs"}, &out, &errs); code != exitOK {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		if uid, gid := os.Geteuid(), os.Getegid(); uid != 65534 || gid != 65534 {
			t.Fatalf("it ran as %d:%d", uid, gid)
		}
		os.Exit(0) // not by way of what only root may clean up
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user: run script/test with sudo")
	}
	dir, err := os.MkdirTemp("", "library")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestLibraryUnderSudo$")
	cmd.Env = append(os.Environ(), "BOXDYNO_TEST_CALLER=1", "SUDO_UID=65534", "SUDO_GID=65534", "XDG_STATE_HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(filepath.Join(dir, "boxdyno", "index.db"))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 65534 {
		t.Errorf("the index belongs to user %d", uid)
	}
}

func TestMoment(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"": {}, "2026-01-31": time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC), "2026-01-31T10:30": time.Date(2026, 1, 31, 10, 30, 0, 0, time.UTC),
		"2026-01-31T10:30:00+02:00": time.Date(2026, 1, 31, 8, 30, 0, 0, time.UTC), "10d": now.AddDate(0, 0, -10), "1.5d": now.Add(-36 * time.Hour), "90m": now.Add(-90 * time.Minute),
	} {
		if got, err := moment("--since", s, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"x", "-1d", "-2h", "2026-13-01", "1e9d", "NaNd"} {
		if got, err := moment("--since", s, now); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}
