// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxdyno/result"
)

func trashed(t *testing.T, runs string) (names []string) {
	t.Helper()
	all, err := Trash(runs)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		names = append(names, r.Name)
	}
	return names
}

func TestTrash(t *testing.T) {
	runs := t.TempDir()
	at := func(name string) string { return filepath.Join(runs, name) }
	there := func(want ...string) {
		t.Helper()
		entries, err := filepath.Glob(at("*/" + result.RunFile))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, filepath.Base(filepath.Dir(e)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("runs are %v, want %v", got, want)
		}
	}
	if got := trashed(t, at("none")); got != nil {
		t.Error(got)
	}
	for i, name := range []string{"a", "b", "c"} {
		keep(t, at(name), aRun(i, nil), aPoint("64", 1, 1))
	}
	if err := Remove(runs, []string{"a", "b"}, day(1)); err != nil {
		t.Fatal(err)
	}
	there("c")
	if err := Remove(runs, []string{"c"}, day(2)); err != nil {
		t.Fatal(err)
	}
	there()
	if got := trashed(t, runs); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Error(got)
	}
	// Undo brings back the last step, then the one before it.
	for _, want := range [][]string{{"c"}, {"a", "b"}} {
		if back, err := Restore(runs, nil); err != nil || !slices.Equal(back, want) {
			t.Errorf("%v, %v, want %v", back, err, want)
		}
	}
	there("a", "b", "c")
	if _, err := Restore(runs, nil); !errors.Is(err, ErrEmptyTrash) {
		t.Error(err)
	}
	// Of two with one name the last is restored, and never over another run.
	if err := Remove(runs, []string{"a"}, day(3)); err != nil {
		t.Fatal(err)
	}
	keep(t, at("a"), aRun(9, nil))
	if _, err := Restore(runs, []string{"a"}); err == nil || !strings.Contains(err.Error(), "another run has its name") {
		t.Error(err)
	}
	if err := Remove(runs, []string{"a"}, day(4)); err != nil {
		t.Fatal(err)
	}
	if back, err := Restore(runs, []string{"a"}); err != nil || !slices.Equal(back, []string{"a"}) {
		t.Errorf("%v, %v", back, err)
	}
	if run, _, err := result.Open(at("a")); err != nil || run.ID != "run009" {
		t.Errorf("%v, %v", run.ID, err)
	}
	if err := Empty(runs); err != nil {
		t.Fatal(err)
	}
	if got := trashed(t, runs); got != nil {
		t.Error(got)
	}
	there("a", "b", "c")
}

// No name leads out of the folder of runs, and nothing but a whole run is moved.
func TestTrashRefuses(t *testing.T) {
	runs, away := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(runs, name) }
	keep(t, filepath.Join(away, "run"), aRun(1, nil), aPoint("64", 1, 1))
	keep(t, at("run"), aRun(2, nil), aPoint("64", 1, 1))
	b, err := result.Create(at("going-on"), aRun(3, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := errors.Join(os.Symlink(filepath.Join(away, "run"), at("link")), os.Mkdir(at("folder"), 0o755), os.WriteFile(at("file"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"..": "is not the name", ".": "is not the name", "": "is not the name", ".trash": "is not the name", "../" + filepath.Base(away) + "/run": "is not the name", filepath.Join(away, "run"): "is not the name",
		"link": "it is a link", "folder": "it is no run", "file": "not a folder", "nothing": "no such run", "going-on": "still writes", "run": "named twice",
	} {
		if err := Remove(runs, []string{"run", name}, day(1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := os.Stat(at("run")); err != nil {
		t.Error(err) // it was named with others, of which none was removed
	}
	// A trash that leads elsewhere is no trash.
	if err := os.Symlink(away, at(trash)); err != nil {
		t.Fatal(err)
	}
	if err := Remove(runs, []string{"run"}, day(1)); err == nil {
		t.Error("moved through a link")
	}
	if err := Empty(runs); err == nil {
		t.Error("emptied through a link")
	}
	if _, err := os.Stat(filepath.Join(away, "run")); err != nil {
		t.Error(err)
	}
	if err := os.Remove(at(trash)); err != nil {
		t.Fatal(err)
	}
	// Names in the trash that nobody of ours has made are left alone.
	if err := errors.Join(os.MkdirAll(at(trash+"/x/run"), 0o755), os.MkdirAll(at(trash+"/"+day(1).Format(stampForm)), 0o755)); err != nil {
		t.Fatal(err)
	}
	if got := trashed(t, runs); got != nil {
		t.Error(got)
	}
	if _, err := Restore(runs, []string{"../../x"}); !errors.Is(err, ErrNotThere) {
		t.Error(err)
	}
}

// A run that a process begins to write to when it was looked at already comes back, and
// those that were moved before it.
func TestTrashOfARunThatBegins(t *testing.T) {
	runs := t.TempDir()
	keep(t, filepath.Join(runs, "one"), aRun(1, nil), aPoint("64", 1, 1))
	b, err := result.Create(filepath.Join(runs, "two"), aRun(2, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	root, err := os.OpenRoot(runs)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := move(root, runs, []string{"one", "two"}, filepath.Join(trash, day(1).Format(stampForm))); err == nil || !strings.Contains(err.Error(), "remove two: a process still writes to it") {
		t.Error(err)
	}
	for _, name := range []string{"one", "two"} {
		if _, err := os.Stat(filepath.Join(runs, name, result.RunFile)); err != nil {
			t.Error(err)
		}
	}
	if got := trashed(t, runs); got != nil {
		t.Error(got)
	}
}
