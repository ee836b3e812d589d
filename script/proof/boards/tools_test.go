// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A program comes with its loader and libraries, found by the names that links give
// them; what no package holds is an error.
func TestClosure(t *testing.T) {
	const program = "/bin/sh"
	f, err := elf.Open(program)
	if err != nil {
		t.Skip("needs a shell that is an ELF program: ", err)
	}
	needs, err := f.ImportedLibraries()
	loader := interpreter(f)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil || len(needs) == 0 || loader == "" {
		t.Skipf("needs a shell that is linked dynamically: %v %q %v", needs, loader, err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	put := func(name string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("usr/bin/x")
	if _, err := closure(root, []string{"bin/x"}); err == nil || !strings.Contains(err.Error(), "which no package holds") {
		t.Errorf("libraries that are not there: %v", err)
	}
	put("lib/" + filepath.Base(loader)) // any ELF file will do
	want := []string{"bin/x", strings.TrimPrefix(loader, "/")}
	for _, n := range needs {
		put("usr/lib/real-" + n)
		if err := os.Symlink("real-"+n, filepath.Join(root, "usr/lib", n)); err != nil {
			t.Fatal(err)
		}
		want = append(want, "lib/"+n)
	}
	entries, err := closure(root, []string{"bin/x"})
	var got []string
	for _, e := range entries {
		got = append(got, e.name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
	if _, err := closure(root, []string{"bin/absent"}); err == nil {
		t.Error("a program that no package holds was taken")
	}
	if entries, err := closure(filepath.Join(root, "none"), []string{"bin/x"}); err != nil || entries != nil {
		t.Errorf("a folder that is not there: %v %v", entries, err)
	}
}
