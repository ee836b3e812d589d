// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/perf/benchfmt"

	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/store"
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

// Runs whose folder cannot be written are read all the same, with an index or without one, and
// no index is left.
func TestLibraryThatCannotBeWritten(t *testing.T) {
	if os.Getenv("BOXDYNO_TEST_CALLER") != "" {
		os.Exit(Main(context.Background(), []string{"runs"}, os.Stdout, os.Stderr))
	}
	dir, err := os.MkdirTemp("", "library")
	if err != nil {
		t.Fatal(err)
	}
	state, temp := filepath.Join(dir, "boxdyno"), filepath.Join(dir, "tmp")
	t.Cleanup(func() { os.Chmod(state, 0o755); os.RemoveAll(dir) })
	b, err := result.Create(filepath.Join(state, "runs", "kept"), result.Run{Schema: result.Schema, ID: "kept", Start: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), Plan: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Close(), os.Mkdir(temp, 0o777), os.Chmod(temp, 0o777), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	list := func(mode os.FileMode, env ...string) string {
		if err := os.Chmod(state, mode); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(append(os.Environ(), "BOXDYNO_TEST_CALLER=1", "XDG_STATE_HOME="+dir, "TMPDIR="+temp), env...)
		out, err := cmd.CombinedOutput()
		if left, _ := filepath.Glob(filepath.Join(temp, "boxdyno-index-*")); err != nil || len(left) > 0 || !strings.Contains(string(out), "\nkept ") {
			t.Errorf("%v, left %v:\n%s", err, left, out)
		}
		return string(out)
	}
	nobody := []string{"SUDO_UID=65534", "SUDO_GID=65534"} // of root: another user's
	for _, indexed := range []bool{false, true} {
		if indexed {
			if out := list(0o755, "SUDO_UID=0"); strings.Contains(out, "cannot be written") {
				t.Error(out)
			}
		}
		if out := list(0o555, nobody...); !strings.Contains(out, "the index beside the runs cannot be written") {
			t.Errorf("with an index %v:\n%s", indexed, out)
		}
	}
}

// drawnRuns keeps 30 runs, one a day, whose noise is 2 %. From the 21st on throughput of
// frames of 64 octets is lower by a share, and the kernel is another one.
func drawnRuns(dir string, seed uint64, drop float64) error {
	random := rand.New(rand.NewPCG(seed, 1))
	for n := range 30 {
		start := time.Date(2026, 1, 1+n, 12, 0, 0, 0, time.UTC)
		run := result.Run{
			Version: "1.0", ID: fmt.Sprintf("run%02d", n), Start: start, Seed: uint64(n), Topology: "wire2", Kind: "real", Box: "pi5", Preset: "quick", Plan: json.RawMessage(`{}`),
			Machines: []result.Machine{{Name: "lab", Board: "Board 1", CPU: "A76", CPUs: 4, Kernel: "6.1", Machine: "aarch64", Userland: "arm64", Kind: "real"}},
			Metrics:  []result.Metric{{Name: "throughput_fps", Unit: "frame/s", Better: 1, Label: "throughput"}},
		}
		run.Schema = result.Schema
		v := 1e6
		if n >= 20 {
			run.Machines[0].Kernel = "6.12"
			v *= 1 - drop
		}
		b, err := result.Create(filepath.Join(dir, run.ID), run)
		if err != nil {
			return err
		}
		for _, p := range []struct {
			size  string
			level float64
		}{{"64", v}, {"512", 2e5}} {
			err = errors.Join(err, b.Append(result.Record{
				Schema: result.Schema, ID: "forward/" + p.size, Procedure: "forward", Repeat: 1, Start: start, Status: result.Passed,
				Config: []result.Pair{{Key: "frame_size", Value: p.size}},
				Values: []result.Value{{Metric: "throughput_fps", Unit: "frame/s", Value: p.level * (1 + 0.02*random.NormFloat64())}},
			}))
		}
		if err = errors.Join(err, b.Close()); err != nil {
			return err
		}
	}
	return nil
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

// What history -o FILE.bench writes is read back with the package that benchstat reads
// with: the figures of one series alone.
func TestHistoryBenchReadsBack(t *testing.T) {
	runs := t.TempDir()
	if err := drawnRuns(runs, 1, 0.05); err != nil {
		t.Fatal(err)
	}
	x, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "index.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if _, err := x.Update(context.Background(), store.Scan{Dirs: []string{runs}}); err != nil {
		t.Fatal(err)
	}
	h, err := x.History(context.Background(), store.Query{Metric: "throughput_fps", Where: []result.Pair{{Key: "frame_size", Value: "512"}}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := historyBench(&b, h); err != nil {
		t.Fatal(err)
	}
	n := 0
	for r := benchfmt.NewReader(&b, "x"); r.Scan(); {
		switch line := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Fatal(line)
		case *benchfmt.Result:
			v, ok := line.Value("throughput-frame/s")
			if line.Name.String() != "Forward/frame_size=512" || !ok || v != h.Series[0].Points[n].Value || line.GetConfig("board") != "Board 1" {
				t.Errorf("%s: %v, want %v", line.Name, v, h.Series[0].Points[n].Value)
			}
			n++
		}
	}
	if n != 30 {
		t.Errorf("%d runs were read back", n)
	}
}

// Where nothing is kept yet, commands say so and what to do.
func TestNothingYet(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, c := range []struct {
		want int
		said string
		args []string
	}{
		{exitOK, "no run is kept in", []string{"runs"}},
		{exitOK, "no run is kept in", []string{"runs", "--role", "firewall"}},
		{exitOK, "the trash is empty", []string{"runs", "trash"}},
		{exitUsage, "the trash is empty", []string{"runs", "undo"}},
		{exitUsage, "no run has any figure yet", []string{"history", "throughput_fps"}},
		{exitOK, "no box is known yet", []string{"box", "ls"}},
		{exitUsage, "no box is known yet", []string{"box", "check", "pi5"}},
		{exitMissing, "start one with boxdyno fleet hub", []string{"fleet", "ls"}},
	} {
		if code, out, errw := call(t.Context(), runner.Plugins(), c.args...); code != c.want || out != "" || !strings.Contains(errw, c.said) || strings.Count(errw, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q, %q", c.args, code, out, errw)
		}
	}
	if code, _, errw := call(t.Context(), runner.Plugins(), "run", "forward", "--lab", "mem", "--set", "search=none", "--quiet"); code != exitOK {
		t.Fatal(errw)
	}
	if code, _, errw := call(t.Context(), runner.Plugins(), "runs", "--role", "firewall"); code != exitOK || !strings.Contains(errw, "has all of that") {
		t.Errorf("exit code %d, %q", code, errw)
	}
}
