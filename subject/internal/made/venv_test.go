// SPDX-License-Identifier: Apache-2.0

package made

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxdyno/host"
)

// A virtual environment is there once it is complete, and is made with nothing but
// what its lock names.
func TestVenv(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	v := Venv{Name: "scapy"}
	if err := v.needs(t.Context()); err != nil {
		t.Skip(err)
	}
	var missing *host.Missing
	if _, err := v.Python(); !errors.As(err, &missing) || strings.Join(missing.Remedy[0], " ") != "boxdyno doctor --install scapy" {
		t.Errorf("%v", err)
	}
	dir, err := v.dir()
	if err != nil {
		t.Fatal(err)
	}
	fails := errors.New("no network")
	var ran [][]string
	run := func(_ context.Context, argv []string) error {
		ran = append(ran, argv)
		if slices.Contains(argv, "pip") {
			return fails
		}
		return os.MkdirAll(filepath.Join(dir, "bin"), 0o755)
	}
	if err := v.Make(t.Context(), run); !errors.Is(err, fails) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "python"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Python(); err == nil {
		t.Error("half an environment is taken for one")
	}
	fails = nil
	if err := v.Make(t.Context(), run); err != nil {
		t.Error(err)
	}
	if python, err := v.Python(); err != nil || python != filepath.Join(dir, "bin", "python") {
		t.Errorf("%s, %v", python, err)
	}
	for _, argv := range ran {
		if slices.Contains(argv, "pip") && (!slices.Contains(argv, "--require-hashes") || !slices.Contains(argv, "--no-deps") || strings.Contains(strings.Join(argv, " "), "://")) {
			t.Errorf("%v", argv)
		}
	}
}

// What compiles a package is locked like the package, and there before it.
func TestVenvBuilds(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	v := Venv{Name: "pypcap", Built: true}
	if err := v.needs(t.Context()); err != nil {
		t.Skip(err)
	}
	dir, err := v.dir()
	if err != nil {
		t.Fatal(err)
	}
	var installed []string
	run := func(_ context.Context, argv []string) error {
		if slices.Contains(argv, "pip") {
			lock := filepath.Base(argv[len(argv)-1])
			installed = append(installed, lock)
			if !slices.Contains(argv, "--require-hashes") || slices.Contains(argv, "--no-build-isolation") != (lock == "pypcap.txt") {
				t.Errorf("%v", argv)
			}
		}
		return os.MkdirAll(dir, 0o755)
	}
	if err := v.Make(t.Context(), run); err != nil || !slices.Equal(installed, []string{"build.txt", "pypcap.txt"}) {
		t.Errorf("%v, %v", installed, err)
	}
}

// Root has no store where others can put a program.
func TestRootsAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	parent := t.TempDir()
	dir := filepath.Join(parent, "boxdyno", "subjects")
	if err := RootsAlone(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at    string
		mode  os.FileMode
		owner int
		good  bool
	}{
		{dir, 0o755, 0, true},
		{dir, 0o755, 1000, false},
		{dir, 0o775, 0, false},
		{dir, 0o777 | os.ModeSticky, 0, false},
		{parent, 0o777 | os.ModeSticky, 0, true},
		{parent, 0o777, 0, false},
		{parent, 0o755, 1000, false},
	} {
		if err := errors.Join(os.Chmod(c.at, c.mode), os.Chown(c.at, c.owner, -1)); err != nil {
			t.Fatal(err)
		}
		if err := RootsAlone(dir); (err == nil) != c.good || err != nil && !strings.Contains(err.Error(), c.at+" belongs to") {
			t.Errorf("%s of %d with %v: %v", c.at, c.owner, c.mode, err)
		}
		if err := errors.Join(os.Chown(c.at, 0, -1), os.Chmod(c.at, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Symlink(parent, link), os.Lchown(link, 1000, -1)); err != nil {
		t.Fatal(err)
	}
	if err := RootsAlone(filepath.Join(link, "boxdyno", "subjects")); err == nil {
		t.Error("a link of others is followed")
	}
}

// Every package of a lock has a version and a digest.
func TestLocks(t *testing.T) {
	locks, err := programs.ReadDir("programs")
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for _, l := range locks {
		if !strings.HasSuffix(l.Name(), ".lock") {
			continue
		}
		for _, entry := range strings.Split(strings.ReplaceAll(strings.TrimSpace(Embedded(l.Name())), "\\\n", ""), "\n") {
			packages++
			if f := strings.Fields(entry); len(f) < 2 || strings.Count(f[0], "==") != 1 || !strings.HasPrefix(f[1], "--hash=sha256:") || strings.Contains(entry, "://") {
				t.Errorf("%s: %q", l.Name(), entry)
			}
		}
	}
	if packages < 10 {
		t.Errorf("%d packages: are they still recognised?", packages)
	}
}
